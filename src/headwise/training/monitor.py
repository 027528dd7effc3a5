"""Logging of a training: a progress bar or plain log lines, metrics.jsonl, curves.png, TensorBoard."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from headwise.clock import clock
from headwise.extras import needed_by
from headwise.files import atomic_file, disk_errors, write_text
from headwise.metrics import MEASURED, averaged_scores, read_metrics
from headwise.nn.device import describe_hardware


def record_measured(run: Path, before: dict[str, Any], signatures: Mapping[str, str], more: Mapping[str, Any]) -> None:
    """Record with what scores were measured, unless they are those of `before`.

    `signatures` are those of the scores whose definition has several variants, and `more` what else was measured.
    """
    scores = averaged_scores(run)
    if scores == before:
        return
    record = {
        "step": scores["step"],
        "hardware": describe_hardware(),
        "versions": {"torch": torch.__version__},
        "signatures": {name: text for name, text in signatures.items() if name in scores},
        **more,
    }
    write_text(run / MEASURED, json.dumps(record, indent=1, ensure_ascii=False) + "\n")


class Monitor:
    """Logger of a training, to standard error and to the run directory.

    Standard error gets a progress bar if it is a terminal, else one line per report; with `quiet`, nothing.

    Attributes:
        listener: called with each record, if there is one.
    """

    listener: Callable[[dict[str, Any]], None] | None = None

    def __init__(self, run: Path, *, max_steps: int, tensorboard: bool = False, quiet: bool = False) -> None:
        self.file = run / "metrics.jsonl"
        self.run = run
        self.max_steps = max_steps
        self.console = Console(stderr=True, quiet=quiet, soft_wrap=True, highlight=False)
        self._bar: Progress | None = None
        self._out: TextIO | None = None
        self._open_board = _tensorboard(run) if tensorboard else None
        self._board: Any = None

    def start(self, step: int) -> None:
        """Start logging at `step`; records of later steps, from a run that was killed, are removed."""
        if self.file.exists():
            records = [r for r in read_metrics(self.file) if r["step"] <= step]
            write_text(self.file, "".join(json.dumps(r) + "\n" for r in records))
        with disk_errors(self.file):
            self.run.mkdir(parents=True, exist_ok=True)
            self._out = self.file.open("a", encoding="utf-8")
        if self._open_board is not None:
            self._board = self._open_board(step)
        if self.console.is_terminal and not self.console.quiet:
            self._bar = Progress(
                TextColumn("step {task.completed}/{task.total}"),
                BarColumn(bar_width=8 if self._narrow else 24),
                TextColumn("{task.description}{task.fields[left]}"),
                TimeElapsedColumn(),
                console=self.console,
            )
            self._task = self._bar.add_task("", total=self.max_steps, completed=step, left="")
            self._bar.start()

    def train(
        self,
        step: int,
        *,
        loss: float,
        rate: float,
        speed: float,
        seconds_left: float,
        seconds: float | None = None,
    ) -> None:
        """Log training: loss in nats per target token, learning rate, target tokens per second, seconds so far."""
        line = f"loss {loss:.3f}  rate {rate:.2e}  {speed:,.0f} target tokens/s  "
        if self._bar is not None:
            if self._narrow:
                line = f"loss {loss:.2f}  {speed:,.0f} tokens/s  "
            self._bar.update(self._task, description=line)
            self.advance(step, seconds_left)
        else:
            self.say(f"step {step}/{self.max_steps}  {line}{clock(seconds_left)} left")
        values = {"loss": loss, "learning_rate": rate, "target_tokens_per_second": speed}
        self._record("train", step, values, seconds)

    @property
    def _narrow(self) -> bool:
        """Whether the terminal has no room for all that is reported, so that the bar would be squeezed."""
        return self.console.width < 120

    def advance(self, step: int, seconds_left: float) -> None:
        """Update the progress bar, between reports, too."""
        if self._bar is not None:
            left = f"{clock(seconds_left)} left"
            self._bar.update(self._task, completed=step, total=self.max_steps, left=left)

    def validation(
        self,
        step: int,
        scores: dict[str, float],
        *,
        best: bool,
        name: str = "dev",
        seconds: float | None = None,
    ) -> None:
        """Log the scores of a validation and the seconds of training; without scores it is recorded but not shown."""
        shown = "  ".join(
            f"{key} {value:,}" if isinstance(value, int) else f"{key} {value:.3f}" for key, value in scores.items()
        )
        if shown:
            self.say(f"step {step}  {name}: {shown}{'  (best so far)' if best else ''}")
        self._record(name, step, scores, seconds)

    def say(self, line: str) -> None:
        """Print one line above the progress bar."""
        self.console.print(line, markup=False)

    def stop(self) -> None:
        """Close the log and draw the curves; raises `TrainingError` if one of the files can't be written."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        if self._out is not None:
            with disk_errors(self.file):  # closing writes again what a full disk had no room for
                self._out.close()
            self._out = None
        if self._board is not None:
            self._board.close()
        draw_curves(read_metrics(self.file), self.run / "curves.png")

    def _record(self, kind: str, step: int, values: dict[str, float], seconds: float | None) -> None:
        assert self._out is not None, "monitor used before start"
        if seconds is not None:
            values = {**values, "seconds": seconds}
        record = {"kind": kind, "step": step, **values}
        with disk_errors(self.file):
            self._out.write(json.dumps(record) + "\n")
            self._out.flush()
        if self._board is not None:
            for key, value in values.items():
                self._board.add_scalar(f"{kind}/{key}", value, step)
        if self.listener is not None:
            self.listener(record)

    def sync(self) -> None:
        """Flush metrics.jsonl to the disk; called before each checkpoint, which must not be newer than its records."""
        if self._out is not None:
            with disk_errors(self.file):
                os.fsync(self._out.fileno())


def draw_curves(records: Sequence[dict[str, Any]], file: Path) -> None:
    """Plot training and development loss against step and time, the learning rate, and BLEU if it was measured.

    Without records no file is written; records without a time are left out of the chart against time.
    """
    from matplotlib.figure import Figure

    train = [r for r in records if r["kind"] == "train"]
    dev = [r for r in records if r["kind"] == "dev"]
    if not train and not dev:
        return
    with_bleu = [r for r in dev if "bleu" in r]
    timed = any("seconds" in r for r in train + dev)
    charts = 2 + timed + bool(with_bleu)
    figure = Figure(figsize=(3.4 * charts, 3.2))
    # Fixed margins, because an automatic layout takes as long as all the rest of the drawing.
    figure.subplots_adjust(left=0.55 / 3.4 / charts, right=1 - 0.1 / 3.4 / charts, bottom=0.16, top=0.9, wspace=0.25)
    axes = iter(figure.subplots(1, charts))
    _draw_loss(next(axes), train, dev, "step", 1)
    if timed:
        timed_records = [[r for r in part if "seconds" in r] for part in (train, dev)]
        _draw_loss(next(axes), timed_records[0], timed_records[1], "seconds", 60)
    axis = next(axes)
    axis.plot([r["step"] for r in train], [r["learning_rate"] for r in train], color="C0")
    axis.set(title="Learning rate", xlabel="step")
    if with_bleu:
        axis = next(axes)
        axis.plot([r["step"] for r in with_bleu], [r["bleu"] for r in with_bleu], color="C0")
        axis.set(title="Development BLEU", xlabel="step")
    for axis in figure.axes:
        axis.spines[["top", "right"]].set_visible(False)
    with atomic_file(file) as out:
        figure.savefig(out, format="png", dpi=120)


def _draw_loss(
    axis: Any, train: Sequence[dict[str, Any]], dev: Sequence[dict[str, Any]], against: str, unit: float
) -> None:
    """Plot losses against the key `against` of the records, divided by `unit`."""
    for records, label, color in ((train, "training", "0.65"), (dev, "development", "C0")):
        marker = "." if len(records) == 1 else ""  # a line through one point is invisible
        if records:
            axis.plot(
                [r[against] / unit for r in records],
                [r["loss"] for r in records],
                label=label,
                color=color,
                marker=marker,
            )
    by_time = against == "seconds"
    axis.set(
        title="Loss against time" if by_time else "Loss",
        xlabel="minutes of training" if by_time else "step",
        ylabel="nats",
    )
    axis.legend(frameon=False)


def _tensorboard(run: Path) -> Callable[[int], Any]:
    """Return a function that opens TensorBoard's log at a step, which hides what it has of later ones."""
    with needed_by("training.tensorboard"):
        from torch.utils.tensorboard import SummaryWriter
    return lambda step: SummaryWriter(str(run / "tensorboard"), purge_step=step + 1 if step else None)
