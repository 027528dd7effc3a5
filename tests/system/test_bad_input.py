"""A user's mistake is reported in one sentence with exit code 2, and no data is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from program import Call, Outcome, headwise, saved_step
from toy import Toy

# Text


def two_files(program: Call, folder: Path, source: bytes, target: bytes, *more: object) -> Outcome:
    (folder / "a.en").write_bytes(source)
    (folder / "a.de").write_bytes(target)
    return program("train", "--source", folder / "a.en", "--target", folder / "a.de", "-o", folder / "run", *more)


@pytest.mark.parametrize(
    ("source", "target", "sentence"),
    [
        (
            b"a\nb\nc\n",
            b"A\nB\n",
            "expected two files with the same number of lines, found 3 in {}a.en and 2 in",
        ),
        (b"", b"", "{}a.en: expected lines of text, found an empty file"),
        (b"\n\n", b"\n\n", "{}a.en and {}a.de: cleaning left nothing to learn from: 2 pairs read, 0 kept"),
        (b"\x7fELF\x02\0\0\0\n", b"A\n", "{}a.en: expected UTF-8 text, found a binary file"),
        ("a\nb\n".encode("utf-16"), b"A\nB\n", "{}a.en: expected UTF-8 text, found a binary file (UTF-16?)"),
        (
            b"\xe9t\xe9\n" * 4,
            b"summer\n" * 4,
            "{}a.en and {}a.de: expected UTF-8 text, found 4 of 4 pairs that",
        ),
        (
            b"a b\n",
            b"A B\n",
            "expected at least 2 different pairs, one of them for the development set, found 1",
        ),
    ],
)
def test_unusable_training_text_is_refused(
    source: bytes, target: bytes, sentence: str, program: Call, tmp_path: Path
) -> None:
    outcome = two_files(program, tmp_path, source, target)
    assert outcome.error.startswith(sentence.format(f"{tmp_path}/", f"{tmp_path}/"))
    assert {path.name for path in tmp_path.glob("run/*")} <= {".lock", ".prepared.lock"}


def test_a_missing_file(program: Call, toy: Toy, tmp_path: Path) -> None:
    missing = tmp_path / "nowhere.de"
    outcome = program("train", "--source", toy.source, "--target", missing, "-o", tmp_path / "run")
    assert outcome.error == f"{missing}: there is no such file"


def test_a_folder_for_a_file(program: Call, toy: Toy, tmp_path: Path) -> None:
    outcome = program("train", "--source", toy.source, "--target", tmp_path, "-o", tmp_path / "run")
    assert outcome.error == f"{tmp_path}: expected a text file, found a directory"


@pytest.mark.parametrize(("size", "sentence"), [(1000, "expected at most "), (20, "expected at least ")])
def test_a_vocabulary_size_that_the_text_does_not_allow(size: int, sentence: str, train: Call, tmp_path: Path) -> None:
    outcome = train(tmp_path / "run", f"subwords.size={size}")
    assert outcome.error.startswith(f"subwords.size: {sentence}")
    assert outcome.error.endswith(f"found {size}")


def test_the_vocabulary_size_named_by_the_error_works(train: Call, tmp_path: Path) -> None:
    most = train(tmp_path / "run", "subwords.size=1000").error.split("at most ")[1].split(",")[0]
    train(tmp_path / "run", f"subwords.size={most}", "--max-steps=1").ok()


def test_sentences_longer_than_a_batch(train: Call, toy: Toy, tmp_path: Path) -> None:
    outcome = train(tmp_path / "run", "batch.tokens=4", "subwords.dropout=0")
    assert "subwords on one side, more than a batch of 4 tokens holds; raise batch.tokens" in outcome.error
    assert outcome.error.startswith(f"{toy.source} line ")


@pytest.mark.parametrize("before", [0, 3, 100])
def test_lines_before_an_invalid_one_are_processed(
    before: int, program: Call, toy: Toy, run: Path, tmp_path: Path
) -> None:
    good, bad, target = (tmp_path / name for name in ("good", "bad", "target"))
    sources, targets = (path.read_text().splitlines(keepends=True) for path in (toy.source, toy.target))
    good.write_text("".join(sources[:before]))
    bad.write_bytes(good.read_bytes() + b"b\xff\n" + b"ba\n")
    target.write_text("".join(targets[: before + 2]))
    for arguments in (
        ["translate", run, bad],
        ["evaluate", run, "--per-line", "--source", bad, "--reference", target],
    ):
        outcome = program(*arguments)
        assert outcome.error == f"{bad} line {before + 1}: expected UTF-8 text, found other bytes"
        assert len(outcome.out.splitlines()) == before
    assert program("translate", run, bad).out == program("translate", run, good).out


def test_the_pairs_before_one_that_is_too_long_are_scored(program: Call, toy: Toy, run: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    lines = toy.target.read_text().splitlines(keepends=True)
    target.write_text("".join([*lines[:5], "mo " * 70 + "\n", *lines[6:]]))
    outcome = program("evaluate", run, "--per-line", "--source", toy.source, "--reference", target)
    assert outcome.error.startswith("line 6: expected a target of at most ")
    assert len(outcome.out.splitlines()) == 5


@pytest.mark.skipif(os.name != "posix", reason="file names are text there")
def test_names_that_are_not_utf_8(program: Call, toy: Toy, run: Path, tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"n\xff")
    shutil.copy(toy.source, odd)
    program("translate", run, odd).ok()
    missing = tmp_path / os.fsdecode(b"none\xff")
    assert program("translate", run, missing).error == f"{tmp_path}/none\\udcff: there is no such file"
    error = program("train", "--source", odd, "--target", toy.target, "-o", tmp_path / "new").error
    assert error == ("command line: data.source: expected a YAML value, found the character U+DCFF, which YAML hasn't")
    error = program("train", "-c", toy.config, "-o", missing).error
    assert error == f"{tmp_path}/none\\udcff: expected a run directory whose name is UTF-8, found another"
    assert not missing.exists()
    assert not (tmp_path / "new").exists()


# Configuration and command line


@pytest.mark.parametrize("key", ["model.attention=typo", "model.positions=typo", "model.architecture=typo"])
def test_a_model_that_can_not_be_built_is_refused_before_text_is_read(
    key: str, program: Call, toy: Toy, tmp_path: Path
) -> None:
    error = program("train", "-c", toy.config, key, "-o", tmp_path / "run").error
    assert error.startswith(f"{key.partition('=')[0]}: expected ")
    assert not (tmp_path / "run").exists()


def test_all_problems_are_reported_together(program: Call, tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("model: {droput: 0.1, heads: zero}\ntraning: {max_steps: 5}\nbatch: {tokens: -1}\n")
    error = program("train", "-c", file, "-o", tmp_path / "run").error
    assert error.startswith(f"{file}: ")
    for key in ("model.droput: unknown key", "model.heads: ", "traning: unknown key", "batch.tokens: "):
        assert key in error


@pytest.mark.parametrize("text", ["a: [1", "- 1\n- 2\n", "just words", b"\xff\xfe"])
def test_an_invalid_configuration_file_is_refused(text: str | bytes, program: Call, tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert program("train", "-c", file, "-o", tmp_path / "run").error.startswith(f"{file}: expected ")


def test_an_error_in_a_process_of_its_own(toy: Toy, tmp_path: Path) -> None:
    outcome = headwise("train", "-c", toy.config, "model.droput=0.2", "-o", tmp_path / "run")
    assert outcome.error == "command line: model.droput: unknown key (did you mean model.dropout?)"
    assert outcome.out == ""


# Device and disk


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
@pytest.mark.parametrize("device", ["cuda", "cuda:3", "gpu", "mps"])
def test_a_device_that_is_not_there(
    device: str, program: Call, train: Call, toy: Toy, run: Path, tmp_path: Path
) -> None:
    sentence = f"device: expected auto or one of cpu on this machine, found '{device}'"
    assert train(tmp_path / "new", "--device", device).error == sentence
    assert not (tmp_path / "new").exists()
    assert program("translate", run, toy.source, "--device", device).error == sentence


def test_a_run_below_a_file(train: Call, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    error = train(tmp_path / "file" / "run").error
    assert error == f"{tmp_path}/file/run: can't be written (Not a directory)"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written(train: Call, tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    assert "(Permission denied)" in train(tmp_path / "locked" / "run").error


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of one megabyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("mounting a small disk needs root")
    yield disk
    # Even where a file is still open, as no folder of pytest's can be removed below a mounted disk.
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def fill(disk: Path, leave: int) -> Path:
    """Fill a disk with a file so that `leave` bytes stay free."""
    ballast = disk / "ballast"
    status = os.statvfs(disk)
    ballast.write_bytes(bytes(max(0, status.f_bavail * status.f_frsize - leave)))
    return ballast


def test_a_disk_that_fills_while_text_is_prepared(train: Call, small_disk: Path) -> None:
    fill(small_disk, 16_384)
    error = train(small_disk / "run").error
    assert error == f"{small_disk}/run/prepared: can't be written because the disk is full"


@pytest.mark.parametrize("leave", [0, 8_192, 24_576, 65_536])
def test_a_disk_that_fills_while_training(leave: int, train: Call, trained: Path, small_disk: Path) -> None:
    """The disk fills at any point; saved checkpoints stay intact, and the run resumes when there is space again."""
    run = small_disk / "run"
    train(run, "--max-steps=4").ok()
    ballast = fill(small_disk, leave)
    error = train(run).error
    assert error.startswith(f"{run}")
    assert error.endswith(": can't be written because the disk is full")
    assert saved_step(run) in (4, 6)
    ballast.unlink()
    train(run).ok()
    whole, parts = (folder / "checkpoints" / "step-00000006" for folder in (trained, run))
    for name in ("model.safetensors", "optimizer.safetensors"):
        assert (parts / name).read_bytes() == (whole / name).read_bytes()
