"""Native search jobs stop on request, on failure and when freed, also repeatedly."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from decoding_models import SYMBOLS
from headwise import bounds
from headwise.config import ModelConfig
from headwise.engine.base import SearchSentence
from headwise.engine.native.engine import NativeEngine
from headwise.engine.native.job import SearchJob
from headwise.engine.options import SearchOptions
from headwise.models.transformer import Transformer
from native_engines import compiled, native_engine, search_at_once
from paths import ROOT
from scheduler_engines import linux, threads

SIZE = 30
ENDLESS = SearchOptions(beam=4, min_length=bounds.LENGTH)  # would take hours unless stopped

pytestmark = compiled


def build(positions: str = "none") -> NativeEngine:
    shape = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 8, "d_ff": 12, "heads": 2, "max_length": 16}
    torch.manual_seed(1)
    model = Transformer(ModelConfig.model_validate(shape | {"positions": positions}), SIZE, SIZE)
    return native_engine(model, workers=3)


def job(engine: NativeEngine, options: SearchOptions = ENDLESS, sentences: int = 9) -> SearchJob:
    search = SearchJob(engine.models, SYMBOLS)
    search.add([SearchSentence([5, 6, 3], options)] * sentences)
    search.close()
    return search


@linux
def test_a_search_that_is_stopped_ends_and_has_no_results() -> None:
    before = threads()
    with job(build()) as search:
        search.start(2, 3)
        assert threads() == before + 3
        search.stop()
        search.wait()
        with pytest.raises(ValueError, match="expected 9 finished sentences, found 0"):
            search.finished()
    assert threads() == before


@linux
def test_freeing_stops_and_waits_and_does_no_harm_twice() -> None:
    before = threads()
    search = job(build())  # only the job references the engine
    search.start(2, 3)
    time.sleep(0.05)  # let the search run
    search.free()
    assert threads() == before
    search.free()
    del search
    other = job(build())
    other.start(2, 3)
    del other
    assert threads() == before


def test_a_job_is_started_once_with_sizes_that_can_be() -> None:
    options = SearchOptions(extra_length=2)
    with job(build(), options) as search:
        for sentences, workers, sentence in (
            (0, 1, "expected sentences at once from 1 to"),
            (2**28, 1, "expected sentences at once from 1 to"),
            (1, 0, "expected workers from 1 to"),
            (1, 10**6, "expected workers from 1 to"),
        ):
            with pytest.raises(ValueError, match=sentence):
                search.start(sentences, workers)
        with pytest.raises(ValueError, match="expected a job that was started"):
            search.finished()
        search.start(2, 2)
        with pytest.raises(ValueError, match="expected a job that was not started before"):
            search.start(2, 2)
        with pytest.raises(ValueError, match="expected a job that was not closed"):
            search.add([SearchSentence([5, 3], options)])
        assert len(search.finished()) == 9
    with pytest.raises(ValueError, match="expected a job, found none"):
        search.start(2, 2)


def test_an_open_search_takes_batches_of_any_number_of_tokens() -> None:
    search = build().open_search(SYMBOLS, bounds.COUNT)  # a run's decoding.batch_tokens, at most
    number = search.add([SearchSentence([5, 6, 3], SearchOptions(max_length=3))])
    found, running = search.next_finished()
    search.free()
    assert ([each.number for each in found], running) == ([number], True)


@linux
def test_an_error_in_one_thread_ends_all_and_is_raised() -> None:
    before = threads()
    engine = build("sinusoidal")  # of 16 positions
    options = SearchOptions(min_length=20, max_length=20)
    with pytest.raises(ValueError, match="expected no more tokens than there are positions"):
        search_at_once(engine, [[5, 6, 3]] * 9, options, 2)
    assert threads() == before
    assert len(search_at_once(engine, [[5, 6, 3]] * 9, SearchOptions(max_length=9), 2)) == 9


MEMORY = """
import resource, sys
sys.path[:0] = sys.argv[1:]
from test_native_job import SearchOptions, build, search_at_once
engine = build()
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (400 << 20),) * 2)
try:
    search_at_once(engine, [[5, 6, 3]] * 9, SearchOptions(beam=512, min_length=2**20), 2)
except MemoryError as error:
    print(error)
"""


@pytest.mark.slow
@linux
def test_memory_that_runs_out_in_one_thread_ends_all() -> None:
    command = [sys.executable, "-c", MEMORY, str(Path(__file__).parent), str(ROOT / "tests" / "support")]
    # AddressSanitizer kills a process that runs out of memory, even if the exception would be handled.
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600, env=environment)
    assert (ended.returncode, ended.stdout) == (0, "there is not enough memory\n"), ended.stderr
