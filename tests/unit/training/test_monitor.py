from __future__ import annotations

import io
import json
import os
import re
from pathlib import Path

import pytest
from rich.console import Console

from headwise.errors import TrainingError
from headwise.metrics import read_metrics
from headwise.training.monitor import Monitor, draw_curves

PNG = b"\x89PNG\r\n\x1a\n"


def report(monitor: Monitor, step: int) -> None:
    monitor.train(step, loss=1 / step, rate=0.001 * step, speed=12_345.6, seconds_left=3_725.4)


def steps(run: Path, kind: str = "train") -> list[int]:
    return [r["step"] for r in read_metrics(run / "metrics.jsonl") if r["kind"] == kind]


def test_what_was_recorded_after_the_checkpoint_is_dropped(tmp_path: Path) -> None:
    monitor = Monitor(tmp_path, max_steps=9, quiet=True)
    monitor.start(0)
    for step in (1, 2, 3):
        report(monitor, step)
        monitor.validation(step, {"loss": 0.5}, best=True)
    monitor.stop()
    again = Monitor(tmp_path, max_steps=9, quiet=True)
    again.start(2)
    report(again, 3)
    again.stop()
    assert steps(tmp_path) == [1, 2, 3]
    assert steps(tmp_path, "dev") == [1, 2]


@pytest.mark.parametrize("whole", ["", '{"kind": "train", "step": 1, "loss": 1, "learning_rate": 0.1}\n'])
@pytest.mark.parametrize("torn", ['{"kind": "tra', '{"kind": "train", "step": 2, "loss": 0.1234', "\udcff\udcfe"])
def test_a_line_that_a_kill_cut_off_is_dropped(whole: str, torn: str, tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_bytes((whole + torn).encode("utf-8", "surrogateescape"))
    monitor = Monitor(tmp_path, max_steps=9, quiet=True)
    monitor.start(5)
    report(monitor, 6)
    monitor.stop()
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 6][not whole :]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, the device that is always full")
def test_a_record_for_which_the_disk_has_no_room_is_a_users_error_again_at_the_end(tmp_path: Path) -> None:
    monitor = Monitor(tmp_path, max_steps=9, quiet=True)
    monitor.start(0)
    assert monitor._out is not None
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, monitor._out.fileno())
    os.close(full)
    for write in (lambda: report(monitor, 1), monitor.stop):
        with pytest.raises(TrainingError, match=r"metrics\.jsonl: can't be written because the disk is full$"):
            write()


def test_tensorboard_shows_what_the_metrics_file_has_after_a_kill(tmp_path: Path) -> None:
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    for start, steps in (
        (0, (10, 20, 30)),
        (10, (20,)),
    ):  # killed after step 30, with a checkpoint of step 10
        monitor = Monitor(tmp_path, max_steps=40, tensorboard=True, quiet=True)
        monitor.start(start)
        for step in steps:
            monitor.train(step, loss=1.0 + start, rate=0.1, speed=1.0, seconds_left=1.0)
        monitor.stop()
    shown = reader.EventAccumulator(str(tmp_path / "tensorboard"))
    shown.Reload()
    assert [(each.step, each.value) for each in shown.Scalars("train/loss")] == [
        (record["step"], record["loss"]) for record in read_metrics(tmp_path / "metrics.jsonl")
    ]


def test_plain_lines_go_to_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monitor = Monitor(tmp_path, max_steps=100)
    monitor.start(0)
    report(monitor, 10)
    monitor.advance(11, 60.0)
    monitor.validation(20, {"loss": 0.5, "bleu": 31.25}, best=True)
    monitor.validation(30, {"loss": 0.75, "bleu": 30.0}, best=False)
    monitor.stop()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "step 10/100  loss 0.100  rate 1.00e-02  12,346 target tokens/s  1:02:05 left",
        "step 20  dev: loss 0.500  bleu 31.250  (best so far)",
        "step 30  dev: loss 0.750  bleu 30.000",
    ]


def test_a_terminal_gets_a_bar(tmp_path: Path) -> None:
    monitor, screen = Monitor(tmp_path, max_steps=100), io.StringIO()
    monitor.console = Console(file=screen, force_terminal=True, width=120, highlight=False)
    monitor.start(40)
    monitor.advance(41, 4000.0)  # before the first report
    monitor.stop()
    assert "step 41/100" in screen.getvalue()
    assert "1:06:40 left" in screen.getvalue()
    monitor.start(41)
    monitor.max_steps = 200
    report(monitor, 50)
    monitor.advance(51, 3600.0)
    monitor.say("[not markup] a line above the bar")
    monitor.stop()
    shown = screen.getvalue()
    assert "step 51/200" in shown
    assert "12,346 target tokens/s  1:00:00 left" in shown
    assert "[not markup] a line above the bar" in shown


def test_quiet_shows_nothing_and_records_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monitor = Monitor(tmp_path, max_steps=100, quiet=True)
    monitor.start(0)
    report(monitor, 10)
    monitor.sync()
    assert steps(tmp_path) == [10]  # before it ends
    monitor.say("a line")
    monitor.stop()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("kinds", "scores"),
    [
        (["train"], {"loss": 1.0}),
        (["dev"], {"loss": 1.0, "bleu": 3.0}),
        (["train", "dev", "averaged"], {"loss": 1.0, "bleu": 3.0}),
    ],
)
def test_curves_are_drawn_from_whatever_there_is(kinds: list[str], scores: dict[str, float], tmp_path: Path) -> None:
    records = [{"kind": kind, "step": 1, "learning_rate": 0.1, **scores} for kind in kinds]
    draw_curves(records, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(PNG)


def test_curves_are_not_drawn_from_nothing(tmp_path: Path) -> None:
    draw_curves([], tmp_path / "curves.png")
    assert not (tmp_path / "curves.png").exists()


def test_a_validation_without_scores_is_recorded_and_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monitor = Monitor(tmp_path, max_steps=9)
    monitor.start(0)
    monitor.validation(9, {}, best=False, name="averaged")
    monitor.stop()
    assert steps(tmp_path, "averaged") == [9]
    assert capsys.readouterr().err == ""


def test_a_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "run").touch()
    with pytest.raises(TrainingError, match=r"run/metrics.jsonl: can't be written \(File exists\)"):
        Monitor(tmp_path / "run", max_steps=1, quiet=True).start(0)


def test_at_80_columns_the_bar_and_the_time_fit(tmp_path: Path) -> None:
    monitor = Monitor(tmp_path, max_steps=100_000)
    written = io.StringIO()
    monitor.console = Console(file=written, force_terminal=True, width=80, soft_wrap=True, color_system=None)
    monitor.start(0)
    monitor.train(100_000, loss=3.21, rate=5e-4, speed=12_345, seconds_left=4321)
    monitor.stop()
    *_, line = (part for part in re.split(r"[\r\n]", written.getvalue()) if "step 100000/100000" in part)
    assert "1:12:01 left" in line
    assert "0:00:0" in line
    assert sum(line.count(mark) for mark in "━╸╺-") == 8
    assert "…" not in line
