"""`headwise translate`: translation of a file or standard input, line by line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from headwise import bounds
from headwise.api.translating import Request, document_format, translate_document, translate_file
from headwise.cli.arguments import (
    Alpha,
    AlreadyTranslated,
    Beam,
    CorpusEngine,
    Device,
    EnginePrecision,
    Imports,
    MoreRuns,
    OutputFile,
    Recase,
    SearchSettings,
    TargetLanguage,
    TrainedRun,
    Workers,
    count,
    refuse_without,
    search_settings,
    searchable,
)
from headwise.cli.streams import say, warn
from headwise.errors import ConfigError

if TYPE_CHECKING:
    from headwise.text.reading.glossary import Glossary


IgnoreCase = Annotated[bool, Option("--ignore-case", help="Find the glossary's terms in any case.")]
Alignments = Annotated[bool, Option("--alignments", help="Put a tab and word links (0-0 1-2) behind it.")]
UseShortlist = Annotated[bool, Option("--shortlist", help="Search only the subwords of the run's shortlist.")]
Chunk = Annotated[int, Option(min=1, max=bounds.COUNT, help="Lines read ahead (1024).", show_default=False)]


def command(
    run: TrainedRun,
    file: Annotated[Path | None, Argument(help="Lines, .jsonl, .parquet, a document; else stdin.")] = None,
    out: OutputFile = None,
    also: MoreRuns = None,
    language: TargetLanguage = None,
    beam: Beam = None,
    alpha: Alpha = None,
    n_best: Annotated[int | None, Option(callback=searchable, help="Translations a line, numbered.")] = None,
    settings: SearchSettings = None,
    prefix_file: Annotated[Path | None, Option(help="Beginnings of the translations, a line each.")] = None,
    glossary: Annotated[Path | None, Option(help="Terms to place: .tsv, .csv or .tbx.")] = None,
    ignore_case: IgnoreCase = False,
    recase: Recase = False,
    already_translated: AlreadyTranslated = None,
    split: Annotated[bool, Option("--split", help="Translate a line sentence by sentence.")] = False,
    scores: Annotated[bool, Option("--scores", help="Put score and tab before each output.")] = False,
    alignments: Alignments = False,
    jsonl: Annotated[bool, Option("--jsonl", help="Write a JSON object a line, with everything.")] = False,
    device: Device = "auto",
    imports: Imports = None,
    engine: CorpusEngine = "auto",
    precision: EnginePrecision = None,
    workers: Workers = 0,
    shortlist: UseShortlist = False,
    threads: Annotated[
        int, Option(min=0, max=bounds.PROCESSES, help="Of PyTorch; 0: its choice.", show_default=False)
    ] = 0,
    batch_tokens: Annotated[int | None, count(help="Subwords a batch, × beam.")] = None,
    chunk: Chunk = 1024,
    source_field: Annotated[str, Option(help="Of records: the text.")] = "source",
    target_field: Annotated[str, Option(help="Of records: the translation.")] = "target",
    on_bad_line: Annotated[
        str | None, Option(metavar="RULE", help="stop, replace or empty: for unreadable lines.")
    ] = None,
    restart: Annotated[bool, Option("--restart", help="Begin OUT anew, whatever there is of it.")] = False,
) -> None:
    """Translate a file or standard input, line by line, in its order; an empty line stays empty.

    With FILE and -o OUT, the same command resumes after an interruption. A document (.html, .xml, .docx, .srt, .po,
    .xlf, .tmx and others) keeps all but its sentences. Keys of -s: max_length, guard, sample, seed, ….

    Example: headwise translate runs/de test.en -o test.de --beam 5

    Example: headwise translate runs/de test.en -s sample=true -s top_k=10

    Example: headwise translate runs/de page.html -o seite.html
    """
    from headwise.engine.corpus.columns import Columns
    from headwise.engine.corpus.runs import Runs

    file = None if file == Path("-") else file
    keeps = None if already_translated is None else already_translated == "keep"
    asked = {"beam": beam, "alpha": alpha, "n_best": n_best, "recase": recase or None}
    search = search_settings(settings, **asked, keep_translated=keeps)
    columns = Columns(numbers=search.get("n_best", 1) > 1, scores=scores, alignments=alignments, jsonl=jsonl)
    of_lines = {
        "--n-best": columns.numbers,
        "--scores": scores,
        "--alignments": alignments,
        "--jsonl": jsonl,
        "--prefix-file": prefix_file,
        "--on-bad-line": on_bad_line,
        "--restart": restart,
        "--engine ray": engine == "ray",
    }
    _refuse_fields(file, source=source_field, target=target_field)
    document = document_format(file, out, [option for option, given in of_lines.items() if given])
    terms = _terms(glossary, run, ignore_case)
    _use_threads(threads)
    opened = {"device": device, "precision": precision, "engine": engine, "workers": workers}
    runs = Runs([run, *(also or [])], search, {**opened, "shortlist": shortlist, "language": language}, batch_tokens)
    translation = Request(runs, columns, terms, split, chunk, prefix_file, (file, prefix_file, glossary))
    if file is not None and document is not None and out is not None:
        warn(translate_document(translation, document, file, out, say))
    elif file is not None and out is not None and _regular(file, out):
        handling = {"bad_lines": on_bad_line, "restart": restart, "say": say}
        warn(translate_file(translation, file, out, (source_field, target_field), **handling))
    else:
        of_files = {
            "--target-field": target_field != "target",
            "--on-bad-line": on_bad_line,
            "--restart": restart,
            "--engine ray": runs.on_cluster,
        }
        refuse_without("FILE and -o OUT", of_files)
        _translate_stream(translation, file, out, source_field)


def _use_threads(threads: int) -> None:
    if threads:
        from headwise.nn.device import use_threads  # imports torch, which the native engine doesn't need

        use_threads(threads)


def _refuse_fields(file: Path | None, **fields: str) -> None:
    """Raise `ConfigError` for a field that isn't the usual one, of a file without fields."""
    from headwise.engine.corpus.rows import form_of

    for side in (side for side, name in fields.items() if name != side):
        if file is None or not form_of(file):
            raise ConfigError(
                f"--{side}-field: expected a FILE of records (.jsonl, .parquet) beside it, "
                f"found {file or 'standard input'}"
            )


def _terms(glossary: Path | None, run: Path, ignore_case: bool) -> Glossary | None:
    from headwise.config import Config
    from headwise.text.reading.glossary import read_glossary

    if glossary is not None:
        languages = Config.of_run(run, "translation").data.languages
        return read_glossary(glossary, languages, ignore_case=ignore_case)
    refuse_without("--glossary", {"--ignore-case": ignore_case})
    return None


def _translate_stream(request: Request, file: Path | None, out: Path | None, source_field: str) -> None:
    """Translate a file or standard input, and write each line when its chunk is translated."""
    from headwise.api.remarks import Notes, UnknownWords
    from headwise.cli.lines import line_writer, watched
    from headwise.text.reading.lines import read_lines

    _check_stream_output(out, jsonl=request.columns.jsonl)
    translator = request.runs.load()
    say(translator.description)
    interactive = file is None and sys.stdin.isatty()
    if interactive:
        say("translates what you type, line by line; Ctrl-D ends")
    source = read_lines(file) if file is None else _texts(file, source_field)
    translations = translator.translate_lines(
        watched(source, file, out, "translating"),
        translator.options_with(**request.runs.search),
        chunk=1 if interactive else request.chunk,
        prefixes=None if request.prefixes is None else read_lines(request.prefixes),
        glossary=request.glossary,
        split=request.split,
        alignments=request.columns.alignments,
    )
    unknown, number = UnknownWords(), 0
    notes = Notes()
    with line_writer(out, *request.inputs, live=file is None or not file.is_file()) as write:
        for number, translation in enumerate(translations, start=1):
            unknown.add(number, translation.unknown, len(translation.source.split()))
            notes.add(number, translation.warnings)
            for line in request.columns.lines(number, translation):
                write(line)
    warn([*unknown.lines(number), *notes.lines()])


def _check_stream_output(out: Path | None, *, jsonl: bool) -> None:
    """Raise `ConfigError` for an output whose name says that it isn't lines of text."""
    if out is None:
        return
    from headwise.engine.corpus.rows import form_of
    from headwise.text.reading.compression import compression

    if compression(out) or (form_of(out) and not (jsonl and form_of(out) == ".jsonl")):
        raise ConfigError(f"{out}: expected a FILE to translate into it, found a stream, which is lines of text")


def _texts(file: Path, source_field: str) -> Iterator[str]:
    from headwise.engine.corpus.rows import TextFile, form_of
    from headwise.text.reading.lines import read_lines

    return (row.text for row in TextFile(file, source_field).rows()) if form_of(file) else read_lines(file)


def _regular(file: Path, out: Path) -> bool:
    """Whether both are files, so that the translation can be resumed."""
    return file.is_file() and (out.is_file() or not out.exists())
