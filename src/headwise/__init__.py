"""Headwise: train a Transformer on parallel text, translate with it, and inspect every attention head.

`headwise.load("runs/de").translate(["A man rides a horse."])[0].text` is a German sentence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwise.engine.translator import Translator

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
    language: str | None = None,
) -> Translator:
    """Load a trained model from its run directory; several runs with the same subwords form an ensemble.

    `demo` is the model in the package, which `headwise demo` has trained.
    `precision` is float32, bfloat16, int8, auto for the fastest, or None for the precision the run is stored in;
    `engine` is native, pytorch or auto; `workers` is the number of search threads, 0 for one per processor;
    `shortlist` enables the lexical shortlist of `headwise export --shortlist`; `language` is a target language of an
    imported model for several.

    Raises `CheckpointError` if a run is missing or damaged, and `ConfigError` or `DeviceError` if it can't be decoded
    with these options.
    """
    from headwise.engine.translator import Translator  # with NumPy and pydantic, so not at package import

    return Translator.load(
        [run, *more],
        device=device,
        precision=precision,
        engine=engine,
        workers=workers,
        shortlist=shortlist,
        language=language,
    )
