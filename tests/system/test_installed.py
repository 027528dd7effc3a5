"""Headwise as pip installs it, outside a clone."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from headwise.native import library
from paths import ROOT
from program import environment

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


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
        (["reproduce", "complexity", "--rows", "none"], "expected a name or pattern of complexity"),
        (["train", "-c", "configs/multi30k-en-de.yaml"], "data/multi30k/train.lc.norm.tok.en: there is no"),
    ],
)
def test_a_command_finds_its_files_outside_a_clone(
    arguments: list[str], shown: str, installed: Path, tmp_path: Path
) -> None:
    done = outside(installed, tmp_path, *arguments)
    assert done.returncode == 2
    assert shown in done.stderr


def outside(installed: Path, folder: Path, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headwise", *arguments]
    surroundings = environment(PYTHONPATH=str(installed))
    return subprocess.run(
        command, cwd=folder, env=surroundings, input=text, capture_output=True, text=True, check=False
    )


def test_the_model_in_the_package_translates(installed: Path, tmp_path: Path) -> None:
    done = outside(installed, tmp_path, "translate", "demo", "--engine", "pytorch", text="Dog bites man.\n")
    assert done.stdout == "Hund beißt Mann.\n", done.stderr


def test_the_source_distribution_has_the_model(tmp_path: Path) -> None:
    command = [sys.executable, "setup.py", "--quiet", "egg_info", "--egg-base", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    listed = (tmp_path / "headwise.egg-info" / "SOURCES.txt").read_text("utf-8").splitlines()
    assert "src/headwise/shipped/demo/model.safetensors" in listed
    assert "src/headwise/shipped/demo/corpus/dev.en" in listed
    assert "src/headwise/corpora/built_in/miniature/train.en.bz2" in listed


@pytest.mark.skipif(sys.platform != "linux", reason="its name is that of a library on Linux")
def test_the_wheel_is_for_one_platform_and_every_python(tmp_path: Path) -> None:
    """The libraries that are compiled already are packed as they are; `make dist` compiles them."""
    package = tmp_path / "package"
    shutil.copytree(ROOT / "src/headwise/native", package / "src/headwise/native")
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, package)
    compiled = tmp_path / "built/headwise/native"
    compiled.mkdir(parents=True)
    for variant in library.VARIANTS:
        (compiled / f"_{variant}.so").write_bytes(b"")
    where = ("--build-lib", compiled.parents[1], "bdist_wheel", "-d", tmp_path)
    command = [sys.executable, "setup.py", "--quiet", "build", *where]
    subprocess.run(command, cwd=package, env=environment(CXX="true"), check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    tag = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert wheel.name == f"headwise-{version('headwise')}-py3-none-{tag}.whl"
    with zipfile.ZipFile(wheel) as archive:
        packed = {Path(name).stem for name in archive.namelist() if Path(name).suffix == ".so"}
    assert packed == {f"_{name}" for name in library.VARIANTS}


@pytest.mark.parametrize("file", WORKFLOWS, ids=[file.name for file in WORKFLOWS])
def test_a_workflow_is_one(file: Path) -> None:
    check = Path(sys.executable).with_name("check-jsonschema")
    command = [check, "--builtin-schema", "vendor.github-workflows", file]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
