"""Run the code of the chapters and insert what it prints: `make learn`; --check only compares.

With --record (`make learn RECORD=1`), what the model in the package says is recorded anew.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from headwise.learn.chapters import PAGES, update


def main() -> int:
    """Run all chapters in place or, with --check, in a copy; print the files that differ."""
    record = "--record" in sys.argv
    with tempfile.TemporaryDirectory() as name:
        folder = PAGES
        if "--check" in sys.argv:
            folder = Path(name) / "pages"
            shutil.copytree(PAGES, folder)
        changed = update(folder, record=record)
        same = all(file.read_bytes() == (PAGES / file.relative_to(folder)).read_bytes() for file in _files(folder))
    print("\n".join(map(str, changed)), end="\n" if changed else "")
    return int("--check" in sys.argv and (bool(changed) or not same))


def _files(folder: Path) -> list[Path]:
    return [file for file in sorted(folder.rglob("*")) if file.is_file()]


if __name__ == "__main__":
    sys.exit(main())
