"""Translation of files: lines and records chunk by chunk, so that it can be resumed, and documents."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headwise.errors import ConfigError, DataError

if TYPE_CHECKING:
    from headwise.documents.formats import DocumentFormat
    from headwise.documents.rendering import Rendered
    from headwise.engine.corpus.columns import Columns
    from headwise.engine.corpus.manifest import Manifest
    from headwise.engine.corpus.runs import Runs
    from headwise.engine.corpus.work import TranslatedChunk
    from headwise.engine.outputs import Translation
    from headwise.text.reading.glossary import Glossary


_CHUNK = 1024  # lines


@dataclass(frozen=True)
class Request:
    """The options of a translation.

    Attributes:
        runs: the runs and their search options.
        columns: what is written.
        glossary: terms to place.
        split: whether lines are translated sentence by sentence.
        chunk: lines read ahead.
        prefixes: a file with the beginnings of the translations.
        inputs: all input files, none of which may be the output.
    """

    runs: Runs
    columns: Columns
    glossary: Glossary | None
    split: bool
    chunk: int
    prefixes: Path | None
    inputs: tuple[Path | None, ...]


def translate_file(
    request: Request,
    file: Path,
    out: Path,
    fields: tuple[str, str],
    *,
    bad_lines: str | None = None,
    restart: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> list[str]:
    """Translate a file into a file and return warnings; the same call resumes after an interruption.

    `say` gets lines about the progress. `fields` are those of the text and of the translation in files of records.
    `bad_lines` is the rule for bad lines; None stops at a line that can't be read, and cuts one that is too long.
    """
    from headwise.api.remarks import Notes, UnknownWords
    from headwise.engine.corpus.rows import TextFile, check_rule, form_of
    from headwise.engine.corpus.translation import FileTranslation, appended
    from headwise.engine.corpus.work import TextWork
    from headwise.files import check_output

    rule = check_rule(bad_lines or "stop")
    check_output(out, *request.inputs)
    records = form_of(out) == ".jsonl" and not request.columns.jsonl
    work = TextWork(
        request.runs,
        TextFile(file, fields[0], rule),
        appended(out),
        request.columns,
        target_field=fields[1] if records else None,
        glossary=request.glossary,
        split=request.split,
        long_lines=bad_lines or "cut",
    )
    unknown, notes = UnknownWords(), Notes()

    def notice(result: TranslatedChunk) -> None:
        for remark in result.remarks:
            unknown.add(remark.number, remark.unknown, remark.words)
            notes.add(remark.number, remark.sentences)
        for warning in result.long:
            warnings.warn(warning, stacklevel=2)

    job = FileTranslation(work, out, request.chunk, request.prefixes, fields[1], restart)
    done = job.run(say, notice)
    return [*unknown.lines(done.lines), *notes.lines(), *_about_bad_lines(done, out, rule)]


def translate_any(
    runs: Runs, file: Path, out: Path, *, glossary: Glossary | None = None, split: bool = False
) -> list[str]:
    """Translate a file of lines, records or a document as the file's name says; return warnings."""
    from headwise.engine.corpus.columns import Columns

    columns = Columns(numbers=runs.options().n_best > 1)
    request = Request(runs, columns, glossary, split, _CHUNK, None, (file,))
    if (form := document_format(file, out, ())) is not None:
        return translate_document(request, form, file, out)
    return translate_file(request, file, out, ("source", "target"))


def document_format(file: Path | None, out: Path | None, of_lines: Sequence[str]) -> DocumentFormat | None:
    """Return the format of a document, None for lines; raises `ConfigError` for options that don't go with one.

    `of_lines` are those that were given and that only lines have. Lines don't go into a document, nor one into another.
    """
    from headwise.documents.formats import format_of

    form = None if file is None else format_of(file.name)
    if file is None or form is None or form.lines:
        made = None if out is None else format_of(out.name)
        if out is not None and made is not None and not made.lines:
            raise ConfigError(f"-o: expected a {out.suffix} file to translate into {out}, found lines of text")
        return None
    for option in of_lines:
        raise ConfigError(f"{option}: expected a file of lines beside it, found the document {file}")
    if out is None:
        raise ConfigError(f"-o: expected a {file.suffix} file for the translation of {file}, found none")
    if format_of(out.name) is not form:
        raise ConfigError(f"-o: expected a name that ends with {file.suffix}, as {file} does, found {out}")
    if out.is_dir():
        raise ConfigError(f"{out}: expected a file, found a directory")
    return form


def translate_document(
    request: Request,
    form: DocumentFormat,
    file: Path,
    out: Path,
    say: Callable[[str], None] = lambda line: None,
) -> list[str]:
    """Translate a document into another file of its format and return warnings; raises `DataError` as its reader.

    `say` gets the description of the engine.
    """
    from headwise.api.remarks import Notes, UnknownWords
    from headwise.engine.documents import translate_document as translated
    from headwise.files import atomic_file, check_output, read_errors

    check_output(out, *request.inputs)
    with read_errors(file), open(file, "rb") as source:
        content = source.read(form.most_bytes + 1)
    translator = request.runs.load()
    language, target = translator.languages
    try:
        document = form.read(content, target or "", language or "")
    except DataError as error:
        raise DataError(f"{file}: {str(error).removeprefix('file: ')}") from None
    say(translator.description)
    unknown, notes, number = UnknownWords("sentence"), Notes("sentence"), 0

    def notice(sentence: Rendered[Translation]) -> None:
        nonlocal number
        number += 1
        found = sentence.translation
        unknown.add(number, found.unknown, len(found.source.split()))
        notes.add(number, [*found.warnings, *sentence.warnings])

    options = translator.options_with(**request.runs.search)
    with atomic_file(out) as written:
        written.write(
            translated(
                translator,
                document,
                options,
                language or "",
                glossary=request.glossary,
                chunk=request.chunk,
                notice=notice,
            )
        )
    return [*unknown.lines(number), *notes.lines()]


def _about_bad_lines(done: Manifest, out: Path, rule: str) -> list[str]:
    names = {"not_utf8": "not UTF-8", "malformed": "without the field", "too_long": "too long"}
    counts = [f"{count:,} {words}" for name, words in names.items() if (count := getattr(done, name))]
    if not counts or rule == "stop":
        return []
    became = "left empty" if rule == "empty" else "translated as far as they are readable"
    return [f"{out}: bad lines, {became}: {', '.join(counts)} of {done.lines:,}"]
