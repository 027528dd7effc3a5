"""Child processes import the same modules as their parent, and nothing from the working directory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from headwise.errors import DataError
from headwise.processes import ChildEnded, Children, child_environment, python_command
from paths import ROOT

_CODE = "import sys, importlib.util as u; print(u.find_spec('planted') is not None, u.find_spec('headwise').origin)"


def _child(code: str) -> list[str]:
    done = subprocess.run(
        python_command("-c", code), env=child_environment(), capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a module and another headwise in it."""
    (tmp_path / "planted.py").write_text("")
    (tmp_path / "headwise").mkdir()
    (tmp_path / "headwise" / "__init__.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return tmp_path


@pytest.mark.parametrize("entry", ["", ".", None])
def test_the_working_directory_is_not_searched(
    planted: Path, monkeypatch: pytest.MonkeyPatch, entry: str | None
) -> None:
    monkeypatch.syspath_prepend(str(planted) if entry is None else entry)  # as `python -m` and a prompt do
    here = ROOT / "src" / "headwise" / "__init__.py"
    assert _child(_CODE) == ["False", str(here)]


def test_a_path_that_was_asked_for_is_searched(planted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(planted))
    monkeypatch.syspath_prepend(str(planted))
    assert _child(_CODE)[0] == "True"


def test_the_children_of_children_are_safe_too(planted: Path) -> None:
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {_CODE!r}], check=True)"
    assert _child(code)[0] == "False"


def test_a_child_starts_where_the_working_directory_is_gone(planted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = planted / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert str(Path(sys.executable).parent) in python_command()[0]
    assert child_environment()["PYTHONSAFEPATH"] == "1"
    os.chdir(planted)


def doubled(values: Iterable[int]) -> Iterator[int]:
    """Reply to each value; 0 is a mistake, and to -1 nothing more is said."""
    for value in values:
        print("noise")
        if value == 0:
            raise DataError("expected another number, found 0")
        if value == -1:
            os.kill(os.getpid(), signal.SIGKILL)
        yield 2 * value


def slept(values: Iterable[float]) -> Iterator[None]:
    for value in values:
        time.sleep(value)
        yield None


def test_children_answer_and_raise_their_errors_here() -> None:
    with Children("test_processes:doubled", 2) as children:
        assert [each.result() for each in map(children.submit, [1, 2, 3])] == [2, 4, 6]
        with pytest.raises(DataError, match=r"^expected another number, found 0$"):
            children.submit(0).result()
    with Children("test_processes:doubled", 1) as children:
        with pytest.raises(ChildEnded, match="a child process was ended by SIGKILL"):
            children.submit(-1).result()
        with pytest.raises(ChildEnded):
            children.submit(1).result()


def test_a_child_starts_only_where_none_is_idle() -> None:
    with Children("test_processes:slept", 2) as children:
        for _ in range(2):
            children.submit(0).result()
            assert len(children._children) == 1
        for each in [children.submit(0.5) for _ in range(4)]:
            each.result()
        assert len(children._children) == 2


@pytest.mark.skipif(not hasattr(signal, "SIGRTMIN"), reason="macOS has no such signals")
def test_the_end_by_a_signal_without_a_name_is_said() -> None:
    code = f"import os, signal; os.kill(os.getpid(), {signal.SIGRTMIN + 1})"
    ended = subprocess.run(python_command("-c", code), check=False).returncode
    assert str(ChildEnded(ended)).startswith(f"a child process was ended by signal {signal.SIGRTMIN + 1} (")


def test_children_end_with_the_block_and_with_their_parent() -> None:
    with Children("test_processes:doubled", 1) as children:
        children.submit(1).result()
        (child,) = children._children
        assert child.wait() is None
    assert child.wait() == -signal.SIGKILL
    code = (
        "import os, sys; from headwise.processes import Child\n"
        "child = Child('test_processes:doubled'); child.send(1); child.receive()\n"
        "print(child._process.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    command = python_command("-c", code)
    parent = subprocess.run(command, env=child_environment(), capture_output=True, text=True, check=False)
    stat, deadline = Path(f"/proc/{int(parent.stdout)}/stat"), time.monotonic() + 60
    while stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_program_ends_while_its_children_work() -> None:
    """As after Ctrl-C, when a thread that prepares data can't be told to stop."""
    code = (
        "import threading; from headwise.processes import Children\n"
        "children = Children('test_processes:slept', 1)\n"
        "threading.Thread(target=children.submit(600).result, daemon=True).start()"
    )
    command = python_command("-c", code)
    assert subprocess.run(command, env=child_environment(), check=False, timeout=60).returncode == 0
