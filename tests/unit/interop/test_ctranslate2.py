"""CTranslate2 directories in and out, against `ctranslate2` itself; nothing is downloaded."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from safetensors.torch import load_file, save_file

from headwise.cli.main import run as headwise
from headwise.config import Config
from headwise.engine.native.engine import unsupported
from headwise.engine.translator import Translator
from headwise.models.build import build_model
from headwise.text.tokens.subwords import Subwords
from headwise.weights import Weights
from translator_run import ENGLISH, GERMAN, assert_same_weights, make_run

ctranslate2 = pytest.importorskip("ctranslate2", reason="needs the extra 'ctranslate2'")

from ctranslate2_models import write_older, write_opennmt, write_without_table  # noqa: E402 - needs ctranslate2

TEXTS = [*ENGLISH, "The dogs ☃ straße", "a < b >> c"]


def opened(folder: Path) -> Any:
    return ctranslate2.Translator(str(folder), device="cpu", compute_type="float32")


def splitters(folder: Path) -> list[sentencepiece.SentencePieceProcessor]:
    names = ["source.spm", "target.spm"] if (folder / "source.spm").is_file() else ["sentencepiece.model"] * 2
    return [sentencepiece.SentencePieceProcessor(model_file=str(folder / name)) for name in names]


def imported(folder: Path, run: Path) -> Path:
    assert headwise(["import", str(folder), "-o", str(run)]) == 0
    return run


# Of log-probabilities. Sinusoids that a file has in 16 bits are the paper's again in Headwise.
TOLERANCE = {"float16": 1e-3, "int8_float16": 1e-3, "bfloat16": 2e-2}


def check_same(
    run: Path, folder: Path, precision: str | None = None, *, engine: str = "pytorch", end: bool = False
) -> None:
    """Compare forced log-probabilities and greedy translations; with `end` the caller ends a source."""
    tolerance = TOLERANCE.get(precision or "float32", 1e-4)
    ours = Translator.load(run, engine=engine, device="cpu", precision="float32")
    theirs = opened(folder)
    source, target = splitters(folder)
    sources = [
        [*source.encode(text, out_type=str), *(["</s>"] if end else [])]
        for text in ours.encode(TEXTS, ours.options).read
    ]
    targets = target.encode(GERMAN, out_type=str)
    scored = theirs.score_batch(sources[: len(targets)], targets)
    for output, expected in zip(ours.score(ENGLISH, GERMAN), scored, strict=True):
        assert list(output.token_log_probabilities) == pytest.approx(expected.log_probs, abs=tolerance)
    found = ours.translate(TEXTS, beam=1, max_length=20, extra_length=50, allow_empty=True, allow_unknown=True)
    banned = [[token] for token in ("<pad>", "<blank>", "<s>") if token in vocabulary(folder)]
    expected = theirs.translate_batch(sources, beam_size=1, max_decoding_length=20, suppress_sequences=banned)
    assert [list(each.outputs[0].pieces[:-1]) for each in found] == [each.hypotheses[0] for each in expected]


def vocabulary(folder: Path) -> list[str]:
    shared = folder / "shared_vocabulary.json"
    file = shared if shared.is_file() else folder / "target_vocabulary.json"
    tokens: list[str] = json.loads(file.read_text())
    return tokens


MODELS: dict[str, dict[str, Any]] = {
    "joiners": {"share_embeddings": "all", "joiners": True, "max_length": 80},
    "paper": {"share_embeddings": "all"},
    "pre-norm": {"share_embeddings": "all", "norm": "pre"},
    "biases": {"share_embeddings": "all", "attention_bias": True, "logit_bias": True, "activation": "silu"},
    "unscaled": {"share_embeddings": "all", "scale_embeddings": False, "activation": "gelu"},
    "target": {"share_embeddings": "target", "activation": "gelu_tanh", "norm_epsilon": 0.01},
    "untied": {"share_embeddings": "none", "feed_forward_bias": False},
    "learned": {"positions": "learned", "norm": "pre", "normalization": "rms", "gated": True},
    "none": {"positions": "none", "source_end": False},
}


@pytest.fixture(params=MODELS)
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A run of each kind that can be exported."""
    run = make_run(tmp_path / "run", **MODELS[request.param])
    tensors = load_file(run / "model.safetensors")
    for name, tensor in tensors.items():
        if name.endswith("bias"):  # initially zero
            tensors[name] = torch.randn_like(tensor) / 10
    save_file(tensors, run / "model.safetensors")
    return run


def exported(run: Path, folder: Path, *more: str) -> Path:
    assert headwise(["export", str(run), "--to", "ctranslate2", "-o", str(folder), *more]) == 0
    return folder


def test_an_exported_model_computes_the_same(run: Path, tmp_path: Path) -> None:
    folder = exported(run, tmp_path / "out")
    check_same(run, folder)
    if unsupported(Config.load(run / "config.yaml").model) is None:
        check_same(run, folder, engine="native")


def test_export_and_import_change_no_bit(run: Path, tmp_path: Path) -> None:
    back = imported(exported(run, tmp_path / "out"), tmp_path / "back")
    assert_same_weights(run, back)
    assert len({Translator.load(each).subwords.digest() for each in (run, back)}) == 1


def test_two_vocabularies_stay_two(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", share_embeddings="target")
    tree = (run / "config.yaml").read_text().replace("joint: true", "joint: false").replace("size: 150", "size: 90")
    (run / "config.yaml").write_text(tree)
    (run / "spm.model").unlink()
    config = Config.load(run / "config.yaml")
    subwords = Subwords.train(ENGLISH, GERMAN, config.subwords, run)
    model = build_model(config.model, subwords.source_size, subwords.target_size)
    save_file(dict(model.named_parameters()), run / "model.safetensors")
    folder = exported(run, tmp_path / "out")
    assert (folder / "source_vocabulary.json").is_file()
    check_same(run, folder)
    back = imported(folder, tmp_path / "back")
    assert Translator.load(back).subwords.digest() == subwords.digest()


@pytest.mark.parametrize("precision", ["float16", "bfloat16", "int8"])
def test_low_precision_survives_the_way_back(precision: str, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", share_embeddings="all", norm="pre")
    folder = exported(run, tmp_path / "out", "--precision", precision)
    back = imported(folder, tmp_path / "back")
    check_same(back, folder, precision)  # CTranslate2 computes in float32 with the stored numbers
    weights, original = (Weights(each / "model.safetensors") for each in (back, run))
    assert weights.precision == ("int8" if precision == "int8" else "float32")
    again = imported(exported(back, tmp_path / "out2", "--precision", precision), tmp_path / "back2")
    assert_same_weights(back, again)
    for name in weights.names:
        arrays = weights.get(name), original.get(name)
        assert arrays[0] is not None
        assert arrays[1] is not None
        found, expected = map(torch.from_numpy, arrays)
        if precision == "int8" and expected.dim() == 2:
            step = expected.abs().amax(1, keepdim=True) / 127
            assert bool(((found - expected).abs() <= 0.501 * step).all())
        else:
            dtype = torch.float32 if precision == "int8" else getattr(torch, precision)
            assert torch.equal(found, expected.to(dtype).float())


@pytest.mark.parametrize("quantization", [None, "float16", "bfloat16", "int16", "int8", "int8_float16"])
def test_a_converted_opennmt_model_computes_the_same(quantization: str | None, tmp_path: Path) -> None:
    folder = write_opennmt(tmp_path / "model", quantization)
    run = imported(folder, tmp_path / "run")
    check_same(run, folder, quantization)
    check_same(run, folder, quantization, engine="native")
    assert "source_end: false" in (run / "config.yaml").read_text()
    assert "positions: sinusoidal" in (run / "config.yaml").read_text()


def test_sinusoids_that_ctranslate2_makes_become_a_table(tmp_path: Path) -> None:
    folder = write_without_table(tmp_path / "model")
    check_same(imported(folder, tmp_path / "run"), folder)


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
def test_a_converted_marian_model_computes_the_same(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="needs the extra 'huggingface'")
    from marian_models import write_marian

    marian = write_marian(tmp_path / "marian")
    folder = tmp_path / "model"
    converter = ctranslate2.converters.TransformersConverter(str(marian), copy_files=["source.spm", "target.spm"])
    converter.convert(str(folder))
    check_same(imported(folder, tmp_path / "run"), folder, end=True)


@pytest.mark.parametrize("version", [3, 4, 5])
def test_older_binary_versions(version: int, tmp_path: Path) -> None:
    folder = write_opennmt(tmp_path / "model", "int8")
    write_older(folder, version)
    text = "\n".join(vocabulary(folder)) + "\n"
    (folder / "shared_vocabulary.txt").write_text(text)
    run = imported_without_json(folder, tmp_path / "run")
    check_same(run, folder)


def imported_without_json(folder: Path, run: Path) -> Path:
    kept = (folder / "shared_vocabulary.json").read_bytes()
    (folder / "shared_vocabulary.json").unlink()
    imported(folder, run)
    (folder / "shared_vocabulary.json").write_bytes(kept)
    return run


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"positions": "rotary"}, "model.positions=rotary"),
        ({"key_value_heads": 1}, "model.key_value_heads=1"),
        ({"final_norm": True}, "model.final_norm=true"),
        ({"attention": "window", "cross_attention": "fused"}, "model.attention=window"),
    ],
)
def test_a_model_beyond_the_format_is_refused_by_its_keys(
    changes: dict[str, Any], key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run", **changes)
    assert headwise(["export", str(run), "--to", "ctranslate2", "-o", str(tmp_path / "out")]) == 2
    assert f"CTranslate2 can't express {run}: it has no {key}" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_without_the_library_an_export_names_the_extra_and_an_import_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run", share_embeddings="all")
    folder = exported(run, tmp_path / "out")
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    imported(folder, tmp_path / "back")
    capsys.readouterr()
    for to, out in (("ctranslate2", "out2"), ("argos", "out2.argosmodel")):
        languages = ["--from-language", "en", "--to-language", "de"] if to == "argos" else []
        assert headwise(["export", str(run), "--to", to, "-o", str(tmp_path / out), *languages]) == 2
        assert "found none; run `pip install 'headwise[ctranslate2]'`" in capsys.readouterr().err


def test_a_vocabulary_may_be_small(tmp_path: Path) -> None:
    folder = write_opennmt(tmp_path / "model")
    (folder / "shared_vocabulary.json").write_text(json.dumps(vocabulary(folder)[:6]))
    run = imported(folder, tmp_path / "run")
    assert Translator.load(run, engine="native").subwords.source_size == 6
