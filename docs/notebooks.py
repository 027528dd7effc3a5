"""Make a notebook of each chapter in build/notebooks: `make notebooks`.

Jupytext makes the cells. What the code printed is left out: running the notebook prints it. Blocks that a chapter
doesn't run (```sh) stay text, and so do links to the live model and to other files.
"""

import re
import shutil
import sys
from pathlib import Path

import jupytext
from nbformat import NotebookNode

from headwise.learn.chapters import PAGES, chapters

FOLDER = Path(__file__).parents[1] / "build" / "notebooks"
HEADER = "---\njupyter:\n  kernelspec:\n    display_name: Python 3\n    language: python\n    name: python3\n---\n\n"


def notebook(text: str) -> NotebookNode:
    """Return a chapter's notebook."""
    text = re.sub(r"^```sh$", "```console", text, flags=re.MULTILINE)
    text = re.sub(r"^```sh (?:run|recorded)$", "```bash", text, flags=re.MULTILINE)
    text = re.sub(r"^```output\n.*?^```\n", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"(?<!!)\[([^\]]*)\]\((?:live:|\.\./)[^)\s]*\)", r"\1", text)
    text = re.sub(r"\]\(([0-9]{2}-[a-z-]+|mistakes)\.md\)", r"](\1.ipynb)", text)
    made = jupytext.reads(HEADER + text, fmt="md")
    for number, cell in enumerate(made.cells):
        cell["id"] = f"cell-{number}"  # the same in every build
    return made


def write(folder: Path) -> list[Path]:
    """Write the notebooks of all chapters, and the pictures, into a folder; return the notebooks."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(PAGES / "pictures", folder / "pictures")
    written = []
    for file in [*chapters(PAGES), PAGES / "mistakes.md"]:
        written.append(folder / f"{file.stem}.ipynb")
        jupytext.write(notebook(file.read_text("utf-8")), written[-1])
    return written


def main() -> int:
    """Write the notebooks to build/notebooks."""
    for file in write(FOLDER):
        print(file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
