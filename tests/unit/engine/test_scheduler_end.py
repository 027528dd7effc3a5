"""The scheduler ends as it is told, and an error is that of the sentences that it concerns."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

from decoding_models import EOS, SYMBOLS, decode, tiny_transformer
from headwise.decoding.engine import PyTorchEngine
from headwise.engine.base import Engine
from headwise.engine.options import SearchOptions
from headwise.engine.scheduling.scheduler import Scheduler
from headwise.errors import CheckpointError
from headwise.models.base import Memory, Seq2Seq
from native_engines import compiled
from paths import ROOT
from scheduler_engines import (
    ENDLESS,
    OPTIONS,
    SAMPLED,
    SIZE,
    SOURCES,
    assert_alike,
    both,
    linux,
    native,
    submit,
    threads,
    transformer,
    until,
)


@both
@linux
def test_closing_finishes_or_cancels_and_ends_the_threads(make: Callable[[], Engine]) -> None:
    engine = make()
    decode(engine, SOURCES[:1], OPTIONS[0], SYMBOLS)  # PyTorch may start threads of its own
    before = threads()
    scheduler = Scheduler(engine, SYMBOLS)
    futures = [submit(scheduler, source, OPTIONS[0]) for source in SOURCES]
    scheduler.close(finish=True)
    assert all(future.done() and not future.cancelled() for future in futures)
    scheduler.close(finish=True)
    with pytest.raises(RuntimeError, match="the scheduler is closed"):
        submit(scheduler, SOURCES[0], OPTIONS[0])

    scheduler = Scheduler(engine, SYMBOLS, batch_tokens=30)
    futures = [submit(scheduler, [5, 6, EOS], ENDLESS) for _ in range(40)]
    until(lambda: scheduler.load.running >= 1)
    scheduler.close(finish=False)
    assert all(future.cancelled() for future in futures)
    until(lambda: threads() == before)
    assert scheduler.load.running == scheduler.load.waiting == 0


@both
@linux
def test_a_scheduler_that_is_forgotten_ends_its_threads(make: Callable[[], Engine]) -> None:
    engine, before = make(), threads()
    future = submit(Scheduler(engine, SYMBOLS), [5, EOS], ENDLESS)
    gc.collect()
    assert future.cancelled()
    until(lambda: threads() == before)


@both
def test_an_error_in_a_with_statement_cancels(make: Callable[[], Engine]) -> None:
    scheduler = Scheduler(make(), SYMBOLS)
    future = submit(scheduler, [5, EOS], ENDLESS)

    def fail() -> None:
        with scheduler:
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert future.cancelled()


EXIT = """
import sys
sys.path[:0] = sys.argv[1:]
from decoding_models import SYMBOLS
from headwise.engine.scheduling.scheduler import Scheduler
from scheduler_engines import ENDLESS, engines, submit
schedulers = [Scheduler(engine(), SYMBOLS) for engine in engines().values()]
futures = [submit(scheduler, [5, 3], ENDLESS) for scheduler in schedulers for _ in range(3)]
print(len(futures))
"""


@compiled
def test_a_process_ends_although_sentences_run() -> None:
    assert in_a_process(EXIT) == "6\n"


def in_a_process(program: str) -> str:
    """Return the output of a Python program that finds the support of the tests."""
    command = [sys.executable, "-c", program, str(ROOT / "tests" / "support")]
    # AddressSanitizer kills a process that runs out of memory, even if the exception would be handled.
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600, env=environment)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


MEMORY = """
import resource, sys
sys.path[:0] = sys.argv[1:]
from decoding_models import EOS, SYMBOLS, decode
from headwise.engine.options import SearchOptions
from headwise.engine.scheduling.scheduler import Scheduler
from scheduler_engines import OPTIONS, native, submit
engine = native(workers=1, positions="none")
expected = decode(engine, [[5, EOS]], OPTIONS[0], SYMBOLS)[0]
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
with Scheduler(engine, SYMBOLS) as scheduler:
    resource.setrlimit(resource.RLIMIT_AS, (used + (150 << 20),) * 2)
    wide = SearchOptions(beam=512, min_length=2**20)
    futures = [submit(scheduler, [5, EOS], wide) for _ in range(4)]
    print({repr(future.exception()) for future in futures})
    print(submit(scheduler, [5, EOS], OPTIONS[0]).result() == expected)
"""


@pytest.mark.slow
@linux
@compiled
def test_where_memory_runs_out_the_sentence_fails_and_the_next_is_searched() -> None:
    assert in_a_process(MEMORY) == """{"MemoryError('there is not enough memory')"}\nTrue\n"""


@compiled
def test_a_sentence_that_needs_too_many_positions_fails_alone() -> None:
    engine = native(workers=1)  # of 64 positions
    with Scheduler(engine, SYMBOLS) as scheduler:
        long = submit(scheduler, [5, EOS], SearchOptions(min_length=80))
        others = [submit(scheduler, source, OPTIONS[0]) for source in SOURCES]
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
    model = Damaged(transformer(), 17)
    with Scheduler(PyTorchEngine(model), SYMBOLS) as scheduler:
        first = submit(scheduler, [5, EOS], OPTIONS[1])  # a batch of its own, until all have arrived
        until(lambda: scheduler.load.running == 1)
        futures = [submit(scheduler, [word, EOS], OPTIONS[1]) for word in (16, 17, 18)]
        sampled = submit(scheduler, [16, EOS], SAMPLED)
        model.open.set()
        assert isinstance(futures[1].exception(timeout=60), MemoryError)
        found = [future.result(timeout=60) for future in (first, futures[0], futures[2])]
        sampled.result(timeout=60)
    for ours, word in zip(found, (5, 16, 18), strict=True):
        assert_alike(ours, decode(transformer(), [[word, EOS]], OPTIONS[1], SYMBOLS)[0])
    # The first, one for all of equal options, again one by one, and the sampled one.
    assert model.batches == [1, 3, 1, 1, 1, 1]


def test_a_damaged_model_is_an_error_of_each_sentence() -> None:
    model = tiny_transformer(SIZE)
    with torch.no_grad():
        model.output_weight.fill_(torch.nan)
    with (
        Scheduler(PyTorchEngine(model), SYMBOLS) as scheduler,
        pytest.raises(CheckpointError, match="finite"),
    ):
        submit(scheduler, [5, EOS], OPTIONS[0]).result(timeout=60)


class Broken:
    """An open search in which a thread fails as soon as there is a sentence."""

    def __init__(self) -> None:
        self.begun, self.freed = threading.Event(), threading.Event()

    def add(self, *_: object, client: int = 0, **__: object) -> int:
        self.begun.set()
        return 0

    def next_finished(self) -> object:
        self.begun.wait()
        raise MemoryError("there is not enough memory")

    def stop(self) -> None:
        self.begun.set()

    def free(self) -> None:
        self.freed.set()

    def cancel(self, number: int) -> None: ...
    def close(self) -> None: ...
    def load(self) -> object: ...


@compiled
def test_a_search_that_fails_as_a_whole_is_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, broken = native(), Broken()
    searches = [broken, engine.open_search(SYMBOLS, 4096)]
    monkeypatch.setattr(type(engine), "open_search", lambda *_: searches.pop(0))
    with Scheduler(engine, SYMBOLS) as scheduler:
        failed = submit(scheduler, [5, EOS], OPTIONS[0])
        with pytest.raises(MemoryError, match="there is not enough memory"):
            failed.result(timeout=60)
        assert broken.freed.wait(60)
        until(lambda: scheduler.load.running == 0)
        found = submit(scheduler, [5, EOS], OPTIONS[0]).result(timeout=60)
    assert found == decode(engine, [[5, EOS]], OPTIONS[0], SYMBOLS)[0]
