"""Write the text of the built-in world into the package, with its checksums: `python -m tools.miniature`."""

from __future__ import annotations

import bz2
import hashlib
from pathlib import Path
from tempfile import TemporaryDirectory

from headwise.corpora.built_in import FOLDER
from headwise.files import write_bytes
from tools.miniature import generate, write
from tools.miniature.corpus import SAID
from tools.miniature.sayings import SAYINGS

# Training pairs, 60,000 together with the fixed sentences; the demo's model sees each about twice
TRAIN, SEED = 60_000 - SAID * len(SAYINGS), 1


def main() -> None:
    """Write the compressed files, and print the checksum of each plain one for `headwise.corpora.catalog`."""
    with TemporaryDirectory() as folder:
        for file in sorted(write(generate(train=TRAIN, seed=SEED), Path(folder))):
            write_bytes(FOLDER / "miniature" / f"{file.name}.bz2", bz2.compress(file.read_bytes()))
            print(f'    "{file.name}": "{hashlib.sha256(file.read_bytes()).hexdigest()}",')


if __name__ == "__main__":
    main()
