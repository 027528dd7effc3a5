"""Start-up is fast: torch is imported only for computation, and prepared text is reused."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headwise.cli.main import COMMANDS
from program import Call, environment
from toy import Toy

HEAVY = {"torch", "numpy", "pydantic", "sentencepiece", "matplotlib", "sacrebleu", "typer", "rich", "yaml"}


def imported(program: str) -> set[str]:
    """Run Python code in a new process, and return the names of the packages that it imported."""
    end = "import json as _j, sys as _s; print('\\n' + _j.dumps(sorted({n.split('.')[0] for n in _s.modules})))"
    return set(json.loads(python(f"{program}\n{end}").stdout.splitlines()[-1]))


def python(program: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=environment(**more), capture_output=True, text=True, check=True)


RUN = "from headwise.cli.main import run"


@pytest.mark.parametrize(
    "program",
    ["import headwise", *(f"{RUN}; assert run({words}) == 0" for words in ([], ["--help"], ["--version"]))],
)
def test_the_package_and_its_help_import_nothing_heavy(program: str) -> None:
    names = imported(program)
    assert "headwise" in names
    assert not names & HEAVY


def test_threads_of_pytorchs_openmp_sleep_while_they_wait() -> None:
    """GNU's OpenMP prints its settings when it is loaded."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    libraries = [
        file for folder in spec.submodule_search_locations or [] for file in Path(folder, "lib").glob("libgomp*.so*")
    ]
    if not libraries:
        pytest.skip("this PyTorch has another OpenMP")
    program = f"import headwise, ctypes; ctypes.CDLL({str(libraries[0])!r})"
    for more, expected in (({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "active"}, "ACTIVE")):
        said = python(program, OMP_DISPLAY_ENV="true", **more).stderr
        assert f"OMP_WAIT_POLICY = '{expected}'" in said


def test_no_command_imports_torch_for_its_help() -> None:
    names = imported(f"{RUN}\nfor c in {list(COMMANDS)}: assert run([c, '--help']) == 0")
    assert "typer" in names
    assert "torch" not in names


@pytest.mark.slow
def test_training_does_not_import_the_compiler_of_pytorch(toy: Toy, tmp_path: Path) -> None:
    arguments = ["train", "-c", str(toy.config), "-o", str(tmp_path / "run"), "--max-steps=1"]
    names = imported(f"{RUN}; assert run({arguments}) == 0")
    assert "torch" in names
    assert "sympy" not in names  # imported by PyTorch's compiler, torch._dynamo


def stamps(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir() if path.is_file()}


def test_prepared_text_is_reused(toy: Toy, tmp_path: Path, program: Call) -> None:
    run = tmp_path / "run"
    first = program("train", "-c", toy.config, "--max-steps=1", "-o", run)
    assert "reading and cleaning the text" in first.err
    assert "found ready" not in first.err
    before = stamps(run / "prepared")
    assert len(before) > 10
    for more in (["--max-steps=2"], ["--max-steps=1", "--restart", "model.d_ff=64"]):
        again = program("train", "-c", toy.config, "-o", run, *more)
        assert f"{run}/prepared: found ready" in again.err
        assert "reading and cleaning the text" not in again.err
        assert stamps(run / "prepared") == before
    # Another vocabulary size needs other prepared text.
    other = program("train", "-c", toy.config, "-o", run, "--restart", "--max-steps=1", "subwords.size=47")
    assert "reading and cleaning the text" in other.err
    assert stamps(run / "prepared") != before


def test_a_copy_of_the_text_need_not_be_read_again(toy: Toy, tmp_path: Path, program: Call) -> None:
    text = tmp_path / "copy.src"
    text.write_bytes(toy.source.read_bytes())
    command = ("train", "-c", toy.config, f"data.source=[{text}]", "-o", tmp_path / "run")
    program(*command, "--max-steps=1").ok()
    os.utime(text, (1, 1))
    assert "found ready" in program(*command, "--max-steps=2").err
