"""Word alignments: alignment error rate, and the Pharaoh format.

A link (i, j) connects source word i and target word j, both counted from 0. Gold alignments distinguish sure from
possible links (Och & Ney 2003, "A Systematic Comparison of Various Statistical Alignment Models"): a sure link must
be in the hypothesis, a possible one may be.

In the Pharaoh format, a line holds the links of one sentence: `0-0 2-1` are sure, `1?2` (or `1p2`) is possible.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headwise.errors import DataError
from headwise.text.reading.lines import read_lines

Link = tuple[int, int]
_LINK = re.compile(r"([0-9]{1,9})([-?p])([0-9]{1,9})")


@dataclass(frozen=True)
class Alignment:
    """Links of one sentence pair; `possible` includes the sure links, as in the definition (S ⊆ P)."""

    sure: frozenset[Link]
    possible: frozenset[Link]

    @classmethod
    def of(cls, sure: Iterable[Link], possible: Iterable[Link] = ()) -> Alignment:
        """Create an alignment; the sure links are added to the possible ones."""
        links = frozenset(sure)
        return cls(links, links | frozenset(possible))


def alignment_error_rate(
    hypothesis: Sequence[Iterable[Link]],
    sure: Sequence[Iterable[Link]],
    possible: Sequence[Iterable[Link]] | None = None,
) -> float:
    """Return AER = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|), each count summed over the corpus (Och & Ney 2003).

    The three sequences hold one collection of (source, target) links per sentence. Sure links always count as
    possible, too; without `possible` there are no others. 0 is best and 1 is worst. Raises `DataError` where the
    numbers of sentences differ, or where there is neither a hypothesis link nor a sure link.
    """
    if possible is None:
        possible = [()] * len(sure)
    if not len(hypothesis) == len(sure) == len(possible):
        raise DataError(
            "alignment error rate needs the same sentences on all sides, found "
            f"{len(hypothesis):,} hypothesis, {len(sure):,} sure and {len(possible):,} possible alignments"
        )
    matched = total = 0
    for links, sure_links, possible_links in zip(hypothesis, sure, possible, strict=True):
        hypothesis_links, gold = set(links), Alignment.of(sure_links, possible_links)
        matched += len(hypothesis_links & gold.sure) + len(hypothesis_links & gold.possible)
        total += len(hypothesis_links) + len(gold.sure)
    if total == 0:
        raise DataError("alignment error rate is undefined: there is no link, neither found nor sure")
    return 1.0 - matched / total


def parse_alignment(line: str, where: str) -> Alignment:
    """Parse one line of the Pharaoh format.

    `where` names the line in errors (`gold.align line 12`). An empty line is a sentence without links.
    Raises `DataError` for anything that isn't a link.
    """
    sure, possible = [], []
    for token in line.split():
        match = _LINK.fullmatch(token)
        if match is None:
            raise DataError(f"{where}: expected links such as 0-0 (sure) or 1?2 (possible), found {token[:40]!r}")
        link = (int(match[1]), int(match[3]))
        (sure if match[2] == "-" else possible).append(link)
    return Alignment.of(sure, possible)


def check_words(alignment: Alignment, source: Sequence[str], target: Sequence[str], where: str) -> None:
    """Raise `DataError` for a link of a word that isn't among a pair's words; `where` as above.

    It could never be found, so that an error rate with it would be one of other sentences.
    """
    for i, j in sorted(alignment.possible):
        if i >= len(source) or j >= len(target):
            raise DataError(
                f"{where}: expected links between {len(source)} source and {len(target)} target words, "
                f"counted from 0, found {i}-{j}"
            )


def format_alignment(alignment: Alignment) -> str:
    """Format one line of the Pharaoh format, sorted by source and then target position."""
    return " ".join(f"{i}{'-' if (i, j) in alignment.sure else '?'}{j}" for i, j in sorted(alignment.possible))


def read_alignments(path: str | Path) -> list[Alignment]:
    """Read a Pharaoh file, plain or compressed, one alignment per line.

    Raises `DataError` naming the file, and the line if it is malformed.
    """
    lines = enumerate(read_lines(Path(path)), start=1)
    return [parse_alignment(line, f"{path} line {number}") for number, line in lines]
