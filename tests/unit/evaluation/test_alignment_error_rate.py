"""Alignment error rate against a count by hand, and the Pharaoh format both ways."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.errors import DataError
from headwise.evaluation.alignment import (
    Alignment,
    alignment_error_rate,
    format_alignment,
    parse_alignment,
    read_alignments,
)

LINKS = st.frozensets(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=12)


def test_three_sentences_counted_by_hand() -> None:
    sure = [{(0, 0), (1, 1)}, {(0, 1)}, {(2, 2)}]
    possible = [{(2, 1)}, set(), {(1, 2), (2, 1)}]
    hypothesis = [{(0, 0), (2, 1)}, {(0, 1), (1, 0)}, {(1, 2)}]
    # Sentence 1: A∩S = 1 (0-0), A∩P = 2 (0-0, 2?1); |A| = 2, |S| = 2.
    # Sentence 2: A∩S = 1 (0-1), A∩P = 1;             |A| = 2, |S| = 1.
    # Sentence 3: A∩S = 0,       A∩P = 1 (1?2);       |A| = 1, |S| = 1.
    assert alignment_error_rate(hypothesis, sure, possible) == pytest.approx(1 - (2 + 4) / (5 + 4))


@given(st.lists(st.tuples(LINKS, LINKS, LINKS), min_size=1, max_size=5))
def test_bounds_and_perfection(sentences: list[tuple[frozenset, frozenset, frozenset]]) -> None:
    hypothesis, sure, possible = zip(*sentences, strict=True)
    if any(sure):
        assert alignment_error_rate(sure, sure, possible) == 0.0
    if any(hypothesis) or any(sure):
        assert 0.0 <= alignment_error_rate(hypothesis, sure, possible) <= 1.0


@given(st.lists(st.tuples(LINKS, LINKS), min_size=1, max_size=5))
def test_without_possible_links_it_is_one_minus_f1(sentences: list[tuple[frozenset, frozenset]]) -> None:
    hypothesis, sure = zip(*sentences, strict=True)
    hits = sum(len(a & s) for a, s in sentences)
    if hits:
        precision = hits / sum(len(a) for a in hypothesis)
        recall = hits / sum(len(s) for s in sure)
        f1 = 2 * precision * recall / (precision + recall)
        assert alignment_error_rate(hypothesis, sure) == pytest.approx(1 - f1)


def test_undefined_or_uneven_input_is_refused() -> None:
    with pytest.raises(DataError, match="undefined"):
        alignment_error_rate([set(), set()], [set(), set()], [{(0, 0)}, set()])
    with pytest.raises(DataError, match="found 1 hypothesis, 2 sure and 2 possible"):
        alignment_error_rate([{(0, 0)}], [{(0, 0)}, set()])


def test_parse_reads_sure_and_both_marks_of_possible_links() -> None:
    alignment = parse_alignment("0-0  3?1 12p10 3-2\n", "gold line 1")
    assert alignment.sure == {(0, 0), (3, 2)}
    assert alignment.possible == {(0, 0), (3, 2), (3, 1), (12, 10)}
    assert parse_alignment("\n", "gold line 2") == Alignment.of([])


@given(LINKS, LINKS)
def test_format_and_parse_are_inverse(sure: frozenset, possible: frozenset) -> None:
    alignment = Alignment.of(sure, possible)
    assert parse_alignment(format_alignment(alignment), "line") == alignment


@pytest.mark.parametrize("name", ["gold.align", "gold.align.gz"])
def test_file_round_trip_keeps_empty_sentences(tmp_path: Path, name: str) -> None:
    alignments = [Alignment.of([(0, 0)], [(1, 0)]), Alignment.of([]), Alignment.of([(4, 2), (3, 3)])]
    path = tmp_path / name
    data = "".join(format_alignment(alignment) + "\n" for alignment in alignments).encode()
    assert data == b"0-0 1?0\n\n3-3 4-2\n"
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    assert read_alignments(path) == alignments


@pytest.mark.parametrize("bad", ["0:0", "1-", "-1-0", "a-b", "0-0,1-1", "1.5-2", "9" * 5000 + "-0"])
def test_bad_link_names_file_and_line(tmp_path: Path, bad: str) -> None:
    path = tmp_path / "gold.align"
    path.write_text(f"0-0\n\n0-1 {bad}\n")
    with pytest.raises(DataError) as error:
        read_alignments(path)
    assert str(error.value).startswith(f"{path} line 3: expected links such as 0-0")
    assert repr(bad[:40]) in str(error.value)


def test_a_byte_order_mark_is_no_link(tmp_path: Path) -> None:
    path = tmp_path / "gold.align"
    path.write_text("0-0 1?2\n3-3\n", encoding="utf-8-sig")
    assert read_alignments(path) == [Alignment.of([(0, 0)], [(1, 2)]), Alignment.of([(3, 3)])]


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="missing: there is no such file"):
        read_alignments(tmp_path / "missing")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="binary line 1: expected UTF-8 text"):
        read_alignments(tmp_path / "binary")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"0-0\n" * 1000)[:-12])
    with pytest.raises(DataError, match=r"cut.gz: expected a whole gzip file"):
        read_alignments(tmp_path / "cut.gz")
