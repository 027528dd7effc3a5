"""The scheduler: results don't depend on what else runs, clients share it, and cancelled sentences leave it."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decoding_models import EOS, SYMBOLS, decode
from headwise.decoding.engine import PyTorchEngine
from headwise.engine.base import Engine
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.options import SearchOptions
from headwise.engine.scheduling.load import HALF_LIFE, Load, Meter
from headwise.engine.scheduling.scheduler import Scheduler
from headwise.native.library import PRECISIONS
from native_engines import compiled
from scheduler_engines import (
    ENDLESS,
    OPTIONS,
    SAMPLED,
    SOURCES,
    assert_alike,
    both,
    native,
    shortlist,
    submit,
    transformer,
    until,
)


@cache
def expected(precision: str, source: int, options: int, listed: bool) -> list[Hypothesis]:
    """Return what `decode` finds for a sentence alone."""
    lists = shortlist if listed else None
    return decode(native(precision), [SOURCES[source]], OPTIONS[options], SYMBOLS, shortlist=lists)[0]


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


@compiled
@pytest.mark.parametrize("precision", PRECISIONS)
@given(arrivals=ARRIVALS, workers=st.integers(1, 3), batch_tokens=st.sampled_from([1, 300, 4096]))
def test_no_result_depends_on_what_else_runs(
    precision: str, arrivals: list[tuple[int, int, bool, str, str]], workers: int, batch_tokens: int
) -> None:
    with Scheduler(native(precision, workers), SYMBOLS, batch_tokens=batch_tokens) as scheduler:
        futures = []
        for source, options, listed, client, fate in arrivals:
            allowed = shortlist(SOURCES[source]) if listed else None
            future = submit(scheduler, SOURCES[source], OPTIONS[options], client=client, allowed=allowed)
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


@compiled
def test_prefixes_and_samples_join_the_open_search() -> None:
    engine, prefixes = native(), [[9, 8], [], [7]]
    with Scheduler(engine, SYMBOLS) as scheduler:
        plain = [submit(scheduler, source, OPTIONS[0]) for source in SOURCES]
        begun = [
            submit(scheduler, source, OPTIONS[0], prefix=prefix)
            for source, prefix in zip(SOURCES, prefixes, strict=False)
        ]
        drawn = [submit(scheduler, source, SAMPLED) for source in SOURCES]
        assert [each.result() for each in plain] == decode(engine, SOURCES, OPTIONS[0], SYMBOLS)
    found = [each.result() for each in begun]
    for ours, theirs in zip(found, decode(engine, SOURCES[:3], OPTIONS[0], SYMBOLS, prefixes=prefixes), strict=True):
        assert_alike(ours, theirs)
    for each, theirs in zip(drawn, decode(engine, SOURCES, SAMPLED, SYMBOLS), strict=True):
        assert_alike(each.result(), theirs)


@settings(max_examples=20)
@given(arrivals=ARRIVALS, batch_tokens=st.sampled_from([1, 300, 4096]))
def test_dynamic_batches_have_the_results_of_decode(
    arrivals: list[tuple[int, int, bool, str, str]], batch_tokens: int
) -> None:
    with Scheduler(PyTorchEngine(transformer()), SYMBOLS, batch_tokens=batch_tokens) as scheduler:
        futures: list[Future[list[Hypothesis]]] = []
        for source, options, listed, client, fate in arrivals:
            allowed = shortlist(SOURCES[source]) if listed else None
            futures.append(submit(scheduler, SOURCES[source], OPTIONS[options], client=client, allowed=allowed))
            if fate != "kept":
                futures[-1].cancel()
    for future, (source, options, listed, _, _) in zip(futures, arrivals, strict=True):
        if not future.cancelled():
            assert_alike(future.result(timeout=0), expected_by_pytorch(source, options, listed))


@cache
def expected_by_pytorch(source: int, options: int, listed: bool) -> list[Hypothesis]:
    lists = shortlist if listed else None
    return decode(transformer(), [SOURCES[source]], OPTIONS[options], SYMBOLS, shortlist=lists)[0]


@both
def test_a_short_request_does_not_wait_for_a_document(make: Callable[[], Engine]) -> None:
    """One sentence at a time, so that the order of completion is that of the queue."""
    order: list[str] = []
    lock = threading.Lock()

    def finished(name: str, _: object) -> None:
        with lock:
            order.append(name)

    with Scheduler(make(), SYMBOLS, batch_tokens=1) as scheduler:
        first = submit(scheduler, [5, EOS], ENDLESS)  # holds the others back until all have arrived
        until(lambda: scheduler.load.running == 1)
        names = ["document"] * 60 + ["page", "robot", "page"]
        options = SearchOptions(max_length=3)  # 8 sentences of 16 tokens have a turn
        for name in names:
            future = submit(scheduler, [5, 6, 7, EOS], options, client=name)
            future.add_done_callback(lambda each, name=name: finished(name, each))
        assert scheduler.load.waiting == 63
        assert scheduler.load.waiting_tokens == 4 * 63
        first.cancel()
    assert len(order) == 63
    assert order[8:11] == ["page", "page", "robot"]
    assert set(order[11:]) == {"document"}


@both
def test_cancelling_frees_the_rows_and_changes_no_other_result(make: Callable[[], Engine]) -> None:
    with Scheduler(make(), SYMBOLS) as scheduler:
        endless = [submit(scheduler, source, ENDLESS) for source in SOURCES[:5]]
        others = [submit(scheduler, source, OPTIONS[0]) for source in SOURCES[5:10]]
        until(lambda: scheduler.load.running >= 1)  # a dynamic batch may begin before all are submitted
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
        assert_alike(future.result(), decode(make(), [source], OPTIONS[0], SYMBOLS)[0])


@both
def test_a_cancelled_sentence_that_waits_is_removed_at_once(make: Callable[[], Engine]) -> None:
    with Scheduler(make(), SYMBOLS, batch_tokens=1) as scheduler:
        running = submit(scheduler, [5, EOS], ENDLESS)
        until(lambda: scheduler.load.running == 1)
        futures = [submit(scheduler, [5, 6, EOS], ENDLESS) for _ in range(9)]
        last = submit(scheduler, [5, 6, EOS], OPTIONS[1])
        assert scheduler.load.waiting == 10
        assert scheduler.load.waiting_tokens == 30
        for future in random.Random(1).sample(futures, 9):
            future.cancel()
        assert dataclasses.astuple(scheduler.load)[:4] == (1, 3, 1, 4)
        assert concurrent.futures.wait(futures, timeout=0).not_done == set()
        running.cancel()
        assert last.result(timeout=60)


@compiled
def test_thousands_of_submissions_from_several_threads() -> None:
    engine = native()
    everything = decode(engine, SOURCES, OPTIONS[0], SYMBOLS)

    def client(number: int) -> int:
        choices = random.Random(number).choices(range(len(SOURCES)), k=1000)
        futures = [submit(scheduler, SOURCES[i], OPTIONS[0], client=f"client {number}") for i in choices]
        for future in futures[::7]:
            future.cancel()
        correct = 0
        for i, future in zip(choices, futures, strict=True):
            correct += future.cancelled() or future.result(timeout=300) == everything[i]
        return correct

    with Scheduler(engine, SYMBOLS) as scheduler, ThreadPoolExecutor(4) as pool:
        assert list(pool.map(client, range(4))) == [1000] * 4


@both
def test_nothing_is_computed_while_there_is_nothing_to_do(make: Callable[[], Engine]) -> None:
    with Scheduler(make(), SYMBOLS) as scheduler:
        for future in [submit(scheduler, source, OPTIONS[0]) for source in SOURCES]:
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
