from __future__ import annotations

import copy
import math
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from headwise.config import Config, ModelConfig
from headwise.decoding import engine as pytorch_engines
from headwise.decoding.engine import PyTorchEngine, fastest_engine
from headwise.decoding.ensemble import Ensemble
from headwise.decoding.translator_model import is_ensemble, pytorch_model, with_model
from headwise.engine import loading
from headwise.engine.base import Engine
from headwise.engine.loading import EngineOptions, open_run
from headwise.engine.native.engine import NativeEngine, length_groups, unsupported
from headwise.engine.native.positions import ADDED, INSIDE, alibi_biases, t5_biases
from headwise.engine.native.shapes import parameter_shapes
from headwise.engine.translator import Translator
from headwise.errors import CheckpointError, ConfigError
from headwise.models.build import build_model, load_model, load_weights, weightless
from headwise.nn.attention_positions import alibi_slopes, t5_bucket
from headwise.nn.positions import Encoding, position_encodings
from headwise.weights import Weights, write_quantized
from native_engines import compiled
from translator_run import ENGLISH, make_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs") / "de")


@compiled
def test_auto_takes_the_native_engine_and_says_so(run: Path) -> None:
    opened = open_run(run, EngineOptions(device="cpu", workers=3))
    assert isinstance(opened.engine, NativeEngine)
    assert opened.engine.description.startswith("native engine (")
    assert opened.engine.description.endswith("), float32, 3 workers")


def test_without_its_library_auto_is_readable_and_says_why(run: Path, monkeypatch) -> None:
    monkeypatch.setattr(loading, "find_library", lambda: "it was not compiled")
    opened = open_run(run, EngineOptions(device="cpu"))
    assert isinstance(opened.engine, PyTorchEngine)
    assert opened.engine.description == "pytorch engine (cpu), float32; native: it was not compiled"
    with pytest.raises(ConfigError, match="the native engine can't be used: it was not compiled"):
        open_run(run, EngineOptions("native", device="cpu"))
    with pytest.raises(ConfigError, match="int8 needs the native engine, but it was not compiled"):
        open_run(run, EngineOptions(precision="int8", device="cpu"))


def test_wrong_names_are_named() -> None:
    with pytest.raises(
        ConfigError, match=r"engine: expected one of auto, pytorch, native, or ray to .* -o OUT, found 'fast'"
    ):
        EngineOptions("fast")
    with pytest.raises(ConfigError, match="precision: expected auto, float32, bfloat16, int8, found 'int4'"):
        EngineOptions(precision="int4")
    with pytest.raises(ConfigError, match="workers: expected a whole number of at least 0, found -1"):
        EngineOptions(workers=-1)


@compiled
@pytest.mark.parametrize("engine", ["native", "pytorch"])
def test_both_engines_refuse_a_key_of_another_architecture(engine: str, run: Path, tmp_path: Path) -> None:
    changed = shutil.copytree(run, tmp_path / "run")
    text = (run / "config.yaml").read_text(encoding="utf-8")
    (changed / "config.yaml").write_text(text.replace("cell: gru", "cell: lstm"), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"model\.recurrent\.cell: expected nothing here, .* found 'lstm'"):
        Translator.load(changed, engine=engine)


@compiled
def test_both_engines_translate_alike(run: Path) -> None:
    native = Translator.load(run, engine="native").translate(ENGLISH, n_best=3)
    readable = Translator.load(run, engine="pytorch").translate(ENGLISH, n_best=3)
    for ours, theirs in zip(native, readable, strict=True):
        assert [o.tokens for o in ours.outputs] == [o.tokens for o in theirs.outputs]
        assert [o.score for o in ours.outputs] == pytest.approx([o.score for o in theirs.outputs], abs=1e-4)


@compiled
def test_another_model_put_in_place_translates(run: Path) -> None:
    translator = Translator.load(run, engine="native")
    before = [t.text for t in translator.translate(ENGLISH)]
    model = copy.deepcopy(pytorch_model(translator))
    other = with_model(translator, model)
    with torch.no_grad():
        model.output_weight.neg_()
    assert pytorch_model(other) is model
    assert [t.text for t in other.translate(ENGLISH)] != before
    assert [t.text for t in translator.translate(ENGLISH)] == before


@compiled
def test_the_native_engine_translates_without_pytorch(run: Path) -> None:
    program = (
        "import sys; from headwise.engine.translator import Translator; "
        f"t = Translator.load({str(run)!r}, engine='native', device='cpu'); "
        f"print(t.translate({ENGLISH[:2]!r})[1].text); print('torch' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    text, imported = ended.stdout.splitlines()
    assert imported == "False"
    assert text == Translator.load(run, engine="native", device="cpu").translate(ENGLISH[:2])[1].text


SIZES: dict[str, Any] = {"encoder_layers": 2, "decoder_layers": 1, "d_model": 12, "d_ff": 18, "heads": 4}


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("share", ["all", "target", "none"])
@pytest.mark.parametrize("positions", [*ADDED, *INSIDE])
@pytest.mark.parametrize(
    "others",
    [
        {},
        {"key_value_heads": 2, "d_k": 6, "d_v": 7, "gated": True, "final_norm": True}
        | {"normalization": "rms", "position_options": {"relative": {"values": True, "per_head": True}}}
        | {"attention": "reference"},
    ],
)
def test_the_shapes_that_the_native_engine_expects_are_those_of_the_model(
    norm: str, bias: bool, share: str, positions: str, others: dict[str, Any]
) -> None:
    biases = dict.fromkeys(("attention_bias", "feed_forward_bias", "logit_bias"), bias)
    changes = {"norm": norm, "share_embeddings": share, "positions": positions}
    config = ModelConfig.model_validate(SIZES | {"d_k": 4} | biases | changes | others)
    assert unsupported(config) is None
    model = weightless(lambda: build_model(config, 9, 9))
    expected = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    assert list(parameter_shapes(config, 9, 9).items()) == list(expected.items())


@pytest.mark.parametrize("encoding", position_encodings(), ids=lambda encoding: encoding.name)
def test_the_tables_of_positions_are_those_of_the_model(encoding: Encoding) -> None:
    assert (encoding.name in ADDED) == (encoding.inside is None)
    assert (encoding.name in INSIDE) == (encoding.inside is not None)
    if encoding.table is None:
        return
    expected, found = encoding.table(300, 16), ADDED[encoding.name](300, 16)
    if found is None:
        assert expected is None or isinstance(expected, nn.Parameter)
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("buckets", [4, 8, 32, 60])
@pytest.mark.parametrize("reach", [31, 128, 1000])
def test_every_distance_is_in_the_bucket_of_the_model(causal: bool, buckets: int, reach: int) -> None:
    found = t5_biases(np.arange(buckets, dtype=np.float32)[:, None], reach, causal=causal)
    expected = t5_bucket(torch.arange(-reach, reach + 1), causal=causal, buckets=buckets, reach=reach)
    assert found.tolist() == [expected.tolist()]


@pytest.mark.parametrize("heads", [1, 2, 6, 8, 12])
def test_the_biases_of_alibi_are_those_of_the_model(heads: int) -> None:
    expected = -torch.tensor(alibi_slopes(heads))[:, None] * torch.arange(-9, 10).abs()
    assert alibi_biases(heads, 9).tolist() == expected.tolist()


@compiled
def test_an_ensemble_of_native_models_votes_without_pytorch(run: Path, tmp_path: Path) -> None:
    other = make_run(tmp_path / "other", seed=1)
    translator = Translator.load([run, other], engine="native", device="cpu")
    assert isinstance(translator.engine, NativeEngine)
    native = translator.translate(ENGLISH, alignments=True)
    readable = Translator.load([run, other], engine="pytorch").translate(ENGLISH, alignments=True)
    assert [t.outputs[0].tokens for t in native] == [t.outputs[0].tokens for t in readable]
    assert [t.outputs[0].alignment for t in native] == [t.outputs[0].alignment for t in readable]
    assert is_ensemble(translator)
    assert isinstance(pytorch_model(translator), Ensemble)


@compiled
def test_an_ensemble_with_a_model_that_only_pytorch_supports_says_so(run: Path, tmp_path: Path) -> None:
    other = make_run(tmp_path / "other", seed=1, residual=False)
    translator = Translator.load([run, other], device="cpu")
    assert translator.description.startswith("pytorch engine (cpu), float32; native: it can't do model.residual=false")
    expected = Translator.load([run, other], engine="pytorch").translate(ENGLISH)
    assert translator.translate(ENGLISH) == expected


@pytest.mark.parametrize("precision", ["int8", "bfloat16"])
def test_a_quantized_file_keeps_its_numbers_to_that_precision(run: Path, tmp_path: Path, precision: str) -> None:
    path = tmp_path / "model.safetensors"
    write_quantized(run / "model.safetensors", path, precision)
    original, stored = load_file(run / "model.safetensors"), Weights(path)
    assert stored.precision == precision
    assert stored.names == set(original)
    for name, tensor in original.items():
        restored = stored.get(name)
        assert restored is not None
        restored = torch.from_numpy(restored)
        if tensor.dim() != 2:
            assert torch.equal(restored, tensor)
            continue
        largest = tensor.abs().amax(1, keepdim=True)
        step = largest / 127 if precision == "int8" else tensor.abs() / 128
        assert ((restored - tensor).abs() <= step / 2 * 1.0001).all()
        assert not torch.equal(restored, tensor)
    matrices = sum(tensor.numel() for tensor in original.values() if tensor.dim() == 2)
    saved = (run / "model.safetensors").stat().st_size - path.stat().st_size
    assert saved > matrices * (2.5 if precision == "int8" else 1.9)


@compiled
def test_a_quantized_run_translates_in_its_precision(run: Path, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    for file in run.iterdir():
        (small / file.name).write_bytes(file.read_bytes())
    write_quantized(run / "model.safetensors", small / "model.safetensors", "int8")
    in_memory = Translator.load(run, precision="int8", engine="native")
    from_disk = Translator.load(small)
    assert ", int8, " in from_disk.description
    ours, theirs = (t.translate(ENGLISH, n_best=3) for t in (in_memory, from_disk))
    # Rounding again changes no weight, so only the embeddings differ.
    same = [a.text == b.text for a, b in zip(ours, theirs, strict=True)]
    assert sum(same) >= len(same) - 1


def test_a_quantized_file_that_does_not_fit_is_named(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    write_quantized(run / "model.safetensors", path, "int8")
    config = Config.load(run / "config.yaml")
    model = build_model(config.model.model_copy(update={"d_ff": 33}), 150, 150)
    with pytest.raises(CheckpointError, match=r"expected encoder.0.feed_forward.w1.weight of shape \(33, 16\)"):
        load_weights(model, path)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(CheckpointError, match="expected a safetensors file, found a damaged one"):
        Weights(path)


def test_every_engine_reads_a_quantized_run(run: Path, tmp_path: Path) -> None:
    write_quantized(run / "model.safetensors", tmp_path / "model.safetensors", "int8")
    (tmp_path / "config.yaml").write_bytes((run / "config.yaml").read_bytes())
    model = load_model(tmp_path, 150, 150)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


@pytest.mark.parametrize("lengths", [[], [1], [5, 1, 9, 10, 4, 5, 2, 2, 1]])
def test_similar_groups_hold_every_row_once_and_no_row_half_as_long_as_another(lengths: list[int]) -> None:
    groups = list(length_groups(lengths))
    assert sorted(row for group in groups for row in group) == list(range(len(lengths)))
    for group in groups:
        group_lengths = [lengths[row] for row in group]
        assert group_lengths == sorted(group_lengths, reverse=True)
        assert min(group_lengths) * 2 >= max(group_lengths)


@compiled
def test_the_fastest_engine_has_the_parameters_of_the_moment(run: Path) -> None:
    loaded = open_run(run, EngineOptions("pytorch", device="cpu"))
    assert isinstance(loaded.engine, PyTorchEngine)
    model, config = loaded.engine.model, loaded.config

    def translations(engine: Engine) -> list[tuple[int, ...]]:
        translator = Translator(engine, loaded.subwords, config.decoding)
        return [t.outputs[0].tokens for t in translator.translate(ENGLISH, beam=2)]

    before = fastest_engine(model, config.model, loaded.subwords)
    assert isinstance(before, NativeEngine)
    assert before.workers == torch.get_num_threads()
    expected = translations(PyTorchEngine(model))
    assert translations(before) == expected
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    after = fastest_engine(model, config.model, loaded.subwords)
    assert translations(after) == translations(PyTorchEngine(model)) != expected
    assert translations(before) == expected  # it took a copy


def test_where_nothing_is_faster_the_model_decodes_itself(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = open_run(run, EngineOptions("pytorch", device="cpu"))
    assert isinstance(loaded.engine, PyTorchEngine)
    model, options = loaded.engine.model, loaded.config.model
    windowed = options.model_copy(update={"attention": "window"})
    assert isinstance(fastest_engine(model, windowed, loaded.subwords), PyTorchEngine)
    with torch.no_grad():
        next(model.parameters())[0, 0] = math.nan
    assert isinstance(fastest_engine(model, options, loaded.subwords), PyTorchEngine)
    with torch.no_grad():
        next(model.parameters())[0, 0] = 0.0
    assert isinstance(fastest_engine(model, options, loaded.subwords), NativeEngine)
    monkeypatch.setattr(pytorch_engines, "find_library", lambda: "it was not compiled")
    assert isinstance(fastest_engine(model, options, loaded.subwords), PyTorchEngine)
