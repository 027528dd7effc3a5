"""Runs for other toolkits, as `headwise export` writes them, and the run directory of a model in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headwise.errors import ConfigError

if TYPE_CHECKING:
    from headwise.config import Config
    from headwise.engine.translator import Translator

# Exporters of layers above `headwise.interop`.
_MORE_EXPORTERS = {"page": "headwise.page.static_page"}
_RUN = "run"


def export(
    run: Path,
    out: Path,
    to: str,
    precision: str | None = None,
    average: int | None = None,
    languages: tuple[str | None, str | None] = (None, None),
    *,
    shortlist: bool = False,
    others: Sequence[Path] = (),
) -> list[str]:
    """Write a run's model for another toolkit, as a web page that needs no server, or as another run; return notes.

    Raises as `Run.export`.
    """
    from headwise.api.other_run import write_other_run

    if to == _RUN:
        for option, value in zip(("--from-language", "--to-language"), languages, strict=True):
            if value is not None:
                raise ConfigError(f"{option}: expected it without --to run, which keeps the languages, found both")
        if precision is None and average is None and not shortlist and not others:
            raise ConfigError("--to run: expected --precision, --average, --with or --shortlist beside it, found none")
        return [write_other_run(run, out, precision, average, shortlist=shortlist, others=others)]
    parts = {"--average": average is not None, "--with": bool(others), "--shortlist": shortlist}
    for option, given in parts.items():
        if given:
            raise ConfigError(f"{option}: expected it together with --to run, found --to {to}")
    from headwise.interop.formats import EXPORTERS, find_exporter
    from headwise.interop.runs import export_run

    exporter = find_exporter(to, {"run": ""} | EXPORTERS | _MORE_EXPORTERS)  # "run" for the message alone
    return [*export_run(run, exporter, to, out, precision, languages), f"{out}: {run} as {to}"]


def save_model(translator: Translator, config: Config, out: Path) -> None:
    """Write the run directory of a model that has none; raises `CheckpointError` if something is there."""
    from headwise.decoding.translator_model import pytorch_model
    from headwise.interop.base import Imported
    from headwise.interop.runs import write_run
    from headwise.models.build import shapes

    model, subwords = pytorch_model(translator), translator.subwords
    parameters = {name: p.detach().float().cpu().numpy() for name, p in model.named_parameters()}
    built = Imported(
        config=config,
        shapes=lambda: shapes(model),
        tensors={name: lambda tensor=tensor: tensor for name, tensor in parameters.items()},
        text=subwords,
    )
    write_run(built, out, "a model in memory")
