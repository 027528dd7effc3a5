"""BERT, GPT-2, ViT and T5 out, against `transformers` itself, and back without a change of a bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from headwise.cli.main import run as headwise
from headwise.config import Config
from headwise.decoding.generation import Generator, read_prompt
from headwise.engine.options import GenerationOptions
from headwise.engine.translator import Translator
from headwise.images.prepared import ImageFormat
from headwise.interop.single import encoder_builder, single_builder
from headwise.models.build import build_decoder_only, load_filled
from headwise.models.vision import ImageClassifier
from headwise.text.tokens.loading import learn_vocabulary, load_vocabulary
from headwise.text.tokens.subwords import BOS, EOS, PAD
from headwise.text.tokens.vocabulary import MASK, Vocabulary
from translator_run import ENGLISH, GERMAN, assert_same_weights, make_run

transformers = pytest.importorskip("transformers", reason="needs the extra 'huggingface'")

from test_bert import write_bert  # noqa: E402 - needs transformers
from test_language_models import write_gpt2  # noqa: E402
from test_t5 import write_t5  # noqa: E402

from transformers_models import HARD, TEXTS, imported, shaken  # noqa: E402

TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}
SMALL = {"d_model": 24, "d_ff": 40, "heads": 4, "max_length": 160, "scale_embeddings": False, "dropout": 0.0}
BERT = {
    **SMALL,
    "encoder_layers": 2,
    "norm": "post",
    "norm_epsilon": 1e-12,
    "activation": "gelu",
    "positions": "learned",
    "attention_bias": True,
    "embedding_norm": True,
    "segments": 2,
}
GPT2 = {
    **SMALL,
    "decoder_layers": 2,
    "norm": "pre",
    "activation": "gelu_tanh",
    "positions": "learned",
    "attention_bias": True,
}
LABELS = {"classification": ["a", "b", "c"], "tagging": ["O", "N", "V"], "question_answering": []}
KINDS = {
    "characters": {"kind": "characters"},
    "subwords": {"kind": "bpe", "size": 150},
    "lowercase": {"kind": "bpe", "size": 120, "lowercase": True},
}


def write_text_run(run: Path, task: str, model: dict[str, Any], subwords: dict[str, Any], **options: Any) -> Path:
    """Write a run of a task on single texts, with random weights."""
    run.mkdir(parents=True)
    config = Config.from_tree({"task": task, "model": model, "subwords": subwords, task: options})
    symbols = (MASK,) if task == "masked_language_model" else ()
    vocabulary = learn_vocabulary([f"{text}\n" for text in TEXTS] * 3, config.subwords, symbols)
    vocabulary.save(run)
    if task in LABELS:
        (run / "labels.json").write_text(json.dumps(LABELS[task]))
    labels = len(LABELS.get(task, []))
    if task == "language_model":
        network: Any = build_decoder_only(config.model, vocabulary.size)
    else:
        network = encoder_builder(config, vocabulary.size, labels)()
    save_file(dict(shaken(network).named_parameters()), run / "model.safetensors")
    (run / "config.yaml").write_text(config.to_yaml())
    return run


def export(run: Path, folder: Path) -> Path:
    assert headwise(["export", str(run), "--to", "huggingface", "-o", str(folder)]) == 0
    assert "Headwise" in (folder / "README.md").read_text()
    return folder


def check_tokenizer(
    vocabulary: Vocabulary, tokenizer: Any, texts: list[str], around: tuple[list[int], list[int]]
) -> None:
    """Check that the exported tokenizer gives the ids of Headwise's."""
    for text in texts:
        assert tokenizer(text)["input_ids"] == [*around[0], *vocabulary.encode(text), *around[1]], text


def network(run: Path) -> Any:
    return load_filled(single_builder(run, Config.of_run(run)), run / "model.safetensors").eval()


AUTO = {
    "masked_language_model": "AutoModelForMaskedLM",
    "classification": "AutoModelForSequenceClassification",
    "tagging": "AutoModelForTokenClassification",
    "question_answering": "AutoModelForQuestionAnswering",
}


def load(auto: str, folder: Path) -> Any:
    model, loading = getattr(transformers, auto).from_pretrained(folder, output_loading_info=True)
    assert not loading["missing_keys"]
    assert not loading["unexpected_keys"]
    return model.eval()


@torch.no_grad()
@pytest.mark.parametrize("subwords", KINDS)
@pytest.mark.parametrize("task", AUTO)
def test_bert(task: str, subwords: str, tmp_path: Path) -> None:
    run = write_text_run(tmp_path / "run", task, BERT, KINDS[subwords])
    folder = export(run, tmp_path / "out")
    ours, theirs, vocabulary = network(run), load(AUTO[task], folder), load_vocabulary(run)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    check_tokenizer(vocabulary, tokenizer, HARD, ([BOS], [EOS]))
    batch = tokenizer(ENGLISH, GERMAN, return_tensors="pt", padding=True)
    tokens, real, segments = batch["input_ids"], batch["attention_mask"].bool(), batch["token_type_ids"]
    assert segments.any()
    assert torch.equal(real, tokens != PAD)
    found, expected = ours(tokens, real, segments), theirs(**batch)
    if task == "masked_language_model":
        assert_close(ours.head(found, ours.encoder.embedding.weight)[real], expected.logits[real], **TOLERANCE)
        assert tokenizer.mask_token_id == vocabulary.symbol(MASK)
    elif task == "classification":
        assert_close(ours.head(found, real), expected.logits, **TOLERANCE)
        assert list(theirs.config.id2label.values()) == LABELS[task]
    elif task == "tagging":
        assert_close(ours.head(found)[real], expected.logits[real], **TOLERANCE)
    else:
        start, end = ours.head(found, real)
        assert_close(start[real], expected.start_logits[real], **TOLERANCE)
        assert_close(end[real], expected.end_logits[real], **TOLERANCE)
    imported(folder, tmp_path / "back")
    assert_same_weights(run, tmp_path / "back")
    again = load_vocabulary(tmp_path / "back")
    assert all(vocabulary.encode(text) == again.encode(text) for text in HARD)


@torch.no_grad()
def test_bert_with_sinusoids_and_without_biases(tmp_path: Path) -> None:
    changes = {"positions": "sinusoidal", "attention_bias": False, "segments": 0}
    run = write_text_run(tmp_path / "run", "tagging", BERT | changes, KINDS["characters"])
    folder = export(run, tmp_path / "out")
    tokens = torch.randint(4, 20, (2, 9))
    found = network(run)(tokens)
    assert_close(network(run).head(found), load(AUTO["tagging"], folder)(tokens).logits, **TOLERANCE)


@torch.no_grad()
@pytest.mark.parametrize("documents", [True, False])
@pytest.mark.parametrize("subwords", KINDS)
def test_gpt2(subwords: str, documents: bool, tmp_path: Path) -> None:
    options = {"lines_are_documents": documents}
    run = write_text_run(tmp_path / "run", "language_model", GPT2, KINDS[subwords], **options)
    folder = export(run, tmp_path / "out")
    ours, theirs, vocabulary = network(run), load("AutoModelForCausalLM", folder), load_vocabulary(run)
    tokenizer, config = transformers.AutoTokenizer.from_pretrained(folder), Config.of_run(run)
    for text in TEXTS:
        ids = read_prompt(config, vocabulary, text, "text")
        batch = tokenizer(text, return_tensors="pt")
        assert batch["input_ids"].tolist() == [ids]
        assert_close(ours.project(ours(batch["input_ids"])), theirs(**batch).logits, **TOLERANCE)
    check_tokenizer(vocabulary, tokenizer, HARD, (read_prompt(config, vocabulary, "", "text"), []))
    banned = [[i] for i in vocabulary.outside(documents)]
    batch = tokenizer("Two dogs", return_tensors="pt")
    row = theirs.generate(**batch, do_sample=False, max_new_tokens=20, bad_words_ids=banned)[0]
    expected = tokenizer.decode(row[batch["input_ids"].size(1) :], skip_special_tokens=True)
    options = GenerationOptions(temperature=0, max_tokens=20)
    assert Generator.load(run, device="cpu").generate("Two dogs", options) == [expected]
    imported(folder, tmp_path / "back")
    assert_same_weights(run, tmp_path / "back")
    again, config = load_vocabulary(tmp_path / "back"), Config.of_run(tmp_path / "back")
    for text in TEXTS:
        assert read_prompt(config, again, text, "text") == tokenizer(text)["input_ids"]


def write_image_run(run: Path, full: int = 255, **changes: Any) -> Path:
    """Write a run of image_classification, with random weights."""
    run.mkdir(parents=True)
    model = {**SMALL, "encoder_layers": 2, "norm": "pre", "norm_epsilon": 1e-12, "activation": "gelu"}
    model |= {"positions": "learned", "attention_bias": True, "max_length": 7, **changes}
    config = Config.from_tree({"task": "image_classification", "model": model})
    form = ImageFormat((3, 8, 12), full, (0.4, 0.5, 0.6), (0.1, 0.2, 0.3), ("x", "y"))
    form.save(run)
    network = shaken(ImageClassifier(config.model, form.shape, 4, 2, class_token=True))
    save_file(dict(network.named_parameters()), run / "model.safetensors")
    (run / "config.yaml").write_text(config.to_yaml())
    return run


@torch.no_grad()
@pytest.mark.parametrize(
    ("full", "changes"),
    [(255, {}), (16, {"attention_bias": False, "positions": "sinusoidal", "max_length": 30})],
)
def test_vit(full: int, changes: dict[str, Any], tmp_path: Path) -> None:
    run = write_image_run(tmp_path / "run", full, **changes)
    folder = export(run, tmp_path / "out")
    theirs = load("AutoModelForImageClassification", folder)
    config, form = Config.of_run(run), ImageFormat.load(run)
    ours = ImageClassifier(config.model, form.shape, 4, 2, class_token=True).eval()
    ours.load_state_dict(load_file(run / "model.safetensors"), strict=False)
    pixels = np.random.default_rng(0).integers(0, full + 1, (2, 3, 8, 12), np.uint8)
    processor = transformers.ViTImageProcessorPil.from_pretrained(folder)
    values = processor([image.transpose(1, 2, 0) for image in pixels], return_tensors="pt")["pixel_values"]
    assert_close(values, torch.from_numpy(form.normalized(pixels)), rtol=1e-5, atol=1e-5)
    assert_close(ours(values), theirs(pixel_values=values).logits, **TOLERANCE)
    assert theirs.config.id2label == {0: "x", 1: "y"}
    imported(folder, tmp_path / "back")
    assert ImageFormat.load(tmp_path / "back") == form
    if not changes:
        assert_same_weights(run, tmp_path / "back")


T5 = {
    "norm": "pre",
    "normalization": "rms",
    "norm_epsilon": 1e-6,
    "feed_forward_bias": False,
    "positions": "t5",
    "position_options": {"t5": {"buckets": 8, "reach": 12}},
    "scale_embeddings": False,
    "d_k": 4,
    "d_v": 4,
}


@torch.no_grad()
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"gated": True, "activation": "gelu_tanh"},
        {"gated": True, "activation": "silu"},
        {"activation": "gelu"},
    ],
)
def test_t5(changes: dict[str, Any], tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", **T5, share_embeddings="all", **changes)
    tensors = load_file(run / "model.safetensors")
    save_file(
        {name: torch.randn_like(t) * 0.3 + ("norm" in name) for name, t in tensors.items()},
        run / "model.safetensors",
    )
    folder = export(run, tmp_path / "out")
    theirs, tokenizer = (
        load("AutoModelForSeq2SeqLM", folder),
        transformers.AutoTokenizer.from_pretrained(folder),
    )
    ours = Translator.load(run, engine="pytorch", device="cpu")
    for text in HARD:
        assert tokenizer(text)["input_ids"] == [*ours.subwords.encode_source(text), EOS], text
    for source, target, output in zip(ENGLISH, GERMAN, ours.score(ENGLISH, GERMAN), strict=True):
        labels = tokenizer(target, return_tensors="pt")["input_ids"]
        logits = theirs(**tokenizer(source, return_tensors="pt"), labels=labels).logits[0]
        expected = logits.log_softmax(-1).gather(-1, labels[0][:, None])[:, 0]
        assert list(output.token_log_probabilities) == pytest.approx(expected.tolist(), abs=1e-4)
    found = ours.translate(ENGLISH, beam=1, max_length=20, extra_length=50, allow_empty=True)
    for source, translation in zip(ENGLISH, found, strict=True):
        row = theirs.generate(
            **tokenizer(source, return_tensors="pt"), do_sample=False, num_beams=1, max_new_tokens=21,
            bad_words_ids=[[0], [1], [2]],
        )[0].tolist()[1:]  # fmt: skip
        tokens = [number for number in row if number != EOS][:20]
        assert list(translation.outputs[0].tokens) == tokens
        assert translation.text == tokenizer.decode(tokens, skip_special_tokens=True)
    imported(folder, tmp_path / "back")
    assert_same_weights(run, tmp_path / "back")
    assert Translator.load(tmp_path / "back").subwords.digest() == ours.subwords.digest()


IMPORTED = {
    "bert": (lambda folder: write_bert(folder, "BertForMaskedLM", vocab_size=150), "AutoModelForMaskedLM"),
    "gpt2": (write_gpt2, "AutoModelForCausalLM"),
    "t5": (lambda folder: write_t5(folder, spm=True, d_kv=4), "AutoModelForSeq2SeqLM"),
    "t5 without spiece.model": (lambda folder: write_t5(folder, d_kv=4), "AutoModelForSeq2SeqLM"),
    "t5 untied": (
        lambda folder: write_t5(
            folder, spm=True, d_kv=4, untied=True, feed_forward_proj="gated-gelu", tie_word_embeddings=False
        ),
        "AutoModelForSeq2SeqLM",
    ),
}


@torch.no_grad()
@pytest.mark.parametrize("name", IMPORTED)
def test_an_imported_model_goes_home(name: str, tmp_path: Path) -> None:
    """In and out again, the model gives the same logits for a text; and in once more, the same run."""
    write, auto = IMPORTED[name]
    folder = write(tmp_path / "model")
    imported(folder, tmp_path / "run")
    back = export(tmp_path / "run", tmp_path / "out")
    first, second = (getattr(transformers, auto).from_pretrained(each).eval() for each in (folder, back))
    before, after = (transformers.AutoTokenizer.from_pretrained(each) for each in (folder, back))
    known = after.get_vocab()
    pieces = sorted(before.get_vocab(), key=before.get_vocab().__getitem__)
    order = torch.tensor([known[piece] for piece in pieces])
    for text in [*HARD, "Two <extra_id_0> in"]:
        one, two = before(text, return_tensors="pt"), after(text, return_tensors="pt")
        assert order[one["input_ids"]].tolist() == two["input_ids"].tolist()
        more = [{"decoder_input_ids": ids["input_ids"]} if "t5" in name else {} for ids in (one, two)]
        expected, found = first(**one, **more[0]).logits, second(**two, **more[1]).logits
        assert_close(found[..., order], expected[..., : len(order)], rtol=1e-5, atol=1e-5 * float(expected.abs().max()))
    imported(back, tmp_path / "again")
    assert_same_weights(tmp_path / "run", tmp_path / "again")


@pytest.mark.parametrize(
    ("task", "changes", "sentence"),
    [
        ("tagging", {"norm": "pre"}, "BERT has no model.norm=pre"),
        ("tagging", {"embedding_norm": False}, "BERT has no model.embedding_norm=false"),
        ("tagging", {"positions": "rotary"}, "BERT has no model.positions=rotary"),
        ("language_model", {"normalization": "rms"}, "GPT-2 has no model.normalization=rms"),
        ("language_model", {"scale_embeddings": True}, "GPT-2 has no model.scale_embeddings=true"),
        ("language_model", {"share_embeddings": "none"}, "GPT-2 has no model.share_embeddings=none"),
    ],
)
def test_a_model_beyond_the_format_is_refused_by_its_keys(
    task: str, changes: dict[str, Any], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shape = GPT2 if task == "language_model" else BERT
    run = write_text_run(tmp_path / "run", task, shape | changes, KINDS["characters"])
    capsys.readouterr()
    assert headwise(["export", str(run), "--to", "huggingface", "-o", str(tmp_path / "out")]) == 2
    assert f"transformers can't express {run}: {sentence}" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_bias_of_the_logits_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shape = GPT2 | {"logit_bias": True}
    run = write_text_run(tmp_path / "run", "language_model", shape, KINDS["characters"])
    assert headwise(["export", str(run), "--to", "huggingface", "-o", str(tmp_path / "out")]) == 2
    assert "expected model.logit_bias=false, as GPT-2 has none" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
