"""A run that is damaged or doesn't match its configuration is refused in one sentence and left unchanged."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

import pytest

from program import Call, saved_step, snapshot
from toy import Toy

# Runs and checkpoints


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "random.safetensors", "state.json"])
@pytest.mark.parametrize("harm", ["truncated", "flipped", "missing"])
def test_a_damaged_checkpoint(name: str, harm: str, train: Call, run: Path) -> None:
    file = run / "checkpoints" / "step-00000006" / name
    content = bytearray(file.read_bytes())
    if harm == "missing":
        file.unlink()
    elif harm == "truncated":
        file.write_bytes(content[: len(content) // 2])
    else:
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    before = snapshot(run)
    assert train(run, "--max-steps=9").error.startswith(f"{file}: ")
    assert snapshot(run) == before


def test_the_advice_about_a_damaged_checkpoint_works(train: Call, run: Path) -> None:
    (run / "checkpoints" / "step-00000006" / "model.safetensors").write_bytes(b"")
    error = train(run, "--max-steps=9").error
    assert f"write step-00000004 into {run}/latest to go on from there, or use --restart" in error
    (run / "latest").write_text("step-00000004")
    train(run, "--max-steps=9").ok()
    assert saved_step(run) == 9


def test_a_run_of_another_configuration(train: Call, run: Path) -> None:
    before = snapshot(run)
    error = train(run, "model.dropout=0.2", "training.seed=2", "--max-steps=9").error
    assert error == (
        f"{run}: was begun with model.dropout=0.1, found model.dropout=0.2 now; "
        "with training.seed=1, found training.seed=2 now; "
        "keep what it was begun with to go on, use another run directory, or --restart to begin anew"
    )
    assert snapshot(run) == before


def test_a_run_of_another_corpus(train: Call, toy: Toy, run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.src"
    other.write_text(toy.source.read_text().replace("ba", "ab"))
    before = snapshot(run)
    error = train(run, f"data.source=[{other}]", "--max-steps=9").error
    assert error.startswith(f"{run}: was begun with other text (checksum ")
    assert error.endswith("use another run directory, or --restart to begin anew")
    assert snapshot(run) == before


def test_text_that_changed_in_its_place(train: Call, toy: Toy, tmp_path: Path) -> None:
    text, run = tmp_path / "own.src", tmp_path / "run"
    shutil.copy(toy.source, text)
    train(run, f"data.source=[{text}]", "--max-steps=2").ok()
    text.write_text(toy.source.read_text().replace("ba", "ab"))
    before = snapshot(run)
    error = train(run, f"data.source=[{text}]").error
    assert error.startswith(f"{run}: was begun with other text (checksum ")
    assert snapshot(run) == before


def test_text_that_moved_is_the_same_text(train: Call, toy: Toy, run: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved.src"
    shutil.copy(toy.source, moved)
    train(run, f"data.source=[{moved}]", "--max-steps=9").ok()
    assert saved_step(run) == 9


def test_a_checkpoint_of_another_run(train: Call, run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    train(other, "subwords.size=47").ok()
    shutil.rmtree(run / "checkpoints")
    shutil.copytree(other / "checkpoints", run / "checkpoints")
    before = snapshot(run)
    error = train(run, "--max-steps=9").error
    assert error.startswith(f"{run}/checkpoints/step-00000006: was trained with subwords ")
    assert snapshot(run) == before


def test_a_run_without_its_configuration(train: Call, run: Path) -> None:
    (run / "config.yaml").unlink()
    error = train(run, "--max-steps=9").error
    assert error == f"{run}/config.yaml: there is no such file, though {run} has checkpoints; use --restart"


def test_a_folder_of_another_program(train: Call, tmp_path: Path) -> None:
    theirs = tmp_path / "config.yaml"
    theirs.write_text("version: 3\nservices: {}\n")
    for more in ([], ["--restart"]):
        error = train(tmp_path, *more).error
        assert error.startswith(f"{tmp_path}: expected a new folder or a run, found one whose config.yaml")
    assert theirs.read_text() == "version: 3\nservices: {}\n"
    assert {path.name for path in tmp_path.iterdir()} == {".lock", "config.yaml"}


def test_a_failed_restart_loses_nothing(train: Call, run: Path, tmp_path: Path) -> None:
    def essentials() -> dict[str, bytes]:
        return {name: content for name, content in snapshot(run).items() if "/prepared/" not in name}

    before = essentials()
    for mistake in (f"data.source=[{tmp_path}/nowhere]", "subwords.size=1000", "model.attention=quick"):
        assert train(run, "--restart", mistake).error
        assert essentials() == before


def test_a_model_without_checkpoints_is_replaced_by_a_restart_alone(
    train: Call, run: Path, tmp_path: Path, program: Call
) -> None:
    copy = tmp_path / "copy"
    program("export", run, "--to=run", "--precision=int8", "-o", copy).ok()
    before = {name: content for name, content in snapshot(copy).items() if not name.endswith(".lock")}
    error = train(copy, "--max-steps=3").error
    assert error.startswith(f"{copy}: expected a new directory, or a checkpoint to resume from, found a trained model")
    assert {name: content for name, content in snapshot(copy).items() if not name.endswith(".lock")} == before
    train(copy, "--max-steps=3", "--restart").ok()
    assert saved_step(copy) == 3


def test_restart_trains_from_scratch(train: Call, run: Path) -> None:
    assert train(run, "--restart", "--max-steps=3", "model.d_ff=64", "--json").json["steps"] == 3
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["step-00000003"]


# Translation


def test_a_folder_that_is_no_run(program: Call, toy: Toy, tmp_path: Path) -> None:
    assert program("translate", tmp_path, toy.source).error == (
        f"{tmp_path}/config.yaml: there is no such configuration file"
    )


def test_a_run_without_a_checkpoint(program: Call, toy: Toy, run: Path) -> None:
    for name in ("model.safetensors", "best", "latest"):
        (run / name).unlink(missing_ok=True)
    assert program("translate", run, toy.source).error == (
        f"{run}/model.safetensors: there is no such file, and no checkpoint; `headwise train` goes on with the run"
    )


def test_a_damaged_model(program: Call, toy: Toy, run: Path) -> None:
    file = run / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    error = program("translate", run, toy.source).error
    assert error.startswith(f"{file}: expected a safetensors file, found a damaged one")


@pytest.mark.parametrize("change", [["subwords.size=47"], ["data.dev_pairs=19"]], ids=["size", "text"])
def test_a_subword_model_that_does_not_match(
    change: list[Any], program: Call, train: Call, toy: Toy, run: Path, tmp_path: Path
) -> None:
    """A model of another size doesn't fit the embeddings; one from another text fits, but would give wrong output."""
    other = tmp_path / "other"
    train(other, *change, "--max-steps=1").ok()
    shutil.copy(other / "spm.model", run / "spm.model")
    error = program("translate", run, toy.source).error
    assert error.startswith(f"{run}: expected the subword model that it was trained with (")
    (run / "spm.model").write_bytes(b"no model")
    checksum = hashlib.sha256(b"no model").hexdigest()[:12]  # compared before SentencePiece reads the file
    error = program("translate", run, toy.source).error
    assert error.startswith(f"{run}: expected the subword model that it was trained with (")
    assert error.endswith(f"), found another ({checksum})")


def test_runs_with_different_subwords_form_no_ensemble(
    program: Call, train: Call, toy: Toy, run: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    train(other, "subwords.size=47", "--max-steps=1").ok()
    error = program("translate", run, toy.source, "--with", other).error
    assert error.startswith(f"{other}: expected the subwords of {run} (")
