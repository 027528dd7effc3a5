from __future__ import annotations

import gc
import threading
import weakref

import pytest

from headwise.errors import TrainingError
from headwise.training.background import BackgroundWork


def test_work_goes_on_until_it_is_waited_for() -> None:
    work, go, done = BackgroundWork("test"), threading.Event(), threading.Event()

    def run() -> None:
        go.wait(60)
        done.set()

    work.start(run)
    assert not done.is_set()
    go.set()
    work.wait()
    assert done.is_set()
    work.wait()


def test_an_error_is_raised_once_by_the_next_wait() -> None:
    def fail() -> None:
        raise TrainingError("the disk is full")

    work = BackgroundWork("test")
    work.start(fail)
    with pytest.raises(TrainingError, match="the disk is full"):
        work.start(fail)
    work.start(fail)
    work.abandon()


def test_what_the_work_held_is_released_with_its_error() -> None:
    held: list[weakref.ref[threading.Event]] = []

    def fail() -> None:
        kept = threading.Event()
        held.append(weakref.ref(kept))
        raise OSError("the disk is full")

    gc.disable()  # which would release it some time later
    try:
        work = BackgroundWork("work")
        work.start(fail)
        with pytest.raises(OSError, match="the disk is full"):
            work.wait()
        assert held[0]() is None
    finally:
        gc.enable()
