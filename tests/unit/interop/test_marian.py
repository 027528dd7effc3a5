"""Marian models in and out, against `transformers` itself; nothing is downloaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from headwise.cli.main import run as headwise
from headwise.config import Config
from headwise.engine.translator import Translator
from headwise.errors import CheckpointError
from headwise.interop.formats import find_importer
from translator_run import ENGLISH, GERMAN, assert_same_weights, make_run

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
    pieces = {number: piece for piece, number in tokenizer.encoder.items()} if side == "source" else tokenizer.decoder
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
def check_probabilities(translator: Translator, directory: Path) -> None:
    theirs, tokenizer = transformers.MarianMTModel.from_pretrained(directory), load_tokenizer(directory)
    for source, target, output in zip(ENGLISH, GERMAN, translator.score(ENGLISH, GERMAN), strict=True):
        batch = tokenizer([source], text_target=[target], return_tensors="pt")
        log_probs = theirs(**batch).logits[0].log_softmax(-1).gather(-1, batch["labels"][0][:, None])[:, 0]
        assert list(output.token_log_probabilities) == pytest.approx(log_probs.tolist(), abs=1e-4)


def test_the_probabilities_are_theirs(directory: Path, tmp_path: Path) -> None:
    check_probabilities(imported(directory, tmp_path / "run"), directory)


def test_options_of_generate_that_a_run_does_not_keep_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_marian(tmp_path / "theirs", steps=1)
    file = folder / "generation_config.json"
    options = {"no_repeat_ngram_size": 3, "repetition_penalty": 1.2, "min_length": 0, "suppress_tokens": None}
    file.write_text(json.dumps(json.loads(file.read_text()) | options))
    imported(folder, tmp_path / "run")
    notes = capsys.readouterr().err
    assert "no_repeat_ngram_size 3 isn't used: -s no_repeat_ngram=3 sets it for a search" in notes
    assert "repetition_penalty 1.2 isn't used: Headwise has none" in notes
    assert "min_length" not in notes


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sinusoids_that_were_rounded_are_the_papers(dtype: torch.dtype, tmp_path: Path) -> None:
    folder = write_marian(tmp_path / "theirs", steps=1)
    tensors = transformers.MarianMTModel.from_pretrained(folder).state_dict()  # with the positions, as Pegasus is saved
    names = [f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder")]
    stored = load_file(folder / "model.safetensors") | {name: tensors[name].to(dtype) for name in names}
    save_file(stored, folder / "model.safetensors", {"format": "pt"})
    imported(folder, tmp_path / "run")
    assert Config.load(tmp_path / "run" / "config.yaml").model.positions == "sinusoidal"


def test_shared_embeddings_are_stored_once_beside_an_output_of_its_own(tmp_path: Path) -> None:
    folder = write_marian(tmp_path / "theirs", tie_word_embeddings=False)
    file, sides = (
        folder / "model.safetensors",
        [f"model.{s}.embed_tokens.weight" for s in ("encoder", "decoder")],
    )
    stored = {name: tensor for name, tensor in load_file(file).items() if name not in sides}
    save_file(stored, file, {"format": "pt"})  # as transformers 4 writes it
    ours = imported(folder, tmp_path / "run")
    # transformers 5 would leave the embeddings of both sides random.
    save_file(stored | {name: stored["model.shared.weight"].clone() for name in sides}, file, {"format": "pt"})
    check_probabilities(ours, folder)


def test_two_vocabularies_may_share_one_matrix(tmp_path: Path) -> None:
    folder = write_marian(tmp_path / "theirs")
    pieces = list(json.loads((folder / "vocab.json").read_text()))
    pieces[3:-1] = reversed(pieces[3:-1])  # all but the special ones
    numbers = {piece: number for number, piece in enumerate(pieces)}
    (folder / "target_vocab.json").write_text(json.dumps(numbers))
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"separate_vocabs": True}))
    check_probabilities(imported(folder, tmp_path / "run"), folder)


def test_both_engines_generate_as_they_do(directory: Path, tmp_path: Path) -> None:
    imported(directory, tmp_path / "run")
    theirs, tokenizer = transformers.MarianMTModel.from_pretrained(directory), load_tokenizer(directory)
    expected = [generated(theirs, tokenizer, text, longest=20) for text in ENGLISH]
    for engine in ("native", "pytorch"):
        translator = Translator.load(tmp_path / "run", engine=engine, device="cpu", precision="float32")
        found = translator.translate(
            ENGLISH, beam=1, max_length=20, extra_length=50, allow_empty=True, allow_unknown=True
        )
        decoder = tokenizer.decoder
        for (tokens, text), translation in zip(expected, found, strict=True):
            assert translator.subwords.target_pieces(translation.outputs[0].tokens) == [decoder[i] for i in tokens]
            assert translation.text == text or "<unk>" in text


MODELS: dict[str, dict[str, Any]] = {
    "paper": {"share_embeddings": "all"},
    "pre-norm": {"share_embeddings": "all", "norm": "pre"},
    "biases": {"share_embeddings": "all", "attention_bias": True, "logit_bias": True, "activation": "silu"},
    "unscaled": {"share_embeddings": "all", "scale_embeddings": False, "activation": "gelu"},
    "target": {"share_embeddings": "target"},
    "untied": {"share_embeddings": "none"},
    "joiners": {"share_embeddings": "all", "joiners": True, "max_length": 80},
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
    translations = ours.translate(ENGLISH, beam=1, max_length=20, extra_length=50, allow_empty=True)
    for text, translation in zip(ENGLISH, translations, strict=True):
        tokens, decoded = generated(theirs, tokenizer, text, longest=20)
        assert tuple(tokens) == translation.outputs[0].tokens
        assert decoded == translation.text


def test_export_and_import_change_no_bit(exported: tuple[Path, Path], tmp_path: Path) -> None:
    run, folder = exported
    assert headwise(["import", str(folder), "-o", str(tmp_path / "back")]) == 0
    assert_same_weights(run, tmp_path / "back")
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
        (
            {"norm": "pre", "share_embeddings": "target"},
            "model.share_embeddings=target beside model.norm=pre",
        ),
        ({"norm": "pre", "joint": False}, "model.share_embeddings=none beside model.norm=pre"),
    ],
)
def test_a_model_beyond_the_format_is_refused_by_its_keys(
    changes: dict[str, Any], key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run", **changes)
    assert headwise(["export", str(run), "--to", "huggingface", "-o", str(tmp_path / "out")]) == 2
    assert f"transformers can't express {run}: it has no {key}" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


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


def test_a_directory_in_the_way_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = write_marian(tmp_path / "whole", steps=1)
    (tmp_path / "run").mkdir()
    assert headwise(["import", str(whole), "-o", str(tmp_path / "run")]) == 2
    assert "expected a new directory's name" in capsys.readouterr().err
