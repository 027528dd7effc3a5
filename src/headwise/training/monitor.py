"""What a run shows while it trains: a progress bar or plain log lines, metrics.jsonl, curves.png, TensorBoard."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from headwise.errors import ConfigError
from headwise.files import atomic_file, disk_errors, write_text


def read_metrics(file: Path) -> list[dict[str, Any]]:
    """Read metrics.jsonl; a last line cut off by a kill is left out."""
    if not file.exists():
        return []
    records = []
    for line in file.read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        records.append(record)
    return records


class Monitor:
    """Reports to the terminal and records to the run directory.

    A terminal gets a progress bar, anything else one line each report; both on stderr. `quiet` shows nothing.
    """

    def __init__(self, run: Path, *, max_steps: int, tensorboard: bool = False, quiet: bool = False) -> None:
        self.file = run / "metrics.jsonl"
        self.run = run
        self.max_steps = max_steps
        self.console = Console(stderr=True, quiet=quiet, soft_wrap=True, highlight=False)
        self._bar: Progress | None = None
        self._out: TextIO | None = None
        self._board: Any = _tensorboard_writer(run) if tensorboard else None

    def start(self, step: int) -> None:
        """Begin at `step`: what was recorded after it (by a run that was killed) is dropped."""
        if self.file.exists():
            kept = [r for r in read_metrics(self.file) if r["step"] <= step]
            write_text(self.file, "".join(json.dumps(r) + "\n" for r in kept))
        with disk_errors(self.file):
            self.run.mkdir(parents=True, exist_ok=True)
            self._out = self.file.open("a", encoding="utf-8")
        if self.console.is_terminal and not self.console.quiet:
            self._bar = Progress(
                TextColumn("step {task.completed}/{task.total}"),
                BarColumn(bar_width=24),
                TextColumn("{task.description}"),
                TimeElapsedColumn(),
                console=self.console,
            )
            self._task = self._bar.add_task("", total=self.max_steps, completed=step)
            self._bar.start()

    def train(self, step: int, *, loss: float, rate: float, speed: float, seconds_left: float) -> None:
        """Report training: loss in nats per target token, learning rate, target tokens per second."""
        line = f"loss {loss:.3f}  rate {rate:.2e}  {speed:,.0f} target tokens/s  {_clock(seconds_left)} left"
        if self._bar is not None:
            self._bar.update(self._task, completed=step, description=line)
        else:
            self.say(f"step {step}/{self.max_steps}  {line}")
        self._record("train", step, loss=loss, learning_rate=rate, target_tokens_per_second=speed)

    def advance(self, step: int) -> None:
        """Move the bar between reports."""
        if self._bar is not None:
            self._bar.update(self._task, completed=step)

    def validation(self, step: int, scores: dict[str, float], *, best: bool, name: str = "dev") -> None:
        """Report a validation; one without scores is recorded and not shown."""
        shown = "  ".join(f"{key} {value:.3f}" for key, value in scores.items())
        if shown:
            self.say(f"step {step}  {name}: {shown}{'  (best so far)' if best else ''}")
        self._record(name, step, **scores)

    def say(self, line: str) -> None:
        """Print one line above the bar."""
        self.console.print(line, markup=False)

    def stop(self) -> None:
        """End the report and draw the curves."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        if self._out is not None:
            self._out.close()
            self._out = None
        if self._board is not None:
            self._board.close()
        draw_curves(read_metrics(self.file), self.run / "curves.png")

    def _record(self, kind: str, step: int, **values: float) -> None:
        assert self._out is not None, "monitor used before start"
        with disk_errors(self.file):
            self._out.write(json.dumps({"kind": kind, "step": step, **values}) + "\n")
            self._out.flush()
        if self._board is not None:
            for key, value in values.items():
                self._board.add_scalar(f"{kind}/{key}", value, step)

    def sync(self) -> None:
        """Flush what was recorded to the disk, before a checkpoint that it belongs to."""
        if self._out is not None:
            with disk_errors(self.file):
                os.fsync(self._out.fileno())


def draw_curves(records: Sequence[dict[str, Any]], file: Path) -> None:
    """Draw training and development loss, BLEU where it was measured, and the learning rate against the step.

    Nothing is drawn before there is anything to draw.
    """
    from matplotlib.figure import Figure

    train = [r for r in records if r["kind"] == "train"]
    dev = [r for r in records if r["kind"] == "dev"]
    if not train and not dev:
        return
    with_bleu = [r for r in dev if "bleu" in r]
    figure = Figure(figsize=(10, 3.2), layout="constrained")
    axes = figure.subplots(1, 3 if with_bleu else 2)
    if train:
        axes[0].plot([r["step"] for r in train], [r["loss"] for r in train], label="training", color="0.65")
    if dev:
        axes[0].plot([r["step"] for r in dev], [r["loss"] for r in dev], label="development", color="C0")
    axes[0].set(title="Loss", xlabel="step", ylabel="nats per target token")
    axes[0].legend(frameon=False)
    axes[1].plot([r["step"] for r in train], [r["learning_rate"] for r in train], color="C0")
    axes[1].set(title="Learning rate", xlabel="step")
    if with_bleu:
        axes[2].plot([r["step"] for r in with_bleu], [r["bleu"] for r in with_bleu], color="C0")
        axes[2].set(title="Development BLEU", xlabel="step")
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    with atomic_file(file) as out:
        figure.savefig(out, format="png", dpi=120)


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def _tensorboard_writer(run: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ConfigError(
            "training.tensorboard: needs the tensorboard package, found none; "
            "run `pip install headwise[tensorboard]`"
        ) from None
    return SummaryWriter(str(run / "tensorboard"))
