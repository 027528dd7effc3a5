"""Modules in the working directory: neither a command nor its child processes import them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from program import environment

_MODULES = ("numpy", "json", "torch", "yaml", "sentencepiece", "safetensors", "subprocess", "tempfile", "csv")
_LINES = 100_001  # enough to be encoded in child processes


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with text, and with modules that write a file if they are imported."""
    folder = tmp_path_factory.mktemp("planted")
    for name in _MODULES:
        (folder / f"{name}.py").write_text(
            f"open({str(folder / 'MARK')!r}, 'a').write({name!r})\nraise SystemExit(9)\n"
        )
    for side in ("source", "target"):
        (folder / side).write_text("".join(f"{side[0]}{i % 40} b c\n" for i in range(_LINES)))
    return folder


def _run(folder: Path, *arguments: str, text: str = "", start: tuple[str, ...] = ("-P", "-m", "headwise")) -> str:
    done = subprocess.run(
        [sys.executable, *start, *arguments], cwd=folder, input=text, env=environment(), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert not (folder / "MARK").exists(), (arguments, (folder / "MARK").read_text())
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_no_command_imports_from_the_working_directory(planted: Path) -> None:
    config = """
data: {source: [source], target: [target], dev_pairs: 10, workers: 2}
model: {encoder_layers: 1, decoder_layers: 1, d_model: 8, d_ff: 8, heads: 1}
subwords: {size: 50, dropout: 0.1}
batch: {tokens: 64}
training: {max_steps: 2, validate_bleu: false, precision: float32}
"""
    (planted / "config.yaml").write_text(config)
    _run(planted, "train", "-c", "config.yaml", "-o", "run")
    assert _run(planted, "translate", "run", text="s1 b\ns2 b\n").count("\n") == 2


def test_python_m_headwise_imports_nothing_from_it_either(planted: Path) -> None:
    """`python -m headwise` puts the working directory first on the path before Headwise's code runs."""
    listed = _run(planted, "data", "list", "--json", start=("-m", "headwise"))
    assert '"multi30k"' in listed
