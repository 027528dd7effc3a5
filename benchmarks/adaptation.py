"""Domain adaptation: image captions to a program's messages, with and without replay (`--mix`).

A model of Multi30k's captions (English to German, lower-cased and tokenized, as published) is adapted to the messages
of a program, as its .mo file has them: GnuCash 4.13 of Debian 12, `apt-get download gnucash-common` and `dpkg-deb -x`.
Every variant is a `headwise train --from` with the recipe's own options, and all runs are scored on both test sets.

    python -m benchmarks adaptation --messages gnucash.mo --multi30k DIR --out DIR [--base RUN] [--only NAME…]
"""

from __future__ import annotations

import gettext
import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path

from benchmarks import command_line, headwise
from headwise.text.tokens.moses import tokenize

TEST, DEV = 400, 300  # messages
LONGEST = 30  # words

# Name → arguments of `headwise train --from`; BASE is the base run.
VARIANTS = {
    "plain": [],
    "mix": ["--mix", "BASE=0.3"],
}


def messages(path: Path) -> list[tuple[str, str]]:
    """Read the one-line messages of a .mo file, lower-cased and tokenized; a source occurs once.

    The marks of keyboard shortcuts (`_`) are removed. Messages are sorted by a hash of the source.
    """
    with path.open("rb") as file:
        catalog = vars(gettext.GNUTranslations(file))["_catalog"]
    pairs: dict[str, str] = {}
    for key, value in catalog.items():
        if not isinstance(key, str) or not key:
            continue
        english, german = (_line(text, language) for text, language in ((key, "en"), (value, "de")))
        words = len(english.split()), len(german.split())
        if min(words) >= 2 and max(words) <= LONGEST and "\n" not in key + value and english != german:
            pairs.setdefault(english, german)
    return sorted(pairs.items(), key=lambda pair: hashlib.sha256(pair[0].encode()).digest())


def _line(text: str, language: str) -> str:
    text = text.rpartition("\4")[2]  # after the message's context
    return tokenize(re.sub(r"(?<!\w)_|_(?=\w)", "", text).lower(), language)


def write(folder: Path, pairs: list[tuple[str, str]]) -> None:
    """Write the parts `test`, `dev` and `train` as text files."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = {"test": pairs[:TEST], "dev": pairs[TEST : TEST + DEV], "train": pairs[TEST + DEV :]}
    for name, part in parts.items():
        for side, language in enumerate(("en", "de")):
            text = "".join(f"{pair[side]}\n" for pair in part)
            (folder / f"{name}.{language}").write_text(text, encoding="utf-8")
        print(f"{name}: {len(part):,} messages")


def main(arguments: Sequence[str]) -> None:
    parser = command_line("adaptation", __doc__)
    parser.add_argument("--messages", type=Path, required=True)
    parser.add_argument("--multi30k", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--base", type=Path, help="a trained base, instead of one trained here for ten minutes")
    parser.add_argument("--only", nargs="*", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("changes", nargs="*", metavar="KEY=VALUE", help="changes of every adaptation")
    options = parser.parse_args(arguments)

    def caption_file(part: str, language: str) -> Path:
        return options.multi30k / f"{part}.lc.norm.tok.{language}.gz"

    new = options.out / "messages"
    write(new, messages(options.messages))
    base = options.base or options.out / "base"
    if not (base / "model.safetensors").exists():
        files = [f"--{side}={caption_file('train', lang)}" for side, lang in (("source", "en"), ("target", "de"))]
        dev = [f"--dev-{side}={caption_file('val', lang)}" for side, lang in (("source", "en"), ("target", "de"))]
        headwise("train", *files, *dev, "--max-minutes=10", "-o", base)
    runs = [base]
    for name in options.only:
        run = options.out / f"{name}.seed{options.seed}"
        arguments = [argument.replace("BASE", str(base)) for argument in VARIANTS[name]]
        headwise(
            *("train", "--from", base, "--source", new / "train.en", "--target", new / "train.de"),
            *("--dev-source", new / "dev.en", "--dev-target", new / "dev.de", f"--seed={options.seed}"),
            *("-o", run, *arguments, *options.changes),
        )  # fmt: skip
        runs.append(run)
    old = caption_file("test_2016_flickr", "en"), caption_file("test_2016_flickr", "de")
    sets = [("--source", s, "--reference", r) for s, r in (old, (new / "test.en", new / "test.de"))]
    table = ["evaluate", *runs, *(argument for part in sets for argument in part)]
    (options.out / "scores.json").write_text(headwise(*table, "--json"))
    print(headwise(*table))
    for run in runs[1:]:
        records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        seconds = max(record.get("seconds", 0) for record in records)
        print(f"{run.name}: {records[-1]['step']:,} steps, {seconds / 60:.1f} minutes")
