"""Damaged model files lead to a one-sentence error or to the same translation in both engines.

Two hundred cases, a half of them slow; `make fuzz` runs a thousand, and `make fuzz CASES=200000` any other number.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import fuzz
import judge
from bases import BASES, write_base

CASES = 100
# regressions: former findings in the engines or the judge
FOUND = (
    *(6802, 9684, 11625, 16214, 16356, 17462, 18642, 18815, 20638, 27324, 29648),
    *(96401, 112350, 122912, 175561),
)


@pytest.mark.slow  # as `make fuzz`, which .ci/run calls
@pytest.mark.parametrize("chunk", [0, 1])
def test_damage_ends_in_the_same_translation_or_one_sentence(chunk: int) -> None:
    report = fuzz.supervise(chunk * CASES, CASES, 1)
    assert report.findings == []
    assert sum(report.outcomes.values()) == CASES
    assert report.outcomes["sentence"] > CASES / 4
    assert report.outcomes["same"] > CASES / 10


def test_what_was_found_is_found_no_more(tmp_path: Path) -> None:
    fuzz.write_bases(tmp_path / "bases")
    for number in FOUND:
        judge.damage(tmp_path / "bases", tmp_path / "case", number)
        assert judge.judge(tmp_path / "case") in ("sentence", "same", "tied", "rounding")


@pytest.mark.parametrize("name", BASES)
def test_what_is_not_damaged_is_translated(tmp_path: Path, name: str) -> None:
    write_base(BASES[name], tmp_path / "run")
    assert judge.judge(tmp_path / "run") in ("same", "tied")


def test_a_case_is_made_again_by_its_number(tmp_path: Path) -> None:
    for name in ("plain", "int8 shortlist", "lowercase"):
        write_base(BASES[name], tmp_path / "bases" / name)
    for number in range(40):
        said = [judge.damage(tmp_path / "bases", tmp_path / folder, number) for folder in ("one", "two")]
        assert said[0] == said[1]
        one, two = (
            {path.name: path.read_bytes() for path in (tmp_path / folder).iterdir() if path.is_file()}
            for folder in ("one", "two")
        )
        assert one == two


@pytest.mark.parametrize("name", ["plain", "int8"])
def test_another_translation_is_a_finding(tmp_path: Path, name: str) -> None:
    write_base(BASES[name], tmp_path / "run")
    ours, theirs = judge.attempt(tmp_path / "run", "auto"), judge.attempt(tmp_path / "run", "pytorch")
    assert isinstance(ours, tuple)
    assert isinstance(theirs, tuple)
    translator, found = ours
    if "native engine" not in translator.description:
        pytest.skip("the native engine was not compiled")
    best = found[0][0]
    gains = (best.token_log_probabilities[0] - 0.5, *best.token_log_probabilities[1:])
    for change in ({"tokens": (7, *best.tokens[1:])}, {"token_log_probabilities": gains}):
        with pytest.raises(judge.Broken, match="log-probabilities"):
            judge.compare(translator, [[dataclasses.replace(best, **change)], *found[1:]], *theirs)
    with pytest.raises(judge.Broken, match="another translation"):
        judge.compare(translator, [found[0][::-1], *found[1:]], *theirs)


PROGRAM = """
import os, sys
first, end, stride = map(int, sys.argv[2:5])
for number in range(first, end, stride):
    print("case", number, flush=True)
    print("edit", "a bit", flush=True)
    if number == 1:
        os.abort()
    while number == 3:
        pass
    print("done 0.1", "finding Broken: a promise" if number == 4 else "same", flush=True)
"""


def test_crashes_and_endless_cases_are_findings_and_end_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    monkeypatch.setattr(fuzz, "CPU_SECONDS", 1)
    monkeypatch.setattr(fuzz, "write_bases", lambda folder: None)
    report = fuzz.supervise(0, 7, 2, log=tmp_path / "log", program=program)
    found = dict(report.findings)
    assert sorted(found) == [1, 3, 4]
    assert "died of SIGABRT" in found[1]
    assert "hung" in found[3]
    assert "a promise [a bit]" in found[4]
    assert report.outcomes == {"same": 4, "finding": 3}
    assert "case 1: died of SIGABRT" in (tmp_path / "log").read_text()
