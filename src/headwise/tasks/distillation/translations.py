"""Translation of a training text by a teacher, which resumes after an interruption (`headwise.tasks.corpus.job`).

Sequence-level knowledge distillation (Kim and Rush 2016, section 3.2) replaces the references of a training text by the
results of the teacher's beam search. Sequence-level interpolation (section 3.3) takes the hypothesis of the beam that
is nearest to the reference by sentence BLEU.

The folder holds a file of translations for each source file, line by line, the teacher's subword model and a manifest.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwise.decoding.translator import Translator
from headwise.errors import CheckpointError, DataError
from headwise.evaluation.translation import nearest
from headwise.files import remove_directory, remove_partial
from headwise.tasks.corpus.engines import find_engine
from headwise.tasks.corpus.job import Job, Translated
from headwise.tasks.corpus.manifest import FileState, Manifest
from headwise.tasks.corpus.runs import Runs
from headwise.tasks.distillation.source import SourceText
from headwise.text.reading.lines import one_line
from headwise.text.tokens.subwords import Subwords

CHUNK = 1024  # lines that a kill loses at most
MANIFEST = "manifest.json"
_FORMAT = 1
_LEFT_OUT = ("empty", "not_utf8", "too_long")
_OTHER = "another run directory"


@dataclass(frozen=True)
class Translations:
    """The finished translations of a text."""

    files: list[Path]  # one for each source file, with as many lines
    report: str


@dataclass(frozen=True)
class TeacherWork:
    """Translation of lines by a teacher; of each line and its reference, as undecoded bytes.

    A line that is empty, isn't UTF-8, or is longer than `text.max_words` or than the teacher reads gets an empty
    translation; cleaning removes it, and the files stay parallel.
    """

    runs: Runs
    text: SourceText

    def elsewhere(self) -> TeacherWork:
        """Return the same work for processes with another working directory."""
        return dataclasses.replace(self, runs=self.runs.elsewhere())

    def translate(self, translator: Translator, rows: Sequence[tuple[bytes, bytes]]) -> Translated:
        """Translate a chunk, and count the lines without a translation."""
        sources: dict[int, str] = {}
        counts: Counter[str] = Counter()
        longest = translator.search_model.max_length - 1  # EOS is one more
        for row, (source, _) in enumerate(rows):
            line = _decoded(source)
            if line is None:
                counts["not_utf8"] += 1
            elif not line:
                counts["empty"] += 1
            elif (
                len(line.split()) > self.text.max_words
                or len(translator.subwords.encode_source(line)) > longest
            ):
                counts["too_long"] += 1
            else:
                sources[row] = line
        options = self.runs.options()
        if self.text.references:
            options = dataclasses.replace(options, n_best=options.beam)
        translations = translator.translate(list(sources.values()), options)
        targets = [""] * len(rows)
        for row, translation in zip(sources, translations, strict=True):
            reference = _decoded(rows[row][1])
            candidates = [output.text for output in translation.outputs]
            targets[row] = (
                nearest(candidates, reference, self.text.tokenize) if reference else translation.text
            )
        tag = f"{self.text.tag} " if self.text.tag else ""
        lines = (f"{tag}{target}\n" if target else "\n" for target in targets)
        return Translated("".join(lines).encode(), len(rows), counts)


def translate_text(
    teacher: Runs,
    text: SourceText,
    folder: Path,
    *,
    side: str = "target",
    restart: bool = False,
    say: Callable[[str], None] = lambda _: None,
    quiet: bool = False,
) -> Translations:
    """Translate the lines that `folder` lacks, into files that are named by their `side` of the pairs.

    With `restart`, translations by another teacher, of other text or with other options are removed; those that would
    be the same are kept.

    Raises:
        CheckpointError: the folder has translations by another teacher, of other text or with other options, or damaged
            ones; or a run of the teacher is missing or damaged.
        ConfigError: an option is out of range, or the teacher doesn't support it.
        DataError: a file is missing, empty, binary or damaged, or doesn't match its references.
        TrainingError: the folder can't be written.
    """
    request = {"format": _FORMAT, "chunk": CHUNK, "teacher": teacher.digest(), **text.request()}
    request |= teacher.request()
    outputs = [folder / f"{side}-{number}.txt" for number in range(1, len(text.sources) + 1)]
    try:
        manifest = _open(folder, request, outputs)
    except CheckpointError:
        if not restart or not (folder / MANIFEST).exists():
            raise
        manifest = _removed(folder, say)
    if manifest is None or not manifest.finished:
        with find_engine(TeacherWork(teacher, text)) as (engine, description, name):
            if manifest is not None:
                try:
                    manifest.check_engine(name, folder, _OTHER)
                except CheckpointError:
                    if not restart:
                        raise
                    manifest = _removed(folder, say)
            manifest = manifest or _begin(folder, request, teacher, text, name)
            say(f"translating: {description}")
            if manifest.lines:
                say(f"{folder}: {manifest.lines:,} of {sum(manifest.totals):,} lines are translated already")
            rows = _rows(text)
            try:
                Job(manifest, folder / MANIFEST, outputs, rows, CHUNK, quiet).run(engine)
            except KeyboardInterrupt:
                say(f"{folder}: {manifest.lines:,} lines are saved; the same command goes on from there")
                raise
    return Translations(outputs, _report(manifest))


def _rows(text: SourceText) -> Callable[[int, int], Iterator[tuple[bytes, bytes]]]:
    return lambda index, first: itertools.islice(text.lines(index), first, None)


def _removed(folder: Path, say: Callable[[str], None]) -> None:
    say(f"{folder}: removing the earlier translations")
    remove_directory(folder)


def _begin(folder: Path, request: dict[str, Any], teacher: Runs, text: SourceText, engine: str) -> Manifest:
    """Write the teacher's subwords, and a manifest without translations."""
    manifest = Manifest(
        request=request,
        teachers=[str(run) for run in teacher.runs],
        sources=[str(path) for path in text.sources],
        engine=engine,
        totals=[sum(1 for _ in text.lines(index)) for index in range(len(text.sources))],
        files=[FileState() for _ in text.sources],
    )
    Subwords.load(teacher.runs[0]).save(folder)
    manifest.save(folder / MANIFEST)
    return manifest


def _open(folder: Path, request: dict[str, Any], outputs: list[Path]) -> Manifest | None:
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
    manifest = Manifest.load(path)
    manifest.check(request, folder, _OTHER)
    manifest.check_files(outputs, path)
    remove_partial(folder / "*")
    return manifest


def _report(manifest: Manifest) -> str:
    """Return the numbers of lines that are translated and left out, as a sentence."""
    counts = {name: manifest.count(name) for name in _LEFT_OUT}
    total = sum(manifest.totals)
    return (
        f"{total:,} lines, {total - sum(counts.values()):,} translated; left out: {counts['empty']:,} empty, "
        f"{counts['too_long']:,} over {manifest.request['max_words']} words or the translating model's maximum length, "
        f"{counts['not_utf8']:,} not UTF-8"
    )


def _decoded(line: bytes) -> str | None:
    """Return a line of text as cleaning decodes it (`clean_pairs`), None where it isn't UTF-8 text."""
    try:
        text = one_line(line.decode("utf-8")).strip()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text
