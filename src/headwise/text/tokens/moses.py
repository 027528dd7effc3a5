"""Words and punctuation set apart as Moses does it, and put together again: English, German and French.

The paper's BLEU, and that of the systems beside it, is counted on text tokenized by the scripts of the Moses decoder
(Koehn et al. 2007), and Stanford's WMT 2014 text is given in that form. These are their rules, written anew for three
languages; on Multi30k, which was tokenized by the scripts themselves, the tests compare line by line.
"""

from __future__ import annotations

import html
import re
import unicodedata
from functools import cache

from headwise.errors import ConfigError

LANGUAGES = ("en", "de", "fr")

# Abbreviations whose full stop stays with them, whatever follows; single capitals are initials everywhere.
_ABBREVIATIONS = {
    "en": """Mr Mrs Ms Dr Prof St Sr Jr Rev Hon Gen Gov Sen Sens Rep Reps Capt Cmdr Col Lt Maj Sgt Cpl Pvt Adm Supt Insp
        Messrs Co Corp Bros Bldg Vol v vs i.e e.g Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec""",
    "de": """Dr Prof Hr Fr St Mio Mrd Tsd Chr Std Nr Abs Art Bd Jh Co Corp bzw usw usf ggf evtl vgl ca sog dgl inkl exkl
        bzgl max min v vs z.B d.h u.a u.U u.ä o.ä i.d.R z.T z.Zt d.J Jan Feb Apr Jun Jul Aug Sep Sept Okt Nov Dez""",
    "fr": """MM Mme Mmes Mlle Dr Pr Me St Ste av bd boul cf env etc ex fig p pp vol éd chap art c.-à-d p.ex i.e N.B
        janv févr avr juil sept oct nov déc""",
}
# Those that keep it before a number only.
_BEFORE_NUMBERS = {"en": "No Nos Art Nr pp", "de": "", "fr": "no nos"}
_ESCAPES = str.maketrans(
    {
        "&": "&amp;",
        "|": "&#124;",
        "<": "&lt;",
        ">": "&gt;",
        "'": "&apos;",
        '"': "&quot;",
        "[": "&#91;",
        "]": "&#93;",
    }
)
_PUNCTUATION = str.maketrans(
    {
        **dict.fromkeys("，、", ","),
        **dict.fromkeys("‚’‘´`", "'"),
        **dict.fromkeys("“”„«»《》", '"'),
        "—": " - ", "–": "-", "…": "...", "。": ".", "：": ":", "？": "?", "；": ";", "！": "!", "（": "(", "）": ")",
        "％": "%",
    }
)  # fmt: skip
_LETTER = r"[^\W\d_]"
_SYMBOL = re.compile(r"([^\w\s.'`,-]|_)")
_DOTS = re.compile(r"\.{2,}")
_COMMA = re.compile(r"(?<!\d),|,(?!\d)")
# What joins the word after it, and the word before it, besides straight quotes.
_OPENING = {"en": frozenset("([{“‘"), "de": frozenset("([{„‚"), "fr": frozenset("([{")}
_CLOSING = {"en": frozenset(",.?!:;%}])”"), "de": frozenset(",.?!:;%}])“‘"), "fr": frozenset(",.}])")}
_HELD = "\x02"  # stands on both sides of a number of dots that stay together
_INNER = "\x03"  # stands for an apostrophe inside a word


def tokenize(line: str, language: str, *, escape: bool = False) -> str:
    """Set punctuation apart with spaces; `escape` writes `'`, `"`, `&`, `|`, `<`, `>`, `[` and `]` as entities.

    Raises `ConfigError` for a language without rules.
    """
    whole, numeric = _abbreviations(language)
    text = " ".join("".join(c for c in line if c >= " " or c == "\t").split())
    text = _SYMBOL.sub(r" \1 ", text)
    text = _DOTS.sub(lambda found: f" {_HELD}{len(found[0])}{_HELD} ", text)
    text = _COMMA.sub(" , ", text)
    text = _apostrophes(text, language)
    words = text.split()
    parts: list[str] = []
    for place, word in enumerate(words):
        following = words[place + 1] if place + 1 < len(words) else ""
        parts += _stop(word, following, whole, numeric)
    text = re.sub(rf"{_HELD}(\d+){_HELD}", lambda found: "." * int(found[1]), " ".join(parts))
    text = re.sub(r"\.' ?$", " . ' ", text).strip()
    return text.translate(_ESCAPES) if escape else text


def _apostrophes(text: str, language: str) -> str:
    """Inside a word, part before it in English (`it 's`), after it in French (`l' eau`); else on both sides."""
    if language == "de":
        return text.replace("'", " ' ")
    before = rf"(?<={_LETTER})" if language == "fr" else rf"(?:(?<={_LETTER})|(?<=\d)(?='s))"
    kept = "' " if language == "fr" else " '"
    inside = rf"{before}'(?={_LETTER})"
    # What is inside a word is held back while the others are parted.
    return re.sub(inside, _INNER, text).replace("'", " ' ").replace(_INNER, kept)


def _stop(word: str, following: str, whole: frozenset[str], numeric: frozenset[str]) -> list[str]:
    """Part a word from its full stop, unless the stop belongs to it."""
    if len(word) < 2 or not word.endswith("."):
        return [word]
    before = word[:-1]
    inside = "." in before and any(c.isalpha() for c in before)
    if inside or before in whole or following[:1].islower():
        return [word]
    if before in numeric and following[:1].isdigit():
        return [word]
    return [before, "."]


@cache
def _abbreviations(language: str) -> tuple[frozenset[str], frozenset[str]]:
    if language not in LANGUAGES:
        raise ConfigError(
            f"language: expected one with rules of tokenization ({', '.join(LANGUAGES)}), found {language!r}"
        )
    letters = [chr(code) for code in range(ord("A"), ord("Z") + 1)]
    numbers = [str(number) for number in range(1, 100)] if language == "de" else []
    if language == "de":
        letters += [letter.lower() for letter in letters]
    return (
        frozenset([*_ABBREVIATIONS[language].split(), *letters, *numbers]),
        frozenset(_BEFORE_NUMBERS[language].split()),
    )


def plain_punctuation(line: str) -> str:
    """Write typographic quotes, dashes and full-width punctuation in ASCII, as is done before the paper's BLEU."""
    return line.translate(_PUNCTUATION)


def detokenize(line: str, language: str) -> str:
    """Undo `tokenize`: entities become characters, and punctuation goes back to its words.

    Raises `ConfigError` for a language without rules.
    """
    _abbreviations(language)
    text, opened = "", {'"': False, "'": False}
    apart = False  # whether a space comes before the next word, where it doesn't refuse one
    words = html.unescape(line).split()
    for place, word in enumerate(words):
        following = words[place + 1] if place + 1 < len(words) else ""
        before, after = _joins(word, text, following, language, opened)
        text += (" " if apart and not before else "") + word
        apart = not after
    return text


def _joins(word: str, text: str, following: str, language: str, opened: dict[str, bool]) -> tuple[bool, bool]:
    """Say whether a word joins what stands before it, and what follows; `opened` quotes are kept count of."""
    characters = frozenset(word)
    if characters <= _OPENING[language] or unicodedata.category(word[0]) == "Sc":
        return False, True
    if characters <= _CLOSING[language]:
        return True, False
    inside = text[-1:].isalpha() and not opened["'"]
    if word == "'" and inside and (language == "en" or following[:2] in {"s", "s-"}):
        return True, language == "de"  # the boys', Joe's
    if word in opened:
        opened[word] = not opened[word]
        return not opened[word], opened[word]
    if language == "en" and re.match(rf"'{_LETTER}", word):
        return text[-1:].isalnum(), False
    return False, language == "fr" and re.search(rf"{_LETTER}'$", word) is not None
