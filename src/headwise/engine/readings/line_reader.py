"""What a model reads of the lines that people write: in which case, with which words, in which letters."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headwise.config import Config
from headwise.config.languages import short_code
from headwise.engine.readings.abbreviations import written_out
from headwise.engine.readings.list_markers import without_markers
from headwise.engine.readings.number_marks import number_marks
from headwise.engine.readings.reading import Reading, read_in_turn, read_texts, readings
from headwise.engine.readings.recasing import in_capitals, recased
from headwise.engine.readings.spelling import Speller
from headwise.engine.readings.usual_spelling import usually_spelled
from headwise.errors import ConfigError
from headwise.extras import optional_module
from headwise.text.reading.dictionary import Dictionary
from headwise.text.reading.glossary import Glossary
from headwise.text.tokens.source_words import SourceWords
from headwise.text.tokens.subwords import Subwords

_NAMED = 8  # words in a sentence
_CAPITALS = "it is in capitals, which the model wasn't trained with; recase reads it as ordinary text"


@dataclass(frozen=True)
class LineReader:
    """What is known of the text that a model was trained with, and so what it reads of a line.

    Attributes:
        subwords: of the model.
        speller: replaces what the vocabulary can't spell.
        languages: codes of source and target, where known.
        source_words: the words of its training text; None where they aren't listed.
        dictionary: words that it hardly knows, and abbreviations; None without one.
        reads_capitals: whether it was trained with text in capitals, or may have been.
    """

    subwords: Subwords
    speller: Speller
    languages: tuple[str | None, str | None] = (None, None)
    source_words: SourceWords | None = None
    dictionary: Dictionary | None = None
    reads_capitals: bool = True

    @classmethod
    def of_run(cls, run: Path, config: Config, subwords: Subwords, speller: Speller) -> LineReader:
        """Return the reader of a run, with the files in its folder; raises `CheckpointError` for damaged ones."""
        imported = config.subwords.kind == "imported"
        return cls(
            subwords,
            speller,
            config.data.languages,
            SourceWords.of_run(run),
            Dictionary.of_run(run),
            reads_capitals=config.data.augment.capitals > 0 or imported or subwords.lowercases,
        )

    def in_language(self, subwords: Subwords) -> LineReader:
        """Return a reader of the same text to the language that other subwords of the vocabulary name."""
        vocabulary = subwords.vocabulary
        target = None if vocabulary is None else vocabulary.language_code
        return dataclasses.replace(self, subwords=subwords, languages=(self.languages[0], target))

    def readings(
        self,
        texts: Sequence[str],
        *,
        recase: bool,
        markers: bool = False,
        shortened: bool = False,
        glossary: Glossary | None = None,
    ) -> tuple[dict[int, Reading], ...]:
        """Return what is read of `readable` lines in place of what is written, by their numbers, and then of that.

        The first are the lines with numbers, which are read as they are; the second those in one case, with `recase`;
        the third those that begin with the marker of a list, which is read only with `markers`, those with words in an
        unusual spelling, and those with abbreviations that the dictionary has; the fourth those that the vocabulary
        can't spell, and with `shortened` those with addresses, files and long numbers, but for the terms of the
        `glossary`.
        """
        marks = number_marks(*self.languages)
        marked = {} if marks is None else readings(texts, marks.read)
        ordinary = {}
        if recase:
            ordinary = readings(texts, lambda text: recased(text, self.subwords, self.source_words))
        texts = read_texts(texts, ordinary)
        usual = readings(texts, functools.partial(self._in_usual_words, markers=markers))
        respelled = functools.partial(self.speller.respelled, shortened=shortened, glossary=glossary)
        return marked, ordinary, usual, readings(read_texts(texts, usual), respelled)

    def _in_usual_words(self, text: str, *, markers: bool) -> Reading | None:
        """Return a line in the usual spelling, without abbreviations and, unless `markers`, without those of a list.

        None if that is how it is written.
        """
        steps: list[Callable[[str], Reading | None]] = []
        if not markers:
            steps.append(functools.partial(without_markers, language=self.languages[0]))
        if self.source_words is not None:
            steps.append(functools.partial(usually_spelled, listed=self.source_words))
        if self.dictionary is not None:
            steps.append(functools.partial(written_out, dictionary=self.dictionary))
        return read_in_turn(text, steps)

    def about(self, text: str) -> tuple[str, ...]:
        """Return sentences about a text in capitals, and about words that a shipped run's training text lacks."""
        found = () if self.reads_capitals or not in_capitals(text) else (_CAPITALS,)
        lacking = () if self.source_words is None else self.source_words.lacks(text)
        more = f" and {len(lacking) - _NAMED} more" if len(lacking) > _NAMED else ""
        if lacking:
            found += (f"words that the model has never read: {', '.join(lacking[:_NAMED])}{more}",)
        return found

    def already_translated(self, texts: Sequence[str]) -> frozenset[int]:
        """Return the numbers of the texts that are surely in the target language.

        Raises `ConfigError` where a language isn't known, and without the package that detects languages.
        """
        optional_module("py3langid", "--already-translated keep")
        from headwise.text.reading.detection import is_known, surely

        languages = [short_code(code) for code in self.languages if code is not None]
        if len(languages) < 2 or not all(map(is_known, languages)):
            raise ConfigError(
                "--already-translated keep: expected a run whose two languages are known, found "
                f"{' and '.join(languages) or 'none'} (data.source_language, data.target_language)"
            )
        return frozenset(n for n, text in enumerate(texts) if surely(text, languages) == languages[1])
