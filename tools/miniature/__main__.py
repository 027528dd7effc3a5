"""Write the text of the built-in world into the package, with its checksums: `python -m tools.miniature`."""

from __future__ import annotations

import bz2
import hashlib
from pathlib import Path
from tempfile import TemporaryDirectory

from headwise.corpora.built_in import FOLDER
from headwise.files import write_bytes
from tools.miniature import generate, write

TRAIN, SEED = 60_000, 1  # training pairs, each of which the demo's model sees about twice


def main() -> None:
    """Write the compressed files, and print the checksum of each plain one for `headwise.corpora.catalog`."""
    with TemporaryDirectory() as folder:
        for file in sorted(write(generate(train=TRAIN, seed=SEED), Path(folder))):
            write_bytes(FOLDER / "miniature" / f"{file.name}.bz2", bz2.compress(file.read_bytes()))
            print(f'    "{file.name}": "{hashlib.sha256(file.read_bytes()).hexdigest()}",')


if __name__ == "__main__":
    main()
