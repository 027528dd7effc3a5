"""`headwise distill`: the teacher's translations, wherever interrupted, and the student that learns from them."""

from __future__ import annotations

import errno
import gzip
import json
import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import sacrebleu

from headwise.config import Config
from headwise.decoding.translator import Translator
from headwise.tasks.distillation import translations
from program import Call, finish, headwise, press_ctrl_c, result, saved_step, snapshot, start, wait_for
from toy import Toy, toy_pairs, write_toy

SMALL = (
    *(
        "model.encoder_layers=2",
        "model.decoder_layers=1",
        "model.d_model=16",
        "model.d_ff=32",
        "model.heads=2",
    ),
    *("model.dropout=0.1", "batch.tokens=400", "data.dev_pairs=10", "data.workers=1", "schedule.warmup=5"),
    *("training.checkpoint_every=1", "training.validate_every=10", "training.average_last=1"),
    *("training.threads=1", "training.precision=float32", "training.processes=1"),
    *("--beam", "2", "--max-steps", "3"),
)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translations, "CHUNK", 16)


@pytest.fixture
def text(tmp_path: Path) -> Toy:
    return write_toy(tmp_path, toy_pairs(60, seed=2))


@pytest.fixture(scope="module")
def longer(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """Text of four chunks."""
    return write_toy(tmp_path_factory.mktemp("longer"), toy_pairs(3 * translations.CHUNK + 5, seed=3))


@pytest.fixture(scope="module")
def undisturbed(trained: Path, longer: Toy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("undisturbed") / "student"
    assert headwise("distill", trained, "--source", longer.source, *SMALL, "-o", run).code == 0
    return run


def translated(run: Path) -> int:
    """Return the number of complete lines, 0 before there is a manifest."""
    manifest = run / "distilled" / "manifest.json"
    return (
        sum(file["lines"] for file in json.loads(manifest.read_text())["files"]) if manifest.exists() else 0
    )


def distilled(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (run / "distilled").iterdir()}


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


# Interruptions


@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_kills_change_nothing(
    kills: int, trained: Path, longer: Toy, undisturbed: Path, tmp_path: Path
) -> None:
    draw, run = random.Random(kills), tmp_path / "student"
    command = ("distill", trained, "--source", longer.source, *SMALL, "-o", run)
    for kill in range(kills):
        process, before = start(*command), translated(run)
        if kill < 3:  # after a chunk that it translated itself
            wait_for(lambda before=before: translated(run) > before, process)
        else:
            time.sleep(draw.uniform(0, 3))
        process.kill()
        finish(process)
        assert translated(run) >= before
    assert translated(run) > 0
    assert headwise(*command).code == 0
    assert distilled(run) == distilled(undisturbed)
    assert result(run) == result(undisturbed)
    assert not list(run.rglob("*.partial-*"))


@pytest.mark.parametrize(
    "interrupt",
    [
        pytest.param(press_ctrl_c, id="Ctrl-C", marks=pytest.mark.slow),
        pytest.param(subprocess.Popen.terminate, id="SIGTERM", marks=pytest.mark.slow),
    ],
)
def test_an_interruption_keeps_what_is_translated(
    interrupt: Callable[[subprocess.Popen[str]], None],
    trained: Path,
    longer: Toy,
    undisturbed: Path,
    tmp_path: Path,
) -> None:
    run = tmp_path / "student"
    command = ("distill", trained, "--source", longer.source, *SMALL, "-o", run)
    process = start(*command)
    wait_for(lambda: translated(run) > 0, process)
    interrupt(process)
    stopped = finish(process)
    saved = translated(run)
    assert 0 < saved < 3 * translations.CHUNK + 5
    if interrupt is press_ctrl_c:
        assert stopped.code == 130
        assert (
            f"{run}/distilled: {saved:,} lines are saved; the same command goes on from there" in stopped.err
        )
        assert stopped.err.splitlines()[-1] == "headwise: interrupted"
    again = headwise(*command)
    assert again.code == 0
    assert f"{saved:,} of {3 * translations.CHUNK + 5:,} lines are translated already" in again.err
    assert distilled(run) == distilled(undisturbed)


def test_a_full_disk_is_one_sentence_and_loses_one_chunk(
    small_chunks: None,
    trained: Path,
    text: Toy,
    tmp_path: Path,
    program: Call,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, command = tmp_path / "student", ("distill", trained, "--source", text.source, *SMALL)
    assert program(*command, "-o", tmp_path / "whole").code == 0
    appended = 0

    def fsync(handle: int, flush: Callable[[int], None] = os.fsync) -> None:
        nonlocal appended
        appended += "target-1" in os.readlink(f"/proc/self/fd/{handle}")
        if appended == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        flush(handle)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fsync)
        error = program(*command, "-o", run).error
    assert error == f"{run}/distilled/target-1.txt: can't be written because the disk is full"
    assert translated(run) == 32
    assert len(lines(run / "distilled" / "target-1.txt")) == 48  # 16 of them aren't known to be on the disk
    assert program(*command, "-o", run).code == 0
    assert distilled(run) == distilled(tmp_path / "whole")


def test_a_changed_translation_is_refused(
    small_chunks: None, trained: Path, text: Toy, tmp_path: Path, program: Call
) -> None:
    run = tmp_path / "student"
    command = ("distill", trained, "--source", text.source, *SMALL, "-o", run)
    assert program(*command).code == 0
    whole, path = distilled(run), run / "distilled" / "target-1.txt"
    path.write_bytes(b"x" + path.read_bytes()[1:])
    before = snapshot(run)
    assert program(*command).error == (
        f"{path}: expected the 60 translations that manifest.json records, found a changed file; --restart translates "
        "anew"
    )
    (run / "distilled" / "manifest.json").write_text('{"files": 3}')
    assert program(*command).error.startswith(
        f"{run}/distilled/manifest.json: expected a manifest of translations"
    )
    (run / "distilled" / "manifest.json").write_bytes(before[str(run / "distilled" / "manifest.json")])
    assert snapshot(run) == before
    assert program(*command, "--restart").code == 0
    assert distilled(run) == whole


# What the translations depend on


def test_another_teacher_text_or_option_is_refused(
    small_chunks: None, trained: Path, text: Toy, tmp_path: Path, program: Call
) -> None:
    run, other = tmp_path / "student", tmp_path / "other"
    command = ("distill", trained, "--source", text.source, *SMALL, "-o", run)
    assert program(*command).code == 0
    before = snapshot(run)
    assert program("train", "-c", text.config, "--max-steps=1", "-o", other).code == 0
    text.source.write_text("ba\n" + "".join(f"{line}\n" for line in lines(text.source)[1:]))
    error = program(*command).error
    assert error.startswith(f"{run}/distilled: was begun with source text=")
    assert error.endswith(
        "keep what it was begun with to go on, use another run directory, or --restart to begin anew"
    )
    write_toy(tmp_path, toy_pairs(60, seed=2))
    assert "was begun with teacher=" in program("distill", other, *command[2:]).error
    assert "was begun with teacher=" in program(*command, "--with", trained).error
    assert "was begun with beam=2, found beam=3 now" in program(*command, "--beam", 3).error
    assert snapshot(run) == before


def test_half_of_the_text_is_not_translated_by_another_engine(
    small_chunks: None,
    trained: Path,
    text: Toy,
    tmp_path: Path,
    program: Call,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, command = (
        tmp_path / "student",
        ("distill", trained, "--source", text.source, *SMALL, "--engine", "pytorch"),
    )
    translate, chunk = Translator.translate, iter(range(10))

    def stopping(*arguments: object, **more: object) -> object:
        if next(chunk) == 2:
            raise KeyboardInterrupt
        return translate(*arguments, **more)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(Translator, "translate", stopping)
        assert program(*command, "-o", run).code == 130
    assert translated(run) == 32
    assert (
        "was begun with pytorch engine (cpu), float32"
        in program(*command, "--precision=bfloat16", "-o", run).error
    )
    assert program(*command, "-o", run).code == 0
    assert program(*command, "-o", tmp_path / "whole").code == 0
    assert distilled(run) == distilled(tmp_path / "whole")
    assert program(*command, "--precision=bfloat16", "-o", run).code == 0  # nothing is left to translate


def test_a_restart_keeps_equal_translations_and_replaces_others(
    small_chunks: None, trained: Path, text: Toy, tmp_path: Path, program: Call
) -> None:
    run = tmp_path / "student"
    command = ("distill", trained, "--source", text.source, *SMALL, "-o", run)
    assert program(*command).code == 0
    again = program(*command, "--restart", "--max-steps=2")
    assert again.code == 0
    assert "translating: " not in again.err
    assert saved_step(run) == 2
    other = program(*command, "--restart", "--beam", 1)
    assert other.code == 0
    assert "translating: " in other.err
    assert json.loads((run / "distilled" / "manifest.json").read_text())["request"]["beam"] == 1


# The translations


def test_they_are_those_of_headwise_translate(
    small_chunks: None, trained: Path, text: Toy, tmp_path: Path, program: Call
) -> None:
    packed = tmp_path / "second.src.gz"
    packed.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines(text.source)[:20]).encode()))
    runs = (trained, "--with", tmp_path / "other")
    shutil.copytree(trained, tmp_path / "other")
    student = ("--source", text.source, "--source", packed, *SMALL, "-o", tmp_path / "student")
    done = program("distill", *runs, *student)
    assert done.code == 0, done.err
    for number, source in enumerate((text.source, packed), start=1):
        out = tmp_path / f"{number}.out"
        assert program("translate", *runs, source, "--beam", 2, "-o", out).code == 0
        assert (tmp_path / "student" / "distilled" / f"target-{number}.txt").read_bytes() == out.read_bytes()
    config = Config.load(tmp_path / "student" / "config.yaml")
    assert config.data.source == [str(text.source), str(packed)]


def test_lines_without_a_translation_keep_the_files_parallel(
    small_chunks: None, trained: Path, text: Toy, tmp_path: Path, program: Call
) -> None:
    good = lines(text.source)
    rows = [line.encode() for line in good[:30]]
    rows[3:6] = [b"", b"  \t", b"ba \xff"]
    rows[7], rows[20] = (
        b"ba " * 9,
        b"ba" * 40,
    )  # over 8 words, and over the 63 subwords that the teacher reads
    rows[25] = b"\xfe ba"
    source = tmp_path / "rows.src"
    source.write_bytes(b"".join(row + b"\n" for row in rows))
    done = program(
        "distill", trained, "--source", source, *SMALL, "data.cleaning.max_words=8", "-o", tmp_path / "run"
    )
    assert done.code == 0, done.err
    assert (
        "30 lines, 24 translated; left out: 2 empty, 2 over 8 words or the translating model's maximum length, 2 not"
        in done.err
    )
    targets = lines(tmp_path / "run" / "distilled" / "target-1.txt")
    left_out = [3, 4, 5, 7, 20, 25]
    others = [row for row in range(30) if row not in left_out]
    expected = Translator.load(trained).translate([rows[row].decode() for row in others], beam=2)
    assert [targets[row] for row in others] == [translation.text for translation in expected]
    assert not any(targets[row] for row in left_out)
    assert any(targets)


def test_interpolation_takes_what_is_nearest_to_the_reference(
    small_chunks: None, trained: Path, text: Toy, tmp_path: Path, program: Call
) -> None:
    beams = Translator.load(trained).translate([source for source, _ in text.pairs], beam=4, n_best=4)
    references = [beam.outputs[-1].text for beam in beams]  # the teacher prefers others
    (tmp_path / "references").write_text("".join(f"{line}\n" for line in references), encoding="utf-8")
    options = (
        "--source",
        text.source,
        "--target",
        tmp_path / "references",
        "--interpolate",
        *SMALL,
        "--beam",
        4,
    )
    assert program("distill", trained, *options, "-o", tmp_path / "student").code == 0
    chosen = lines(tmp_path / "student" / "distilled" / "target-1.txt")
    differ = 0
    for reference, beam, target in zip(references, beams, chosen, strict=True):
        scores = [sacrebleu.sentence_bleu(output.text, [reference]).score for output in beam.outputs]
        assert target == beam.outputs[scores.index(max(scores))].text
        differ += target != beam.text
    assert differ
    config = Config.load(tmp_path / "student" / "config.yaml")
    assert config.data.target == [str(tmp_path / "student" / "distilled" / "target-1.txt")]


# The student


def test_the_student_is_an_ordinary_run(
    small_chunks: None, trained: Path, text: Toy, tmp_path: Path, program: Call
) -> None:
    run, teacher = tmp_path / "student", tmp_path / "teacher"
    shutil.copytree(trained, teacher)
    config = Config.load(trained / "config.yaml")
    config.data.source_language, config.data.target_language = "en", "de"
    (teacher / "config.yaml").write_text(config.to_yaml(), encoding="utf-8")
    command = ("distill", teacher, "--source", text.source, *SMALL, "-o", run)
    done = program(*command, "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["steps"] == 3
    assert "6+2 layers of width 128, as decoding spends most of its time in the decoder" in done.err
    assert "given instead: model.encoder_layers=2, model.decoder_layers=1, model.d_model=16" in done.err
    assert (run / "spm.model").read_bytes() == (trained / "spm.model").read_bytes()
    assert Config.load(run / "config.yaml").data.languages == ("en", "de")
    assert program("translate", run, text.source, "-o", tmp_path / "out").code == 0
    assert program("shortlist", run).code == 0
    assert program("train", "-o", run, "--max-steps", 4).code == 0
    assert program(*command, "--max-steps", 5).code == 0
    assert saved_step(run) == 5
    assert "translating: " not in program(*command, "--max-steps", 6).err


def test_it_learns_from_real_translations_too(
    small_chunks: None, trained: Path, text: Toy, toy: Toy, tmp_path: Path, program: Call
) -> None:
    run = tmp_path / "student"
    both = ("distill", trained, "--source", text.source, "--target", text.target, *SMALL, "-o", run)
    assert program(*both).error.startswith(
        "--dev-source: expected a development set beside --target, as a set split"
    )
    assert not run.exists()
    dev = ("--dev-source", toy.source, "--dev-target", toy.target)
    done = program(*both, *dev, "data.weights=[1, 2]", "--new-vocabulary", "subwords.size=40")
    assert done.code == 0, done.err
    data = Config.load(run / "config.yaml").data
    assert data.source == [str(text.source)] * 2
    assert data.target == [str(run / "distilled" / "target-1.txt"), str(text.target)]
    assert "120 pairs read" in done.err
    assert (run / "spm.model").read_bytes() != (trained / "spm.model").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--interpolate"], "--interpolate: expected references to choose by (--target), found none"),
        (["subwords.size=40"], "subwords.size: expected --new-vocabulary beside it"),
        (["model.decoder_layer=1"], "command line: model.decoder_layer: unknown key"),
        (["--preset", "tinny"], "preset: expected a known model size, found 'tinny' (did you mean tiny?)"),
        (["--beam", "0"], "beam: expected a whole number of at least 1, found 0"),
        (["--with", "nowhere"], "nowhere: expected a run directory, found none"),
        (["--source", "nowhere.src"], "nowhere.src: there is no such file"),
        (
            ["--source", "both.tsv"],
            "both.tsv: expected plain text or .gz, one sentence per line, found another",
        ),
        (
            ["--target", "a", "--target", "b"],
            "--target: expected one file for each of the 1 of --source, found 2",
        ),
        (["task=denoising"], "task: expected translation, found denoising"),
        (["training.device=tpu"], "device: expected auto or one of cpu"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_translated(
    arguments: list[str], sentence: str, trained: Path, text: Toy, tmp_path: Path, program: Call
) -> None:
    done = program("distill", trained, "--source", text.source, "-o", tmp_path / "new", *arguments)
    assert done.error.startswith(sentence)
    assert not (tmp_path / "new" / "distilled").exists()


def test_another_run_or_folder_is_not_touched(trained: Path, run: Path, text: Toy, program: Call) -> None:
    before = snapshot(run)
    assert "found the teacher's" in program("distill", run, "--source", text.source, "-o", run).error
    error = program("distill", trained, "--source", text.source, "-o", run).error
    assert error == f"{run}: expected a new folder or a distilled run, found another one; use --restart"
    assert snapshot(run) == before
    (run / "distilled").mkdir()
    (run / "distilled" / "notes.txt").write_text("mine")
    error = program("distill", trained, "--source", text.source, "-o", run, "--restart").error
    assert error.endswith("expected a new folder or one with translations, found other files in it")
    (run / "model.safetensors").unlink()
    error = program("distill", run, "--source", text.source, "-o", run.parent / "new").error
    assert error.endswith("model.safetensors: there is no such file; was the run trained to its end?")
