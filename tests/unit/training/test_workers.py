from __future__ import annotations

import pytest

from headwise.errors import DataError, TrainingError
from headwise.training.workers import Workers


def test_the_error_of_a_worker_is_raised_here() -> None:
    expected = pytest.raises(DataError, match=r"^line 3: expected text, found none$")
    with Workers("bad_worker", {"way": "mistake"}) as workers, expected:
        workers.keep(1)


def test_a_worker_that_ends_without_a_word() -> None:
    expected = pytest.raises(TrainingError, match=r"^worker process 1 was ended with exit code 7 ")
    with Workers("bad_worker", {"way": "exit"}) as workers, expected:
        workers.keep(1)


def test_workers_that_are_not_needed_end() -> None:
    with Workers("bad_worker", {"way": "ready"}) as workers:
        workers.keep(2)
        assert workers.gather(1, 4, {}).size == 1
        assert workers.failure() is None
