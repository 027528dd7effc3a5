"""README and docs: every command shown has its options, paths exist, and the README's main example works."""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from headwise.cli.main import COMMANDS
from headwise.config import Config
from headwise.corpora.synthetic import generate
from paths import DOCS, ROOT
from program import call, headwise
from world import write_world

DOCUMENTS = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "learn").glob("*.md")),
]
CONFIGURATIONS = sorted((ROOT / "configs").glob("*.yaml"))


def shown_commands() -> list[tuple[str, str]]:
    """Return every `headwise …` line of every shell block, with its document."""
    commands = []
    for document in DOCUMENTS:
        for block in re.findall(
            r"```(?:sh(?: run| recorded)?)?\n(.*?)```", document.read_text(encoding="utf-8"), re.DOTALL
        ):
            for line in block.splitlines():
                match = re.search(r"(?:^|\| |-m )(headwise \w.*)", line)
                if match:
                    commands.append((document.name, match.group(1).split("  ")[0]))
    return commands


def click_command(name: str) -> Any:
    module = importlib.import_module(COMMANDS[name][0])
    if hasattr(module, "app"):
        return typer.main.get_command(module.app)
    app = typer.Typer()
    app.command(name)(module.command)
    return typer.main.get_command(app)


@pytest.mark.parametrize(("document", "line"), shown_commands())
def test_a_shown_command_has_its_options(document: str, line: str) -> None:
    words = shlex.split(line)[1:]
    assert words[0] in COMMANDS, f"{document}: {line}"
    command = click_command(words[0])
    if hasattr(command, "commands"):
        command = command.commands[words[1]]
    known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    unknown = [word for word in words[1:] if word.startswith("-") and word not in known]
    assert not unknown, f"{document}: {line}"


@pytest.mark.parametrize("document", [*DOCUMENTS, ROOT / "CONTRIBUTING.md"], ids=lambda path: path.name)
def test_a_named_test_exists(document: Path) -> None:
    named = re.findall(r"`(tests/[\w/]+(?:\.py)?)`", document.read_text(encoding="utf-8"))
    assert not [name for name in named if "test_X" not in name and not (ROOT / name).exists()]


def test_there_are_commands_to_check() -> None:
    assert {line.split()[1] for _, line in shown_commands()} >= {"train", "translate", "evaluate", "data"}


def test_the_readme_names_every_command() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert all(f"`headwise {name}`" in readme for name in COMMANDS)


def test_the_diagram_of_the_packages_shows_the_imports() -> None:
    drawn = subprocess.run([sys.executable, DOCS / "draw_architecture.py", "--check"], check=False)
    assert drawn.returncode == 0, "docs/architecture.md is out of date: run `make picture`"


def test_the_paths_that_the_architecture_names_exist() -> None:
    named = set(
        re.findall(r"`((?:[a-z_]+/)+[a-z_]*(?:\.(?:py|js|css))?)`", (DOCS / "architecture.md").read_text())
    )
    assert len(named) > 40
    inside = ROOT / "src" / "headwise"
    assert [
        name for name in sorted(named) if not (inside / name).exists() and not (ROOT / name).exists()
    ] == []


def test_every_file_that_a_document_links_to_exists() -> None:
    for document in DOCUMENTS:
        for link in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text(encoding="utf-8")):
            if not link.startswith("http"):
                assert (document.parent / link).exists(), f"{document.name} links to {link}"


def _examples(name: str, folder: Path) -> list[str]:
    train, dev, _ = generate(name, folder / name, train=80, dev=10, test=1)
    return [f"data.text=[{train}]", f"data.dev_text={dev}"]


@pytest.mark.parametrize("file", CONFIGURATIONS, ids=lambda file: file.stem)
def test_a_shipped_configuration_trains(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Train for three steps on a small corpus, with the model size of the file."""
    assert Config.load(file).model
    write_world(tmp_path, {"train": 300, "dev": 20}, ("source", "target"))
    changes = {
        "translation": [
            f"data.source=[{tmp_path / 'train.source'}]",
            f"data.target=[{tmp_path / 'train.target'}]",
            f"data.dev_source={tmp_path / 'dev.source'}",
            f"data.dev_target={tmp_path / 'dev.target'}",
            "subwords.size=300",
            "training.validate_bleu=false",
            "training.best_by=loss",
        ],
        "language_model": [
            f"data.text=[{tmp_path / 'train.source'}]",
            f"data.dev_text={tmp_path / 'dev.source'}",
        ],
        "denoising": [
            f"data.text=[{tmp_path / 'train.source'}]",
            f"data.dev_text={tmp_path / 'dev.source'}",
            "subwords.size=300",
        ],
        "image_classification": ["image_classification.source=digits", "image_classification.patch=2"],
        "image_text": [],
        "masked_language_model": [f"data.text=[{tmp_path / 'train.source'}]", "subwords.size=300"],
        "classification": [
            f"data.text=[{tmp_path / 'train.source'}, {tmp_path / 'train.target'}]",
            "subwords.size=300",
        ],
        "tagging": [
            *_examples("entities", tmp_path),
            "subwords.size=300",
        ],
        "question_answering": [*_examples("questions", tmp_path), "subwords.size=300"],
    }[Config.load(file).task]
    if Config.load(file).task != "image_text":  # its batch size is a number of pairs
        changes.append("batch.tokens=500")
    changes.append("training.threads=0")
    done = call(capsys, "train", "-c", file, *changes, "--max-steps", 3, "-o", tmp_path / "run")
    assert done.code == 0, done.err
    assert (tmp_path / "run" / "model.safetensors").exists()
    resolved = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert resolved["model"]["d_model"] == Config.load(file).model.d_model


def test_training_on_own_files_as_in_the_readme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_world(tmp_path, {"train": 400, "test": 20})
    shown = [line for document, line in shown_commands() if document == "README.md"]
    train = next(line for line in shown if "--source train.en" in line and " train " in line)
    trained = headwise(*shlex.split(train)[1:], "--max-steps", "8")
    assert trained.code == 0, trained.err
    data = Config.load(Path("runs/de/config.yaml")).data
    assert (data.source_language, data.target_language) == ("en", "de")
    assert "subwords.size=" in trained.err  # the choices and their reasons
    assert "dev" in trained.err
    evaluate = next(line for line in shown if line.startswith("headwise evaluate runs/de"))
    scored = call(capsys, *shlex.split(evaluate)[1:], "--beam", 1)
    assert scored.code == 0, scored.err
    assert "sacre" not in scored.err
    assert "BLEU" in scored.out
    assert "tok:13a" in scored.out

    import headwise as package

    (translation,) = package.load("runs/de").translate(["A man rides a horse."], max_length=5)
    assert isinstance(translation.text, str)
