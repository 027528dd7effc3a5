"""README, docs and chapters: every command shown has its options, paths exist, and the README keeps its promises."""

from __future__ import annotations

import itertools
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from benchmarks.__main__ import BENCHMARKS
from commands import every_command
from headwise.cli.main import COMMANDS
from headwise.config import Config, ModelConfig
from headwise.config.support import FULL_ATTENTION
from headwise.corpora.synthetic import generate
from headwise.engine.native.engine import unsupported
from headwise.engine.native.packing import ACTIVATIONS
from headwise.engine.native.positions import ADDED, INSIDE
from headwise.learn.chapters import PAGES
from headwise.nn.attention import attention_kinds
from headwise.tasks.registry import find_task
from paths import DOCS, ROOT
from program import Call
from world import write_world

DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md")),
    *(file for place in ("*.md", "reproduction/*.md") for file in sorted(DOCS.glob(place))),
    *sorted(PAGES.glob("*.md")),
]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROMISED = [
    *("Your own two files", "Look inside", "The paper in the code", "Results", "Commands"),
    *("Chapters", "Exchange", "What it isn't", "License and citation"),
]
CONFIGURATIONS = sorted((ROOT / "configs").glob("*.yaml"))


def shown_commands() -> list[tuple[str, str]]:
    """Return every `headwise …` line of every block of commands, continued lines joined, with its document."""
    commands = []
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        for kind, block in re.findall(r"^```([^\n`]*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
            lines = re.sub(r" *\\\n *", " ", block).splitlines()
            for line in lines if kind in ("", "sh", "sh run", "sh recorded") else []:
                match = re.search(r"(?:^|\| |-m )(headwise \w.*)", line.strip())
                if match:
                    commands.append((document.name, match.group(1).split(" | ")[0].split("  ")[0]))
    return commands


def _words(line: str) -> list[str]:
    """Return the words of a command line, with those of the shell (`|`, `<`) apart."""
    reader = shlex.shlex(line, posix=True, punctuation_chars="|<>&")
    reader.whitespace_split = True
    return list(reader)


@pytest.mark.parametrize(("document", "line"), shown_commands())
def test_a_shown_command_has_its_options(document: str, line: str) -> None:
    words = list(itertools.takewhile(lambda word: word not in ("|", "<", ">", "&&"), _words(line)))[1:]
    command = every_command().get((words[0],)) or every_command()[words[0], words[1]]
    known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    assert not [word for word in words[1:] if word.startswith("-") and word not in known], f"{document}: {line}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_a_named_test_exists(document: Path) -> None:
    named = re.findall(r"`(tests/[\w/]+(?:\.py)?)`", document.read_text(encoding="utf-8"))
    assert not [name for name in named if "test_X" not in name and not (ROOT / name).exists()]


def test_unit_tests_stand_where_what_they_test_stands() -> None:
    unit, inside = ROOT / "tests" / "unit", ROOT / "src" / "headwise"
    for file in unit.rglob("test_*.py"):
        folder = file.parent.relative_to(unit)
        module = Path(file.stem.removeprefix("test_")) if file.parent == unit else folder
        places = (inside / module, (inside / module).with_suffix(".py"), ROOT / module)
        assert any(place.exists() for place in places), file


def test_every_benchmark_and_script_that_a_document_names_exists() -> None:
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        named = set(re.findall(r"python -m benchmarks ([a-z][a-z-]+)(?= [-A-Za-z]|`)", text))
        assert named <= set(BENCHMARKS)
        if document.name != "CHANGELOG.md":
            for script in re.findall(r"\b(?:examples|deploy|tools)/[\w/.-]+\w", text):
                assert (ROOT / script).exists(), (document.name, script)


def test_there_are_commands_to_check() -> None:
    assert {line.split()[1] for _, line in shown_commands()} == set(COMMANDS)
    documents = {document for document, _ in shown_commands()}
    assert {"README.md", "train.md", "05-heads.md"} <= documents


def test_the_readme_is_short_and_keeps_its_order() -> None:
    assert len(README.splitlines()) <= 140
    places = [README.index(f"\n## {title}\n") for title in PROMISED]
    assert places == sorted(places)
    assert re.findall(r"^## (.*)", README, re.MULTILINE) == PROMISED
    # The page is seen before anything is installed.
    assert README.index("![") < README.index("make demo") < places[0]
    assert "nrefs:" not in README
    assert not re.search(r"\b[A-Z0-9]+(?:_[A-Z0-9]+)+=", README)


def test_every_section_of_the_paper_leads_to_its_file() -> None:
    (rows,) = re.findall(r"^\| section of the paper .*\n\|[-|]+\n((?:\|.*\n)+)", README, re.MULTILINE)
    sections = re.findall(r"^\| (\d(?:\.\d)*)", rows, re.MULTILINE)
    assert sections == sorted(sections)
    assert {section[0] for section in sections} == {"3", "4", "5", "6"}
    for row in rows.splitlines():
        assert re.search(r"\]\(src/headwise/[\w/]+\.(?:py|yaml)\)|\]\(src/headwise/[\w/]+/?\)", row), row


def test_every_result_has_its_command() -> None:
    (rows,) = re.findall(r"^\| what \| result \| command \|\n\|[-|]+\n((?:\|.*\n)+)", README, re.MULTILINE)
    assert len(rows.splitlines()) == 5
    for row in rows.splitlines():
        assert re.search(r"`[^`]*(?:headwise|python -m benchmarks) [^`]+` \|$", row), row


def test_the_readme_names_the_commands_in_their_groups() -> None:
    (block,) = re.findall(r"```\n(Make .*?)```", README, re.DOTALL)
    named = [set(re.sub(r"\(.*?\)", "", line).split()[1:]) for line in block.splitlines()]
    assert set.union(*named) == set(COMMANDS)
    assert sum(map(len, named)) == len(COMMANDS)


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    expected = {(name, "") for name in map(_package, project["dependencies"])}
    for extra, packages in project["optional-dependencies"].items():
        expected |= {(name, extra) for name in map(_package, packages) if name != "headwise"}
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (rows,) = re.findall(r"^\| package \| extra .*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    cells = [[cell.strip() for cell in row.split("|")[1:4]] for row in rows.splitlines()]
    assert {(name, extra.strip("`")) for names, extra, _ in cells for name in names.split(", ")} == expected
    assert all(reason for _, _, reason in cells)


def _package(requirement: str) -> str:
    return re.split(r"[\[>=;]", requirement)[0]


def test_the_diagram_of_the_packages_shows_the_imports() -> None:
    drawn = subprocess.run([sys.executable, DOCS / "draw_architecture.py", "--check"], check=False)
    assert drawn.returncode == 0, "docs/architecture.md is out of date: run `make picture`"


def test_the_paths_that_the_architecture_names_exist() -> None:
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:[a-z_]+/)+[a-z_]*(?:\.(?:py|js|css))?)`", text))
    assert len(named) > 40
    inside = ROOT / "src" / "headwise"
    assert [name for name in named if not (inside / name).exists() and not (ROOT / name).exists()] == []


def test_what_the_native_engine_runs_is_what_the_document_says() -> None:
    text = (DOCS / "models.md").read_text(encoding="utf-8")
    section = text.partition("## What the native engine runs\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.*) \| (.*) \|$", section, re.MULTILINE)
    values = {key: set(re.findall(r"`([a-z0-9_]+)`", said)) for key, said in rows}
    assert values["`positions`"] == {*ADDED, *INSIDE}
    assert values["`activation`"] == {*ACTIVATIONS}
    assert {*FULL_ATTENTION} <= values["`attention`, `cross_attention`"]
    known = [kind.name for kind in attention_kinds()]
    assert {name for name in known if unsupported(ModelConfig(attention=name)) is None} == {*FULL_ATTENTION}


def test_every_file_that_a_document_links_to_exists() -> None:
    for document in DOCUMENTS:
        for link in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text(encoding="utf-8")):
            if not link.startswith(("http", "live:")):
                assert (document.parent / link).exists(), f"{document.name} links to {link}"


def _examples(name: str, folder: Path) -> list[str]:
    train, dev, _ = generate(name, folder / name, train=80, dev=10, test=1)
    return [f"data.text=[{train}]", f"data.dev_text={dev}"]


@pytest.mark.parametrize("file", CONFIGURATIONS, ids=lambda file: file.stem)
def test_a_shipped_configuration_trains(file: Path, tmp_path: Path, program: Call) -> None:
    """Train for two steps on a small corpus, with the model size of the file."""
    config = Config.load(file)
    find_task(config.task).check(config)
    write_world(tmp_path, {"train": 300, "dev": 20}, ("source", "target"))
    source = f"data.text=[{tmp_path / 'train.source'}]"
    dev, size = f"data.dev_text={tmp_path / 'dev.source'}", "subwords.size=300"
    changes = {
        "translation": [
            f"data.source=[{tmp_path / 'train.source'}]",
            f"data.target=[{tmp_path / 'train.target'}]",
            f"data.dev_source={tmp_path / 'dev.source'}",
            f"data.dev_target={tmp_path / 'dev.target'}",
            *(size, "training.validate_bleu=false", "training.best_by=loss"),
        ],
        "language_model": [source, dev],
        "denoising": [source, dev, size],
        "image_classification": ["image_classification.source=digits", "image_classification.patch=2"],
        "image_text": [],
        "masked_language_model": [source, size],
        "classification": [f"data.text=[{tmp_path / 'train.source'}, {tmp_path / 'train.target'}]", size],
        "tagging": [*_examples("entities", tmp_path), size],
        "question_answering": [*_examples("questions", tmp_path), size],
    }[config.task]
    if config.task != "image_text":  # its batch size is a number of pairs
        changes.append("batch.tokens=250")
    changes.append("training.threads=0")
    program("train", "-c", file, *changes, "--max-steps", 2, "-o", tmp_path / "run").ok()
    assert (tmp_path / "run" / "model.safetensors").exists()
    resolved = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert resolved["model"]["d_model"] == config.model.d_model


def test_training_on_own_files_as_in_the_readme(here: Path, program: Call) -> None:
    write_world(here, {"train": 300, "test": 4})
    shown = [line for document, line in shown_commands() if document == "README.md"]
    train = next(line for line in shown if "--source train.en" in line and " train " in line)
    trained = program(*shlex.split(train)[1:], "--max-steps", 2).ok()
    data = Config.load(Path("runs/de/config.yaml")).data
    assert (data.source_language, data.target_language) == ("en", "de")
    assert "subwords.size=" in trained.err  # the choices and their reasons
    assert "dev" in trained.err
    evaluate = next(line for line in shown if line.startswith("headwise evaluate runs/de"))
    scored = program(*shlex.split(evaluate)[1:], "--beam", 1).ok()
    assert "sacre" not in scored.err
    assert "BLEU" in scored.out
    assert "tok:13a" in scored.out

    import headwise as package

    (translation,) = package.load("runs/de").translate(["A man rides a horse."], max_length=5)
    assert isinstance(translation.text, str)
