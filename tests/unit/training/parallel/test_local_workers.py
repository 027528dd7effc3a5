from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from pathlib import Path

import pytest

from headwise.errors import DataError, TrainingError
from headwise.training.parallel import workers as workers_module
from headwise.training.parallel.workers import Workers

pytestmark = pytest.mark.usefixtures("forked")


def test_the_error_of_a_worker_is_raised_here() -> None:
    expected = pytest.raises(DataError, match=r"^line 3: expected text, found none$")
    with Workers("bad_worker:work", {"way": "mistake"}) as workers, expected:
        workers.meet(2, 1, {})


def test_a_worker_that_ends_without_a_word() -> None:
    expected = pytest.raises(TrainingError, match=r"^worker process 1 was ended with exit code 7 ")
    with Workers("bad_worker:work", {"way": "exit"}) as workers, expected:
        workers.meet(2, 1, {})


def test_workers_that_are_not_needed_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Workers("bad_worker:work", {"way": "ready"}) as workers:
        workers._start(2)
        assert workers.gather(1, 4, {}).size == 1
        assert workers.failure() is None
        assert not list(tmp_path.iterdir())


def test_workers_that_import_already_get_the_job_and_the_others_end() -> None:
    with Workers("bad_worker:work", {"way": "ready"}) as workers:
        workers.prepare(3)
        early = list(workers._importing)
        workers._start(1)
        assert workers._started == early[:1]
        assert [process.wait() for process in early[1:]] == [-signal.SIGKILL] * 2
        workers.prepare(1)
        last = workers._importing[0]
    assert last.wait() == -signal.SIGKILL


def test_a_worker_that_has_exited_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers_module, "_EXIT_TIMEOUT", 600.0)
    with Workers("bad_worker:work", {"way": "ready"}) as workers:
        workers._start(1)
        assert workers.failure() is None  # it has exited, without an error
        with pytest.raises(TrainingError, match=r"^worker process 1 was ended with exit code 0 "):
            workers.meet(2, 1, {})


def test_a_worker_that_is_killed_while_it_joins_is_not_waited_for() -> None:
    began = time.monotonic()
    with Workers("bad_worker:work", {"way": "never joins"}) as workers:
        workers._start(1)
        threading.Timer(0.5, workers._started[0].kill).start()
        with pytest.raises(TrainingError, match=r"^worker process 1 was ended by SIGKILL"):
            workers.meet(2, 1, {})
    assert time.monotonic() - began < 60


def test_a_temporary_directory_that_can_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    expected = rf"^{tmp_path}/missing: can't be written \(No such file or directory\)$"
    with Workers("bad_worker:work", {}) as workers, pytest.raises(TrainingError, match=expected):
        workers.meet(2, 1, {})


def test_no_temporary_directory_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(tmp_path / "missing")])
    expected = r"^TMPDIR: can't be written \(No usable temporary directory found in .*missing'\]\)$"
    with Workers("bad_worker:work", {}) as workers, pytest.raises(TrainingError, match=expected):
        workers.meet(2, 1, {})


def test_ctrl_c_ends_workers_that_still_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers_module, "_EXIT_TIMEOUT", 100.0)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it in the background
    began = time.monotonic()
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        with pytest.raises(KeyboardInterrupt), Workers("bad_worker:work", {"way": "imports"}) as workers:
            workers._start(2)
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - began < 90
