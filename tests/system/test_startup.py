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
from program import call, environment
from toy import Toy

HEAVY = {"torch", "numpy", "pydantic", "sentencepiece", "matplotlib", "sacrebleu", "typer", "rich", "yaml"}


def imported(program: str) -> set[str]:
    """Run Python code in a new process, and return the names of the packages that it imported."""
    end = (
        "import json as _j, sys as _s; print('\\n' + _j.dumps(sorted({n.split('.')[0] for n in _s.modules})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\n{end}"],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], []])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    names = imported(f"from headwise.cli.main import run; assert run({arguments}) == 0")
    assert "headwise" in names
    assert not names & HEAVY


def test_importing_headwise_is_light() -> None:
    names = imported("import headwise")
    assert "headwise" in names
    assert not names & HEAVY


def test_threads_of_pytorchs_openmp_sleep_while_they_wait() -> None:
    """GNU's OpenMP prints its settings when it is loaded."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    libraries = [
        file
        for folder in spec.submodule_search_locations or []
        for file in Path(folder, "lib").glob("libgomp*.so*")
    ]
    if not libraries:
        pytest.skip("this PyTorch has another OpenMP")
    program = f"import headwise, ctypes; ctypes.CDLL({str(libraries[0])!r})"
    for more, expected in (({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "active"}, "ACTIVE")):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=environment(OMP_DISPLAY_ENV="true", **more),
            capture_output=True,
            text=True,
            check=True,
        )
        assert f"OMP_WAIT_POLICY = '{expected}'" in done.stderr


def test_no_command_imports_torch_for_its_help() -> None:
    names = imported(
        f"from headwise.cli.main import run\nfor c in {list(COMMANDS)}: assert run([c, '--help']) == 0"
    )
    assert "typer" in names
    assert "torch" not in names


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_shows_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = call(capsys, name, "--help")
    assert outcome.code == 0
    assert f"headwise {name}" in outcome.out
    assert "Example" in outcome.out or name == "data"  # its subcommands have examples


def test_training_does_not_import_the_compiler_of_pytorch(toy: Toy, tmp_path: Path) -> None:
    arguments = ["train", "-c", str(toy.config), "-o", str(tmp_path / "run"), "--max-steps=1"]
    names = imported(f"from headwise.cli.main import run; assert run({arguments}) == 0")
    assert "torch" in names
    assert "sympy" not in names  # imported by PyTorch's compiler, torch._dynamo


def stamps(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir() if path.is_file()}


def test_prepared_text_is_reused(toy: Toy, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    first = call(capsys, "train", "-c", toy.config, "--max-steps=1", "-o", run)
    assert "reading and cleaning the text" in first.err
    assert "found ready" not in first.err
    before = stamps(run / "prepared")
    assert len(before) > 10
    for more in (["--max-steps=2"], ["--max-steps=1", "--restart", "model.d_ff=64"]):
        again = call(capsys, "train", "-c", toy.config, "-o", run, *more)
        assert f"{run}/prepared: found ready" in again.err
        assert "reading and cleaning the text" not in again.err
        assert stamps(run / "prepared") == before
    # Another vocabulary size needs other prepared text.
    other = call(
        capsys, "train", "-c", toy.config, "-o", run, "--restart", "--max-steps=1", "subwords.size=47"
    )
    assert "reading and cleaning the text" in other.err
    assert stamps(run / "prepared") != before


def test_a_copy_of_the_text_need_not_be_read_again(
    toy: Toy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "copy.src"
    text.write_bytes(toy.source.read_bytes())
    command = ("train", "-c", toy.config, f"data.source=[{text}]", "-o", tmp_path / "run")
    assert call(capsys, *command, "--max-steps=1").code == 0
    os.utime(text, (1, 1))
    assert "found ready" in call(capsys, *command, "--max-steps=2").err
