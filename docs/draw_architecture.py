"""Generate the diagram in docs/architecture.md from the imports: `make picture`.

A box is a package: a folder or module directly below `headwise`. An arrow goes to each package that it imports, except
to those that other arrows already reach (a transitive reduction), so that the diagram shows the order of the layers
and stays readable.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import grimp

PAGE = Path(__file__).with_name("architecture.md")
SOURCE = Path(__file__).parents[1] / "src" / "headwise"
BEGIN, END = "<!-- make picture: begin -->\n", "<!-- make picture: end -->\n"
# Left out, because nearly all packages import them.
EVERYWHERE = {
    "errors",
    "bounds",
    "characters",
    "chunks",
    "clock",
    "extras",
    "weights",
    "files",
    "parsing",
    "processes",
    "shipped",
}
ENTRIES = {"__main__"}


def picture() -> str:
    """Return the diagram in Mermaid syntax."""
    packages = imports()
    shown = {package: {other for other in others if other in packages} for package, others in packages.items()}
    lines = ["```mermaid", "flowchart TD"]
    for package in packages:
        lines.append(f'    {package}["<b>{package}</b><br/>{summary(package)}"]')
    for package, others in shown.items():
        indirect = set().union(*(reached(other, shown) for other in others))
        lines += [f"    {package} --> {other}" for other in sorted(others - indirect)]
    return "\n".join([*lines, "```", ""])


def imports() -> dict[str, set[str]]:
    """Return each package of the diagram, and the packages that it imports."""
    graph = grimp.build_graph("headwise", cache_dir=None)
    imported: dict[str, set[str]] = {}
    for module in sorted(graph.modules):
        package = package_of(module)
        if package is None:
            continue
        others = {package_of(name) for name in graph.find_modules_directly_imported_by(module)}
        imported.setdefault(package, set()).update(other for other in others if other not in (None, package))
    return imported


def package_of(module: str) -> str | None:
    """Return the package of a module; None for those that the diagram leaves out."""
    _, _, rest = module.partition(".")
    package = rest.partition(".")[0]
    return package if package and package not in EVERYWHERE | ENTRIES else None


def reached(package: str, packages: dict[str, set[str]]) -> set[str]:
    """Return all packages that are reachable from one by arrows."""
    reachable: set[str] = set()
    queue = [package]
    while queue:
        new = packages[queue.pop()] - reachable
        reachable |= new
        queue += new
    return reachable


def summary(package: str) -> str:
    """Return the first line of a package's docstring up to the first full stop, colon or semicolon."""
    file = SOURCE / package / "__init__.py"
    text = ast.get_docstring(ast.parse((file if file.exists() else SOURCE / f"{package}.py").read_text("utf-8")))
    assert text, f"{package} has no docstring"
    first = text.splitlines()[0]
    return first[: min(end for sign in ".:;" if (end := f"{first}.".find(sign)) >= 0)]


def written() -> str:
    """Return the page with an up-to-date diagram."""
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    return before + BEGIN + picture() + END + rest.partition(END)[2]


def main() -> int:
    """Write the page; with --check only return whether it is out of date, as exit code."""
    page = written()
    if "--check" in sys.argv:
        return int(page != PAGE.read_text("utf-8"))
    PAGE.write_text(page, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
