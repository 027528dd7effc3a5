"""Translation of a training text by a teacher, which resumes after an interruption.

Sequence-level knowledge distillation (Kim and Rush 2016, section 3.2) replaces the references of a training text by the
results of the teacher's beam search. Sequence-level interpolation (section 3.3) takes the hypothesis of the beam that
is nearest to the reference by sentence BLEU.

The folder holds a file of translations for each source file, line by line, the teacher's subword model and a manifest.
Text is translated in chunks of `CHUNK` lines. After each chunk its translations are appended and flushed to the disk,
and then the manifest is replaced, which records the number and the checksum of the complete lines. After an
interruption, what lies beyond them is cut off, and the next chunk is translated. The chunks are the same wherever it
was interrupted, and so are the files, byte for byte.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from headwise.chunks import chunks
from headwise.decoding.options import SearchOptions
from headwise.decoding.translator import Translator
from headwise.errors import CheckpointError, DataError
from headwise.evaluation.translation import nearest
from headwise.files import disk_errors, read_errors, remove_directory, remove_partial, write_text
from headwise.parsing.json_text import read_json
from headwise.tasks.distillation.progress import TranslationProgress
from headwise.tasks.distillation.teacher import SourceText, Teacher
from headwise.text.reading.lines import one_line

CHUNK = 1024  # lines that a kill loses at most
MANIFEST = "manifest.json"
_FORMAT = 1
_BLOCK = 1 << 20  # bytes
_LEFT_OUT = ("empty", "not_utf8", "too_long")
_DEFAULTS = {option.name: option.default for option in fields(SearchOptions)}
_ALWAYS = ("beam", "alpha", "extra_length")  # search options that are recorded even with their default values
_WORKERS = re.compile(r", \d+ workers?\b")  # in the description of an engine

_Count = Annotated[int, Field(ge=0, le=1 << 62)]


class _FileState(BaseModel):
    """The complete lines of a file of translations, and how many of them are empty, by reason."""

    model_config = ConfigDict(extra="forbid", strict=True)

    lines: _Count = 0
    bytes: _Count = 0
    sha256: str = hashlib.sha256().hexdigest()
    empty: _Count = 0
    not_utf8: _Count = 0
    too_long: _Count = 0


class _Manifest(BaseModel):
    """What the translations depend on (`request`), where they come from, and how many there are."""

    model_config = ConfigDict(extra="forbid", strict=True)

    request: dict[str, str | int | float | bool | None]
    teachers: list[str]
    sources: list[str]
    totals: list[_Count]  # lines of each source file
    engine: str  # the teacher's engine and precision
    files: list[_FileState]

    @property
    def lines(self) -> int:
        return sum(state.lines for state in self.files)

    @property
    def finished(self) -> bool:
        return [state.lines for state in self.files] == self.totals

    def check(self, request: dict[str, Any], folder: Path) -> None:
        """Raise `CheckpointError` if the translations depend on something else than `request`."""
        changed = [
            f"{key}={self.request.get(key)}, found {key}={request.get(key)} now"
            for key in dict.fromkeys([*self.request, *request])
            if self.request.get(key) != request.get(key)
        ]
        if changed:
            raise CheckpointError(
                f"{folder}: was begun with {'; with '.join(changed)}; keep what it was begun with to go on, use "
                "another run directory, or --restart to begin anew"
            )

    def check_engine(self, engine: str, folder: Path) -> None:
        """Raise `CheckpointError` if the remaining translations would be computed by another engine."""
        if self.engine != engine:
            raise CheckpointError(
                f"{folder}: was begun with {self.engine}, found {engine} now; keep what it was begun with to go on, "
                "use another run directory, or --restart to begin anew"
            )

    def save(self, folder: Path) -> None:
        """Replace the manifest in the folder; raises `TrainingError`."""
        write_text(folder / MANIFEST, self.model_dump_json(indent=1))

    def report(self) -> str:
        """Return the numbers of lines that are translated and left out, as a sentence."""
        counts = {name: sum(getattr(state, name) for state in self.files) for name in _LEFT_OUT}
        total = sum(self.totals)
        return (
            f"{total:,} lines, {total - sum(counts.values()):,} translated; left out: {counts['empty']:,} empty, "
            f"{counts['too_long']:,} over {self.request['max_words']} words or the teacher's maximum length, "
            f"{counts['not_utf8']:,} not UTF-8"
        )


@dataclass(frozen=True)
class Translations:
    """The finished translations of a text."""

    files: list[Path]  # one for each source file, with as many lines
    report: str


def translate_text(
    teacher: Teacher,
    text: SourceText,
    folder: Path,
    *,
    restart: bool = False,
    say: Callable[[str], None] = lambda _: None,
    quiet: bool = False,
) -> Translations:
    """Translate the lines that `folder` lacks.

    A line that is empty, isn't UTF-8, or is longer than `text.max_words` or than the teacher reads gets an empty
    translation; cleaning removes it, and the files stay parallel. With `restart`, translations by another teacher, of
    other text or with other options are removed; those that would be the same are kept.

    Raises:
        CheckpointError: the folder has translations by another teacher, of other text or with other options, or damaged
            ones; or a run of the teacher is missing or damaged.
        ConfigError: an option is out of range, or the teacher doesn't support it.
        DataError: a file is missing, empty, binary or damaged, or doesn't match its references.
        TrainingError: the folder can't be written.
    """
    options = teacher.options()
    request = _request(teacher, text, options)
    translator = None
    try:
        manifest = _open(folder, request, len(text.sources))
        if manifest is not None and not manifest.finished:
            translator = teacher.load()
            manifest.check_engine(_engine(translator), folder)
    except CheckpointError:
        if not restart or not (folder / MANIFEST).exists():
            raise
        say(f"{folder}: removing the earlier translations")
        remove_directory(folder)
        manifest = None
    if manifest is None:
        translator = translator or teacher.load()
        manifest = _begin(folder, request, teacher, text, translator)
    if translator is not None:
        say(f"teacher: {translator.engine}")
        if manifest.lines:
            say(f"{folder}: {manifest.lines:,} of {sum(manifest.totals):,} lines are translated already")
        try:
            _translate(translator, text, options, folder, manifest, quiet=quiet)
        except KeyboardInterrupt:
            say(f"{folder}: {manifest.lines:,} lines are saved; the same command goes on from there")
            raise
    files = [_target(folder, index) for index in range(len(manifest.files))]
    return Translations(files, manifest.report())


def _request(teacher: Teacher, text: SourceText, options: SearchOptions) -> dict[str, Any]:
    """Return what the translations depend on; raises `CheckpointError` and `DataError` as `translate_text` does."""
    search = {
        name: value for name, value in vars(options).items() if name in _ALWAYS or value != _DEFAULTS[name]
    }
    return {"format": _FORMAT, "chunk": CHUNK, "teacher": teacher.digest(), **text.request(), **search}


def _begin(
    folder: Path, request: dict[str, Any], teacher: Teacher, text: SourceText, translator: Translator
) -> _Manifest:
    """Write the teacher's subwords, and a manifest without translations."""
    manifest = _Manifest(
        request=request,
        teachers=[str(run) for run in teacher.runs],
        sources=[str(path) for path in text.sources],
        engine=_engine(translator),
        totals=[sum(1 for _ in text.lines(index)) for index in range(len(text.sources))],
        files=[_FileState() for _ in text.sources],
    )
    translator.subwords.save(folder)
    manifest.save(folder)
    return manifest


def _engine(translator: Translator) -> str:
    """Return the description of a translator's engine without its workers, which don't change the translations."""
    return _WORKERS.sub("", translator.engine)


def _open(folder: Path, request: dict[str, Any], sources: int) -> _Manifest | None:
    """Read the manifest and check the files that it describes; None if there is none.

    Raises `CheckpointError` as `translate_text` does, and `DataError` if the folder holds something else.
    """
    path = folder / MANIFEST
    if not path.exists():
        others = {file.name for file in folder.iterdir()} if folder.is_dir() else set()
        if any(not name.startswith((".", "spm.")) for name in others):
            raise DataError(
                f"{folder}: expected a new folder or one with translations, found other files in it"
            )
        return None
    try:
        manifest = _Manifest.model_validate(read_json(path))
    except (DataError, ValidationError):
        raise CheckpointError(f"{path}: expected a manifest of translations, found something else") from None
    manifest.check(request, folder)
    if not len(manifest.totals) == len(manifest.files) == sources:
        raise CheckpointError(f"{path}: expected the state of {sources} files, found that of others")
    for index, state in enumerate(manifest.files):
        _check_file(_target(folder, index), state)
    remove_partial(folder / "*")
    return manifest


def _target(folder: Path, index: int) -> Path:
    return folder / f"target-{index + 1}.txt"


def _check_file(path: Path, state: _FileState) -> None:
    """Raise `CheckpointError` if the complete lines of a file aren't the recorded ones; more may follow them."""
    if _digest(path, state.bytes).hexdigest() != state.sha256:
        raise CheckpointError(
            f"{path}: expected the {state.lines:,} translations that {MANIFEST} records, found a changed file; "
            "--restart translates anew"
        )


def _digest(path: Path, size: int) -> hashlib._Hash:
    """Return the SHA-256 of the first `size` bytes of a file, which may be shorter or missing."""
    digest = hashlib.sha256()
    if path.exists():
        with read_errors(path), open(path, "rb") as file:
            while block := file.read(min(size, _BLOCK)):
                digest.update(block)
                size -= len(block)
    return digest


def _translate(
    translator: Translator,
    text: SourceText,
    options: SearchOptions,
    folder: Path,
    manifest: _Manifest,
    *,
    quiet: bool,
) -> None:
    """Translate the remaining lines, chunk by chunk."""
    if text.references:
        options = dataclasses.replace(options, n_best=options.beam)
    with TranslationProgress(sum(manifest.totals), manifest.lines, quiet=quiet) as progress:
        for index, state in enumerate(manifest.files):
            path = _target(folder, index)
            digest = _digest(path, state.bytes)
            rows = itertools.islice(text.lines(index), state.lines, None)
            for chunk in chunks(rows, itertools.repeat(CHUNK)):
                targets = _chunk(translator, text, options, chunk, state)
                data = "".join(f"{target}\n" for target in targets).encode()
                _append(path, state.bytes, data)
                digest.update(data)
                state.lines += len(chunk)
                state.bytes += len(data)
                state.sha256 = digest.hexdigest()
                manifest.save(folder)
                progress.advance(len(chunk))


def _append(path: Path, size: int, data: bytes) -> None:
    """Write data behind the first `size` bytes of a file, and flush it to the disk; raises `TrainingError`."""
    with disk_errors(path), open(path, "ab") as file:
        file.truncate(size)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _chunk(
    translator: Translator,
    text: SourceText,
    options: SearchOptions,
    chunk: Sequence[tuple[bytes, bytes]],
    state: _FileState,
) -> list[str]:
    """Translate a chunk of lines and their references; counts in `state` the lines without a translation."""
    sources: dict[int, str] = {}
    longest = translator.search_model.max_length - 1  # EOS is one more
    for row, (source, _) in enumerate(chunk):
        line = _decoded(source)
        if line is None:
            state.not_utf8 += 1
        elif not line:
            state.empty += 1
        elif len(line.split()) > text.max_words or len(translator.subwords.encode_source(line)) > longest:
            state.too_long += 1
        else:
            sources[row] = line
    translations = translator.translate(list(sources.values()), options)
    targets = [""] * len(chunk)
    for row, translation in zip(sources, translations, strict=True):
        reference = _decoded(chunk[row][1])
        candidates = [output.text for output in translation.outputs]
        targets[row] = nearest(candidates, reference, text.tokenize) if reference else translation.text
    return targets


def _decoded(line: bytes) -> str | None:
    """Return a line of text as cleaning decodes it (`clean_pairs`), None where it isn't UTF-8 text."""
    try:
        text = one_line(line.decode("utf-8")).strip()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text
