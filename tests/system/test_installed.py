"""Headwise as pip installs it, outside a clone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from paths import ROOT


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the installed package, without the native library."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "setup.py", "--quiet", "build_py", "--build-lib", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


def test_every_file_of_the_package_is_installed(installed: Path) -> None:
    compiled = {".so", ".pyd", ".pyc", ".cpp", ".h"}
    source = ROOT / "src/headwise"
    files = {p.relative_to(source) for p in source.rglob("*") if p.is_file() and p.suffix not in compiled}
    assert files <= {p.relative_to(installed / "headwise") for p in (installed / "headwise").rglob("*")}


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        # The rows are derived from the configurations, so these must be found.
        (["reproduce", "table3", "--rows", "none"], "expected a name or pattern of table3-base"),
        (["train", "-c", "configs/multi30k-en-de.yaml"], "data/multi30k/train.lc.norm.tok.en: there is no"),
    ],
)
def test_a_command_finds_its_files_outside_a_clone(
    arguments: list[str], shown: str, installed: Path, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "headwise", *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert shown in done.stderr


def test_the_model_in_the_package_translates(installed: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "headwise", "translate", "demo", "--engine", "pytorch"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed), "OMP_NUM_THREADS": "1"},
        input="Dog bites man.\n",
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "Hund beißt Mann.\n"


def test_the_source_distribution_has_the_model(tmp_path: Path) -> None:
    command = [sys.executable, "setup.py", "--quiet", "egg_info", "--egg-base", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    listed = (tmp_path / "headwise.egg-info" / "SOURCES.txt").read_text("utf-8").splitlines()
    assert "src/headwise/shipped/demo/model.safetensors" in listed
    assert "src/headwise/shipped/demo/corpus/dev.en" in listed
    assert "src/headwise/corpora/built_in/miniature/train.en.bz2" in listed
