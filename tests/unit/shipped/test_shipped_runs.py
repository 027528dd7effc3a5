"""A name stands for the model in the package, or for one in `models`, in every command that takes a run."""

from __future__ import annotations

import hashlib
import importlib
import typing
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from headwise.api.training import TrainingRequest
from headwise.cli.arguments import named
from headwise.cli.main import COMMANDS
from headwise.config import Config
from headwise.corpora.acquire import MANIFEST
from headwise.corpora.catalog import find_corpus
from headwise.shipped.runs import DEMO, FOLDER, GENERAL, MODELS, find_run
from headwise.tasks.registry import find_task
from headwise.tasks.start import find_start
from paths import ROOT
from program import call
from translator_run import ENGLISH, GERMAN, make_run

RUNS = {
    "run",
    "runs",
    "teacher",
    "also",
    "compare",
    "reverse",
    "start",
    "subwords_from",
}  # parameters that are run directories


def run_parameters() -> dict[tuple[str, str], typing.Any]:
    """What typer knows of each parameter that is a run directory, by command and name."""
    found = {}
    for command, (module, _) in COMMANDS.items():
        imported = importlib.import_module(module)
        app = getattr(imported, "app", None)
        functions = [one.callback for one in app.registered_commands] if app else [imported.command]
        for function in functions:
            hints = typing.get_type_hints(function, include_extras=True)
            key = f"{command} {function.__module__}"
            found |= {(key, name): typing.get_args(hints[name])[-1] for name in RUNS & hints.keys()}
    return found


def test_every_command_with_a_run_takes_the_name() -> None:
    found = run_parameters()
    assert len({command for command, _ in found}) > 9
    assert [key for key, option in found.items() if option.callback is not named] == []


def test_a_training_takes_the_name_from_its_configuration_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    demo = FOLDER / DEMO
    for name, lines in {"a.en": ENGLISH, "a.de": GERMAN}.items():
        Path(name).write_text("".join(f"{line} {n}\n" for n in range(9) for line in lines), encoding="utf-8")
    request = TrainingRequest(["data.workers=1"], source=["a.en"], target=["a.de"], out=Path("run"), checks=False)
    begun = replace(request, initialize_from=DEMO).plan().config
    start = find_start(begun, ("translation",))
    assert start is not None
    assert start.run == demo
    copying = replace(request, changes=[*request.changes, f"subwords.copy_from={DEMO}"]).plan().config
    assert begun.training.initialize_from == copying.subwords.copy_from == DEMO
    prepared = find_task("translation").prepare(copying, Path("prepared"), expected=None, say=lambda line: None)
    prepared.save(tmp_path)
    assert (tmp_path / "spm.model").read_bytes() == (demo / "spm.model").read_bytes()


def test_other_paths_stay_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ("runs/demo", "other", str(tmp_path / "demo"), "demo/run"):
        assert find_run(path) == Path(path)
    assert find_run(DEMO) == FOLDER / DEMO
    assert (FOLDER / DEMO / "config.yaml").is_file()


def test_a_general_model_is_found_in_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in GENERAL:
        assert find_corpus(name).folder == MODELS / name
        for command in (["translate", name], ["serve"]):
            outcome = call(capsys, *command)
            assert outcome.code == 2
            assert "found none; `headwise data get open-" in outcome.err
        make_run(tmp_path / MODELS / name)
        assert find_run(name) == MODELS / name


def test_the_catalog_has_the_general_models_as_they_are_here() -> None:
    for name in GENERAL:
        folder = ROOT / MODELS / name
        files = [file for file in folder.rglob("*") if file.is_file() and file.name != MANIFEST]
        known = {file.name: file.sha256 for file in find_corpus(name).files}
        assert known == {
            file.relative_to(folder).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest() for file in files
        }
        assert sum(file.stat().st_size for file in files) < 15_000_000


def test_a_directory_of_the_name_wins_and_is_mentioned_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "demo")
    with pytest.warns(UserWarning, match="demo: what has this name in the current directory is used"):
        assert find_run("demo") == Path("demo")
    (tmp_path / "text").write_text("A\n", encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        outcome = call(capsys, "translate", "demo", "text")
    assert outcome.code == 0
    assert outcome.err.count("warning: demo: what has this name") == 1


def test_a_file_of_the_name_is_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo").write_text("notes\n")
    assert find_run("demo") == FOLDER / DEMO


def test_a_shipped_run_names_no_file_of_the_machine_that_trained_it() -> None:
    for run in (FOLDER / DEMO, *(ROOT / MODELS / name for name in GENERAL)):
        config = Config.load(run / "config.yaml")
        assert Path(config.data.dev_source or "").parent == run / "corpus"
        assert Path(config.data.dev_source or "").is_file()
        text = (run / "config.yaml").read_text("utf-8")
        assert not [line for line in text.splitlines() if line.split(": ")[-1].startswith(("/", "- /"))]
