"""The text that rows train on: brought or made where it is missing, and checked to be the scale's.

A scale's text is in the package (tiny), brought by `headwise data get`, or made from what that brings. Rows on a part
of it read files with every n-th line; rows on shards (wmt14) have those encoded from the files of their configuration,
with its cleaning rules, subwords and development set.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

from headwise.config import Config
from headwise.corpora.built_in import write_built_in
from headwise.data.prepared import MANIFEST, files_checksum
from headwise.errors import DataError
from headwise.experiments.harness.rows import INTERRUPTED, ExperimentRow, TrainingRow, configured
from headwise.experiments.scales import Scale
from headwise.files import write_bytes
from headwise.processes import child_environment, python_command


def prepare_text(rows: Sequence[ExperimentRow], scale: Scale, say: Callable[[str], None]) -> None:
    """Bring or make what rows at a scale read, and check it; rows that don't depend on the scale need nothing.

    Raises `DataError` for a missing file, with the command that makes it, for text that isn't the scale's, or if a
    command fails.
    """
    if not any(row.scale == scale.name for row in rows):
        return
    folder = scale.test.target.parent
    if scale.built_in and not (folder / "train.en").exists():  # the last that is written
        write_built_in(scale.built_in, folder)
    for command in shard_commands(rows, scale):
        _run(command, say)
    trained = [row for row in rows if isinstance(row, TrainingRow)]
    for name in sorted({row.test for row in trained} or {""}):
        scale.test_set(name).check()
    text = configured(scale.base.file, scale.base.changes).data
    if scale.checksum:
        _check(scale, [*text.source, *text.target, *filter(None, (text.dev_source, text.dev_target))])
    configs = [row.configuration().data for row in trained]
    read = {file for data in configs for file in (*data.source, *data.target)}
    for of in scale.parts:
        for file in (*text.source, *text.target):
            if part_of(file, of) in read:
                _write_part(Path(file), of)


def shard_commands(rows: Sequence[ExperimentRow], scale: Scale) -> list[list[str]]:
    """Return the commands that download and prepare the rows' shards, without those of shards that are there."""
    commands: dict[str, list[list[str]]] = {}
    for row in (row for row in rows if isinstance(row, TrainingRow)):
        config = row.configuration()
        for out in config.data.prepared:
            if not (Path(out) / MANIFEST).exists():
                get = ["headwise", "data", "get", scale.test_set(row.test).corpus]
                commands[out] = [get, _preparation(Config.load(row.config), config, out)]
    return [command for of_corpus in commands.values() for command in of_corpus]


def part_of(file: str, of: int) -> str:
    """Return the name of the file with every n-th line of another one: `train.en` → `train.every8.en`."""
    path = Path(file)
    return str(path.with_suffix(f".every{of}{path.suffix}"))


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


def _run(command: list[str], say: Callable[[str], None]) -> None:
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
        raise DataError(f"`{shlex.join(command)}`: expected it to end well, found exit code {process.returncode}")


def _check(scale: Scale, files: Sequence[str]) -> None:
    if missing := [file for file in files if not Path(file).exists()]:
        command = f"`{scale.made_by}` makes it" if scale.made_by else scale.test.brought()
        raise DataError(f"{missing[0]}: there is no such file; {command}")
    found = files_checksum(map(Path, files))
    if found != scale.checksum:
        raise DataError(
            f"{Path(files[0]).parent}: expected the text of the scale {scale.name} (checksum {scale.checksum}), "
            f"found {found}"
        )


def _write_part(file: Path, of: int) -> None:
    """Write every n-th line of a file, unless that is there already: a run may be reading it."""
    with file.open("rb") as lines:
        part = b"".join(islice(lines, 0, None, of))
    out = Path(part_of(str(file), of))
    if not out.exists() or out.read_bytes() != part:
        write_bytes(out, part)
