"""BERT with each of its heads, imported, against `transformers` itself; nothing is downloaded."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.testing import assert_close

from headwise.analysis.language_models import MaskedModelTracer
from headwise.cli.main import run as headwise
from headwise.config import Config
from headwise.errors import CheckpointError
from headwise.tasks.registry import find_task
from headwise.text.tokens.loading import load_vocabulary
from headwise.text.tokens.subwords import PAD
from translator_run import ENGLISH, GERMAN, assert_same_weights

transformers = pytest.importorskip("transformers", reason="needs the extra 'huggingface'")

from transformers_models import (  # noqa: E402 - needs transformers
    HARD,
    edit,
    imported,
    original_ids,
    refused,
    shaken,
    trained,
    wordpiece,
)

TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}
LABELS = {
    "BertForSequenceClassification": ["animals", "people", "other"],
    "BertForTokenClassification": ["O", "B-PER", "I-PER", "B-LOC"],
}
TASKS = {
    "BertForMaskedLM": "masked_language_model",
    "BertForPreTraining": "masked_language_model",
    "BertForSequenceClassification": "classification",
    "BertForTokenClassification": "tagging",
    "BertForQuestionAnswering": "question_answering",
}


def write_bert(folder: Path, architecture: str, *, steps: int = 0, lowercase: bool = True, **changes: Any) -> Path:
    """Write a BERT directory: random weights, or weights that `transformers` has trained for some steps."""
    tokenizer = wordpiece(folder, lowercase=lowercase)
    labels = LABELS.get(architecture, ["no", "yes"])
    settings = {
        "vocab_size": len(tokenizer) + 3,  # more embeddings than pieces, as models have whose matrix is padded
        "hidden_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 40,
        "max_position_embeddings": 64,
        "id2label": dict(enumerate(labels)),
        "label2id": {label: number for number, label in enumerate(labels)},
        **changes,
    }
    torch.manual_seed(0)
    model = getattr(transformers, architecture)(transformers.BertConfig(**settings))
    if steps:
        trained(model, lambda: training_batch(architecture, tokenizer), steps)
    shaken(model) if not steps else model.eval()
    model.save_pretrained(folder)
    return folder


def training_batch(architecture: str, tokenizer: Any) -> dict[str, Tensor]:
    """Return a batch with some labels for the loss of an architecture."""
    batch = dict(tokenizer(ENGLISH, return_tensors="pt", padding=True))
    ids = batch["input_ids"]
    if architecture == "BertForMaskedLM":
        return batch | {"labels": ids}
    if architecture == "BertForPreTraining":
        return batch | {"labels": ids, "next_sentence_label": torch.arange(len(ids)) % 2}
    if architecture == "BertForSequenceClassification":
        return batch | {"labels": torch.arange(len(ids)) % 3}
    if architecture == "BertForTokenClassification":
        return batch | {"labels": ids % 4}
    positions = torch.arange(len(ids)) + 1
    return batch | {"start_positions": positions, "end_positions": positions + 2}


@pytest.fixture(scope="module", params=[(name, steps) for name in TASKS for steps in (0, 20)], ids=str)
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of each architecture, with random and with trained weights."""
    architecture, steps = request.param
    return write_bert(tmp_path_factory.mktemp("bert") / architecture, architecture, steps=steps)


def theirs(folder: Path) -> tuple[Any, Any]:
    name = json.loads((folder / "config.json").read_text())["architectures"][0]
    model = getattr(transformers, name).from_pretrained(folder).eval()
    return model, transformers.AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("lowercase", [True, False])
def test_the_tokenizer_splits_as_at_home(lowercase: bool, tmp_path: Path) -> None:
    folder, run = write_bert(tmp_path / "model", "BertForMaskedLM", lowercase=lowercase), tmp_path / "run"
    imported(folder, run)
    tokenizer, vocabulary = transformers.AutoTokenizer.from_pretrained(folder), load_vocabulary(run)
    rows = original_ids(run, tokenizer)
    for text in HARD:
        assert [rows[i] for i in [2, *vocabulary.encode(text), 3]] == tokenizer(text)["input_ids"]
    assert [vocabulary.piece(i) for i in range(5)] == ["<pad>", "<unk>", "<s>", "</s>", "<mask>"]
    assert min(vocabulary.encode("[SEP] [MASK] [CLS]")) == 1  # a user's text has no special symbols but unknown
    assert vocabulary.decode(vocabulary.encode(" Two dogs ")) == ("two dogs" if lowercase else "Two dogs")


def test_a_trace_has_the_words_of_the_text(tmp_path: Path) -> None:
    imported(write_bert(tmp_path / "model", "BertForMaskedLM"), tmp_path / "run")
    text = f"<mask> {ENGLISH[0].rstrip('.')}"
    source, _ = MaskedModelTracer.load(tmp_path / "run", "cpu").read(text)
    assert len(source.pieces) > len(source.words)
    assert list(source.words) == ["<s>", *text.lower().split(), "</s>"]


@torch.no_grad()
def test_the_logits_are_theirs(directory: Path, tmp_path: Path) -> None:
    ours, (model, tokenizer) = imported(directory, tmp_path / "run"), theirs(directory)
    rows, task = torch.tensor(original_ids(tmp_path / "run", tokenizer)), TASKS[type(model).__name__]
    pairs = tokenizer(ENGLISH, GERMAN, return_tensors="pt", padding=True)
    tokens = pairs["input_ids"][:, :, None].eq(rows).int().argmax(-1)
    real, segments = tokens != PAD, pairs["token_type_ids"]
    assert segments.any()
    assert torch.equal(real, pairs["attention_mask"].bool())
    expected, hidden = model(**pairs), ours(tokens, real, segments)
    if task == "masked_language_model":
        logits = expected.prediction_logits if "prediction_logits" in expected else expected.logits
        assert_close(ours.head(hidden, ours.encoder.embedding.weight)[real], logits[..., rows][real], **TOLERANCE)
    elif task == "classification":
        assert_close(ours.head(hidden, real), expected.logits, **TOLERANCE)
    elif task == "tagging":
        assert_close(ours.head(hidden)[real], expected.logits[real], **TOLERANCE)
    else:
        start, end = ours.head(hidden, real)
        assert_close(start[real], expected.start_logits[real], **TOLERANCE)
        assert_close(end[real], expected.end_logits[real], **TOLERANCE)


def predict(run: Path, lines: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Any) -> list[dict[str, Any]]:
    """Return the records of `headwise predict --json`."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("\n".join(lines).encode())))
    capsys.readouterr()
    assert headwise(["predict", str(run), "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@torch.no_grad()
def test_predictions_are_theirs(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    imported(directory, tmp_path / "run")
    (model, tokenizer), task = theirs(directory), Config.of_run(tmp_path / "run").task
    assert task == TASKS[type(model).__name__]
    if task == "question_answering":
        lines = [f"{question}\t{context}" for question, context in zip(GERMAN, ENGLISH, strict=True)]
    else:
        lines = [f"{text} <mask> x" for text in ENGLISH] if "mask" in task else ENGLISH
    for line, record in zip(lines, predict(tmp_path / "run", lines, monkeypatch, capsys), strict=True):
        CHECKS[task](line, record, model, tokenizer)


def check_mask(line: str, record: dict[str, Any], model: Any, tokenizer: Any) -> None:
    batch = tokenizer(line.replace("<mask>", "[MASK]"), return_tensors="pt")
    output = model(**batch)
    logits = output.prediction_logits if "prediction_logits" in output else output.logits
    logits = logits[batch["input_ids"] == tokenizer.mask_token_id][0]
    special = tokenizer.convert_tokens_to_ids(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    logits[special] = -torch.inf
    probabilities = logits.softmax(-1)
    found = record["candidates"][0]
    assert [one["probability"] for one in found] == pytest.approx(probabilities.topk(5).values.tolist(), rel=1e-4)
    pieces = [
        (tokenizer.convert_ids_to_tokens(i) or f"<unused {i}>").removeprefix("##") for i in range(len(probabilities))
    ]
    for one in found:  # two pieces of almost equal probability may stand in either order
        own = probabilities[[piece == one["token"] for piece in pieces]].tolist()
        assert any(p == pytest.approx(one["probability"], rel=1e-4) for p in own), one


def check_label(line: str, record: dict[str, Any], model: Any, tokenizer: Any) -> None:
    probabilities = model(**tokenizer(line, return_tensors="pt")).logits[0].softmax(-1)
    assert list(record["probabilities"]) == LABELS["BertForSequenceClassification"]
    assert list(record["probabilities"].values()) == pytest.approx(probabilities.tolist(), abs=1e-5)
    assert record["label"] == model.config.id2label[int(probabilities.argmax())]


def check_tags(line: str, record: dict[str, Any], model: Any, tokenizer: Any) -> None:
    batch = tokenizer(line.split(), return_tensors="pt", is_split_into_words=True)
    words = batch.word_ids()
    logits = model(**batch).logits[0]
    firsts = [words.index(number) for number in range(len(line.split()))]
    tags = [model.config.id2label[i] for i in logits[firsts].argmax(-1).tolist()]
    valid = all(
        not tag.startswith("I-") or (before[1:] == tag[1:] and before != "O")
        for before, tag in zip(["O", *tags], tags, strict=False)
    )
    assert record["tags"] == tags or not valid  # IOB2 that isn't valid is mended
    assert len(record["tags"]) == len(tags)


def check_answer(line: str, record: dict[str, Any], model: Any, tokenizer: Any) -> None:
    question, context = line.split("\t")
    batch = tokenizer(question, context, return_tensors="pt")
    words, inside = batch.word_ids(), [part == 1 for part in batch.sequence_ids()]
    output, offsets = model(**batch), batch.encodings[0].offsets
    possible = torch.tensor(inside)
    possible[0] = True
    start, end = (
        logits[0].masked_fill(~possible, -torch.inf).log_softmax(-1)
        for logits in (output.start_logits, output.end_logits)
    )
    first = [inside[i] and words[i] != words[i - 1] for i in range(len(words))]
    last = [inside[i] and words[i] != words[i + 1] for i in range(len(words) - 1)] + [False]
    both = {
        (i, j): float(start[i] + end[j])
        for i in range(len(words))
        for j in range(i, min(i + 30, len(words)))
        if first[i] and last[j]
    }
    i, j = max(both, key=both.__getitem__)
    assert record["answer"] == context[offsets[i][0] : offsets[j][1]]
    assert record["probability"] == pytest.approx(float(torch.tensor(both[i, j]).exp()), rel=1e-4)


CHECKS = {
    "masked_language_model": check_mask,
    "classification": check_label,
    "tagging": check_tags,
    "question_answering": check_answer,
}


def test_files_of_older_versions(tmp_path: Path) -> None:
    """vocab.txt without tokenizer.json, and TensorFlow's names, give the same run."""
    new, old = tmp_path / "new", tmp_path / "old"
    write_bert(new, "BertForMaskedLM", vocab_size=150)
    imported(new, tmp_path / "expected")
    old.mkdir()
    pieces = json.loads((new / "tokenizer.json").read_text())["model"]["vocab"]
    (old / "vocab.txt").write_text("\n".join(sorted(pieces, key=pieces.__getitem__)) + "\n", encoding="utf-8")
    (old / "config.json").write_text((new / "config.json").read_text())
    tensors = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in load_file(new / "model.safetensors").items()
    }
    tensors["bert.embeddings.position_ids"] = torch.arange(64)[None]
    save_file(tensors, old / "model.safetensors")
    imported(old, tmp_path / "run")
    assert_same_weights(tmp_path / "expected", tmp_path / "run")
    ours, again = (load_vocabulary(tmp_path / run) for run in ("expected", "run"))
    assert all(ours.encode(text) == again.encode(text) for text in HARD)


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize(
    "settings", [{"do_lower_case": False}, {"strip_accents": False, "tokenize_chinese_chars": False}]
)
def test_settings_have_precedence_as_at_home(settings: dict[str, bool], older: bool, tmp_path: Path) -> None:
    folder = write_bert(tmp_path / "model", "BertForMaskedLM")
    edit("tokenizer_config.json", tokenizer_class="BertTokenizer", **settings)(folder)
    if older:
        pieces = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
        lines = "\n".join(sorted(pieces, key=pieces.__getitem__)) + "\n"
        (folder / "vocab.txt").write_text(lines, encoding="utf-8")
        (folder / "added_tokens.json").write_text(json.dumps({"<br>": len(pieces)}))
        (folder / "tokenizer.json").unlink()
    imported(folder, tmp_path / "run")
    tokenizer, ours = transformers.AutoTokenizer.from_pretrained(folder), load_vocabulary(tmp_path / "run")
    rows = original_ids(tmp_path / "run", tokenizer)
    for text in [*HARD, "a man<br>in"]:
        expected = tokenizer(text, add_special_tokens=False)["input_ids"]
        assert [rows[i] for i in ours.encode(text)] == expected


def test_another_task_begins_from_an_imported_model(tmp_path: Path) -> None:
    folder, start = write_bert(tmp_path / "model", "BertForMaskedLM", steps=5), tmp_path / "start"
    imported(folder, start)
    data = tmp_path / "data.tsv"
    lines = [f"{text}\t{label}" for label, texts in (("en", ENGLISH), ("de", GERMAN)) for text in texts]
    data.write_text("\n".join(["text\tlabel", *lines]) + "\n")
    tree = Config.of_run(start).model_dump(mode="json") | {
        "task": "classification",
        "masked_language_model": {},
        "subwords": {},
        "data": {"text": [str(data)], "dev_share": 0.2},
        "training": {"initialize_from": str(start), "max_steps": 3},
    }
    config = Config.from_tree(tree)
    (tmp_path / "config.yaml").write_text(config.to_yaml())
    assert headwise(["train", "-c", str(tmp_path / "config.yaml"), "-o", str(tmp_path / "run")]) == 0
    vocabulary = load_vocabulary(tmp_path / "run")
    assert vocabulary.digest() == load_vocabulary(start).digest()
    kind = find_task("classification")
    predictor = kind.predictor(tmp_path / "run", Config.of_run(tmp_path / "run"), device="cpu", precision="float32")
    assert len(predictor([("Two dogs", "line 1")])) == 1


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bert(tmp_path_factory.mktemp("bert") / "whole", "BertForMaskedLM")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"problem_type": "regression"}, "problem_type: expected single_label_classification"),
        ({"id2label": {"0": "a", "2": "b"}}, "id2label: expected a label for each id"),
        ({"id2label": {"0": "a", "1": "a"}}, "id2label: expected two or more different labels"),
        ({"id2label": {"0": "a", "1": "b"}}, "expected head.output.weight of shape"),
    ],
)
def test_labels_that_do_not_fit(
    changes: dict[str, Any], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = write_bert(tmp_path / "whole", "BertForSequenceClassification")
    assert sentence in refused(edit("config.json", **changes), whole, tmp_path / "model", capsys)


def test_a_damaged_tokenizer_in_a_run(whole: Path, tmp_path: Path) -> None:
    imported(whole, tmp_path / "run")
    edit("tokenizer.json", "model", "vocab", extra=1)(tmp_path / "run")
    with pytest.raises(CheckpointError, match="expected a different id for each piece"):
        load_vocabulary(tmp_path / "run")


def test_without_the_library_a_sentence_says_what_to_install(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert headwise(["import", str(whole), "-o", str(tmp_path / "run")]) == 2
    assert "found none; run `pip install 'headwise[tokenizers]'`" in capsys.readouterr().err


def test_languages_are_for_translators(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, run, out = write_bert(tmp_path / "model", "BertForMaskedLM"), tmp_path / "run", tmp_path / "out"
    assert headwise(["import", str(folder), "-o", str(run), "--languages", "en-de"]) == 2
    assert "--languages: expected a translation model, found one with task masked" in capsys.readouterr().err
    assert not run.exists()
    imported(folder, run)
    export = ["export", str(run), "--to", "huggingface", "-o", str(out), "--from-language", "en"]
    assert headwise(export) == 2
    assert "--from-language: expected it with a translator" in capsys.readouterr().err
