"""A run that was stopped before its end: its best checkpoint is used, and a warning says so."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from paths import ROOT
from program import Call

STEP = "step-00000300"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run whose model is that of the package, in a checkpoint; another checkpoint, the latest one, is damaged."""
    run = tmp_path / "run"
    shutil.copytree(ROOT / "src/headwise/shipped/demo", run)
    for name in (STEP, "step-00000400"):
        (run / "checkpoints" / name).mkdir(parents=True)
        (run / "checkpoints" / name / "model.safetensors").write_bytes(b"damaged")
    (run / "model.safetensors").replace(run / "checkpoints" / STEP / "model.safetensors")
    (run / "best").write_text(f"{STEP}\n")
    (run / "latest").write_text("step-00000400\n")
    return run


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("engine", ["auto", "pytorch"])
def test_the_best_checkpoint_translates(engine: str, run: Path, program: Call, tmp_path: Path) -> None:
    (tmp_path / "in.en").write_text("Dog bites man.\n")
    done = program("translate", run, tmp_path / "in.en", "--engine", engine)
    assert done.out == "Hund beißt Mann.\n"
    said = f"headwise: warning: {run}: wasn't trained to its end; its best checkpoint, of step 300, is used"
    assert done.err.splitlines().count(said) == 1


@pytest.mark.filterwarnings("default")
def test_it_is_exported_and_explained(run: Path, program: Call, tmp_path: Path) -> None:
    exported = program("export", run, "--to", "run", "--precision", "int8", "-o", tmp_path / "out")
    assert "its best checkpoint, of step 300, is used" in exported.err
    assert exported.code == 0
    explained = program("explain", run, "--text", "Dog bites man.")
    assert "Hund" in explained.out
    assert explained.code == 0


@pytest.mark.filterwarnings("default")
def test_another_training_begins_from_it(run: Path, program: Call, tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("Dog bites man.\nMan bites dog.\n" * 4)
    (tmp_path / "a.de").write_text("Hund beißt Mann.\nMann beißt Hund.\n" * 4, "utf-8")
    text = ("--source", tmp_path / "a.en", "--target", tmp_path / "a.de", "--languages", "en-de")
    keys = ("data.dev_pairs=1", "training.processes=1", "training.products=torch", "--max-steps", 1)
    done = program("train", "--from", run, *text, *keys, "-o", tmp_path / "out", "--no-checks").ok()
    assert done.err.count("its best checkpoint, of step 300, is used") == 1


def test_before_the_first_step_there_is_nothing_to_use(program: Call, tmp_path: Path) -> None:
    (tmp_path / "prepared").mkdir()
    for command in (("translate", tmp_path), ("export", tmp_path, "--to", "marian", "-o", tmp_path / "out")):
        assert program(*command).error == (
            f"{tmp_path}: was stopped before training began; the same `headwise train` command goes on"
        )


@pytest.mark.parametrize("name", ["../../step-1", "", "step-00000500"])
def test_the_name_of_a_checkpoint_is_checked(name: str, run: Path, program: Call, tmp_path: Path) -> None:
    (tmp_path / "in.en").write_text("Dog bites man.\n")
    for file in ("best", "latest"):
        (run / file).write_text(name)
    error = program("translate", run, tmp_path / "in.en").error
    assert error == (
        f"{run / 'model.safetensors'}: there is no such file, and no checkpoint; `headwise train` goes on with the run"
    )
