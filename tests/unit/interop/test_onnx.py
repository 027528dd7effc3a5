"""The export to ONNX Runtime, against the PyTorch model and, with the example's search, against our own search."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor

from headwise.cli.main import run as headwise
from headwise.config.data import SPECIAL_PIECES
from headwise.decoding.batching import padded
from headwise.engine.translator import Translator
from headwise.models.build import load_model
from headwise.text.tokens.pair_vocabulary import PairVocabulary
from headwise.text.tokens.subwords import BOS, EOS, PAD, UNK, Subwords
from translator_run import ENGLISH, GERMAN, make_run

onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra 'onnx'")

EXAMPLE = Path(__file__).parents[3] / "examples" / "onnx_translate.py"

MODELS: dict[str, dict[str, Any]] = {
    "paper": {"share_embeddings": "all"},
    "pre-norm": {"share_embeddings": "all", "norm": "pre", "decoder_layers": 3},
    "target": {"share_embeddings": "target", "final_norm": True, "norm_epsilon": 0.1},
    "rms": {"normalization": "rms", "norm": "pre", "final_norm": False, "norm_epsilon": 0.1},
    "biases": {"attention_bias": True, "logit_bias": True, "activation": "gelu"},
    "no biases": {"feed_forward_bias": False, "activation": "gelu_tanh", "scale_embeddings": False},
    "gated": {"gated": True, "activation": "silu", "encoder_layers": 1},
    "sizes": {"heads": 2, "d_k": 6, "d_v": 10},
    "grouped": {"heads": 4, "key_value_heads": 2, "positions": "alibi", "attention": "reference"},
    "one key": {"heads": 4, "key_value_heads": 1, "d_k": 2, "positions": "learned"},
    "no positions": {"positions": "none", "attention": "memory_efficient"},
    "rotary": {"positions": "rotary", "norm": "pre"},
    "rotary halves": {
        "positions": "rotary",
        "position_options": {"rotary": {"pairs": "halves", "base": 100.0}},
    },
    "t5": {"positions": "t5", "position_options": {"t5": {"buckets": 8, "reach": 9}}},
    "relative": {"positions": "relative", "position_options": {"relative": {"reach": 3}}},
    "relative values": {
        "positions": "relative",
        "attention": "reference",
        "position_options": {"relative": {"reach": 3, "values": True, "per_head": True}},
    },
}


def trained_run(folder: Path, *, end_bias: float = 0.0, **changes: Any) -> Path:
    """Return a run whose parameters are all random, biases and normalization included."""
    run = make_run(folder, **changes)
    tensors = load_file(run / "model.safetensors")
    for name, tensor in tensors.items():
        if "bias" in name or "norm." in name:  # initially 0 or 1
            tensors[name] = tensor + torch.randn_like(tensor) / 10
    if end_bias:
        tensors["logit_bias"][EOS] = end_bias
    save_file(tensors, run / "model.safetensors")
    return run


def exported(run: Path, *options: str) -> Path:
    folder = run.with_name(f"{run.name}{''.join(options)}.onnx")
    assert headwise(["export", str(run), "--to", "onnx", "-o", str(folder), *options]) == 0
    return folder


class Exported:
    """The encoder and the decoder of an export in ONNX Runtime, as the protocol of our models."""

    def __init__(self, folder: Path) -> None:
        self.encoder, self.decoder = (
            onnxruntime.InferenceSession(folder / f"{name}.onnx") for name in ("encoder", "decoder")
        )
        self.caches: list[list[int]] = json.loads((folder / "headwise.json").read_bytes())["cache"]

    def start(self, source: Tensor, mask: Tensor, beams: int) -> None:
        """Encode a batch, and begin with `beams` rows a sentence."""
        inputs = {"source": source.numpy(), "mask": mask.numpy()}
        names = [each.name for each in self.encoder.get_outputs()]
        self.memory = dict(zip(names, self.encoder.run(None, inputs), strict=True)) | {"mask": mask.numpy()}
        rows = len(source) * beams
        self.past = [np.zeros((rows, heads, 0, size), np.float32) for heads, size in self.caches]

    def step(self, token: Tensor, parent: Tensor) -> NDArray[np.float32]:
        names = [each.name for each in self.decoder.get_inputs() if each.name.startswith("past.")]
        past = dict(zip(names, self.past, strict=True))
        inputs = {"token": token.numpy(), "parent": parent.numpy()}
        *self.past, log_probabilities = self.decoder.run(None, inputs | self.memory | past)
        return log_probabilities


def batch(run: Path, texts: list[str]) -> tuple[Tensor, Tensor]:
    """Return the ids and the mask of a batch of texts."""
    subwords = Subwords.load(run)
    return padded([[*subwords.encode_source(text), EOS] for text in texts], PAD, torch.device("cpu"))


def our_model(run: Path) -> Any:
    subwords = Subwords.load(run)
    return load_model(run, subwords.source_size, subwords.target_size)


@torch.no_grad()
@pytest.mark.parametrize("name", MODELS)
def test_every_step_computes_what_the_model_does(name: str, tmp_path: Path) -> None:
    """Twelve steps over random tokens, each row continuing another one of its sentence; batches of several sizes."""
    run = trained_run(tmp_path / "run", **MODELS[name])
    folder, ours = exported(run), our_model(run)
    theirs = Exported(folder)
    for sentences, beams in ((6, 2), (1, 3), (3, 1)):
        source, mask = batch(run, ENGLISH[:sentences])
        state = ours.start(ours.encode(source, mask), beams)
        theirs.start(source, mask, beams)
        token, parent = torch.full((sentences * beams,), BOS), torch.arange(sentences * beams)
        for _ in range(12):
            expected, state = ours.step(token, state)
            np.testing.assert_allclose(theirs.step(token, parent), expected, rtol=1e-5, atol=1e-5)
            token = torch.randint(EOS + 1, ours.target_size, token.shape)
            first = beams * torch.arange(sentences)[:, None]
            parent = (first + torch.randint(beams, (sentences, beams))).flatten()
            state = state.reorder(parent)


@torch.no_grad()
def test_rows_that_are_left_out_change_nothing(tmp_path: Path) -> None:
    run = trained_run(tmp_path / "run", **MODELS["pre-norm"])
    theirs = Exported(exported(run))
    source, mask = batch(run, ENGLISH)
    theirs.start(source, mask, 2)
    theirs.step(torch.full((12,), BOS), torch.arange(12))
    whole = Exported(run.with_name("run.onnx"))
    whole.memory, whole.past = theirs.memory, theirs.past
    expected = whole.step(torch.arange(12) + 20, torch.arange(12))
    kept = [1, 4]  # sentences
    theirs.memory = {name: value[kept] for name, value in theirs.memory.items()}
    rows = torch.tensor([2, 3, 8, 9])
    np.testing.assert_allclose(theirs.step(rows + 20, rows), expected[rows], rtol=1e-5, atol=1e-5)


def test_the_graphs_are_valid_and_their_sizes_vary(tmp_path: Path) -> None:
    folder = exported(trained_run(tmp_path / "run", **MODELS["grouped"]))
    for name in ("encoder", "decoder"):
        model = onnx.load(folder / f"{name}.onnx")
        onnx.checker.check_model(model, full_check=True)
        assert [each.version for each in model.opset_import] == [20]
    session = onnxruntime.InferenceSession(folder / "decoder.onnx")
    shapes = {each.name: each.shape for each in (*session.get_inputs(), *session.get_outputs())}
    assert shapes["token"] == shapes["parent"] == ["rows"]
    assert shapes["mask"] == ["sentences", "source"]
    assert shapes["memory.1.values"] == ["sentences", 2, "source", 4]
    assert shapes["past.0.keys"] == ["previous rows", 2, "past", 4]
    assert shapes["present.0.keys"] == ["rows", 2, "past + 1", 4]
    assert shapes["log_probabilities"] == ["rows", our_model(tmp_path / "run").target_size]


def test_shared_embeddings_are_stored_once(tmp_path: Path) -> None:
    sizes = {}
    for share in ("all", "none"):
        run = make_run(tmp_path / share, share_embeddings=share, d_model=64)
        sizes[share] = (exported(run) / "decoder.onnx").stat().st_size
    assert sizes["none"] - sizes["all"] == pytest.approx(4 * 64 * Subwords.load(run).target_size, rel=0.01)


def example(folder: Path, texts: list[str]) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLE), str(folder)],
        input="\n".join(texts),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def numbered(run: Path) -> None:
    """Give a run's subwords other ids, as imported models have."""
    subwords = Subwords.load(run)
    ordinary = subwords.source_pieces(range(len(SPECIAL_PIECES), subwords.source_size))
    pieces = (*SPECIAL_PIECES, *reversed(ordinary))
    (run / "spm.model").unlink()
    Subwords(*subwords.models, PairVocabulary(pieces, codes=True)).save(run)
    config = yaml.safe_load((run / "config.yaml").read_text())
    config["subwords"]["kind"] = "imported"
    (run / "config.yaml").write_text(yaml.safe_dump(config))


def test_texts_of_words_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "run")
    numbered(run)
    vocabulary = json.loads((run / "vocabulary.json").read_text())
    (run / "vocabulary.json").write_text(json.dumps(vocabulary | {"split": "words"}))
    assert headwise(["export", str(run), "--to", "onnx", "-o", str(tmp_path / "out")]) == 2
    assert "expected a tokenizer with SentencePiece for this format, found words" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["ends", "limits", "numbered", "letters"])
@pytest.mark.parametrize("beam", [1, 4])
def test_the_example_translates_as_we_do(
    name: str, beam: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Random translations rarely end; a bias of the end symbol makes them end before their limit, or at once."""
    end_bias = {"limits": 0.0, "letters": 30.0}.get(name, 2.0)
    run = trained_run(tmp_path / "run", share_embeddings="all", logit_bias=True, end_bias=end_bias, seed=beam)
    if name == "numbered":
        numbered(run)
    folder = exported(run)
    assert ("a language code such as >>deu<<" in capsys.readouterr().err) == (name == "numbered")
    settings = folder / "headwise.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"beam": beam}))
    texts = [*ENGLISH, "", *GERMAN, "  two ☃☃ dogs  ", " ".join(ENGLISH)]
    ours = Translator.load(run, engine="pytorch", device="cpu")
    with pytest.warns(UserWarning, match="the model reads the first 39"):
        expected = ours.translate(texts, beam=beam)
    found = example(folder, texts)
    assert found == [translation.text for translation in expected]
    assert all(any(map(str.isalnum, text)) for text, source in zip(found, texts, strict=True) if source)
    limits = [min(len(translation.source_pieces) + 4, 39) for translation in expected]
    early = [len(each.outputs[0].tokens) < limit for each, limit in zip(expected, limits, strict=True) if each.text]
    assert any(early) == (end_bias > 0)


def test_two_vocabularies(tmp_path: Path) -> None:
    run = trained_run(tmp_path / "run", size=80, joint=False)
    assert not Subwords.load(run).joint
    folder = exported(run)
    assert {file.name for file in folder.iterdir()} == {
        *("encoder.onnx", "decoder.onnx", "headwise.json", "vocabulary.json"),
        *("spm.source.model", "spm.target.model"),
    }
    expected = Translator.load(run, engine="pytorch", device="cpu").translate(ENGLISH)
    assert example(folder, ENGLISH) == [translation.text for translation in expected]


def test_the_example_is_short() -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 70


def test_the_settings_are_the_runs(tmp_path: Path) -> None:
    folder = exported(make_run(tmp_path / "run"))
    settings = json.loads((folder / "headwise.json").read_bytes())
    assert (settings["pad"], settings["unknown"], settings["begin"], settings["end"]) == (PAD, UNK, BOS, EOS)
    assert (settings["beam"], settings["alpha"], settings["extra_length"]) == (3, 0.6, 4)
    assert settings["max_length"] == 40
    assert settings["precision"] == "float32"


@torch.no_grad()
def test_int8_is_close_and_small(tmp_path: Path) -> None:
    run = trained_run(tmp_path / "run", share_embeddings="all", d_model=64, d_ff=256, norm="pre")
    float32, int8 = exported(run), exported(run, "--precision", "int8")
    for name in ("encoder", "decoder"):
        before, after = ((folder / f"{name}.onnx").stat().st_size for folder in (float32, int8))
        assert after < before / 2
    source, mask = batch(run, ENGLISH)
    probabilities = []
    for folder in (float32, int8):
        model = Exported(folder)
        model.start(source, mask, 1)
        model.step(torch.full((6,), BOS), torch.arange(6))
        probabilities.append(model.step(torch.arange(6) + 30, torch.arange(6)))
    difference = np.abs(probabilities[0] - probabilities[1])
    assert 0 < difference.max() < 0.1 * np.ptp(probabilities[0])
    operators = {node.op_type for node in onnx.load(int8 / "decoder.onnx").graph.node}
    assert "MatMulInteger" in operators
    assert len(example(int8, ENGLISH)) == len(ENGLISH)


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_model_beyond_a_files_limit_has_its_tensors_beside_it(
    precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trained_run(tmp_path / "run", **MODELS["paper"])
    expected = example(exported(run, "--precision", precision), ENGLISH)
    monkeypatch.setattr("headwise.interop.onnx.export._MOST_BYTES", 1000)
    folder = tmp_path / "large"
    command = ["export", str(run), "--to", "onnx", "-o", str(folder), "--precision", precision]
    assert headwise(command) == 0
    assert (folder / "decoder.onnx.data").is_file()
    assert example(folder, ENGLISH) == expected


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"attention": "window", "cross_attention": "fused"}, "model.attention=window"),
        ({"attention": "linear", "cross_attention": "fused"}, "model.attention=linear"),
        ({"attention": "state_space", "cross_attention": "fused"}, "model.attention=state_space"),
        ({"architecture": "recurrent"}, "model.architecture=recurrent"),
        ({"architecture": "convolutional"}, "model.architecture=convolutional"),
    ],
)
def test_a_model_beyond_the_format_is_refused_by_its_keys(
    changes: dict[str, Any], key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run", **changes)
    assert headwise(["export", str(run), "--to", "onnx", "-o", str(tmp_path / "out")]) == 2
    assert f"ONNX Runtime can't express {run}: the export has no {key}" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_unknown_precision_gets_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "run", share_embeddings="all")
    for to, known in (("onnx", "float32 or int8"), ("huggingface", "float32")):
        command = ["export", str(run), "--to", to, "-o", str(tmp_path / "out"), "--precision", "int4"]
        assert headwise(command) == 2
        assert f"--precision: expected {known} for --to {to}, found 'int4'" in capsys.readouterr().err


def test_a_missing_library_gets_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [each for each in sys.modules if each.startswith("headwise.interop.onnx.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnx", None)
    run = make_run(tmp_path / "run")
    assert headwise(["export", str(run), "--to", "onnx", "-o", str(tmp_path / "out")]) == 2
    expected = "--to onnx: needs the package onnx, found none; run `pip install 'headwise[onnx]'`"
    assert expected in capsys.readouterr().err
