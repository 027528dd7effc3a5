"""Ids outside the vocabulary raise the same one-sentence error in every engine and entry point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from decoding_models import EOS, SYMBOLS, decode
from headwise.config import ModelConfig
from headwise.decoding.engine import PyTorchEngine
from headwise.engine.base import Engine
from headwise.engine.ids import check_ids
from headwise.engine.native.engine import NativeEngine
from headwise.engine.options import SearchOptions
from headwise.engine.scheduling.load import Load
from headwise.engine.scheduling.scheduler import Scheduler
from headwise.engine.translator import Translator
from headwise.errors import DataError
from headwise.models.build import build_decoder_only, build_model
from headwise.models.embedded import EmbeddedSeq2Seq
from headwise.native.library import Library, find_library
from native_engines import native_engine, search_at_once
from scheduler_engines import submit
from translator_run import make_run

SIZE = 30
SHAPE = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 8, "d_ff": 12, "heads": 2, "max_length": 40}
OPTIONS = SearchOptions(beam=2, extra_length=4)


def engines() -> dict[str, Engine]:
    """Return the same Transformer in every engine, and models of the other architectures."""
    config = ModelConfig.model_validate(SHAPE)
    model = build_model(config, SIZE, SIZE).eval()
    found: dict[str, Engine] = {"pytorch": PyTorchEngine(model)}
    for architecture in ("recurrent", "convolutional"):
        sizes = {"d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "max_length": 40}
        other = ModelConfig.model_validate(sizes | {"architecture": architecture, "d_ff": 12, "heads": 2})
        found[architecture] = PyTorchEngine(build_model(other, SIZE, SIZE).eval())
    if isinstance(find_library(), Library):
        assert isinstance(model, EmbeddedSeq2Seq)
        found["native"] = native_engine(model)
    return found


ENGINES = engines()


@pytest.fixture(params=ENGINES.values(), ids=ENGINES.keys())
def engine(request: pytest.FixtureRequest) -> Engine:
    return request.param


@pytest.mark.parametrize(
    ("ids", "found"),
    [
        ([5, SIZE, EOS], "expected ids from 0 to 29, found 30"),
        ([-1, EOS], "expected ids from 0 to 29, found -1"),
        ([2**70, EOS], f"expected ids from 0 to 29, found {2**70}"),
        ([2**32 + 5, EOS], f"expected ids from 0 to 29, found {2**32 + 5}"),
        ([5.0, EOS], "expected ids that are whole numbers, found 5.0"),
        ([True, EOS], "expected ids that are whole numbers, found True"),
        (["5", EOS], "expected ids that are whole numbers, found '5'"),
        ([], "expected ids, the end symbol at least, found none"),
    ],
)
def test_sources_are_named(engine: Engine, ids: list[Any], found: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: decode(engine, [[5, EOS], ids], OPTIONS, SYMBOLS),
        lambda: engine.score([[5, EOS], ids], [[6], [7]], SYMBOLS, alpha=0.6),
        lambda: engine.cross_attention([[5, EOS], ids], [[6], [7]], SYMBOLS),
    ]
    for call in calls:
        with pytest.raises(DataError) as raised:
            call()
        assert str(raised.value) == f"source 2: {found}"
    with Scheduler(engine, SYMBOLS) as scheduler:
        with pytest.raises(DataError) as raised:
            submit(scheduler, ids, OPTIONS)
        assert str(raised.value) == f"source 1: {found}"
        assert scheduler.load == Load()


def test_targets_and_prefixes_are_named(engine: Engine) -> None:
    with pytest.raises(DataError, match=r"^prefix 2: expected ids from 0 to 29, found 30$"):
        decode(engine, [[5, EOS]] * 2, OPTIONS, SYMBOLS, prefixes=[[], [SIZE]])
    prefix = r"^prefix 1: expected ids from 0 to 29, found -1$"
    with Scheduler(engine, SYMBOLS) as scheduler, pytest.raises(DataError, match=prefix):
        submit(scheduler, [5, EOS], OPTIONS, prefix=[-1])
    with pytest.raises(DataError, match=r"^target 1: expected ids from 0 to 29, found -4$"):
        engine.score([[5, EOS]], [[5, -4]], SYMBOLS, alpha=0.6)


@pytest.mark.parametrize(
    ("listed", "sentence"),
    [
        (np.array([EOS, SIZE], np.int32), "expected ids from 0 to 29, found 30"),
        (np.array([-2, EOS], np.int32), "expected ids from 0 to 29, found -2"),
        (np.array([EOS, 9, 8], np.int32), "expected ids in ascending order, found others"),
        (np.array([EOS, 9, 9], np.int32), "expected ids in ascending order, found others"),
        (np.array([4, 9], np.int32), f"expected the end symbol {EOS} among its ids, found none"),
        (np.array([], np.int32), f"expected the end symbol {EOS} among its ids, found none"),
        (np.array([EOS, 9], np.int64), r"expected int32 ids, found int64 of shape \(2,\)"),
        (np.array([[EOS, 9]], np.int32), r"expected int32 ids, found int32 of shape \(1, 2\)"),
    ],
)
def test_lists_are_named(engine: Engine, listed: Any, sentence: str) -> None:
    with pytest.raises(DataError, match=f"^shortlist of sentence 1: {sentence}$"):
        decode(engine, [[5, EOS]], OPTIONS, SYMBOLS, shortlist=lambda source: listed)
    with (
        Scheduler(engine, SYMBOLS) as scheduler,
        pytest.raises(DataError, match=f"^shortlist of sentence 1: {sentence}$"),
    ):
        submit(scheduler, [5, EOS], OPTIONS, allowed=listed)


@pytest.mark.skipif("native" not in ENGINES, reason="the native library isn't there")
def test_the_native_library_refuses_what_was_not_checked() -> None:
    native = ENGINES["native"]
    assert isinstance(native, NativeEngine)
    for bad in (SIZE, -1):
        with pytest.raises(ValueError, match=f"expected a source id from 0 to 29, found {bad}"):
            search_at_once(native, [[5, EOS], [bad, EOS]], OPTIONS, 2)
        listed = np.array([EOS, bad], np.int32)
        with pytest.raises(ValueError, match=f"expected .* from .* to 29, found {bad}"):
            search_at_once(native, [[5, EOS]], OPTIONS, 2, [listed])


def test_forced_decoding_names_them(engine: Engine) -> None:
    for bad in (SIZE, -1):
        for sources, targets in (([[5, EOS], [bad, EOS]], [[5], [5]]), ([[5, EOS]] * 2, [[5], [bad]])):
            with pytest.raises(DataError, match=f" 2: expected ids from 0 to 29, found {bad}"):
                engine.score(sources, targets, SYMBOLS, alpha=0.0)
            with pytest.raises(DataError, match=f" 2: expected ids from 0 to 29, found {bad}"):
                engine.cross_attention(sources, targets, SYMBOLS)


def test_a_language_model_names_them() -> None:
    model = build_decoder_only(ModelConfig(d_model=8, d_ff=12, heads=2, max_length=16), SIZE)
    with pytest.raises(DataError, match="expected ids from 0 to 29, found 30"):
        model(torch.tensor([[5, SIZE]]))


def test_a_translator_names_them(tmp_path: Path) -> None:
    translator = Translator.load(make_run(tmp_path / "run"))
    with pytest.raises(DataError, match="target 2: expected ids from 0 to 149, found 150"):
        translator.score(["A dog.", "A cat."], [[5], [150]])
    with pytest.raises(DataError, match="target 1: expected ids from 0 to 149, found -1"):
        translator.align(["A dog."], [[-1]])


@given(st.lists(st.lists(st.integers(-3, SIZE + 3), min_size=1), min_size=1))
def test_whatever_is_within_passes_and_nothing_else(sequences: list[list[int]]) -> None:
    wrong = [number for number, sequence in enumerate(sequences, 1) if not all(0 <= index < SIZE for index in sequence)]
    kinds: list[Sequence[Sequence[int]]] = [sequences, [np.array(sequence) for sequence in sequences]]  # pyright: ignore[reportAssignmentType]
    for each in kinds:
        if not wrong:
            check_ids(each, SIZE, "source")
            continue
        with pytest.raises(DataError, match=f"^source {wrong[0]}: "):
            check_ids(each, SIZE, "source")
