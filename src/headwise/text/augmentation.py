"""Augmentation of sentence pairs: training text as people type it, so that a model translates such text, too.

A corpus is written carefully, and a model that has seen nothing else fails on capitals, titles, typing errors and
missing full stops. Here each pair is changed at random, anew in every epoch, as in OpusTrainer (Bogoychev et al. 2023)
and in the copied corpora of Currey et al. (2017). Which changes a pair gets follows from the random stream alone, so
both sides, which are encoded in processes of their own, agree.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence

import numpy as np

from headwise.characters import UNSPACED, join_texts
from headwise.config import AugmentConfig

# What is inserted on both sides: text that a translation repeats as it is.
SYMBOLS = tuple("😀😂🙂😉😍😢😡🤔👍👎🙏👏💪🔥🎉🎂🌞⭐✅❌❤🚀🐶🍕©®™§•→←✓★♥½±×÷≈≤≥°")
PLACEHOLDERS = (
    *("{0}", "{1}", "{name}", "{count}", "{{value}}", "${name}", "%s", "%d", "%1", "%(name)s", "$1", "@name"),
    *("#tag", "<b>", "</b>", "<br/>", "[1]", "https://example.com", "name@example.com"),
)
AMOUNTS = tuple(
    written.format(number)
    for written in ("{} €", "€{}", "${}", "£{}", "¥{}", "{} %", "{}%", "{} °C", "{} km", "{} kg", "{} GB")
    for number in (1, 2, 5, 10, 12, 20, 37, 50, 100, 250)
)
MARKS = (("(", ")"), ("[", "]"), ('"', '"'), ("“", "”"), ("*", "*"))  # what a text may stand between
_KINDS = (SYMBOLS, PLACEHOLDERS, AMOUNTS, MARKS)
# Letters of names from elsewhere: of Latin, those beyond the alphabet; of other scripts, all.
LETTERS = {
    "LATIN": tuple("áàâãåäăąæćčçďđéèêëěęğíìîïıłńñňóòôõöőøœřśšşșťțúùûüůűýÿźžż"),
    "CYRILLIC": tuple("абвгґдежзиіїйклмнопрстуфхцчшщъыьэєюя"),
    "GREEK": tuple("αάβγδεέζηήθιίκλμνξοόπρσςτυύφχψωώ"),
}

_USUAL = 0.6  # of the letters of a made-up Latin word

_NAME = re.compile(r"(?<![\w'’])[^\W\d_]{3,}(?![\w'’])")  # or another whole word, if it has a capital
_FINAL = re.compile(r"\s*[.!?…。！？]+\s*$")
_VOWEL_SIGNS = re.compile("[\u0900-\u0dff\u0f00-\u0fff]")  # scripts of South Asia, whose marks are vowels
_WORD = re.compile(r"(?<![\w'’])\w")
_TYPED = re.compile(r"[^\W\d_]{3,}")  # the words that get typing errors
_TYPOS_FROM = 10  # words; one typing error for so many
_KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_NEIGHBORS = {
    key: row[max(0, place - 1) : place] + row[place + 1 : place + 2] for row in _KEYS for place, key in enumerate(row)
}
# The random numbers of a pair, in the order in which the changes are made.
_DRAWS = (
    *("joined", "copied", "no_punctuation", "typos", "no_diacritics", "first_letter", "inserted", "foreign"),
    "case",
)


def augment(
    sources: Sequence[str],
    targets: Sequence[str],
    config: AugmentConfig,
    random: np.random.Generator,
    longest: int = 0,
) -> tuple[list[str], list[str]]:
    """Return the pairs, each with the changes that it gets at random, in their order.

    Args:
        sources: source sentences.
        targets: their translations, as many.
        config: the share of the pairs that gets each change; changes are independent, and a pair may get several.
        random: decides; the outcome depends on its state, the pairs and the shares alone.
        longest: most bytes of a side that is changed; a pair that would be longer stays as it is. 0: no limit.
    """
    augmented = [
        _augmented(sources, targets, row, config, draws, random)
        for row, draws in enumerate(random.random((len(sources), len(_DRAWS))).tolist())
    ]
    pairs = [
        changed if not longest or max(len(text.encode()) for text in changed) <= longest else pair
        for changed, pair in zip(augmented, zip(sources, targets, strict=True), strict=True)
    ]
    return [source for source, _ in pairs], [target for _, target in pairs]


def _augmented(
    sources: Sequence[str],
    targets: Sequence[str],
    row: int,
    config: AugmentConfig,
    draws: Sequence[float],
    random: np.random.Generator,
) -> tuple[str, str]:
    draw = dict(zip(_DRAWS, draws, strict=True))
    source, target = sources[row], targets[row]
    if draw["joined"] < config.joined:
        other = int(random.integers(len(sources)))
        source, target = join_texts([source, sources[other]]), join_texts([target, targets[other]])
    copied = draw["copied"] < config.copied
    if copied:
        source = target
    if draw["no_punctuation"] < config.no_punctuation:
        source, target = _without_end(source), _without_end(target)
    if not copied:  # what follows changes the source alone, which the copy wouldn't repeat
        if draw["typos"] < config.typos:
            source = _with_typos(source, random)
        if draw["no_diacritics"] < config.no_diacritics:
            source = without_diacritics(source)
        if draw["first_letter"] < config.first_letter:
            source = source[:1].swapcase() + source[1:]
    if draw["case"] < config.capitals:
        source, target = _in_both(str.upper, source, target)
    elif draw["case"] < config.capitals + config.title:
        source, target = _in_both(title_case, source, target)
    elif draw["case"] < config.capitals + config.title + config.lower_case and not copied:
        source = source.lower()
    if draw["inserted"] < config.inserted:
        kind = _KINDS[int(random.integers(len(_KINDS)))]
        source, target = _with_inserted(kind[int(random.integers(len(kind)))], source, target, random)
    if draw["foreign"] < config.foreign:
        word = _foreign_word(source + target, random)
        source, target = _with_inserted(word, source, target, random)
    return source, target


def _foreign_word(text: str, random: np.random.Generator) -> str:
    """Make up a word such as a name: Latin with unusual letters, or of a script that a pair's text doesn't have."""
    scripts = {unicodedata.name(char, "").partition(" ")[0] for char in text}
    others = [name for name in LETTERS if name not in {"LATIN", *scripts}]
    name = others[int(random.integers(len(others)))] if others and random.random() < 0.5 else "LATIN"
    letters = LETTERS[name]
    word = [letters[place] for place in random.integers(len(letters), size=int(random.integers(2, 8))).tolist()]
    if name == "LATIN":
        usual = random.random(len(word)) < _USUAL
        usual[int(random.integers(len(word)))] = False  # one letter at least is unusual
        plain = random.integers(ord("a"), ord("z") + 1, size=len(word)).tolist()
        word = [chr(p) if common else letter for letter, p, common in zip(word, plain, usual, strict=True)]
    return "".join(word).title() if random.random() < 0.5 else "".join(word)


def _with_inserted(
    inserted: str | tuple[str, str], source: str, target: str, random: np.random.Generator
) -> tuple[str, str]:
    """Put marks around both sides, or something else in place of a name that both have, in front or behind."""
    in_place, in_front = (random.random(2) < 0.5).tolist()
    if isinstance(inserted, tuple):
        before, after = inserted
        return f"{before}{source}{after}", f"{before}{target}{after}"
    if in_place and (name := _common_name(source, target)):
        return source.replace(name, inserted), target.replace(name, inserted)
    if in_front:
        return f"{inserted} {source}", f"{inserted} {target}"
    return f"{source} {inserted}", f"{target} {inserted}"


def _common_name(source: str, target: str) -> str:
    """Return the first word with a capital that stands once on each side, such as a name; or nothing."""
    of_target = _NAME.findall(target)
    for word in _NAME.findall(source):
        once = word in of_target and source.count(word) == target.count(word) == 1
        if once and word[0].isupper():
            return word
    return ""


def title_case(text: str) -> str:
    """Return the text with a capital at the beginning of each word."""
    return _WORD.sub(lambda match: match[0].upper(), text)


def without_diacritics(text: str) -> str:
    """Return the text without the marks that are put on letters, such as `ü` → `u`."""
    # In other scripts marks aren't diacritics: が is another letter than か, and कु another syllable than क.
    if UNSPACED.search(text) or _VOWEL_SIGNS.search(text):
        return text
    letters = (char for char in unicodedata.normalize("NFD", text) if unicodedata.category(char) != "Mn")
    return unicodedata.normalize("NFC", "".join(letters))


def _in_both(change: Callable[[str], str], source: str, target: str) -> tuple[str, str]:
    """Change both sides, unless the source's script has no case, in which nobody could ask for it."""
    changed = change(source)
    return (source, target) if changed == source else (changed, change(target))


def _without_end(text: str) -> str:
    return _FINAL.sub("", text) or text


def _with_typos(text: str, random: np.random.Generator) -> str:
    """Make a typing error in one of ten words, and in one word at least."""
    words = list(_TYPED.finditer(text))
    if not words:
        return text
    count = -(-len(words) // _TYPOS_FROM)
    for index in sorted(random.choice(len(words), count, replace=False).tolist(), reverse=True):
        start, end = words[index].span()
        text = text[:start] + typo(text[start:end], random) + text[end:]
    return text


def typo(word: str, random: np.random.Generator) -> str:
    """Return a word of at least two letters with one typing error.

    A letter behind the first is replaced by its neighbor on the keyboard, left out, typed twice, or exchanged with the
    one before it.
    """
    place = int(random.integers(1, len(word)))
    letter, kind = word[place], int(random.integers(4))
    if kind == 0 and (neighbors := _NEIGHBORS.get(letter.lower())):
        key = neighbors[int(random.integers(len(neighbors)))]
        return word[:place] + (key.upper() if letter.isupper() else key) + word[place + 1 :]
    if kind == 1:
        return word[:place] + word[place + 1 :]
    if kind == 2 or letter == word[place - 1]:
        return word[:place] + letter + word[place:]
    return word[: place - 1] + letter + word[place - 1] + word[place + 1 :]
