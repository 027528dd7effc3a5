from __future__ import annotations

import copy
import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from headwise.config import Config
from headwise.decoding import batching
from headwise.decoding.batching import length_groups
from headwise.engine import loading
from headwise.engine.loading import EngineOptions, fastest_engine, open_run
from headwise.engine.native.transformer import NativeTransformer
from headwise.engine.translator import Translator
from headwise.errors import CheckpointError, ConfigError
from headwise.models.base import Seq2Seq
from headwise.models.build import build_model, load_model, load_weights
from headwise.models.weights import Weights, write_quantized
from headwise.native.library import Library, find_library
from headwise.nn.recording import recording
from translator_run import ENGLISH, make_run

compiled = pytest.mark.skipif(
    not isinstance(find_library(), Library),
    reason="the native engine was not compiled (pip install -e . with a C++ compiler)",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs") / "de")


@compiled
def test_auto_takes_the_native_engine_and_says_so(run: Path) -> None:
    opened = open_run(run, EngineOptions(device="cpu", workers=3))
    assert isinstance(opened.model, NativeTransformer)
    assert opened.engine.startswith("native engine (")
    assert opened.engine.endswith("), float32, 3 workers")


def test_without_its_library_auto_is_readable_and_says_why(run: Path, monkeypatch) -> None:
    monkeypatch.setattr(loading, "find_library", lambda: "it was not compiled")
    opened = open_run(run, EngineOptions(device="cpu"))
    assert opened.model.readable is opened.model
    assert opened.engine == "pytorch engine (cpu), float32; native: it was not compiled"
    with pytest.raises(ConfigError, match="the native engine can't be used: it was not compiled"):
        open_run(run, EngineOptions("native", device="cpu"))
    with pytest.raises(ConfigError, match="int8 needs the native engine, but it was not compiled"):
        open_run(run, EngineOptions(precision="int8", device="cpu"))


def test_wrong_names_are_named() -> None:
    with pytest.raises(ConfigError, match="engine: expected one of auto, pytorch, native, found 'fast'"):
        EngineOptions("fast")
    with pytest.raises(ConfigError, match="precision: expected auto, float32, bfloat16, int8, found 'int4'"):
        EngineOptions(precision="int4")
    with pytest.raises(ConfigError, match="workers: expected a whole number of at least 0, found -1"):
        EngineOptions(workers=-1)


@compiled
def test_both_engines_translate_alike(run: Path) -> None:
    native = Translator.load(run, engine="native").translate(ENGLISH, n_best=3)
    readable = Translator.load(run, engine="readable").translate(ENGLISH, n_best=3)
    for ours, theirs in zip(native, readable, strict=True):
        assert [o.tokens for o in ours.outputs] == [o.tokens for o in theirs.outputs]
        assert [o.score for o in ours.outputs] == pytest.approx([o.score for o in theirs.outputs], abs=1e-4)


@compiled
def test_a_changed_model_is_what_translates(run: Path) -> None:
    translator = Translator.load(run, engine="native")
    before = [t.text for t in translator.translate(ENGLISH)]
    assert translator.model is translator.search_model.readable
    assert isinstance(translator.search_model, NativeTransformer)
    with recording(translator.model) as records:
        assert translator.search_model is translator.model
        translator.translate(ENGLISH[:1])
    assert records.attended
    assert isinstance(translator.search_model, NativeTransformer)
    with torch.no_grad():
        translator.model.output_weight.neg_()
    assert translator.search_model is translator.model
    assert [t.text for t in translator.translate(ENGLISH)] != before


@compiled
def test_another_model_put_in_place_translates(run: Path) -> None:
    translator = Translator.load(run, engine="native")
    twin = copy.deepcopy(translator)
    model = copy.deepcopy(translator.model)
    with torch.no_grad():
        model.output_weight.neg_()
    twin.model = model
    assert twin.search_model is model
    assert twin.translate(ENGLISH)[0].text != translator.translate(ENGLISH)[0].text


@compiled
def test_an_ensemble_of_native_models_votes(run: Path, tmp_path: Path) -> None:
    other = make_run(tmp_path / "other", seed=1)
    native = Translator.load([run, other], engine="native").translate(ENGLISH)
    readable = Translator.load([run, other], engine="readable").translate(ENGLISH)
    assert [t.outputs[0].tokens for t in native] == [t.outputs[0].tokens for t in readable]


@compiled
def test_the_workers_of_an_ensemble_search_at_once(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [run, make_run(tmp_path / "other", seed=1)]
    one, two = (Translator.load(runs, device="cpu", workers=workers) for workers in (1, 2))
    one.batch_tokens = two.batch_tokens = 60  # several batches
    expected = one.translate(ENGLISH)
    at_once = threading.Barrier(2, timeout=60)  # a single thread never passes it
    first_two = iter(range(2))

    def search(*arguments: Any, real: Callable[..., Any] = batching.search, **more: Any) -> Any:
        if next(first_two, None) is not None:
            at_once.wait()
        return real(*arguments, **more)

    monkeypatch.setattr(batching, "search", search)
    assert two.translate(ENGLISH) == expected
    assert next(first_two, None) is None


@pytest.mark.parametrize("precision", ["int8", "bfloat16"])
def test_a_quantized_file_keeps_its_numbers_to_that_precision(
    run: Path, tmp_path: Path, precision: str
) -> None:
    path = tmp_path / "model.safetensors"
    write_quantized(run / "model.safetensors", path, precision)
    original, stored = load_file(run / "model.safetensors"), Weights(path)
    assert stored.precision == precision
    assert stored.names == set(original)
    for name, tensor in original.items():
        restored = stored.get(name)
        assert restored is not None
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
    assert ", int8, " in from_disk.engine
    ours, theirs = (t.translate(ENGLISH, n_best=3) for t in (in_memory, from_disk))
    # Rounding again changes no weight, so only the embeddings differ.
    same = [a.text == b.text for a, b in zip(ours, theirs, strict=True)]
    assert sum(same) >= len(same) - 1


def test_a_quantized_file_that_does_not_fit_is_named(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    write_quantized(run / "model.safetensors", path, "int8")
    config = Config.load(run / "config.yaml")
    model = build_model(config.model.model_copy(update={"d_ff": 33}), 150, 150)
    with pytest.raises(
        CheckpointError, match=r"expected encoder.0.feed_forward.w1.weight of shape \(33, 16\)"
    ):
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
    model, config = loaded.model, loaded.config

    def translations(engine: Seq2Seq) -> list[tuple[int, ...]]:
        translator = Translator(engine, loaded.subwords, config.decoding)
        return [t.outputs[0].tokens for t in translator.translate(ENGLISH, beam=2)]

    before = fastest_engine(model, config.model, loaded.subwords)
    assert isinstance(before, NativeTransformer)
    assert before.workers == torch.get_num_threads()
    expected = translations(model)
    assert translations(before) == expected
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    after = fastest_engine(model, config.model, loaded.subwords)
    assert translations(after) == translations(model) != expected
    assert translations(before) == expected  # it took a copy


def test_where_nothing_is_faster_the_model_decodes_itself(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = open_run(run, EngineOptions("pytorch", device="cpu"))
    model, options = loaded.model, loaded.config.model
    relative = options.model_copy(update={"positions": "relative"})
    assert fastest_engine(model, relative, loaded.subwords) is model
    with torch.no_grad():
        next(model.parameters())[0, 0] = math.nan
    assert fastest_engine(model, options, loaded.subwords) is model
    model = open_run(run, EngineOptions("pytorch", device="cpu")).model
    monkeypatch.setattr(loading, "find_library", lambda: "it was not compiled")
    assert fastest_engine(model, options, loaded.subwords) is model
