"""The parts of a long translation: the identity of the runs, and the progress."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from headwise.engine.corpus import progress
from headwise.engine.corpus.columns import Columns
from headwise.engine.corpus.rows import TextFile
from headwise.engine.corpus.runs import Runs
from headwise.engine.corpus.translation import FileTranslation, appended
from headwise.engine.corpus.work import TextWork
from headwise.errors import DataError, LockedError
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


@pytest.mark.skipif(os.name != "posix", reason="there is no such lock on Windows")
def test_a_field_of_an_object_inside_is_named_as_in_training(tmp_path: Path) -> None:
    source = tmp_path / "a.jsonl"
    source.write_text('{"translation": {"en": "A dog."}}\n{"translation": {"de": "x"}}\n{"translation.en": "A cat."}\n')
    assert [row.text for row in TextFile(source, "translation.en", "empty").rows()] == ["A dog.", "", "A cat."]
    with pytest.raises(DataError, match=r"line 2: expected text in field 'translation.en', found de \(--on-bad-line"):
        list(TextFile(source, "translation.en").rows())


def test_a_command_beside_another_one_of_the_same_output_changes_nothing(tmp_path: Path) -> None:
    source, out = tmp_path / "text.en", tmp_path / "text.de"
    source.write_text("A man reads.\nA woman sleeps.\nA dog runs.\n")
    runs = Runs([find_run("demo")], {"beam": 1, "max_length": 8}, {"device": "cpu"})
    work = TextWork(runs, TextFile(source), appended(out), Columns())
    whole = [each.text for each in runs.load().translate(source.read_text().splitlines(), runs.options())]
    command, again = (FileTranslation(work, out, chunk=1, restart=restart) for restart in (False, True))

    def interrupted(_: object) -> None:
        with pytest.raises(LockedError):
            again.run(print, print)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        command.run(print, interrupted)
    assert json.loads(command.progress.read_text())["lines"] == 1
    command.run(lambda _: out.exists() or command.run(print, print), print)  # another one ends while this one begins
    assert out.read_text().splitlines() == whole
    assert sorted(tmp_path.iterdir()) == [out, source]


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
