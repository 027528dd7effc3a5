"""The parts of a long translation: the identity of the runs, and the progress."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwise.engine.corpus import progress
from headwise.engine.corpus.columns import Columns
from headwise.engine.corpus.rows import TextFile
from headwise.engine.corpus.runs import Runs
from headwise.engine.corpus.work import TextWork
from headwise.shipped.runs import find_run
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


def test_a_line_is_as_long_as_what_the_model_reads_of_it(tmp_path: Path) -> None:
    line, source = "THE OLD WOMAN READS A NEWSPAPER. " * 25, tmp_path / "text.en"
    source.write_text(f"{line}\n{line * 9}\n{line}\n")
    runs = Runs([find_run("demo")], {"beam": 1, "max_length": 8}, {"device": "cpu"})
    translator, options = runs.load(), runs.options()
    assert len(translator.subwords.encode_source(line)) > translator.engine.max_length
    expected = translator.translate([line], options)[0].text  # without a warning: it is read in lower case
    for rule, lines, too_long in (("stop", [expected], 0), ("empty", [expected, "", expected], 1)):
        text = TextFile(source, rule=rule)
        work = TextWork(runs, text, tmp_path / "out", Columns(), long_lines=rule)
        chunk = work.translate(translator, list(text.rows()))
        assert chunk.data.decode().split("\n")[:-1] == lines
        assert chunk.counts.get("too_long", 0) == too_long
        assert ("line 2: expected at most 511 subwords" in str(chunk.failure)) == (rule == "stop")


def test_progress_is_printed_line_by_line_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = iter([100.0, 102.0, 111.0, 112.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(seconds))
    with progress.TranslationProgress(5000, 1000) as shown:
        shown.advance(1000)  # after 2 seconds: too soon for a line
        shown.advance(1200)  # after 11 seconds
        shown.advance(100)
    assert capsys.readouterr().err == "line 3,200/5,000  200 lines/s  0:09 left\n"
