from __future__ import annotations

import threading

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
