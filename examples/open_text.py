"""Filter the corpus open-en-de-text: its training files become two plain files, as does what is kept out to test on.

    python examples/open_text.py data/open-en-de-text text/en-de
    headwise evaluate RUN --source text/en-de/train.en --reference text/en-de/train.de --per-line > scores
    python examples/open_text.py data/open-en-de-text text/round-2 --scores scores

A pair is left out if another one has the same words on both sides, whatever file it is in; if one of its sides is in a
test or development set, or in the project that is kept out to test on; if the sides are the same sentence; if a side
has more than 400 characters, the other's length differs too much, or most of it isn't letters. `--scores` has the
log-probability of each pair that was kept, by a model that was trained on them: of each file, the twentieth with the
lowest mean over its subwords is left out, too, which finds sentences that were aligned to the wrong one.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from headwise import bounds
from headwise.config import CleaningConfig
from headwise.errors import DataError, HeadwiseError
from headwise.text.preparation.cleaning import Rules, cleaned_pairs, words_of
from headwise.text.reading.lines import read_lines
from headwise.text.reading.pairs import CleaningReport, PairFiles, read_pairs

LONGEST = 400  # characters
KEPT_OUT = "open-source-guides"
DROPPED = 0.05  # of the pairs of a file, by their scores


class SourcedPair(NamedTuple):
    """A pair, and the name of the file that it is from."""

    english: str
    german: str
    file: str


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
    cleaning = CleaningConfig(
        max_ratio=bounds.RATIO, drop_untranslated=True, held_out=[str(file) for file in held_out]
    )
    rules, seen = Rules(cleaning).load(), set()
    for file in files:
        for clean in cleaned_pairs(read_pairs(PairFiles(file, None)), cleaning, rules, CleaningReport()):
            english, german = (" ".join(side.split()) for side in clean[:2])
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
                f"{file}, line {number + 1}: expected a score, a tab and those of the subwords, found {line[:40]!r}"
            ) from None
    dropped = {number for each in means.values() for _, number in sorted(each)[: int(DROPPED * len(each))]}
    return [pair for number, pair in enumerate(pairs) if number not in dropped]


def main() -> None:
    """Read the command line and write the two files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=Path, help="The folder of headwise data get open-en-de-text.")
    parser.add_argument("out", type=Path, help="The folder of the plain files.")
    parser.add_argument("--scores", type=Path, help="Of headwise evaluate --per-line.")
    options = parser.parse_args()
    kept_out = options.corpus / f"{KEPT_OUT}.tsv"
    if not (options.corpus / "test").is_dir():
        raise DataError(
            f"{options.corpus}: expected what `headwise data get open-en-de-text` fetches, found no folder test"
        )
    files = [file for file in sorted(options.corpus.glob("*.tsv")) if file != kept_out]
    pairs = list(filtered(files, [kept_out, *sorted((options.corpus / "test").iterdir())]))
    if options.scores:
        pairs = likeliest(pairs, options.scores)
    options.out.mkdir(parents=True, exist_ok=True)
    for name, texts in (("train", pairs), (KEPT_OUT, list(filtered([kept_out], [])))):
        for suffix, lines in (
            ("en", [text.english for text in texts]),
            ("de", [text.german for text in texts]),
        ):
            (options.out / f"{name}.{suffix}").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    print(f"{options.out}: {len(pairs):,} pairs")


if __name__ == "__main__":
    try:
        main()
    except HeadwiseError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None
