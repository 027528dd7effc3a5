"""Headwise: two text files in, a translator out, and every head in it open to view.

`headwise.load("runs/de").translate(["A man rides a horse."])[0].text` is a German sentence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwise.decoding.translator import Translator

__version__ = "0.1.0"
__all__ = ["load"]


def load(run: str, *more: str, device: str = "auto", precision: str = "float32") -> Translator:
    """Load a trained run; with several runs of the same subwords, they vote as an ensemble.

    Raises `CheckpointError` where a run is missing or damaged, and `DeviceError` where the device isn't there.
    """
    from headwise.decoding.translator import Translator  # torch is imported here, not with the package

    return Translator.load([run, *more], device=device, precision=precision)
