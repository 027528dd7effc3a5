"""Filter the corpus open-en-de-text: its training files become two plain files, as does what is kept out to test on.

    python examples/open_text.py data/open-en-de-text text/en-de
    headwise evaluate RUN --source text/en-de/train.en --reference text/en-de/train.de --per-line > scores
    python examples/open_text.py data/open-en-de-text text/round-2 --scores scores

A pair is left out if another one has the same words on both sides, whatever file it is in; if one of its sides is in a
test or development set, or in the project that is kept out to test on; if a side has more than 400 characters, the
other's length differs too much, the sides are the same sentence, or most of it isn't letters. `--scores` has the
log-probability of each pair that was kept, by a model that was trained on them: of each file, the twentieth with the
lowest mean over its subwords is left out, too, which finds sentences that were aligned to the wrong one.
"""

from __future__ import annotations

import argparse
import re
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

LONGEST = 400  # characters
KEPT_OUT = "open-source-guides"
DROPPED = 0.05  # of the pairs of a file, by their scores


class SourcedPair(NamedTuple):
    """A pair, and the name of the file that it is from."""

    english: str
    german: str
    file: str


def words(text: str) -> str:
    """Return the words of a text alone, in lower case: what near duplicates have in common."""
    return re.sub(r"\W+", " ", unicodedata.normalize("NFKC", text).casefold()).strip()


def is_sentence_pair(pair: SourcedPair) -> bool:
    """Whether both sides are text of a fitting length, and not the same sentence."""
    english, german = pair.english, pair.german
    longer, shorter = max(len(english), len(german)), min(len(english), len(german))
    letters = sum(character.isalpha() for character in english)
    return (
        longer <= LONGEST
        and (longer <= 20 or 0.4 < len(english) / max(len(german), 1) < 2.0)
        and (words(english) != words(german) or len(english.split()) <= 3)
        and 2 * letters >= len(english.replace(" ", ""))
        and shorter > 0
    )


def filtered(files: Iterable[Path], tested: set[str]) -> Iterator[SourcedPair]:
    """Yield the pairs of the files that are kept; `tested` has the `words` of all sentences to test on."""
    seen = set()
    for file in files:
        for line in file.read_text("utf-8").split("\n")[:-1]:
            english, german = (" ".join(side.split()) for side in line.split("\t"))
            pair, key = SourcedPair(english, german, file.name), (words(english), words(german))
            if all(key) and key not in seen and tested.isdisjoint(key) and is_sentence_pair(pair):
                seen.add(key)
                yield pair


def likeliest(pairs: list[SourcedPair], file: Path) -> list[SourcedPair]:
    """Return the pairs without those of each file that a model finds least likely, by its lines of `--per-line`."""
    scores = file.read_text("utf-8").split("\n")[:-1]
    if len(scores) != len(pairs):
        print(
            f"{file}: expected {len(pairs):,} lines, one for each pair, found {len(scores):,}",
            file=sys.stderr,
        )
        raise SystemExit(2)
    means: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for number, (pair, line) in enumerate(zip(pairs, scores, strict=True)):
        of_pair, _, of_subwords = line.partition("\t")
        means[pair.file].append((float(of_pair) / len(of_subwords.split()), number))
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
    tested = {
        words(line)
        for file in (options.corpus / f"{KEPT_OUT}.tsv", *(options.corpus / "test").iterdir())
        for line in re.split(r"[\n\t]", file.read_text("utf-8"))
    }
    files = sorted(options.corpus.glob("*.tsv"))
    kept_out = [file for file in files if file.stem == KEPT_OUT]
    pairs = list(filtered([file for file in files if file.stem != KEPT_OUT], tested - {""}))
    if options.scores:
        pairs = likeliest(pairs, options.scores)
    options.out.mkdir(parents=True, exist_ok=True)
    for name, texts in (("train", pairs), (KEPT_OUT, list(filtered(kept_out, set())))):
        for suffix, lines in (
            ("en", [text.english for text in texts]),
            ("de", [text.german for text in texts]),
        ):
            (options.out / f"{name}.{suffix}").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    print(f"{options.out}: {len(pairs):,} pairs")


if __name__ == "__main__":
    main()
