"""Headwise: two text files in, a translator out, and every head in it open to view.

`headwise.load("runs/de").translate(["A man rides a horse."])[0].text` is a German sentence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwise.decoding.translator import Translator

__version__ = "0.1.0"
__all__ = ["load"]


def load(
    run: str,
    *more: str,
    device: str = "auto",
    precision: str | None = None,
    engine: str = "auto",
    workers: int = 0,
    shortlist: bool = False,
) -> Translator:
    """Load a trained run; with several runs of the same subwords, they vote as an ensemble.

    `precision` is float32, bfloat16, int8, auto for the fastest, or None for what the run is stored in; `engine` is
    native, pytorch or auto; `workers` is the number of threads that search, 0 for one a processor; `shortlist` takes
    the shortlist that `headwise shortlist` learned.

    Raises `CheckpointError` where a run is missing or damaged, and `ConfigError` or `DeviceError` where it can't be
    decoded as asked.
    """
    from headwise.decoding.translator import Translator  # torch is imported here, not with the package

    return Translator.load(
        [run, *more],
        device=device,
        precision=precision,
        engine=engine,
        workers=workers,
        shortlist=shortlist,
    )
