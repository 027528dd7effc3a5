"""The notebooks of the chapters: they run, and print what the chapters show."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import nbclient
import nbformat
import pytest

from docs_programs import load_program
from headwise.learn.chapters import PAGES, chapters
from paths import DOCS
from program import shell_environment

QUICK = ("03-queries-keys-values",)


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    return load_program(DOCS / "notebooks.py")


@pytest.fixture(scope="module")
def notebooks(maker: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return maker.write(tmp_path_factory.mktemp("notebooks") / "out")


def shown(chapter: str, kinds: str) -> list[str]:
    """The outputs of the blocks of some kinds in a chapter."""
    blocks = rf"^```(?:{kinds})\n.*?^```\n\n```output\n(.*?)^```"
    text = (PAGES / f"{chapter}.md").read_text("utf-8")
    return re.findall(blocks, text, re.DOTALL | re.MULTILINE)


def printed(file: Path, *, commands: bool) -> list[str]:
    """Run a notebook and return what its cells print; without `commands`, those of a shell are left out."""
    notebook = nbformat.read(file, as_version=4)
    if not commands:
        notebook.cells = [cell for cell in notebook.cells if not cell.source.startswith("%%bash")]

    client = nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(file.parent)}}
    )
    client.execute(env={**shell_environment(), "JUPYTER_PLATFORM_DIRS": "1"})
    texts = [
        "".join(output.get("text", "") for output in cell.outputs if output.get("name") == "stdout")
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]
    return [text for text in texts if text]


def test_there_is_a_valid_notebook_of_each_chapter(notebooks: list[Path]) -> None:
    assert [file.stem for file in notebooks] == [*(file.stem for file in chapters(PAGES)), "mistakes"]
    for file in notebooks:
        notebook = nbformat.read(file, as_version=4)
        nbformat.validate(notebook)
        text = "\n".join(cell.source for cell in notebook.cells)
        assert "```output" not in text
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            assert link.startswith("http") or (file.parent / link).exists(), (file.name, link)


def test_notebooks_are_the_same_in_every_build(maker: ModuleType) -> None:
    text = (PAGES / "05-heads.md").read_text("utf-8")
    assert nbformat.writes(maker.notebook(text)) == nbformat.writes(maker.notebook(text))


@pytest.mark.parametrize("chapter", QUICK)
def test_a_notebook_prints_what_its_chapter_shows(chapter: str, notebooks: list[Path]) -> None:
    (file,) = [file for file in notebooks if file.stem == chapter]
    assert printed(file, commands=False) == shown(chapter, "python")


@pytest.mark.slow
@pytest.mark.parametrize("chapter", [file.stem for file in chapters(PAGES)])
def test_every_notebook_runs_with_its_commands(chapter: str, notebooks: list[Path]) -> None:
    (file,) = [file for file in notebooks if file.stem == chapter]
    outputs = printed(file, commands=True)
    assert [text.strip() for text in outputs] == [text.strip() for text in shown(chapter, "python|sh run|sh recorded")]
