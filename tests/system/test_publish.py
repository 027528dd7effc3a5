"""`models/publish.py` makes a model folder whose card can be checked."""

from __future__ import annotations

import io
import re
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from docs_programs import load_program
from headwise.config import Config
from headwise.page.development_set import suggestions
from paths import ROOT
from program import Call, Outcome
from translator_run import ENGLISH, GERMAN, make_run


def publish(*arguments: object, cwd: Path) -> Outcome:
    out, err = io.StringIO(), io.StringIO()
    with chdir(cwd), redirect_stdout(out), redirect_stderr(err), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["publish.py", *map(str, arguments)])
        code = load_program(ROOT / "models" / "publish.py").main()
    return Outcome(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, a test set, a development set of two pairs, and the published model."""
    folder = tmp_path_factory.mktemp("publish")
    for name, lines in (("test.en", ENGLISH), ("test.de", GERMAN)):
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "about.md").write_text("## What it is for\n\nTests.\n", encoding="utf-8")
    (folder / "examples.en").write_text("A dog sleeps.\n", encoding="utf-8")
    run = make_run(folder / "run")
    config = Config.load(
        run / "config.yaml", [f"data.dev_source={folder}/test.en", f"data.dev_target={folder}/test.de"]
    )
    (run / "config.yaml").write_text(config.to_yaml(), encoding="utf-8")
    done = publish(
        *("run", "models/small", *OPTIONS, "--beam", 2, "--before", "true", "--development", 2),
        *("--about", "about.md", "--examples", "examples.en"),
        cwd=folder,
    )
    assert done.code == 0, done.err
    return folder


OPTIONS = ("--test", "test.en", "test.de", "--data", "six sentences", "--license", "MIT")


def test_the_command_of_the_card_computes_its_scores(
    folder: Path, monkeypatch: pytest.MonkeyPatch, program: Call
) -> None:
    card = (folder / "models" / "small" / "README.md").read_text("utf-8")
    assert "- Data: six sentences" in card
    assert "- License: MIT" in card
    assert card.endswith("## What it is for\n\nTests.\n")
    before, command = card.partition("```sh\n")[2].partition("\n```")[0].splitlines()
    assert before == "true"
    monkeypatch.chdir(folder)
    outcome = program(*command.removeprefix("headwise ").split())
    rows = dict(re.findall(r"^\| test \| 6 \| ([A-Za-z0-9 ]+) \| ([0-9.]+) \|", card, re.MULTILINE))
    found = dict(re.findall(r"^([A-Za-z0-9 ]+?) +([0-9.]+)  nrefs", outcome.out, re.MULTILINE))
    assert rows == found
    assert len(rows) == 3


def test_the_folder_can_be_moved_and_names_no_path_of_this_machine(folder: Path, tmp_path: Path) -> None:
    model = folder / "models" / "small"
    assert str(folder) not in "".join(file.read_text("utf-8", "replace") for file in model.rglob("*") if file.is_file())
    moved = model.rename(tmp_path / "elsewhere")
    source = Path(Config.load(moved / "config.yaml").data.dev_source or "")
    assert source == moved / "corpus" / "test.en"
    assert source.read_text("utf-8").splitlines() == ENGLISH[:2]
    assert suggestions(moved, Config.load(moved / "config.yaml").data)[0] == "A dog sleeps."
    moved.rename(model)


@pytest.mark.parametrize(
    ("run", "more", "message"),
    [
        ("nothing", (), "nothing: expected a run directory, found none"),
        ("run", ("--precision", "int3"), "--precision: expected int8 or bfloat16 for --to run, found 'int3'"),
        ("run", ("--test", "missing.en", "test.de"), "missing.en: there is no such file"),
        ("run", ("--development", 1, "--examples", "missing.en"), "missing.en: there is no such file"),
        ("run", ("--about", "missing.md"), "missing.md: there is no such file"),
    ],
)
def test_bad_input_leaves_nothing(folder: Path, run: str, more: tuple[object, ...], message: str) -> None:
    done = publish(run, "models/bad", *OPTIONS, *more, cwd=folder)
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err
    assert not (folder / "models" / "bad").exists()
