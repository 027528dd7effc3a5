"""Print the lowest versions that pyproject.toml allows, a requirement a line: what `make test-lowest` installs.

Of the extras named, and of what always is installed; a requirement of other extras of Headwise's stands for theirs.

Example: python tools/lowest.py serve > build/lowest.txt
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

_LOWEST = re.compile(r"(?P<name>[\w.-]+(?:\[[\w,]+\])?)>=(?P<version>[\w.]+)[^;]*(?P<marker>;.*)?")
_OWN = re.compile(r"headwise\[(?P<extras>[\w,]+)\]")


def lowest(required: Sequence[str], extras: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield the lowest version of each requirement; raises `ValueError` for one without a lower bound."""
    for requirement in required:
        if own := _OWN.fullmatch(requirement):
            for extra in own["extras"].split(","):
                yield from lowest(extras[extra], extras)
        elif found := _LOWEST.fullmatch(requirement):
            yield f"{found['name']}=={found['version']}{found['marker'] or ''}"
        else:
            raise ValueError(f"pyproject.toml: expected NAME>=VERSION, found {requirement!r}")


if __name__ == "__main__":
    project = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["project"]
    optional = project["optional-dependencies"]
    chosen = [*project["dependencies"], *(f"headwise[{extra}]" for extra in sys.argv[1:])]
    print("\n".join(dict.fromkeys(lowest(chosen, optional))))
