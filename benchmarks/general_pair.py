"""What each ingredient of the general pair gives: English→German on a quarter of its text, after equal steps.

Every variant is one `headwise train` of configs/open-en-de.yaml with a rate for a short training, 2,000 steps on one
core; `--workers` train at a time. The teacher is the model that ships. "Another quarter" has one side only, as text
without translations would; it is translated back by a model that was trained on the first quarter, and forward by the
variant `base`. Texts, runs and translations that are in `--out` already are kept, so the same command goes on.

    headwise data get open-en-de-text
    python examples/open_text.py data/open-en-de-text data/open-en-de-text
    python -m benchmarks general-pair --text data/open-en-de-text --out runs/general-pair
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from benchmarks import command_line, headwise, robustness
from headwise.files import write_bytes

CONFIG = "configs/open-en-de.yaml"
TEACHER = "models/open-en-de"
SHORT = (
    *("model.dropout=0.1", "batch.tokens=4096", "training.threads=1", "training.validate_share=0.02"),
    *("training.max_steps=2000", "subwords.joiners=false"),
    "schedule={name: constant, peak: 0.002, warmup: 200, cooldown: 0.3}",
)
SIDES = ("en", "de")


class Variant(NamedTuple):
    """A training: what is said of it, its texts, and overrides."""

    title: str
    texts: tuple[str, ...] = ("quarter",)
    changes: tuple[str, ...] = ()


VARIANTS = {
    "base": Variant("the filtered text, each pair once, with augmentation"),
    "unaugmented": Variant("without augmentation", changes=("data.augment={}",)),
    "sentences": Variant("everyday sentences alone: no documentation, news or strings", ("sentences",)),
    "everyday": Variant("weighted for what people ask of a translator most", ("everyday",)),
    "likeliest": Variant("without the twentieth that the teacher finds least likely", ("likeliest",)),
    "joiners": Variant("with joiners of subwords", changes=("subwords.joiners=true",)),
    "r-drop": Variant("with R-Drop", changes=("training.r_drop=1",)),
    "distilled": Variant("the teacher's translations instead of the real ones", ("distilled",)),
    "both": Variant("the teacher's translations beside the real ones", ("quarter", "distilled")),
    "back": Variant("with the German of another quarter, translated back", ("quarter", "back")),
    "forward": Variant("with the English of another quarter, translated forward", ("quarter", "forward")),
}
REVERSE = "reverse"  # the run that translates back


class Ablation:
    """Makes the texts in a folder and trains the variants there."""

    def __init__(self, text: Path, out: Path, seed: int) -> None:
        self._text, self._out, self._made = text, out, out / "text"
        self._changes = (*SHORT, f"training.seed={seed}")
        self._made.mkdir(parents=True, exist_ok=True)

    def run(self, name: str) -> Path:
        """Return the folder of a variant's run."""
        return self._out / name

    def write_texts(self, names: Iterable[str]) -> None:
        """Write the texts of variants that need no run of another one."""
        texts = {text for name in names for text in VARIANTS[name].texts}
        self._every_fourth(self._text / "train", "quarter", 0)
        self._every_fourth(self._text / "train", "other", 1)
        for name in texts & {"sentences", "everyday"}:
            self._every_fourth(self._text / name, name, 0)
        if "distilled" in texts:
            self._translate(TEACHER, "quarter", "distilled", 0)
        if "likeliest" in texts:
            self._every_fourth(self._likeliest() / "train", "likeliest", 0)

    def translate_other(self) -> None:
        """Write the texts that the runs `base` and `reverse` make of another quarter."""
        self._translate(self.run("base"), "other", "forward", 0)
        self._translate(self.run(REVERSE), "other", "back", 1)

    def train(self, name: str) -> None:
        """Train a variant, or the model that translates back, unless it is trained already."""
        run = self.run(name)
        if (run / "model.safetensors").exists():
            return
        variant = Variant("") if name == REVERSE else VARIANTS[name]
        sides = SIDES[::-1] if name == REVERSE else SIDES
        data = [
            f"data.{key}=[{', '.join(str(self._file(text, side)) for text in variant.texts)}]"
            for key, side in zip(("source", "target"), sides, strict=True)
        ]
        dev = [
            f"data.dev_{key}={self._text / 'test' / 'tatoeba-dev'}.{side}"
            for key, side in zip(("source", "target"), sides, strict=True)
        ]
        headwise("train", "-c", CONFIG, *data, *dev, *self._changes, *variant.changes, "-o", run)

    def _likeliest(self) -> Path:
        """Return the folder of the text that has been filtered once more, by the teacher."""
        folder = self._made / "likeliest"
        if not folder.exists():
            pairs = ("--source", self._text / "train.en", "--reference", self._text / "train.de")
            scores, part = self._made / "scores.txt", self._made / "likeliest.part"
            scores.write_text(headwise("evaluate", TEACHER, *pairs, "--per-line"), "utf-8")
            script = [sys.executable, "examples/open_text.py", self._text, part, "--scores", scores]
            subprocess.run(list(map(str, script)), check=True)
            part.rename(folder)
        return folder

    def _file(self, text: str, side: str) -> Path:
        return self._made / f"{text}.{side}"

    def _every_fourth(self, whole: Path, name: str, first: int) -> None:
        for side in SIDES:
            if not (out := self._file(name, side)).exists():
                with Path(f"{whole}.{side}").open("rb") as lines:
                    write_bytes(out, b"".join(islice(lines, first, None, 4)))

    def _translate(self, model: str | Path, text: str, name: str, given: int) -> None:
        """Write a text whose other side than the given one is a model's translation."""
        kept, made = SIDES[given], SIDES[1 - given]
        if not (out := self._file(name, made)).exists():
            write_bytes(self._file(name, kept), self._file(text, kept).read_bytes())
            part = out.with_suffix(".part")
            headwise("translate", model, self._file(text, kept), "-o", part, "--on-bad-line", "empty")
            part.rename(out)


def train_all(ablation: Ablation, names: Iterable[str], workers: int) -> None:
    """Train variants, so many at a time."""
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(ablation.train, names))


def main(arguments: Sequence[str]) -> None:
    parser = command_line("general-pair", __doc__)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", choices=VARIANTS, default=list(VARIANTS))
    options = parser.parse_args(arguments)
    ablation = Ablation(options.text, options.out, options.seed)
    ablation.write_texts(options.only)
    late = [name for name in options.only if {"back", "forward"} & set(VARIANTS[name].texts)]
    early = [name for name in options.only if name not in late]
    train_all(ablation, dict.fromkeys(["base", *([REVERSE] if late else []), *early]), options.workers)
    if late:
        ablation.translate_other()
        train_all(ablation, late, options.workers)
    for name in options.only:
        print(f"{ablation.run(name)}: {VARIANTS[name].title}")
    tests = [f"{options.text / 'test' / 'tatoeba-test'}.{side}" for side in SIDES]
    runs = [str(ablation.run(name)) for name in options.only]
    robustness.main([*runs, "--source", tests[0], "--reference", tests[1]])
