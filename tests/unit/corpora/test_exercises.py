"""Synthetic exercises: targets are correct, and no source line occurs in two parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwise.corpora.synthetic import generate
from headwise.corpora.synthetic.exercises import EXERCISES


@pytest.mark.parametrize("name", EXERCISES)
def test_every_line_is_answered_and_stands_in_one_part(name: str, tmp_path: Path) -> None:
    generate(name, tmp_path, train=60, dev=20, test=20)
    seen = set()
    for part, size in (("train", 60), ("dev", 20), ("test", 20)):
        source, target, joined = (
            (tmp_path / f"{part}.{side}").read_text().splitlines() for side in ("source", "target", "joined")
        )
        assert joined == [f"{s} = {t}" for s, t in zip(source, target, strict=True)]
        assert len(source) == size
        for line, answer in zip(source, target, strict=True):
            assert line not in seen
            seen.add(line)
            if name == "summary":
                facts = answer.split(" , ")
                assert len(facts) == 3
                assert all(line.split().count(fact) == 1 for fact in facts)
            else:
                assert answer.split() == line.split()[::-1]
