"""Arguments and options that several subcommands share, and checks of options that go with some others only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option

from headwise import bounds
from headwise.errors import ConfigError
from headwise.plugins import import_modules
from headwise.shipped.runs import find_run


def group(text: str, example: str | None = None) -> typer.Typer:
    """Return a command that has subcommands, with its help."""
    return typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        help=text,
        epilog=example,
    )


def count(*names: str, least: int = 1, most: int = bounds.COUNT, **more: Any) -> Any:
    """Return an option for a number N within bounds."""
    return Option(*names, metavar="N", min=least, max=most, **more)


def named(value: Any) -> Any:
    """Put the directory of a shipped run in the place of its name, in a path, a list of paths or None."""
    if isinstance(value, list):
        return [find_run(path) for path in value]
    return None if value is None else find_run(value)


def _import(names: list[str] | None) -> list[str] | None:
    import_modules(names or [])
    return names


# Imports before anything else is looked at; a command's function has no use for the value.
Imports = Annotated[
    list[str] | None,
    Option(
        "--import",
        metavar="MODULE",
        is_eager=True,
        callback=_import,
        help="A module of your own, whose parts are used.",
    ),
]
TrainedRun = Annotated[Path, Argument(callback=named, help="A trained run: its directory or name.")]
MoreRuns = Annotated[
    list[Path] | None,
    Option("--with", metavar="RUN", callback=named, help="Another run, for an ensemble; repeatable."),
]
Languages = Annotated[str | None, Option(help="Codes, such as en-de, if the files don't tell.")]
Port = Annotated[int, Option(min=0, max=65535, help="0 takes a free one.")]
Tokenized = Annotated[bool, Option("--tokenized", help="Separate all words of a .conllu file.")]
Lowercase = Annotated[bool, Option("--lowercase", help="Lower-case the text.")]
Limit = Annotated[int | None, Option(min=1, max=bounds.COUNT, help="Read the first sentences only.")]
OutputFile = Annotated[
    Path | None,
    Option(
        "-o",
        "--out",
        callback=lambda out: None if out == Path("-") else out,  # as other programs have it
        help="Write here, not to standard output.",
    ),
]
AsJson = Annotated[bool, Option("--json", help="Print one JSON object.")]
Device = Annotated[str, Option(help="auto, cpu, cuda, cuda:1 or mps.")]
Engine = Annotated[str, Option(help="native, pytorch, or auto: the faster.")]
CorpusEngine = Annotated[str, Option(help="native, pytorch, auto, or ray: a cluster.", show_default=False)]
TargetLanguage = Annotated[
    str | None, Option("--target-language", help="Code in an imported vocabulary: deu for >>deu<<.")
]
# For models that only PyTorch computes.
Precision = Annotated[str, Option(help="float32, bfloat16, or auto: the faster.")]
# For models that the native engine computes, too; a run may be stored in its own precision.
EnginePrecision = Annotated[str | None, Option(help="float32, bfloat16, int8 or auto; else as stored.")]


def finite(value: float | None) -> float | None:
    """Refuse nan, which passes every check of bounds."""
    if value is not None and math.isnan(value):
        raise typer.BadParameter("expected a number, found nan")
    return value


def searchable(option: typer.CallbackParam, value: float | None) -> float | None:
    """Check the range of a search option before anything is loaded; raises `ConfigError`."""
    from headwise.engine.options import SearchOptions

    if option.name is not None and value is not None:
        SearchOptions.check(option.name, value)
    return value


def search_settings(settings: list[str] | None, **options: Any) -> dict[str, Any]:
    """Return the search options that `-s` sets, and those with an option of their own that isn't None.

    Raises `ConfigError` that names the key for one that is unknown, out of its range, given twice, or that doesn't go
    with the others.
    """
    from headwise.engine.options import SearchOptions

    found = SearchOptions.parse(settings or [])
    given = {name: value for name, value in options.items() if value is not None}
    for name in found.keys() & given.keys():
        option = "already-translated" if name == "keep_translated" else name.replace("_", "-")
        raise ConfigError(f"-s {name}: expected it once, found --{option} beside it")
    both = found | given
    known: dict[str, Any] = both if {"beam", "n_best"} <= both.keys() else both | {"n_best": 1}
    try:  # without a beam, the run tells how many hypotheses there may be
        SearchOptions(**known)
    except ConfigError as error:
        raise ConfigError(f"{'-s ' * (str(error).partition(':')[0] in found)}{error}") from None
    return both


def refuse_beside(other: str, options: Mapping[str, object]) -> None:
    """Raise `ConfigError` for an option that is given, not None or False, beside what leaves it without effect."""
    for option, value in options.items():
        if value is not None and value is not False:
            raise ConfigError(f"{option}: expected none beside {other}, found one")


def refuse_without(needed: str, options: Mapping[str, object]) -> None:
    """Raise `ConfigError` for an option that is given, not None or False, without what it needs."""
    for option, value in options.items():
        if value is not None and value is not False:
            raise ConfigError(f"{option}: expected {needed} beside it, found none")


SearchSettings = Annotated[
    list[str] | None, Option("-s", metavar="KEY=VALUE", help="Of the search: patience=2, guard=true, …")
]
Beam = Annotated[int | None, Option(callback=searchable, help="Beam size, if not the run's; 1: greedy.")]
Alpha = Annotated[float | None, Option(callback=searchable, help="Length penalty, if not the run's; 0: none.")]

AlreadyTranslated = Annotated[
    Literal["keep", "translate"] | None,
    Option(metavar="RULE", help="Text in the target language: keep or translate.", show_default=False),
]
Recase = Annotated[bool, Option("--recase", help="Read lines in one case as ordinary text.")]

Workers = Annotated[
    int, Option(min=0, max=bounds.PROCESSES, help="Threads that search; 0: one a CPU.", show_default=False)
]
