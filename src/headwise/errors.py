"""Exceptions for user errors.

The message of each is a single sentence that names the file, line or option at fault, what was expected and what was
found. The command line prints that sentence and exits with code 2. Any other exception is a bug in Headwise and shows
its traceback.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager


class HeadwiseError(ValueError):
    """Base class of errors that the user can correct; the message is one sentence."""


@contextmanager
def script_errors() -> Iterator[None]:
    """Print the user's error that a script raises in the block, and end it with code 2, as the command line does."""
    try:
        yield
    except HeadwiseError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None


class ConfigError(HeadwiseError):
    """A configuration key or command-line option is unknown, or its value can't be used."""


class DataError(HeadwiseError):
    """An input file is missing, empty, unreadable, or doesn't match its parallel file."""


class CheckpointError(HeadwiseError):
    """A run directory or checkpoint is missing, damaged, or doesn't match the data, model or configuration."""


class DeviceError(HeadwiseError):
    """The requested device or precision isn't available."""


class TrainingError(HeadwiseError):
    """Training can't continue, for example because the loss is not finite or the disk is full."""


class LockedError(TrainingError):
    """Another process writes the same file or directory."""


def suggestion(name: str, known: Collection[str], cutoff: float = 0.6) -> str:
    """Return for a message, in brackets, the known name that is most like an unknown one, or all that are known."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=cutoff)
    return f"(did you mean {near[0]}?)" if near else f"(known: {', '.join(known)})"
