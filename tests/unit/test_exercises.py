"""Generated exercises: every answer is the right one, and no line is both learned and tested."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwise.errors import ConfigError
from headwise.text.exercises import EXERCISES, make_exercise

ANSWERS = {
    "copy": lambda words: words,
    "reverse": lambda words: list(reversed(words)),
    "sort": sorted,
}


@pytest.mark.parametrize("name", EXERCISES)
def test_every_line_is_answered_and_stands_in_one_part(name: str, tmp_path: Path) -> None:
    assert make_exercise(name, tmp_path, pairs=60, held_out=20) == {"dev": 20, "test": 20, "train": 60}
    seen = set()
    for part in ("train", "dev", "test"):
        source, target, joined = (
            (tmp_path / f"{part}.{side}").read_text().splitlines() for side in ("source", "target", "joined")
        )
        assert joined == [f"{s} = {t}" for s, t in zip(source, target, strict=True)]
        for line, answer in zip(source, target, strict=True):
            assert line not in seen
            seen.add(line)
            if name == "summary":
                facts = answer.split(" , ")
                assert len(facts) == 3
                assert all(line.split().count(fact) == 1 for fact in facts)
            else:
                assert answer.split() == ANSWERS[name](line.split())
    before = (tmp_path / "train.source").read_bytes()
    make_exercise(name, tmp_path, pairs=60, held_out=20)
    assert (tmp_path / "train.source").read_bytes() == before
    make_exercise(name, tmp_path, pairs=60, held_out=20, seed=2)
    assert (tmp_path / "train.source").read_bytes() != before


def test_an_unknown_exercise_gets_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected one of copy, reverse, sort, summary, found 'shuffle'"):
        make_exercise("shuffle", tmp_path)
