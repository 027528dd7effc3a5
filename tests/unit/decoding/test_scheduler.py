"""The scheduler: results don't depend on what else runs, clients share it, and cancelled sentences leave it."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import gc
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from decoding_models import EOS, SYMBOLS, sentences, tiny_transformer
from headwise.decoding.batching import decode
from headwise.decoding.beam.hypothesis import Hypothesis
from headwise.decoding.native.library import PRECISIONS, Library, find_library
from headwise.decoding.native.transformer import NativeTransformer
from headwise.decoding.options import SearchOptions
from headwise.decoding.scheduling.load import HALF_LIFE, Load, Meter
from headwise.decoding.scheduling.scheduler import Scheduler
from headwise.errors import CheckpointError, ConfigError, DataError
from headwise.models.base import Memory, Seq2Seq
from headwise.models.transformer import Transformer
from paths import ROOT

SIZE = 50
SOURCES = [*sentences(20, SIZE, seed=7), [EOS]]
OPTIONS = [
    SearchOptions(),
    SearchOptions(beam=1),
    SearchOptions(beam=5, n_best=5, alpha=1.3, allow_unknown=True),
    SearchOptions(beam=3, min_length=9, extra_length=12),
    SearchOptions(beam=2, n_best=2, patience=3.0, max_length=7),
]
SAMPLED = SearchOptions(sample=True, n_best=2, max_length=9, seed=4)
ENDLESS = SearchOptions(beam=4, min_length=50_000)  # would take minutes unless cancelled

native_only = pytest.mark.skipif(
    not isinstance(find_library(), Library),
    reason="the native engine was not compiled (pip install -e . with a C++ compiler)",
)
linux = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted in /proc")


class Unreserved(Transformer):
    """A model that reserves no memory for the longest output, so that `ENDLESS` is searched."""

    def start(self, memory: Memory, beams: int = 1, capacity: int | None = None) -> Any:
        return super().start(memory, beams, 64)


@cache
def readable(positions: str = "learned") -> Transformer:
    model = tiny_transformer(SIZE, positions=positions)
    model.__class__ = Unreserved
    return model


@cache
def native(precision: str = "float32", workers: int = 2, positions: str = "learned") -> NativeTransformer:
    library, model = find_library(), readable(positions)
    assert isinstance(library, Library)
    parameters = dict(model.named_parameters()).get
    engine = NativeTransformer(
        model.config, SIZE, SIZE, parameters, library=library, precision=precision, readable=lambda: model
    )
    engine.workers = workers
    return engine


def engines() -> dict[str, Callable[[], Seq2Seq]]:
    """Return a model for each kind of batching, with positions that have no end."""
    return {"dynamic": lambda: readable("none"), "continuous": lambda: native(workers=1, positions="none")}


both = pytest.mark.parametrize(
    "model",
    [
        pytest.param(make, id=name, marks=[native_only] if name == "continuous" else [])
        for name, make in engines().items()
    ],
)


def shortlist(source: Sequence[int]) -> NDArray[np.int32]:
    rng = np.random.default_rng(list(source))
    return np.union1d(rng.integers(4, SIZE, 20), EOS).astype(np.int32)


@cache
def expected(precision: str, source: int, options: int, listed: bool) -> list[Hypothesis]:
    """Return what `decode` finds for a sentence alone."""
    lists = shortlist if listed else None
    return decode(native(precision), [SOURCES[source]], OPTIONS[options], SYMBOLS, shortlist=lists)[0]


def threads() -> int:
    """Return the number of threads of this process, including the library's."""
    return len(list(Path("/proc/self/task").iterdir()))


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition; fails after a minute."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def assert_alike(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    """Compare results of the PyTorch engine, which rounds differently in other batches."""
    assert [each.tokens for each in found] == [each.tokens for each in expected]
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.token_log_probabilities == pytest.approx(theirs.token_log_probabilities, abs=1e-4)


ARRIVALS = st.lists(
    st.tuples(
        st.integers(0, len(SOURCES) - 1),
        st.integers(0, len(OPTIONS) - 1),
        st.booleans(),  # with a shortlist
        st.sampled_from(["", "page", "document"]),
        st.sampled_from(["kept", "kept", "kept", "cancelled at once", "cancelled later"]),
    ),
    max_size=60,
)


@native_only
@pytest.mark.parametrize("precision", PRECISIONS)
@given(arrivals=ARRIVALS, workers=st.integers(1, 3), batch_tokens=st.sampled_from([1, 300, 4096]))
def test_no_result_depends_on_what_else_runs(
    precision: str, arrivals: list[tuple[int, int, bool, str, str]], workers: int, batch_tokens: int
) -> None:
    with Scheduler(native(precision, workers), SYMBOLS, batch_tokens=batch_tokens) as scheduler:
        futures = []
        for source, options, listed, client, fate in arrivals:
            allowed = shortlist(SOURCES[source]) if listed else None
            future = scheduler.submit(SOURCES[source], OPTIONS[options], client=client, allowed=allowed)
            if fate == "cancelled at once":
                future.cancel()
            futures.append(future)
        for future, arrival in zip(futures, arrivals, strict=True):
            if arrival[-1] == "cancelled later":
                future.cancel()
    for future, (source, options, listed, _, fate) in zip(futures, arrivals, strict=True):
        assert fate != "kept" or not future.cancelled()
        if not future.cancelled():
            assert future.result(timeout=0) == expected(precision, source, options, listed)
    assert scheduler.load == Load(tokens_per_second=scheduler.load.tokens_per_second)


@native_only
def test_prefixes_and_samples_are_searched_beside_the_open_search() -> None:
    engine, prefixes = native(), [[9, 8], [], [7]]
    with Scheduler(engine, SYMBOLS) as scheduler:
        plain = [scheduler.submit(source, OPTIONS[0]) for source in SOURCES]
        begun = [
            scheduler.submit(source, OPTIONS[0], prefix=prefix)
            for source, prefix in zip(SOURCES, prefixes, strict=False)
        ]
        drawn = [scheduler.submit(source, SAMPLED) for source in SOURCES]
        assert [each.result() for each in plain] == decode(engine, SOURCES, OPTIONS[0], SYMBOLS)
    found = [each.result() for each in begun]
    for ours, theirs in zip(
        found, decode(engine, SOURCES[:3], OPTIONS[0], SYMBOLS, prefixes=prefixes), strict=True
    ):
        assert_alike(ours, theirs)
    for each, theirs in zip(drawn, decode(engine, SOURCES, SAMPLED, SYMBOLS), strict=True):
        assert_alike(each.result(), theirs)


@settings(max_examples=20)
@given(arrivals=ARRIVALS, batch_tokens=st.sampled_from([1, 300, 4096]))
def test_dynamic_batches_have_the_results_of_decode(
    arrivals: list[tuple[int, int, bool, str, str]], batch_tokens: int
) -> None:
    with Scheduler(readable(), SYMBOLS, batch_tokens=batch_tokens) as scheduler:
        futures: list[Future[list[Hypothesis]]] = []
        for source, options, listed, client, fate in arrivals:
            allowed = shortlist(SOURCES[source]) if listed else None
            futures.append(
                scheduler.submit(SOURCES[source], OPTIONS[options], client=client, allowed=allowed)
            )
            if fate != "kept":
                futures[-1].cancel()
    for future, (source, options, listed, _, _) in zip(futures, arrivals, strict=True):
        if not future.cancelled():
            assert_alike(future.result(timeout=0), expected_readable(source, options, listed))


@cache
def expected_readable(source: int, options: int, listed: bool) -> list[Hypothesis]:
    lists = shortlist if listed else None
    return decode(readable(), [SOURCES[source]], OPTIONS[options], SYMBOLS, shortlist=lists)[0]


@both
def test_a_short_request_does_not_wait_for_a_document(model: Callable[[], Seq2Seq]) -> None:
    """One sentence at a time, so that the order of completion is that of the queue."""
    order: list[str] = []
    lock = threading.Lock()

    def finished(name: str, _: object) -> None:
        with lock:
            order.append(name)

    with Scheduler(model(), SYMBOLS, batch_tokens=1) as scheduler:
        first = scheduler.submit([5, EOS], ENDLESS)  # holds the others back until all have arrived
        until(lambda: scheduler.load.running == 1)
        names = ["document"] * 60 + ["page", "robot", "page"]
        options = SearchOptions(max_length=3)  # 8 sentences of 16 tokens have a turn
        for name in names:
            future = scheduler.submit([5, 6, 7, EOS], options, client=name)
            future.add_done_callback(lambda each, name=name: finished(name, each))
        assert scheduler.load.waiting == 63
        assert scheduler.load.waiting_tokens == 4 * 63
        first.cancel()
    assert len(order) == 63
    assert order[8:11] == ["page", "page", "robot"]
    assert set(order[11:]) == {"document"}


@both
def test_cancelling_frees_the_rows_and_changes_no_other_result(model: Callable[[], Seq2Seq]) -> None:
    with Scheduler(model(), SYMBOLS) as scheduler:
        endless = [scheduler.submit(source, ENDLESS) for source in SOURCES[:5]]
        others = [scheduler.submit(source, OPTIONS[0]) for source in SOURCES[5:10]]
        until(lambda: scheduler.load.running >= 4)
        for number, future in enumerate(endless):
            assert future.cancel()
            assert future.cancel()
            until(lambda left=4 - number: scheduler.load.running <= left + 5)
        done, waiting = concurrent.futures.wait([*endless, *others], timeout=60)
        assert not waiting
        assert done >= {*endless, *others}
        until(lambda: scheduler.load.rows == 0)
        load = scheduler.load
        assert dataclasses.astuple(load)[:4] == (0, 0, 0, 0)
        assert load.tokens_per_second > 0
        for future in endless:
            with pytest.raises(CancelledError):
                future.result()
    for future, source in zip(others, SOURCES[5:10], strict=True):
        assert_alike(future.result(), decode(model(), [source], OPTIONS[0], SYMBOLS)[0])


@both
def test_a_cancelled_sentence_that_waits_is_removed_at_once(model: Callable[[], Seq2Seq]) -> None:
    with Scheduler(model(), SYMBOLS, batch_tokens=1) as scheduler:
        running = scheduler.submit([5, EOS], ENDLESS)
        until(lambda: scheduler.load.running == 1)
        futures = [scheduler.submit([5, 6, EOS], ENDLESS) for _ in range(9)]
        last = scheduler.submit([5, 6, EOS], OPTIONS[1])
        assert scheduler.load.waiting == 10
        assert scheduler.load.waiting_tokens == 30
        for future in random.Random(1).sample(futures, 9):
            future.cancel()
        assert dataclasses.astuple(scheduler.load)[:4] == (1, 3, 1, 4)
        assert concurrent.futures.wait(futures, timeout=0).not_done == set()
        running.cancel()
        assert last.result(timeout=60)


@both
@linux
def test_closing_finishes_or_cancels_and_ends_the_threads(model: Callable[[], Seq2Seq]) -> None:
    engine = model()
    decode(engine, SOURCES[:1], OPTIONS[0], SYMBOLS)  # PyTorch may start threads of its own
    before = threads()
    scheduler = Scheduler(engine, SYMBOLS)
    futures = [scheduler.submit(source, OPTIONS[0]) for source in SOURCES]
    scheduler.close(finish=True)
    assert all(future.done() and not future.cancelled() for future in futures)
    scheduler.close(finish=True)
    with pytest.raises(RuntimeError, match="the scheduler is closed"):
        scheduler.submit(SOURCES[0], OPTIONS[0])

    scheduler = Scheduler(engine, SYMBOLS, batch_tokens=30)
    futures = [scheduler.submit([5, 6, EOS], ENDLESS) for _ in range(40)]
    until(lambda: scheduler.load.running >= 1)
    scheduler.close(finish=False)
    assert all(future.cancelled() for future in futures)
    until(lambda: threads() == before)
    assert scheduler.load.running == scheduler.load.waiting == 0


@both
@linux
def test_a_scheduler_that_is_forgotten_ends_its_threads(model: Callable[[], Seq2Seq]) -> None:
    engine, before = model(), threads()
    future = Scheduler(engine, SYMBOLS).submit([5, EOS], ENDLESS)
    gc.collect()
    assert future.cancelled()
    until(lambda: threads() == before)


@both
def test_an_error_in_a_with_statement_cancels(model: Callable[[], Seq2Seq]) -> None:
    scheduler = Scheduler(model(), SYMBOLS)
    future = scheduler.submit([5, EOS], ENDLESS)

    def fail() -> None:
        with scheduler:
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert future.cancelled()


EXIT = """
import sys
sys.path[:0] = sys.argv[1:]
from test_scheduler import ENDLESS, SYMBOLS, Scheduler, engines
schedulers = [Scheduler(engine(), SYMBOLS) for engine in engines().values()]
futures = [scheduler.submit([5, 3], ENDLESS) for scheduler in schedulers for _ in range(3)]
print(len(futures))
"""


@native_only
def test_a_process_ends_although_sentences_run() -> None:
    assert in_a_process(EXIT) == "6\n"


def in_a_process(program: str) -> str:
    """Return the output of a Python program that finds this module and the tests' support."""
    command = [sys.executable, "-c", program, str(Path(__file__).parent), str(ROOT / "tests" / "support")]
    # AddressSanitizer kills a process that runs out of memory, even if the exception would be handled.
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600, env=environment)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


MEMORY = """
import resource, sys
sys.path[:0] = sys.argv[1:]
from test_scheduler import EOS, OPTIONS, SYMBOLS, Scheduler, SearchOptions, decode, native
engine = native(workers=1, positions="none")
expected = decode(engine, [[5, EOS]], OPTIONS[0], SYMBOLS)[0]
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
with Scheduler(engine, SYMBOLS) as scheduler:
    resource.setrlimit(resource.RLIMIT_AS, (used + (150 << 20),) * 2)
    wide = SearchOptions(beam=512, min_length=2**20)
    futures = [scheduler.submit([5, EOS], wide) for _ in range(4)]
    print({repr(future.exception()) for future in futures})
    print(scheduler.submit([5, EOS], OPTIONS[0]).result() == expected)
"""


@linux
@native_only
def test_where_memory_runs_out_the_sentence_fails_and_the_next_is_searched() -> None:
    assert in_a_process(MEMORY) == """{"MemoryError('there is not enough memory')"}\nTrue\n"""


@native_only
def test_a_sentence_that_needs_too_many_positions_fails_alone() -> None:
    engine = native(workers=1)  # of 64 positions
    with Scheduler(engine, SYMBOLS) as scheduler:
        long = scheduler.submit([5, EOS], SearchOptions(min_length=80))
        others = [scheduler.submit(source, OPTIONS[0]) for source in SOURCES]
        with pytest.raises(ValueError, match="expected no more tokens than there are positions"):
            long.result(timeout=60)
        assert [each.result() for each in others] == decode(engine, SOURCES, OPTIONS[0], SYMBOLS)


class Damaged(Seq2Seq):
    """A model whose encoder fails for batches with one word, and which counts the sentences of its batches."""

    def __init__(self, model: Seq2Seq, word: int) -> None:
        super().__init__()
        self.model, self.word, self.batches = model, word, list[int]()
        self.source_size, self.target_size = model.source_size, model.target_size
        self.max_length = model.max_length
        self.open = threading.Event()

    def encode(self, source: torch.Tensor, mask: torch.Tensor) -> Memory:
        self.open.wait()
        self.batches.append(len(source))
        if (source == self.word).any():
            raise MemoryError("no memory for this word")
        return self.model.encode(source, mask)

    def start(self, *arguments: Any) -> Any:
        return self.model.start(*arguments)

    def step(self, *arguments: Any) -> Any:
        return self.model.step(*arguments)

    def decode(self, memory: Memory, target_input: torch.Tensor) -> torch.Tensor:
        return self.model.decode(memory, target_input)

    @property
    def output_weight(self) -> torch.Tensor:
        return self.model.output_weight


def test_an_error_of_a_dynamic_batch_is_that_of_its_sentence() -> None:
    model = Damaged(readable(), 17)
    with Scheduler(model, SYMBOLS) as scheduler:
        first = scheduler.submit([5, EOS], OPTIONS[1])  # a batch of its own, until all have arrived
        until(lambda: scheduler.load.running == 1)
        futures = [scheduler.submit([word, EOS], OPTIONS[1]) for word in (16, 17, 18)]
        sampled = scheduler.submit([16, EOS], SAMPLED)
        model.open.set()
        assert isinstance(futures[1].exception(timeout=60), MemoryError)
        found = [future.result(timeout=60) for future in (first, futures[0], futures[2])]
        sampled.result(timeout=60)
    for ours, word in zip(found, (5, 16, 18), strict=True):
        assert_alike(ours, decode(readable(), [[word, EOS]], OPTIONS[1], SYMBOLS)[0])
    assert model.batches == [
        1,
        3,
        1,
        1,
        1,
        1,
    ]  # one for all of equal options, again one by one, and the sampled one


def test_a_damaged_model_is_an_error_of_each_sentence() -> None:
    model = tiny_transformer(SIZE)
    with torch.no_grad():
        model.output_weight.fill_(torch.nan)
    with Scheduler(model, SYMBOLS) as scheduler, pytest.raises(CheckpointError, match="finite"):
        scheduler.submit([5, EOS], OPTIONS[0]).result(timeout=60)


class Broken:
    """An open search in which a thread fails as soon as there is a sentence."""

    def __init__(self) -> None:
        self.begun, self.freed = threading.Event(), threading.Event()

    def add(self, *_: object, client: int = 0) -> int:
        self.begun.set()
        return 0

    def wait(self, least: int, milliseconds: int) -> object:
        self.begun.wait()
        raise MemoryError("there is not enough memory")

    def collect(self, progress: object) -> list[Any]:
        return []

    def stop(self) -> None:
        self.begun.set()

    def free(self) -> None:
        self.freed.set()

    def cancel(self, number: int) -> None: ...
    def close(self) -> None: ...
    def load(self) -> object: ...


@native_only
def test_a_search_that_fails_as_a_whole_is_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, broken = native(), Broken()
    searches = [broken, engine.open_search(SYMBOLS, 4096)]
    monkeypatch.setattr(type(engine), "open_search", lambda *_: searches.pop(0))
    with Scheduler(engine, SYMBOLS) as scheduler:
        failed = scheduler.submit([5, EOS], OPTIONS[0])
        with pytest.raises(MemoryError, match="there is not enough memory"):
            failed.result(timeout=60)
        assert broken.freed.wait(60)
        until(lambda: scheduler.load.running == 0)
        found = scheduler.submit([5, EOS], OPTIONS[0]).result(timeout=60)
    assert found == decode(engine, [[5, EOS]], OPTIONS[0], SYMBOLS)[0]


@both
def test_what_is_submitted_is_checked(model: Callable[[], Seq2Seq]) -> None:
    with Scheduler(model(), SYMBOLS) as scheduler:
        for arguments, changes, sentence in (
            (([5, SIZE, EOS], OPTIONS[0]), {}, "source 1: expected ids from 0 to 49, found 50"),
            (([], OPTIONS[0]), {}, "source 1: expected ids, the end symbol at least, found none"),
            (([5, EOS], OPTIONS[0]), {"prefix": [-1]}, "prefix 1: expected ids from 0 to 49, found -1"),
            (([5, EOS], OPTIONS[0]), {"allowed": np.array([5], np.int32)}, "expected the end symbol 3"),
        ):
            with pytest.raises(DataError, match=sentence):
                scheduler.submit(*arguments, **changes)
        assert scheduler.load == Load()


def test_options_that_an_engine_does_not_support_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object, options: object) -> None:
        raise ConfigError("engine: ctranslate2 supports no such option")

    monkeypatch.setattr(Transformer, "own_search", refuse)
    with Scheduler(readable(), SYMBOLS) as scheduler, pytest.raises(ConfigError, match="ctranslate2"):
        scheduler.submit([5, EOS], SAMPLED)


@native_only
def test_thousands_of_submissions_from_several_threads() -> None:
    engine = native()
    everything = decode(engine, SOURCES, OPTIONS[0], SYMBOLS)

    def client(number: int) -> int:
        choices = random.Random(number).choices(range(len(SOURCES)), k=1000)
        futures = [scheduler.submit(SOURCES[i], OPTIONS[0], client=f"client {number}") for i in choices]
        for future in futures[::7]:
            future.cancel()
        correct = 0
        for i, future in zip(choices, futures, strict=True):
            correct += future.cancelled() or future.result(timeout=300) == everything[i]
        return correct

    with Scheduler(engine, SYMBOLS) as scheduler, ThreadPoolExecutor(4) as pool:
        assert list(pool.map(client, range(4))) == [1000] * 4


@both
def test_nothing_is_computed_while_there_is_nothing_to_do(model: Callable[[], Seq2Seq]) -> None:
    with Scheduler(model(), SYMBOLS) as scheduler:
        for future in [scheduler.submit(source, OPTIONS[0]) for source in SOURCES]:
            future.result(timeout=60)
        until(lambda: scheduler.load.running == 0)
        before = time.process_time()
        time.sleep(1)
        assert time.process_time() - before < 0.05


def test_the_speed_is_that_of_work_of_late(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    meter = Meter()
    assert meter.rate == 0
    meter.begin()
    now += 2
    meter.begin()
    meter.add(60, idle=False)
    assert meter.rate == 30
    now += 2
    meter.add(60, idle=True)
    assert meter.rate == pytest.approx(30)
    now += 1000  # no work
    meter.begin()
    now += HALF_LIFE
    meter.add(0, idle=False)
    assert 0 < meter.rate < 15
    for _ in range(100):
        now += 1
        meter.add(500, idle=False)
    assert meter.rate == pytest.approx(500, rel=0.01)
    assert Load(1, 2, 3, 4, 5.0) + Load(10, 20, 30, 40, 0.5) == Load(11, 22, 33, 44, 5.5)
