"""Run the code of docs/learn and insert what it prints: `make learn`; --check only compares.

With a run of `headwise demo` as argument (`make learn DEMO=runs/demo`), what its model says is recorded anew.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from headwise.learn.chapters import update

FOLDER = Path(__file__).with_name("learn")


def main() -> int:
    """Run all chapters in place or, with --check, in a copy; print the files that differ."""
    runs = [Path(word) for word in sys.argv[1:] if word != "--check"]
    with tempfile.TemporaryDirectory() as name:
        folder = FOLDER
        if "--check" in sys.argv:
            folder = Path(name) / "learn"
            shutil.copytree(FOLDER, folder)
        changed = update(folder, runs[0] if runs else None)
        same = all(
            file.read_bytes() == (FOLDER / file.relative_to(folder)).read_bytes() for file in _files(folder)
        )
    print("\n".join(map(str, changed)), end="\n" if changed else "")
    return int("--check" in sys.argv and (bool(changed) or not same))


def _files(folder: Path) -> list[Path]:
    return [file for file in sorted(folder.rglob("*")) if file.is_file()]


if __name__ == "__main__":
    sys.exit(main())
