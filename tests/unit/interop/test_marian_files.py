"""Marian's own files in and out, against Marian itself where it is installed, transformers and CTranslate2."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from headwise.cli.main import run as headwise
from headwise.config import Config
from headwise.engine.translator import Translator
from headwise.interop.marian.npz import npz_arrays
from translator_run import ENGLISH, GERMAN, assert_same_weights, make_run

transformers = pytest.importorskip("transformers", reason="needs the extra 'huggingface'")

from marian_files import write_files  # noqa: E402 - needs transformers
from marian_models import load_tokenizer  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")

needs_marian = pytest.mark.skipif(
    importlib.util.find_spec("_pymarian") is None, reason="needs Marian itself: pip install pymarian"
)
AS_MARIAN = {"positions": "tensor2tensor", "norm_epsilon": 1e-6}


def imported(source: Path, run: Path) -> Path:
    assert headwise(["import", str(source), "-o", str(run)]) == 0
    return run


@pytest.fixture(scope="module", params=["all", "target", "none"])
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A directory of each kind of tied embeddings, and the model of transformers that computes the same."""
    folder = tmp_path_factory.mktemp("marian")
    return folder, write_files(folder, tied=request.param)


@torch.no_grad()
def test_probabilities_and_tokens_are_those_of_transformers(files: tuple[Path, Any], tmp_path: Path) -> None:
    folder, theirs = files
    run, tokenizer = imported(folder, tmp_path / "run"), load_tokenizer(folder)
    ours = Translator.load(run, engine="pytorch", device="cpu")
    for source, target, output in zip(ENGLISH, GERMAN, ours.score(ENGLISH, GERMAN), strict=True):
        batch = tokenizer([source], text_target=[target], return_tensors="pt")
        log_probs = theirs(**batch).logits[0].log_softmax(-1).gather(-1, batch["labels"][0][:, None])[:, 0]
        assert list(output.token_log_probabilities) == pytest.approx(log_probs.tolist(), abs=1e-5)
    for engine in ("native", "pytorch"):
        translator = Translator.load(run, engine=engine, device="cpu", precision="float32")
        for text, translation in zip(
            ENGLISH, translator.translate(ENGLISH, beam=1, max_length=20, allow_empty=True), strict=True
        ):
            row = theirs.generate(**tokenizer([text], return_tensors="pt"), num_beams=1, max_length=22)[0]
            tokens = [tokenizer.decoder[number] for number in row.tolist()[1:] if number]
            assert translator.subwords.target_pieces(translation.outputs[0].tokens) == tokens


def test_a_file_is_as_good_as_its_directory(files: tuple[Path, Any], tmp_path: Path) -> None:
    runs = [imported(files[0] / name, tmp_path / (name or "d")) for name in ("", "model.npz")]
    assert_same_weights(*runs)
    assert Config.load(runs[0] / "config.yaml").decoding.beam == 6


MARIAN = "import sys, _pymarian; _pymarian.main(sys.argv[1:])"  # its command line, which ends the process
TRANSLATE = """
import json, sys, _pymarian
translator = _pymarian.Translator(sys.argv[1])
print("\\n" + json.dumps([translator.translate(line) for line in json.loads(sys.argv[2])]))
"""


def run_marian(program: str, *arguments: str) -> str:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, check=True).stdout.decode()


def marian(files: str, texts: list[list[str]], folder: Path) -> tuple[list[str], list[list[float]]]:
    """Let Marian translate some texts and score all; return pieces with spaces, and the score of each piece."""
    files += " --cpu-threads 1 --quiet"
    options = f"{files} -b 1 --normalize 0 --no-spm-decode --max-length-factor 2"
    found = json.loads(run_marian(TRANSLATE, options, json.dumps(texts[0][:20])).splitlines()[-1])
    names = write_texts(folder, texts)
    lines = run_marian(MARIAN, "score", *files.split(), "--word-scores", "-t", *names).splitlines()
    return found, [[float(score) for score in line.split("WordScores=")[1].split()] for line in lines]


def write_texts(folder: Path, texts: list[list[str]]) -> list[str]:
    names = [str(folder / name) for name in ("text.en", "text.de")]
    for name, lines in zip(names, texts, strict=True):
        Path(name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return names


def assert_as_marian(run: Path, theirs: tuple[list[str], list[list[float]]], texts: list[list[str]]) -> None:
    found, scores = theirs
    ours = Translator.load(run, engine="pytorch", device="cpu")
    for output, expected in zip(ours.score(*texts), scores, strict=True):
        assert list(output.token_log_probabilities) == pytest.approx(expected, abs=2e-5)  # of five digits
    for engine in ("native", "pytorch"):
        translator = Translator.load(run, engine=engine, device="cpu", precision="float32")
        options = {"beam": 1, "extra_length": 1, "length_factor": 2.0, "allow_empty": True}
        for text, translation in zip(found, translator.translate(texts[0][: len(found)], **options), strict=True):
            assert " ".join(translator.subwords.target_pieces(translation.outputs[0].tokens)) == text


@needs_marian
@pytest.mark.parametrize(
    "options",
    [
        "--tied-embeddings-all --transformer-ffn-activation swish",
        "--tied-embeddings --transformer-ffn-activation relu",
        "--transformer-ffn-activation relu --output-omit-bias",
    ],
)
def test_a_model_of_marians_own_trainer(options: str, tmp_path: Path) -> None:
    files, texts = trained_by_marian(tmp_path, options)
    assert_as_marian(imported(tmp_path, tmp_path / "run"), marian(files, texts, tmp_path), texts)


@needs_marian
def test_a_model_with_norm_pre_scores_as_marian_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pre = "--transformer-preprocess n --transformer-postprocess da --transformer-postprocess-top n"
    files, texts = trained_by_marian(tmp_path, f"--tied-embeddings-all --transformer-ffn-activation relu {pre}")
    run = imported(tmp_path, tmp_path / "run")
    assert PRE_NOTE in capsys.readouterr().err
    found, scores = marian(files, texts, tmp_path)
    ours = Translator.load(run, engine="pytorch", device="cpu")
    for output, expected in zip(ours.score(*texts), scores, strict=True):
        assert list(output.token_log_probabilities) == pytest.approx(expected, abs=2e-5)  # of five digits
    translations = ours.translate(texts[0][: len(found)], beam=1, extra_length=1, length_factor=2.0, allow_empty=True)
    pieces = [" ".join(ours.subwords.target_pieces(each.outputs[0].tokens)) for each in translations]
    assert pieces != found  # as the note says


PRE_NOTE = "its decoder doesn't normalize the keys and values of earlier positions, so its translations differ"


def test_a_model_with_norm_pre_is_imported_with_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_files(tmp_path)
    arrays = dict(np.load(tmp_path / "model.npz"))
    options = yaml.safe_load(arrays.pop("special:model.yml").tobytes().rstrip(b"\0"))
    options |= {"transformer-preprocess": "n", "transformer-postprocess": "da", "version": "v1.12.0"}
    options["transformer-postprocess-top"] = "n"
    arrays = {re.sub(r"_ln_(scale|bias)$", r"_ln_\1_pre", name): array for name, array in arrays.items()}
    for side in ("encoder", "decoder"):
        arrays[f"{side}_top_ln_scale"], arrays[f"{side}_top_ln_bias"] = np.ones((2, 1, 24), np.float32)
    arrays["special:model.yml"] = np.frombuffer(yaml.safe_dump(options).encode() + b"\0", np.int8)
    np.savez(tmp_path / "model.npz", allow_pickle=False, **arrays)
    run = imported(tmp_path, tmp_path / "run")
    assert PRE_NOTE in capsys.readouterr().err
    assert Config.load(run / "config.yaml").model.norm == "pre"


def trained_by_marian(tmp_path: Path, options: str) -> tuple[str, list[list[str]]]:
    """Let Marian train a small model; return the options that name its files, and the texts."""
    texts = [[f"{line} {number}" for number in range(20) for line in lines] for lines in (ENGLISH, GERMAN)]
    files = f"-m {tmp_path}/model.npz -v {tmp_path}/vocab.spm {tmp_path}/vocab.spm"
    shape = "--dim-emb 32 --enc-depth 2 --dec-depth 1 --transformer-dim-ffn 40 --transformer-heads 4"
    recipe = "--after-batches 30 --mini-batch 16 --learn-rate 0.01 --cpu-threads 1 -w 128 --seed 1 --quiet"
    vocabulary = "--dim-vocabs 200 200 --sentencepiece-options --hard_vocab_limit=false"
    command = f"train --type transformer {files} {shape} {recipe} {vocabulary} {options} --train-sets"
    run_marian(MARIAN, *command.split(), *write_texts(tmp_path, texts))
    return files, texts


KINDS: dict[str, dict[str, Any]] = {
    "all": {"share_embeddings": "all"},
    "target": {
        "share_embeddings": "target",
        "attention_bias": True,
        "logit_bias": True,
        "activation": "silu",
    },
    "none": {"share_embeddings": "none"},
}


def make_exported(folder: Path, *, zero: bool, **changes: Any) -> tuple[Path, Path]:
    """Make a run and export it; with `zero` the embedding of the beginning is zero, as Marian's is."""
    run = make_run(folder / "run", max_length=200, **changes)
    tensors = load_file(run / "model.safetensors")
    for name, tensor in tensors.items():
        if name.endswith("bias"):  # initially zero
            tensors[name] = torch.randn_like(tensor) / 10
        if name == "logit_bias":
            tensors[name][[0, 2]] = -1e4  # Marian doesn't know that a model never generates <pad> and <s>
        if zero and name.endswith("embedding.weight"):
            tensor[2] = 0
    save_file(tensors, run / "model.safetensors")
    assert headwise(["export", str(run), "--to", "marian", "-o", str(folder / "out")]) == 0
    return run, folder / "out"


@needs_marian
@pytest.mark.parametrize("kind", KINDS)
def test_marian_reads_an_export(kind: str, tmp_path: Path) -> None:
    run, folder = make_exported(tmp_path, zero=False, **KINDS[kind], **AS_MARIAN)
    files = f"-m {folder}/model.npz -v {folder}/source.spm {folder}/target.spm"
    assert_as_marian(run, marian(files, [ENGLISH, GERMAN], tmp_path), [ENGLISH, GERMAN])


@pytest.mark.parametrize("positions", ["tensor2tensor", "sinusoidal"])
@pytest.mark.parametrize("kind", KINDS)
def test_ctranslate2_reads_an_export(kind: str, positions: str, tmp_path: Path) -> None:
    ctranslate2 = pytest.importorskip("ctranslate2", reason="needs the extra 'ctranslate2'")
    from ctranslate2.converters import MarianConverter

    run, folder = make_exported(tmp_path, zero=False, **KINDS[kind], positions=positions)
    names = ["vocab.yml"] * 2
    MarianConverter(str(folder / "model.npz"), [str(folder / name) for name in names]).convert(str(tmp_path / "ct2"))
    theirs = ctranslate2.Translator(str(tmp_path / "ct2"), compute_type="float32")
    ours = Translator.load(run, engine="pytorch", device="cpu")
    sources = [ours.subwords.source_pieces(ours.subwords.encode_source(text)) for text in ENGLISH]
    targets = [ours.subwords.target_pieces(ours.subwords.encode_target(text)) for text in GERMAN]
    for output, score in zip(ours.score(ENGLISH, GERMAN), theirs.score_batch(sources, targets), strict=True):
        assert list(output.token_log_probabilities) == pytest.approx(score.log_probs, abs=1e-4)
    banned = [["<pad>"], ["<s>"]]
    results = theirs.translate_batch(
        sources, beam_size=1, max_decoding_length=20, disable_unk=True, suppress_sequences=banned
    )
    for result, translation in zip(
        results,
        ours.translate(ENGLISH, beam=1, max_length=20, extra_length=50, allow_empty=True),
        strict=True,
    ):
        assert ours.subwords.target_pieces(translation.outputs[0].tokens) == result.hypotheses[0][:20]


@pytest.mark.parametrize("positions", ["tensor2tensor", "sinusoidal"])
@pytest.mark.parametrize("kind", KINDS)
def test_export_and_import_change_no_bit(kind: str, positions: str, tmp_path: Path) -> None:
    run, folder = make_exported(tmp_path, zero=True, **KINDS[kind], positions=positions, norm_epsilon=1e-6)
    back = imported(folder, tmp_path / "back")
    assert_same_weights(run, back)
    models = [Config.load(each / "config.yaml").model for each in (run, back)]
    assert models[0].model_dump() == models[1].model_dump()
    assert len({Translator.load(each).subwords.digest() for each in (run, back)}) == 1


def test_an_imported_vocabulary_is_exported_again(files: tuple[Path, Any], tmp_path: Path) -> None:
    run = imported(files[0], tmp_path / "run")
    assert headwise(["export", str(run), "--to", "marian", "-o", str(tmp_path / "out")]) == 0
    back = imported(tmp_path / "out", tmp_path / "back")
    assert_same_weights(run, back)
    assert len({Translator.load(each).subwords.digest() for each in (run, back)}) == 1


def test_what_marian_computes_otherwise_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_exported(tmp_path / "paper", zero=False)
    said = capsys.readouterr().err
    assert "Marian's sinusoids have other frequencies than the paper's" in said
    assert "an epsilon of 1e-06, not model.norm_epsilon=1e-05" in said
    make_exported(tmp_path / "marian", zero=False, **AS_MARIAN)
    assert "Marian" not in capsys.readouterr().err.replace("Marian's options", "")


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"norm": "pre"}, "its decoder doesn't normalize earlier positions with model.norm=pre"),
        ({"positions": "learned"}, "it has no model.positions=learned"),
        ({"activation": "gelu"}, "it has no model.activation=gelu"),
        ({"scale_embeddings": False}, "it has no model.scale_embeddings=false"),
    ],
)
def test_a_model_beyond_the_format_is_refused(
    changes: dict[str, Any], key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run", **changes)
    assert headwise(["export", str(run), "--to", "marian", "-o", str(tmp_path / "out")]) == 2
    assert f"Marian can't express {run}: {key}" in capsys.readouterr().err


def test_headers_are_read_without_the_arrays(files: tuple[Path, Any]) -> None:
    arrays = npz_arrays(files[0] / "model.npz")
    theirs = np.load(files[0] / "model.npz")
    assert {name: array.shape for name, array in arrays.items()} == {name: theirs[name].shape for name in theirs}
    assert all(np.array_equal(arrays[name].read(), theirs[name]) for name in theirs)
