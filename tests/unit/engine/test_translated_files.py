"""The parts of a long translation: the identity of the runs, and the progress."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwise.engine.corpus import job
from headwise.engine.corpus.runs import Runs
from headwise.text.tokens.pair_vocabulary import Side
from multilingual_run import make_multilingual


@pytest.mark.parametrize("tagged", ["source", "target"])
def test_translations_to_another_language_are_others(tagged: Side, tmp_path: Path) -> None:
    run = make_multilingual(tmp_path, tagged)
    french, german = Runs([run], engine={"device": "cpu"}), Runs([run], engine={"language": "deu"})
    assert french.digest() == Runs([run], engine={"language": "fra"}).digest() != german.digest()
    vocabulary = german.load().subwords.vocabulary
    assert vocabulary is not None
    assert vocabulary.language == ">>deu<<"


def test_progress_is_printed_line_by_line_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = iter([100.0, 102.0, 111.0, 112.0])
    monkeypatch.setattr(job.time, "monotonic", lambda: next(seconds))
    with job.TranslationProgress(5000, 1000) as shown:
        shown.advance(1000)  # after 2 seconds: too soon for a line
        shown.advance(1200)  # after 11 seconds
        shown.advance(100)
    assert capsys.readouterr().err == "line 3,200/5,000  200 lines/s  0:09 left\n"
