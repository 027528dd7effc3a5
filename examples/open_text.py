"""Filter the corpus open-en-de-text: its training files become two plain files, as does what is kept out to test on.

    python examples/open_text.py data/open-en-de-text text/en-de
    headwise evaluate RUN --source text/en-de/train.en --reference text/en-de/train.de --per-line > scores
    python examples/open_text.py data/open-en-de-text text/round-2 --scores scores

A pair is left out if another one has the same words on both sides, whatever file it is in; if one of its sides is in a
test or development set, or in the project that is kept out to test on; if the sides are the same sentence; if a side
has more than 400 characters, the other's length differs too much, or most of it isn't letters. `--scores` has the
log-probability of each pair that was kept, by a model that was trained on them: of each file, the twentieth with the
lowest mean over its subwords is left out, too, which finds sentences that were aligned to the wrong one.

`sentences.en` and `sentences.de` are the everyday sentences alone, without documentation, news and interfaces.

`everyday.en` and `everyday.de` are the text of a second training, for what people ask of a translator most: a quarter
of the documentation and news, everything else, sentences of at most four words, strings of an interface and sentences
with an abbreviation inside more than once, most often what can't be translated word by word ("Wie heißen Sie?"), and
single words. IBM Model 1 tells which those are, and finds the words' translations, in both directions.
"""

from __future__ import annotations

import argparse
import html
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from headwise import bounds
from headwise.characters import WORD
from headwise.config import CleaningConfig
from headwise.data.ragged import Ragged
from headwise.engine.shortlist import translation_probabilities
from headwise.errors import DataError, script_errors
from headwise.files import write_text
from headwise.text.preparation.cleaning import Rules, cleaned_pairs, words_of
from headwise.text.reading.lines import read_lines
from headwise.text.reading.pairs import CleaningReport, PairFiles, read_pairs
from headwise.text.tokens.source_words import usual_words

LONGEST = 400  # characters
KEPT_OUT = "open-source-guides"
DROPPED = 0.05  # of the pairs of a file, by their scores
NEWS, TECHNICAL = "debian-website.tsv", ("php-manual.tsv", "privacy-guides.tsv", "rust-book.tsv")
SHARE = 0.25  # of the pairs of news and technical text that are everyday text
SENTENCES, STRINGS = ("tatoeba.tsv", "covost2.tsv"), "thunderbird.tsv"
SHORT, SHORTEST = 4, 2  # words of a sentence that is there twice, and four times
LINKED = 0.5  # share of words with a likely translation, from which on a sentence isn't an idiom
ABBREVIATION = re.compile(
    r"\b(?:(?:[A-Za-z]\.\s?){2,}|(?:bzw|ca|Dr|etc|evtl|ggf|Mrs?|Ms|No|Nr|Prof|St|usw|vgl|vs)\.),?\s+\S"
)  # one that doesn't end a sentence
ENTITIES = {"&zb;": "z. B.", "&dh;": "d. h."}  # of the manual's German side
SURE, SEEN = 0.15, 4  # the least t(f | e) · t(e | f), and occurrences, of a word and its translation


class SourcedPair(NamedTuple):
    """A pair, and the name of the file that it is from."""

    english: str
    german: str
    file: str


def plain(text: str) -> str:
    """Return the text with single spaces, and with what its entities stand for."""
    for entity, abbreviation in ENTITIES.items():
        text = text.replace(entity, abbreviation)
    return " ".join(html.unescape(text).split())


def is_sentence_pair(pair: SourcedPair) -> bool:
    """Whether both sides are text of a fitting length."""
    english, german = pair.english, pair.german
    longer = max(len(english), len(german))
    letters = sum(character.isalpha() for character in english)
    return (
        longer <= LONGEST
        and (longer <= 20 or 0.4 < len(english) / len(german) < 2.0)
        and 2 * letters >= len(english.replace(" ", ""))
    )


def filtered(files: Iterable[Path], held_out: Iterable[Path]) -> Iterator[SourcedPair]:
    """Yield the pairs of the files that are kept, without those of files that are held out; raises `DataError`."""
    cleaning = CleaningConfig(max_ratio=bounds.RATIO, drop_untranslated=True, held_out=[str(file) for file in held_out])
    rules, seen = Rules(cleaning).load(("source", "target")), set()
    for file in files:
        for clean in cleaned_pairs(read_pairs(PairFiles(file, None)), cleaning, rules, CleaningReport()):
            english, german = (plain(side) for side in clean[:2])
            pair, key = SourcedPair(english, german, file.name), (words_of(english), words_of(german))
            if all(key) and key not in seen and is_sentence_pair(pair):
                seen.add(key)
                yield pair


def likeliest(pairs: list[SourcedPair], file: Path) -> list[SourcedPair]:
    """Return the pairs without those of each file that a model finds least likely, by its lines of `--per-line`.

    Raises `DataError` where there isn't a line with scores for each pair.
    """
    scores = list(read_lines(file))
    if len(scores) != len(pairs):
        raise DataError(f"{file}: expected {len(pairs):,} lines, one for each pair, found {len(scores):,}")
    means: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for number, (pair, line) in enumerate(zip(pairs, scores, strict=True)):
        try:
            of_pair, of_subwords = line.split("\t")
            means[pair.file].append((float(of_pair) / len(of_subwords.split()), number))
        except (ValueError, ZeroDivisionError):
            raise DataError(
                f"{file} line {number + 1}: expected a score, a tab and those of the subwords, found {line[:40]!r}"
            ) from None
    dropped = {number for each in means.values() for _, number in sorted(each)[: int(DROPPED * len(each))]}
    return [pair for number, pair in enumerate(pairs) if number not in dropped]


def word_ids(texts: list[str]) -> tuple[list[str], Ragged]:
    """Return the words of one side's sentences in their usual case, and each sentence as a row of their numbers."""
    words = usual_words(texts)
    ids = {word.lower(): number for number, word in enumerate(words)}
    rows = [[ids[word] for word in WORD.findall(text.lower()) if word in ids] for text in texts]
    values = np.fromiter((number for row in rows for number in row), np.int32)
    return words, Ragged.of(values, np.cumsum([0, *map(len, rows)]))


def likeliest_translations(source: Ragged, target: Ragged, words: int) -> dict[tuple[int, int], float]:
    """Return t(f | e) of IBM Model 1 by word e of the source and f of the target, of so many words, from 0.1 on."""
    e, f, t = translation_probabilities(source, target, words, iterations=5)
    found = t >= 0.1
    return dict(zip(zip(e[found].tolist(), f[found].tolist(), strict=True), t[found].tolist(), strict=True))


class Lexicon(NamedTuple):
    """The words of both sides, each sentence as a row of their numbers, and the likely translations of each word."""

    english: list[str]
    german: list[str]
    english_rows: Ragged
    german_rows: Ragged
    there: dict[tuple[int, int], float]  # t(f | e) by e and f
    back: dict[tuple[int, int], float]  # t(e | f) by f and e

    @classmethod
    def of(cls, pairs: list[SourcedPair]) -> Lexicon:
        """Return the lexicon of pairs, by IBM Model 1."""
        english, e_rows = word_ids([pair.english for pair in pairs])
        german, f_rows = word_ids([pair.german for pair in pairs])
        there = likeliest_translations(e_rows, f_rows, len(german))
        back = likeliest_translations(f_rows, e_rows, len(english))
        return cls(english, german, e_rows, f_rows, there, back)

    def is_idiom(self, row: int) -> bool:
        """Whether fewer than half of the words of one side have a likely translation on the other one."""
        english, german = self.english_rows[row].tolist(), self.german_rows[row].tolist()
        linked = [(e, f) for e in english for f in german if (e, f) in self.there or (f, e) in self.back]
        sides = ((english, {e for e, _ in linked}), (german, {f for _, f in linked}))
        return any(sum(word in found for word in words) < LINKED * len(words) for words, found in sides)

    def word_pairs(self) -> list[tuple[str, str]]:
        """Return English words with a German one, each the likeliest translation of the other."""
        sure = {(e, f): t * self.back[f, e] for (e, f), t in self.there.items() if (f, e) in self.back}
        of_english, of_german = {}, {}
        for e, f in sorted(sure, key=sure.__getitem__):  # the surest last, which stays
            of_english[e], of_german[f] = f, e
        seen_e = np.bincount(self.english_rows.values, minlength=len(self.english))
        seen_f = np.bincount(self.german_rows.values, minlength=len(self.german))
        return [
            (self.english[e], self.german[f])
            for e, f in of_english.items()
            if of_german[f] == e
            and sure[e, f] > SURE
            and min(seen_e[e], seen_f[f]) >= SEEN
            and self.english[e] != self.german[f]
        ]


def everyday(pairs: list[SourcedPair]) -> Iterator[tuple[str, str]]:
    """Yield the text of the second training, in the order of the pairs; single words come last."""
    chance = random.Random(1)
    modelled = [pair for pair in pairs if pair.file not in TECHNICAL]
    lexicon = Lexicon.of(modelled)
    rows = {pair: row for row, pair in enumerate(modelled)}
    for pair in pairs:
        if any(ABBREVIATION.search(side) for side in pair[:2]):
            yield from [pair[:2]] * 4
        elif pair.file == STRINGS:
            yield from [pair[:2]] * 3
        elif pair.file in SENTENCES:
            words = len(pair.english.split())
            idiom = words <= SHORT and lexicon.is_idiom(rows[pair])
            yield from [pair[:2]] * (6 if idiom else 4 if words <= SHORTEST else 2 if words <= SHORT else 1)
        elif pair.file not in (NEWS, *TECHNICAL) or chance.random() < SHARE:
            yield pair[:2]
    for english, german in lexicon.word_pairs():
        yield from [(english, german)] * 2
        yield english[:1].upper() + english[1:], german[:1].upper() + german[1:]


def write(folder: Path, name: str, texts: list[tuple[str, str]]) -> None:
    """Write both sides of texts, a line each."""
    for side, suffix in enumerate(("en", "de")):
        write_text(folder / f"{name}.{suffix}", "".join(f"{text[side]}\n" for text in texts))


def main() -> None:
    """Read the command line and write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, help="The folder of headwise data get open-en-de-text.")
    parser.add_argument("out", type=Path, help="The folder of the plain files.")
    parser.add_argument("--scores", type=Path, help="Of headwise evaluate --per-line.")
    options = parser.parse_args()
    kept_out = options.corpus / f"{KEPT_OUT}.tsv"
    if not (options.corpus / "test").is_dir():
        raise DataError(
            f"{options.corpus}: expected what `headwise data get open-en-de-text` fetches, found no folder test"
        )
    if options.out.is_file():
        raise DataError(f"{options.out}: expected a folder to write to, found a file")
    files = [file for file in sorted(options.corpus.glob("*.tsv")) if file != kept_out]
    pairs = list(filtered(files, [kept_out, *sorted((options.corpus / "test").iterdir())]))
    if options.scores:
        pairs = likeliest(pairs, options.scores)
    write(options.out, "train", [pair[:2] for pair in pairs])
    write(options.out, "sentences", [pair[:2] for pair in pairs if pair.file in SENTENCES])
    write(options.out, "everyday", list(everyday(pairs)))
    write(options.out, KEPT_OUT, [pair[:2] for pair in filtered([kept_out], [])])
    print(f"{options.out}: {len(pairs):,} pairs")


if __name__ == "__main__":
    with script_errors():
        main()
