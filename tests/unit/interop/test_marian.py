"""Marian models in and out, against `transformers` itself; nothing is downloaded."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from headwise.cli.main import run as headwise
from headwise.config import Config
from headwise.decoding.translator import Translator
from headwise.errors import CheckpointError
from headwise.interop.formats import find_importer
from translator_run import ENGLISH, GERMAN, make_run

transformers = pytest.importorskip("transformers", reason="needs the extra 'huggingface'")

from marian_models import CODE, load_tokenizer, write_marian  # noqa: E402 - needs transformers

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")

TEXTS = [
    *ENGLISH,
    f"{CODE} Two dogs are playing.",
    ">>xyz<<A cat",
    "The dogs ☃ straße",
    "a < b >> c",
    "</s> <pad>",
]


def imported(source: Path, run: Path) -> Translator:
    assert headwise(["import", str(source), "-o", str(run)]) == 0
    return Translator.load(run, engine="pytorch", device="cpu")


def their_pieces(tokenizer: Any, text: str, side: str) -> list[str]:
    """Return the pieces that `MarianTokenizer` splits a text into, without the end of the sentence."""
    pieces = (
        {number: piece for piece, number in tokenizer.encoder.items()}
        if side == "source"
        else tokenizer.decoder
    )
    ids = tokenizer(text)["input_ids"] if side == "source" else tokenizer(text_target=text)["input_ids"]
    return [pieces[number] for number in ids][:-1]


def generated(model: Any, tokenizer: Any, text: str, *, longest: int) -> tuple[list[int], str]:
    """Return the tokens and the text of greedy generation by `transformers`."""
    batch = tokenizer([text], return_tensors="pt")
    row = model.generate(**batch, num_beams=1, do_sample=False, max_length=longest + 2)[0]
    special = {model.config.pad_token_id, model.config.eos_token_id, model.config.decoder_start_token_id}
    tokens = [number for number in row.tolist() if number not in special]
    return tokens, tokenizer.decode(tokens, skip_special_tokens=False)


@pytest.fixture(scope="module", params=["shared", "separate", "relu", "pickled"])
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Marian directory of each kind."""
    folder = tmp_path_factory.mktemp("marian") / request.param
    changes = {"relu": {"activation_function": "relu", "scale_embedding": False}}
    write_marian(folder, separate=request.param == "separate", **changes.get(request.param, {}))
    if request.param == "pickled":
        file = folder / "model.safetensors"
        torch.save(load_file(file), folder / "pytorch_model.bin")
        file.unlink()
    return folder


def test_the_tokenizer_splits_as_at_home(directory: Path, tmp_path: Path) -> None:
    ours, theirs = imported(directory, tmp_path / "run").subwords, load_tokenizer(directory)
    for text in TEXTS[:-1]:
        assert ours.source_pieces(ours.encode_source(text)) == their_pieces(theirs, text, "source")
    for text in GERMAN:
        assert ours.target_pieces(ours.encode_target(text)) == their_pieces(theirs, text, "target")
    assert Config.load(tmp_path / "run" / "config.yaml").data.languages == ("en", "de")
    assert ours.source_pieces(ours.encode_source("</s>")) != ["</s>"]  # a user's text can't end a sentence


@torch.no_grad()
def test_the_probabilities_are_theirs(directory: Path, tmp_path: Path) -> None:
    translator = imported(directory, tmp_path / "run")
    theirs, tokenizer = transformers.MarianMTModel.from_pretrained(directory), load_tokenizer(directory)
    for source, target, output in zip(ENGLISH, GERMAN, translator.score(ENGLISH, GERMAN), strict=True):
        batch = tokenizer([source], text_target=[target], return_tensors="pt")
        log_probs = theirs(**batch).logits[0].log_softmax(-1).gather(-1, batch["labels"][0][:, None])[:, 0]
        assert list(output.token_log_probabilities) == pytest.approx(log_probs.tolist(), abs=1e-4)


def test_both_engines_generate_as_they_do(directory: Path, tmp_path: Path) -> None:
    imported(directory, tmp_path / "run")
    theirs, tokenizer = transformers.MarianMTModel.from_pretrained(directory), load_tokenizer(directory)
    expected = [generated(theirs, tokenizer, text, longest=20) for text in ENGLISH]
    for engine in ("native", "pytorch"):
        translator = Translator.load(tmp_path / "run", engine=engine, device="cpu", precision="float32")
        found = translator.translate(ENGLISH, beam=1, max_length=20, extra_length=50, allow_unknown=True)
        decoder = tokenizer.decoder
        for (tokens, text), translation in zip(expected, found, strict=True):
            assert translator.subwords.target_pieces(translation.outputs[0].tokens) == [
                decoder[i] for i in tokens
            ]
            assert translation.text == text or "<unk>" in text


MODELS: dict[str, dict[str, Any]] = {
    "paper": {"share_embeddings": "all"},
    "pre-norm": {"share_embeddings": "all", "norm": "pre"},
    "biases": {"share_embeddings": "all", "attention_bias": True, "logit_bias": True, "activation": "silu"},
    "unscaled": {"share_embeddings": "all", "scale_embeddings": False, "activation": "gelu"},
    "target": {"share_embeddings": "target"},
    "untied": {"share_embeddings": "none"},
}


@pytest.fixture(params=MODELS)
def exported(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Path]:
    """A run of each kind that can be exported, and its export."""
    run = make_run(tmp_path / "run", **MODELS[request.param])
    tensors = load_file(run / "model.safetensors")
    for name, tensor in tensors.items():
        if name.endswith("bias"):  # initially zero
            tensors[name] = torch.randn_like(tensor) / 10
    save_file(tensors, run / "model.safetensors")
    assert headwise(["export", str(run), "--to", "huggingface", "-o", str(tmp_path / "out")]) == 0
    return run, tmp_path / "out"


@torch.no_grad()
def test_an_exported_model_computes_the_same(exported: tuple[Path, Path]) -> None:
    run, folder = exported
    ours = Translator.load(run, engine="pytorch", device="cpu")
    theirs, loading = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, output_loading_info=True)
    assert not loading["missing_keys"]
    assert not loading["unexpected_keys"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    assert type(tokenizer).__name__ == "MarianTokenizer"
    for source, target, output in zip(ENGLISH, GERMAN, ours.score(ENGLISH, GERMAN), strict=True):
        batch = tokenizer([source], text_target=[target], return_tensors="pt")
        log_probs = theirs(**batch).logits[0].log_softmax(-1).gather(-1, batch["labels"][0][:, None])[:, 0]
        assert list(output.token_log_probabilities) == pytest.approx(log_probs.tolist(), abs=1e-4)
    translations = ours.translate(ENGLISH, beam=1, max_length=20, extra_length=50)
    for text, translation in zip(ENGLISH, translations, strict=True):
        tokens, decoded = generated(theirs, tokenizer, text, longest=20)
        assert tuple(tokens) == translation.outputs[0].tokens
        assert decoded == translation.text


def test_export_and_import_change_no_bit(exported: tuple[Path, Path], tmp_path: Path) -> None:
    run, folder = exported
    assert headwise(["import", str(folder), "-o", str(tmp_path / "back")]) == 0
    before, after = (load_file(each / "model.safetensors") for each in (run, tmp_path / "back"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    digests = {Translator.load(each).subwords.digest() for each in (run, tmp_path / "back")}
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"positions": "rotary"}, "model.positions=rotary"),
        ({"normalization": "rms"}, "model.normalization=rms"),
        ({"gated": True}, "model.gated=true"),
        ({"key_value_heads": 1}, "model.key_value_heads=1"),
        ({"attention": "window", "cross_attention": "fused"}, "model.attention=window"),
    ],
)
def test_a_model_beyond_the_format_is_refused_by_its_keys(
    changes: dict[str, Any], key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run", **changes)
    assert headwise(["export", str(run), "--to", "huggingface", "-o", str(tmp_path / "out")]) == 2
    assert f"transformers can't express {run}: it has no {key}" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


class Bomb:
    """What a hostile pickle holds."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (print, ("boom",))


def pickled_code(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save({"model.shared.weight": Bomb()}, folder / "pytorch_model.bin")


def compressed(folder: Path) -> None:
    file = folder / "pytorch_model.bin"
    torch.save(load_file(folder / "model.safetensors"), file)
    (folder / "model.safetensors").unlink()
    with zipfile.ZipFile(file) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            archive.writestr(name, data)


def expanded(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    tensors["model.shared.weight"] = torch.zeros(1).expand(10**12)
    torch.save(tensors, folder / "pytorch_model.bin")


def pickled(content: Any) -> Any:
    def edit(folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        torch.save(content, folder / "pytorch_model.bin")

    return edit


def doubled() -> list[Any]:
    """Return a list of 2^40 elements, of which a file needs 40."""
    nested: list[Any] = []
    for _ in range(40):
        nested = [nested, nested]
    return nested


class Other:
    """A class of somebody's."""


ITSELF: list[Any] = []
ITSELF.append(ITSELF)


def shard_outside(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    index = {"weight_map": {"model.shared.weight": "../../secret.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def edit_config(**changes: Any) -> Any:
    def edit(folder: Path) -> None:
        for file in (folder / "config.json", folder / "generation_config.json"):
            file.write_text(json.dumps(json.loads(file.read_text()) | changes))

    return edit


def edit_tensors(**changes: Any) -> Any:
    def edit(folder: Path) -> None:
        file = folder / "model.safetensors"
        tensors = load_file(file)
        for name, tensor in changes.items():
            tensors[name.replace("__", ".")] = tensor
        save_file(tensors, file)

    return edit


def edit_vocabulary(**changes: Any) -> Any:
    def edit(folder: Path) -> None:
        file = folder / "vocab.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))

    return edit


HOSTILE = {
    "code in a pickle": (
        pickled_code,
        "expected tensors by name, found a pickle that needs more",
    ),
    "compressed tensors": (compressed, "expected uncompressed tensors"),
    "another class": (pickled({"a": Other()}), "found a pickle that needs more (test_marian.Other)"),
    "no zip": (
        lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"),
        "in its zip format",
    ),
    "a list": (pickled([1]), "expected tensors by name, found a list"),
    "a list that contains itself": (pickled(ITSELF), "expected tensors by name, found a list"),
    "a list in itself by name": (pickled({"a": ITSELF}), "expected tensors by name, found a list for 'a'"),
    "a list of lists": (pickled({"a": doubled()}), "expected tensors by name, found a list for 'a'"),
    "a number for a name": (
        pickled({7: torch.zeros(3)}),
        "expected tensors by name, found a Tensor for a int",
    ),
    "an expanded tensor": (expanded, "expected tensors within its"),
    "a shard outside": (shard_outside, "expected names of files beside it, found '../../secret.safetensors'"),
    "a vast vocabulary": (edit_config(vocab_size=10**12), "vocab_size: "),
    "a vast width": (edit_config(d_model=10**12), "d_model: "),
    "another width": (edit_config(d_model=32), "of shape"),
    "more layers": (edit_config(encoder_layers=3), "expected tensor model.encoder.layers.2."),
    "fewer layers": (edit_config(encoder_layers=1), "found tensor model.encoder.layers.1."),
    "unequal heads": (
        edit_config(encoder_attention_heads=2),
        "encoder_attention_heads and decoder_attention_heads",
    ),
    "an activation": (edit_config(activation_function="tanh"), "activation_function: expected one of"),
    "an odd end": (edit_config(eos_token_id=10**6), "expected different ids"),
    "banned words": (edit_config(bad_words_ids=[[3, 4]]), "bad_words_ids"),
    "numbers that aren't": (
        edit_tensors(model__shared__weight=torch.full((180, 24), float("nan"))),
        "expected finite numbers",
    ),
    "positions": (
        edit_tensors(model__encoder__embed_positions__weight=torch.zeros(64, 24)),
        "expected model.encoder.embed_positions.weight to be the paper's sinusoids",
    ),
    "an id twice": (edit_vocabulary(extra=3), "expected a different id"),
    "an id too high": (edit_vocabulary(extra=10**9), "expected a different id"),
    "no vocabulary": (lambda folder: (folder / "vocab.json").unlink(), "vocab.json"),
    "no subwords": (
        lambda folder: (folder / "source.spm").write_bytes(b"x"),
        "expected a SentencePiece model",
    ),
    "no tensors": (lambda folder: (folder / "model.safetensors").write_bytes(b"x" * 40), "damaged"),
    "no JSON": (lambda folder: (folder / "config.json").write_text("{"), "config.json"),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An undamaged directory."""
    return write_marian(tmp_path_factory.mktemp("marian") / "whole", steps=1)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_directory_gets_a_sentence(
    name: str, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for file in whole.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    damage, sentence = HOSTILE[name]
    damage(folder)
    assert headwise(["import", str(folder), "-o", str(tmp_path / "run")]) == 2
    captured = capsys.readouterr()
    assert sentence in captured.err
    assert captured.err.count("\n") == 1
    assert "boom" not in captured.out
    assert not (tmp_path / "run").exists()


def test_what_no_format_recognizes(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="expected a model in one of the formats huggingface"):
        find_importer(tmp_path)


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        (("model.pt", "dict.en.txt"), "found one of fairseq: ct2-fairseq-converter"),
        (("best.ckpt", "config.yaml", "src_vocab.txt"), "found one of joeynmt: there is no converter"),
    ],
)
def test_a_format_that_is_not_read_is_named(files: tuple[str, ...], sentence: str, tmp_path: Path) -> None:
    for name in files:
        (tmp_path / name).touch()
    for source in (tmp_path, tmp_path / files[0]):
        with pytest.raises(CheckpointError, match=sentence):
            find_importer(source)
    with pytest.raises(CheckpointError, match=sentence):
        find_importer(tmp_path, sentence.split()[3].rstrip(":"))


def test_a_directory_in_the_way_stays(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run").mkdir()
    assert headwise(["import", str(whole), "-o", str(tmp_path / "run")]) == 2
    assert "expected a new directory's name" in capsys.readouterr().err
