"""The reference pages of the site, made from the code; and, with Sphinx, the whole site of `make docs`."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from docs_programs import load_program
from headwise.cli.main import COMMANDS
from headwise.config import Config
from paths import DOCS


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    return load_program(DOCS / "reference.py")


def keys(tree: dict, prefix: str = "") -> set[str]:
    found = set()
    for name, value in tree.items():
        found |= keys(value, f"{prefix}{name}.") if isinstance(value, dict) and value else {f"{prefix}{name}"}
    return found


def test_every_key_of_the_configuration_has_its_row(reference: ModuleType) -> None:
    rows = [line for line in reference.configuration().splitlines() if line.startswith("| `")]
    cells = {line.split(" | ")[0].strip("| `"): line for line in rows}
    assert set(cells) == keys(Config().model_dump(mode="json"))
    assert "| whole number | `6` | N |" in cells["model.encoder_layers"]
    # a comment inside a definition of several lines
    assert "grouped-query attention" in cells["model.key_value_heads"]


@pytest.mark.parametrize("module", ["headwise", "headwise.nn"])
def test_the_stable_names_are_those_of_all(reference: ModuleType, module: str) -> None:
    page = reference.python()
    section = page.partition(f"\n## {module}\n")[2].partition("\n## ")[0]
    imported = importlib.import_module(module)
    shown = [line.removeprefix("### ") for line in section.splitlines() if line.startswith("### ")]
    modules = [name for name in imported.__all__ if inspect.ismodule(getattr(imported, name))]
    assert sorted([*shown, *modules]) == imported.__all__
    for name in shown:
        assert f":: {module}.{name}\n" in section


def test_every_command_has_its_options(reference: ModuleType) -> None:
    page = reference.command_line()
    for name in COMMANDS:
        assert f"# headwise {name}" in page
    assert "| `--length-penalty`" in page or "| `--alpha`" in page
    assert "| `--beam` |" in page
    assert page.count("```sh") > len(COMMANDS)  # their examples


@pytest.mark.slow
def test_the_site_is_built_without_warnings_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("sphinx", reason="needs pip install 'headwise[docs]'")
    site = tmp_path / "site"
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-d", tmp_path / "doctrees", DOCS, site]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    chapter = (site / "learn" / "05-heads.html").read_text(encoding="utf-8")
    assert "<em>Interventions</em>" in chapter  # a link only where there is a live model
    assert "live:text" not in chapter
    assert "softmax" in (site / "searchindex.js").read_text(encoding="utf-8")
    first = (site / "index.html").read_text(encoding="utf-8")
    assert 'href="train.html"' in first  # README's links lead to pages of the site
    assert "_images/page.webp" in first
    assert "model.encoder_layers" in (site / "reference" / "configuration.html").read_text(encoding="utf-8")
    assert "headwise analyze heads" in (site / "reference" / "command-line.html").read_text(encoding="utf-8")
