"""Errors that name a user's mistake.

Every one of them carries a single sentence that says which file, line or option is at fault, what was
expected and what was found. The command line prints that sentence and exits with code 2; anything else
that escapes is a bug of ours and shows its traceback.
"""

from __future__ import annotations


class HeadwiseError(ValueError):
    """A mistake that the user can mend; its message is one clear sentence."""


class ConfigError(HeadwiseError):
    """A configuration key or command-line option is unknown, or its value can't be used."""


class DataError(HeadwiseError):
    """A text file is missing, empty, unreadable, or doesn't fit its partner."""


class CheckpointError(HeadwiseError):
    """A run directory or checkpoint is missing, damaged, or belongs to something else."""


class DeviceError(HeadwiseError):
    """The device or precision asked for isn't there."""


class TrainingError(HeadwiseError):
    """Training can't continue: the loss is not finite, or the disk is full."""
