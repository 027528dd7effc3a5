"""A test set as people type it: BLEU and chrF2 of each kind of text, beside the clean one.

Capitals, titles and brackets around the sentence are so on both sides, as are a missing final punctuation and what a
translation repeats: a symbol, placeholder or amount, or a made-up word in letters that the languages don't have, or in
other scripts, of which a vocabulary hardly has any. Typing errors and lower case are in the source alone, and so is
what lacks apostrophes (dont) and German letters (fuer). The texts are the same for every run.

For a run between English and German, four lists are translated, too, and the share of accepted translations is given:
words, strings of programs and everyday sentences; those with amounts and abbreviations, as "no. 12" and "30 sec"; with
addresses and files, as "photos.zip"; and words that the text of the general models has at most ten times, as
"hedgehog". A line of a list has both languages, each with its alternatives: the first of a side is what is translated,
and every one of the other side is accepted.

    python -m benchmarks robustness RUN… --source test.en --reference test.de
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

import headwise
from benchmarks import command_line
from headwise.config import AugmentConfig
from headwise.config.languages import short_code
from headwise.evaluation.metrics import find_metric
from headwise.text.augmentation import LETTERS, augment, typo
from headwise.text.reading.lines import read_lines

Pairs = tuple[list[str], list[str]]

TYPOS = 0.05  # share of the words of several letters
METRICS = ("bleu", "chrf")
LISTS = {
    kind: Path(__file__).parent / f"{name}.en-de.tsv"
    for kind, name in {
        "words and phrases": "phrases",
        "amounts": "amounts",
        "addresses and files": "addresses",
        "seldom words": "seldom",
    }.items()
}
SCRIPTS = (
    *("אבגדהוזחטילמנסעפצקרשת", "ابتثجحدرزسشصطعغفقكلمنهوي", "აბგდევზთიკლმნოპჟრსტუფქღყშჩცძწჭხჯჰ"),
    *("कखगघचछजझटठडढणतथदधनपफबभमयरलवशषसह", "あいうえおかきくけこさしすせそたちつ", "人口中心水火山石田土金木月日子女"),
)  # fmt: skip
GERMAN = {"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue"}
_APOSTROPHE = re.compile(r"(?<=[A-Za-z])['’](?=[A-Za-z])")
_ARTICLE = re.compile(r"(?:the|an?|der|die|das|eine?)\s+", re.IGNORECASE)


def with_typos(sources: Sequence[str], share: float, random: np.random.Generator) -> list[str]:
    """Return the sentences with a typing error in a share of their words of three letters and more."""

    def mistyped(match: re.Match[str]) -> str:
        return typo(match[0], random) if random.random() < share else match[0]

    return [re.sub(r"[^\W\d_]{3,}", mistyped, source) for source in sources]


def with_plain_letters(source: str) -> str:
    """Return a sentence without apostrophes inside words, and with two letters for each German one."""
    return _APOSTROPHE.sub("", source).translate(str.maketrans(GERMAN))


def in_brackets(pairs: Pairs) -> Pairs:
    """Return the pairs, each side in brackets."""
    sources, references = ([f"({text})" for text in side] for side in pairs)
    return sources, references


def in_other_scripts(pairs: Pairs) -> Pairs:
    """Return the pairs with made-up words in Hebrew, Arabic, Georgian, Devanagari, kana or Chinese on both sides."""

    def written(match: re.Match[str]) -> str:
        random = np.random.default_rng([1, *map(ord, match[0])])
        letters = SCRIPTS[random.integers(len(SCRIPTS))]
        return "".join(random.choice(list(letters), len(match[0]) // 2 + 1))

    foreign = "".join(map("".join, LETTERS.values())).translate(dict.fromkeys(map(ord, "äöüß")))
    made_up = re.compile(rf"\w*[{foreign}]\w*")
    sources, references = ([made_up.sub(written, text) for text in side] for side in KINDS["foreign words"](pairs))
    return sources, references


def _changed(**shares: float) -> Callable[[Pairs], Pairs]:
    return lambda pairs: augment(*pairs, AugmentConfig(**shares), np.random.default_rng(1))


KINDS: dict[str, Callable[[Pairs], Pairs]] = {
    "clean": lambda pairs: pairs,
    "in capitals": _changed(capitals=1),
    "in title case": _changed(title=1),
    "in lower case": _changed(lower_case=1),
    "5 % typos": lambda pairs: (with_typos(pairs[0], TYPOS, np.random.default_rng(1)), pairs[1]),
    "dont, fuer": lambda pairs: ([*map(with_plain_letters, pairs[0])], pairs[1]),
    "no final full stop": _changed(no_punctuation=1),
    "in brackets": in_brackets,
    "symbols, amounts": _changed(inserted=1),
    "foreign words": _changed(foreign=1),
    "other scripts": in_other_scripts,
}


def phrases(file: Path, languages: Sequence[str | None]) -> dict[str, list[str]]:
    """Return what of a list is translated from the first language, with what is accepted.

    It is empty but for English and German.
    """
    if set(languages) != {"en", "de"}:
        return {}
    sides = [[side.split(" | ") for side in line.split("\t")] for line in read_lines(file)]
    step = 1 if languages[0] == "en" else -1
    return {sources[0]: answers for sources, answers in (line[::step] for line in sides)}


def accepted(translation: str, answers: Sequence[str]) -> bool:
    """Whether it is an answer but for its first letter's case, an article before it and punctuation behind it."""

    def bare(text: str) -> str:
        text = text.strip().rstrip(" .!?…:").replace("’", "'")
        article = _ARTICLE.match(text)
        text = text if article is None else text[article.end() :]
        return text[:1].lower() + text[1:]

    return bare(translation) in map(bare, answers)


def main(arguments: Sequence[str]) -> None:
    """Translate every kind of text by every run, and print a table or, with `--json`, an object a run."""
    parser = command_line("robustness", __doc__)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--recase", action="store_true", help="translate capitals and titles as ordinary text")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    pairs = list(read_lines(options.source)), list(read_lines(options.reference))
    search = {"beam": options.beam, **({"recase": True} if options.recase else {})}
    metrics = [find_metric(name) for name in METRICS]
    scores: dict[str, dict[str, dict[str, float]]] = {}
    for path in options.runs:
        run = headwise.load(path)
        scores[str(path)] = {}
        for kind, change in KINDS.items():
            sources, references = change(pairs)
            translations = run.translate(sources, **search)
            texts = [translation.text for translation in translations]
            scores[str(path)][kind] = {metric.title: metric.score(texts, references).score for metric in metrics}
        languages = [None if code is None else short_code(code) for code in run.translator.languages]
        for kind, file in LISTS.items():
            if asked := phrases(file, languages):
                translations = run.translate(list(asked), **search)
                right = sum(
                    accepted(translation.text, answers)
                    for translation, answers in zip(translations, asked.values(), strict=True)
                )
                scores[str(path)][kind] = {"accepted": 100 * right / len(asked)}
    if options.json:
        print(json.dumps(scores, indent=2))
        return
    print(f"{len(pairs[0]):,} pairs, beam {options.beam}{', recased' if options.recase else ''}")
    for path, kinds in scores.items():
        print(f"\n{path}")
        for kind, found in kinds.items():
            print(f"  {kind:<20}" + "  ".join(f"{title} {score:5.1f}" for title, score in found.items()))
