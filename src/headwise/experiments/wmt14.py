"""The paper's own training, on WMT 2014: its models of table 2, and the commands that bring and prepare their text.

The text of a row at the scale `wmt14` is that of its configuration file, downloaded by `headwise data get` and encoded
into shards by `headwise data prepare`, with the file's cleaning rules, subwords and development set.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

from headwise.config import Config
from headwise.data.prepared import MANIFEST
from headwise.errors import DataError
from headwise.experiments import table2
from headwise.experiments.harness.outcome import Finding
from headwise.experiments.harness.records import Results
from headwise.experiments.harness.rows import INTERRUPTED, TrainingRow
from headwise.experiments.harness.runner import Experiment
from headwise.experiments.scales import Scale
from headwise.processes import child_environment, python_command

NAME = "wmt14"  # of the scale, and for `headwise reproduce`
ABOUT = "The paper's models on WMT 2014, from the download to both kinds of BLEU."
BASE = "table2-transformer"  # the row that is trained unless others are named


def text_commands(rows: Iterable[TrainingRow], scale: Scale) -> list[list[str]]:
    """Return the commands that download and prepare the rows' text, without text that is prepared already."""
    commands: dict[str, list[list[str]]] = {}
    for row in rows:
        config = row.configuration()
        for out in config.data.prepared:
            if not (Path(out) / MANIFEST).exists():
                get = ["headwise", "data", "get", scale.test_set(row.test).corpus]
                commands[out] = [get, _preparation(Config.load(row.config), config, out)]
    return [command for of_corpus in commands.values() for command in of_corpus]


def _preparation(file: Config, row: Config, out: str) -> list[str]:
    """Return the command that prepares the text of a configuration file for a row."""
    text, cleaning = file.data, file.data.cleaning
    assert text.dev_source is not None
    assert text.dev_target is not None
    return [
        *("headwise", "data", "prepare"),
        *(word for name in text.source for word in ("--source", name)),
        *(word for name in text.target for word in ("--target", name)),
        *("--dev-source", text.dev_source, "--dev-target", text.dev_target),
        *("--max-words", str(cleaning.max_words), "--max-ratio", f"{cleaning.max_ratio:g}"),
        *([] if cleaning.drop_duplicates else ["--keep-duplicates"]),
        *("--subwords", str(row.subwords.size), "--max-length", str(row.model.max_length), "-o", out),
    ]


def bring_text(rows: Iterable[TrainingRow], scale: Scale, say: Callable[[str], None]) -> None:
    """Download and prepare the rows' text where it isn't prepared yet; raises `DataError` if a command fails."""
    for command in text_commands(rows, scale):
        say(f"$ {shlex.join(command)}")
        with subprocess.Popen(
            python_command("-m", *command), env=child_environment(), stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                say(line.rstrip("\n"))
        if process.returncode in INTERRUPTED:
            raise KeyboardInterrupt
        if process.returncode:
            raise DataError(
                f"`{shlex.join(command)}`: expected it to end well, found exit code {process.returncode}"
            )


def rows(scale: Scale) -> list[TrainingRow]:
    """Return the rows of table 2 that the paper trained."""
    return [
        row for row in table2.rows(scale) if row.name in {BASE, *(f"table2-{name}" for name in scale.more)}
    ]


def find(results: Results) -> Finding:
    """Tabulate both kinds of BLEU beside the paper's."""
    names = [row.name.removeprefix("table2-") for row in results.rows]
    return Finding([table2.systems_table(results, "", "The paper's models on WMT 2014", None, names)])


EXPERIMENT = Experiment(NAME, "The paper's models on WMT 2014", rows, find)
