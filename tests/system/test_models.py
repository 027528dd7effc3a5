"""The model in the package has the scores of its card, by the commands of the card."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headwise.shipped.runs import FOLDER
from program import call


def test_the_shipped_model_has_the_scores_of_its_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    card = (FOLDER / "demo" / "README.md").read_text("utf-8")
    commands = card.partition("```sh\n")[2].partition("\n```")[0].splitlines()
    assert len(commands) == 2
    for command in commands:
        outcome = call(capsys, *command.removeprefix("headwise ").split())
        assert outcome.code == 0, outcome.err
    stated = dict(re.findall(r"^\| ([A-Za-z0-9 ]+) \| ([0-9.]+) \|", card, re.MULTILINE))
    found = dict(re.findall(r"^([A-Za-z0-9 ]+?) +([0-9.]+)  nrefs", outcome.out, re.MULTILINE))
    assert stated.keys() == found.keys() == {"BLEU", "chrF2", "tokenized BLEU"}
    for name, value in stated.items():
        # int8 products round differently with other processors' instructions
        assert float(found[name]) == pytest.approx(float(value), abs=0.5), name
