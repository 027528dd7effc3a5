"""The corpora in the package: `miniature`, the text of the built-in world, and `tiny`, that of the scale tiny.

Both are English and German: `train`, `dev` and `test`, each as `.en` and `.de`. Every sentence of dev and test combines
words that no training sentence combines. `miniature` has 60,000 pairs for training, and for dev and test the gold word
alignments in Pharaoh format (`dev.align`, from 0) and the dependency trees (`dev.en.conllu`), where `Antecedent=N` in
the last column of a pronoun is the number of the noun it refers to; `examples.en` holds the sentences that the page
suggests first. The training text ends with fixed sentences, such as greetings, each repeated. The grammar behind it is
in the repository, in `tools/miniature`.

`tiny` is frozen, so that results of the scale stay comparable whatever becomes of the built-in world: 20,000 pairs for
training, and trees of the test set.

Files are compressed with bzip2, which makes such text a fifth smaller than xz does.
"""

from __future__ import annotations

import bz2
from fnmatch import fnmatch
from pathlib import Path

from headwise.files import write_bytes

FOLDER = Path(__file__).parent
NAMES = ("miniature", "tiny")


def read_built_in(name: str, file: str) -> list[str]:
    """Return the lines of a file of a built-in corpus, such as `train.en` of `miniature`."""
    return bz2.decompress((FOLDER / name / f"{file}.bz2").read_bytes()).decode("utf-8").splitlines()


def write_built_in(name: str, directory: Path, pattern: str = "*") -> list[Path]:
    """Write the files of a built-in corpus that match the pattern; returns their paths, in the order of their names.

    Raises `TrainingError` where the directory can't be written.
    """
    files = {
        directory / packed.stem: bz2.decompress(packed.read_bytes())
        for packed in sorted((FOLDER / name).glob("*.bz2"))
        if fnmatch(packed.stem, pattern)
    }
    for path, data in files.items():
        write_bytes(path, data)
    return [*files]
