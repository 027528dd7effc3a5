"""Make a notebook of each chapter in build/notebooks: `make notebooks`.

Text becomes Markdown cells, code becomes code cells, and what the code printed is left out: running the notebook prints
it. Commands that only run in a terminal or train for long stay text.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from headwise.learn.chapters import BLOCK, PAGES, chapters

FOLDER = Path(__file__).parents[1] / "build" / "notebooks"


def notebook(text: str) -> nbformat.NotebookNode:
    """Return a chapter's notebook."""
    cells, place = [], 0
    for match in BLOCK.finditer(text):
        cells += _markdown(text[place : match.start()])
        cells.append(new_code_cell(_code(match["kind"], match["code"].rstrip("\n"))))
        place = match.end()
    cells += _markdown(text[place:])
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"  # the same in every build
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return new_notebook(cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}})


def _code(kind: str, code: str) -> str:
    return code if kind == "python" else f"%%bash\n{code}"


def _markdown(text: str) -> list[nbformat.NotebookNode]:
    """Return the cell of a text, if there is any; links to the live model and to other files become text."""
    text = re.sub(r"(?<!!)\[([^\]]*)\]\((?:live:|\.\./)[^)\s]*\)", r"\1", text)
    text = re.sub(r"\]\(([0-9]{2}-[a-z-]+|mistakes)\.md\)", lambda m: f"]({m[1]}.ipynb)", text)
    return [new_markdown_cell(text.strip("\n"))] if text.strip() else []


def write(folder: Path) -> list[Path]:
    """Write the notebooks of all chapters, and the pictures, into a folder; return the notebooks."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(PAGES / "pictures", folder / "pictures")
    written = []
    for file in [*chapters(PAGES), PAGES / "mistakes.md"]:
        written.append(folder / f"{file.stem}.ipynb")
        nbformat.write(notebook(file.read_text("utf-8")), written[-1])
    return written


def main() -> int:
    """Write the notebooks to build/notebooks."""
    for file in write(FOLDER):
        print(file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
