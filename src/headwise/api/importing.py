"""Runs of other toolkits' models, as `headwise import` makes them."""

from __future__ import annotations

import os
from pathlib import Path

from headwise.api.arguments import with_arguments
from headwise.api.run import Run
from headwise.errors import ConfigError


def import_run(
    source: str, out: Path, form: str | None = None, languages: str | None = None, language: str | None = None
) -> list[str]:
    """Make a run directory of another toolkit's model; return notes. Arguments and errors as for `import_model`."""
    from headwise.config.languages import parse_languages
    from headwise.files import check_new
    from headwise.interop.formats import find_importer
    from headwise.interop.runs import with_language, write_run
    from headwise.interop.sources import locate

    check_new(out)  # before a download
    pair = None if languages is None else parse_languages(languages)
    path = locate(source)
    name, read = find_importer(path, form)
    imported = with_language(read(path), language)
    if pair is not None:
        if imported.config.task != "translation":
            raise ConfigError(f"--languages: expected a translation model, found one with task {imported.config.task}")
        told = imported.config.data.languages
        if None not in told and told != pair:
            files = ":".join(map(str, told))
            imported.notes.append(f"its languages are {languages}, as given; the model's files say {files}")
        imported = imported.in_languages(*pair)
    parameters = write_run(imported, out, source)
    return [*imported.notes, f"{out}: {parameters:,} parameters from {source} ({name})"]


@with_arguments
def import_model(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    format: str | None = None,
    languages: str | None = None,
    target_language: str | None = None,
) -> Run:
    """Make a run directory of another toolkit's model, as `headwise import` does; return the run.

    `path` is a directory or a file, or hf:OWNER/NAME[@REVISION] on the Hugging Face Hub; `format` its format, the first
    that recognizes it unless given; `languages` codes such as en-de; `target_language` the one to translate to, of a
    model for several. Raises `CheckpointError` for a model that is damaged or that Headwise can't express, and where
    something is at `out`.
    """
    import_run(os.fspath(path), Path(out), format, languages, target_language)
    return Run(out)
