"""Denoising, fine-tuning from it, and exercises: training, resuming and evaluation."""

from __future__ import annotations

import json
import random
import shutil
import string
from pathlib import Path
from typing import Any

import pytest
import yaml
from safetensors.torch import load_file

from program import Call, assert_resumes, latest, metrics

SHAPE = {
    "encoder_layers": 1, "decoder_layers": 1, "d_model": 32, "d_ff": 48, "heads": 2, "max_length": 40, "norm": "pre",
    "dropout": 0.1,
}  # fmt: skip
TRAINING = {
    "max_steps": 16, "validate_every": 8, "checkpoint_every": 4, "average_last": 2, "log_every": 1, "threads": 1,
    "precision": "float32", "device": "cpu", "label_smoothing": 0.0,
}  # fmt: skip


def write(folder: Path, **changes: Any) -> Path:
    """Write a configuration and a text of two sentences in random order: removed spans follow from the rest."""
    draw = random.Random(1)
    lines = ["the cat sat on the mat by the old red door.\n", "Ein Hund saß auf dem Gras und sah ihr zu.\n"]
    (folder / "text.txt").write_text("".join(draw.choice(lines) for _ in range(300)))
    config = {
        "task": "denoising",
        "model": SHAPE,
        "data": {"text": [str(folder / "text.txt")]},
        "subwords": {"kind": "bpe", "size": 60},
        "batch": {"tokens": 360, "accumulate": 2},
        "schedule": {"name": "constant", "peak": 0.01, "warmup": 10},
        "training": TRAINING,
        **changes,
    }
    file = folder / "denoising.yaml"
    file.write_text(yaml.safe_dump(config))
    return file


@pytest.mark.parametrize("corruption", [pytest.param("spans", marks=pytest.mark.slow), "infilling"])
def test_text_is_reconstructed(corruption: str, program: Call, tmp_path: Path) -> None:
    run, shown = tmp_path / "run", tmp_path / "shown.txt"
    config = write(tmp_path, denoising={"corruption": corruption, "share": 0.2})
    program("train", "-c", config, "model.dropout=0", "--max-steps=60", "-o", run).ok()
    first, last = metrics(run, "dev")[0], metrics(run, "dev")[-1]
    assert last["loss"] < 0.7 * first["loss"]
    report = program("evaluate", run, "--json", "-o", shown).json
    (averaged,) = metrics(run, "averaged")
    assert report["loss"] == pytest.approx(averaged["loss"], rel=1e-4)
    assert report["accuracy"] > 50.0
    lines = shown.read_text().splitlines()
    assert len(lines) == report["windows"]
    mark = "<span0>" if corruption == "spans" else "<mask>"
    corrupted, references, outputs = zip(*(line.split(" → ") for line in lines), strict=True)
    assert all(mark in line for line in corrupted)
    assert report["exact"] == pytest.approx(
        100 * sum(a == b for a, b in zip(references, outputs, strict=True)) / len(lines)
    )
    file = program("evaluate", run, tmp_path / "text.txt", "--json").json
    assert file["windows"] > report["windows"]


def test_a_resumed_run_equals_an_uninterrupted_one(program: Call, tmp_path: Path) -> None:
    assert_resumes(program, tmp_path, "train", "-c", write(tmp_path), at=10)


def test_translation_is_initialized_from_denoising(program: Call, tmp_path: Path) -> None:
    begun, run = tmp_path / "begun", tmp_path / "run"
    config = write(tmp_path)
    program("train", "-c", config, "-o", begun).ok()
    text = (tmp_path / "text.txt").read_text().splitlines()
    (tmp_path / "source").write_text("".join(f"{line}\n" for line in text))
    (tmp_path / "target").write_text("".join(f"{' '.join(reversed(line.split()))}\n" for line in text))
    tree = {
        "model": SHAPE,
        "data": {"source": [str(tmp_path / "source")], "target": [str(tmp_path / "target")], "dev_pairs": 10},
        "batch": {"tokens": 360},
        "schedule": {"name": "constant", "peak": 1e-9, "warmup": 1},
        "training": {**TRAINING, "max_steps": 1, "initialize_from": str(begun), "validate_bleu": False},
    }
    file = tmp_path / "translation.yaml"
    file.write_text(yaml.safe_dump(tree))
    program("train", "-c", file, "-o", run).ok()
    before, after = load_file(begun / "model.safetensors"), load_file(run / "model.safetensors")
    assert before.keys() == after.keys()
    assert all((before[name] - after[name]).abs().max() < 1e-6 for name in before)  # one tiny step away
    assert (run / "spm.model").read_bytes() == (begun / "spm.model").read_bytes()
    assert "initialized_from" in json.loads((latest(run) / "state.json").read_text())["identity"]
    out = program("evaluate", run, "--source", tmp_path / "source", "--reference", tmp_path / "target").out
    assert "% of lines are the reference" in out

    adapted = ("train", "-c", file, "-o", tmp_path / "adapted", f"training.initialize_from={run}")
    program(*adapted).ok()  # a translation run can be the start of another one, too
    error = program("train", "-c", config, "-o", tmp_path / "new", "denoising.window=39").error
    assert error.startswith(
        "denoising.window: expected at least 2, and at most what leaves room in model.max_length=40"
    )

    (tmp_path / "text.txt").write_text("Another text has other subwords: zebra, quartz, jinx!\n" * 20)
    program("train", "-c", config, "--max-steps=1", "-o", tmp_path / "other").ok()
    shutil.copy(tmp_path / "other" / "spm.model", begun / "spm.model")
    for command in (
        ("evaluate", begun, tmp_path / "text.txt"),
        ("train", "-c", file, "-o", tmp_path / "new"),
    ):
        error = program(*command).error
        assert error.startswith(f"{begun}: expected the vocabulary that it was trained with (")


def test_a_development_text_of_one_token_is_refused(program: Call, tmp_path: Path) -> None:
    config, dev = write(tmp_path), tmp_path / "dev.txt"
    dev.write_text("\n")
    error = program("train", "-c", config, "-o", tmp_path / "run", f"data.dev_text={dev}").error
    assert error == "development text: expected at least two tokens to damage, found 1"


@pytest.mark.slow
def test_an_exercise_is_learned_word_for_word(program: Call, tmp_path: Path) -> None:
    data, run = tmp_path / "copy", tmp_path / "run"
    data.mkdir()
    draw = random.Random(1)
    for part, count in {"train": 2000, "dev": 40, "test": 40}.items():
        lines = [" ".join(draw.choices(string.ascii_lowercase, k=draw.randint(4, 12))) for _ in range(count)]
        for side in ("source", "target"):
            (data / f"{part}.{side}").write_text("".join(f"{line}\n" for line in lines))
    changes = {
        "source": [str(data / "train.source")], "target": [str(data / "train.target")],
        "dev_source": str(data / "dev.source"), "dev_target": str(data / "dev.target"),
    }  # fmt: skip
    tree = {
        "model": {**SHAPE, "dropout": 0.0},
        "data": changes,
        "subwords": {"size": 56},
        "batch": {"tokens": 1024},
        "schedule": {"name": "linear", "peak": 0.01, "warmup": 30},
        "training": {**TRAINING, "max_steps": 250, "validate_every": 125, "validate_bleu": False},
    }
    file = tmp_path / "copy.yaml"
    file.write_text(yaml.safe_dump(tree))
    program("train", "-c", file, "-o", run).ok()
    test = ["--source", data / "test.source", "--reference", data / "test.target"]
    report = program("evaluate", run, *test, "--beam", 1, "--json").json
    assert report["exact"] > 50.0
