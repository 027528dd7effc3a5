"""Draw the picture in docs/architecture.md from the imports themselves: `make picture`.

A room is a folder or module directly below `headwise`. An arrow goes to what a room imports, unless that is reached by
other arrows already (a transitive reduction), so that the picture shows the order of the layers and stays readable.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import grimp

PAGE = Path(__file__).with_name("architecture.md")
PACKAGE = Path(__file__).parents[1] / "src" / "headwise"
BEGIN, END = "<!-- make picture: begin -->\n", "<!-- make picture: end -->\n"
EVERYWHERE = {
    "errors",
    "bounds",
    "characters",
    "chunks",
    "files",
    "parsing",
    "processes",
}  # nearly all import them
ENTRIES = {"__main__"}


def picture() -> str:
    """Return the picture as a Mermaid diagram."""
    rooms = imports()
    shown = {room: {other for other in others if other in rooms} for room, others in rooms.items()}
    lines = ["```mermaid", "flowchart TD"]
    for room in rooms:
        count = len([path for path in (PACKAGE / room).rglob("*.py") if path.name != "__init__.py"])
        size = f"{count} modules" if count > 1 else "1 module"
        lines.append(f'    {room}["<b>{room}</b><br/>{summary(room)}<br/><i>{size}</i>"]')
    for room, others in shown.items():
        indirect = set().union(*(reached(other, shown) for other in others))
        lines += [f"    {room} --> {other}" for other in sorted(others - indirect)]
    return "\n".join([*lines, "```", ""])


def imports() -> dict[str, set[str]]:
    """Return each room that has a place in the picture, and the rooms that it imports."""
    graph = grimp.build_graph("headwise", cache_dir=None)
    found: dict[str, set[str]] = {}
    for module in sorted(graph.modules):
        room = room_of(module)
        if room is None:
            continue
        others = {room_of(name) for name in graph.find_modules_directly_imported_by(module)}
        found.setdefault(room, set()).update(other for other in others if other not in (None, room))
    return found


def room_of(module: str) -> str | None:
    """Return the room that a module is in, None for those that the picture leaves out."""
    _, _, rest = module.partition(".")
    room = rest.partition(".")[0]
    return room if room and room not in EVERYWHERE | ENTRIES else None


def reached(room: str, rooms: dict[str, set[str]]) -> set[str]:
    """Return all rooms that can be reached from one by arrows."""
    found: set[str] = set()
    waiting = [room]
    while waiting:
        new = rooms[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def summary(room: str) -> str:
    """Return what a room says of itself: its docstring up to the first colon, comma, semicolon or full stop."""
    file = PACKAGE / room / "__init__.py"
    text = ast.get_docstring(
        ast.parse((file if file.exists() else PACKAGE / f"{room}.py").read_text("utf-8"))
    )
    assert text, f"{room} has no docstring"
    first = text.splitlines()[0]
    return first[: min(place for sign in ".:;" if (place := f"{first}.".find(sign)) >= 0)]


def written() -> str:
    """Return the page with the picture as it is now."""
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    return before + BEGIN + picture() + END + rest.partition(END)[2]


def main() -> int:
    """Write the page; with --check only tell whether it is up to date."""
    page = written()
    if "--check" in sys.argv:
        return int(page != PAGE.read_text("utf-8"))
    PAGE.write_text(page, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
