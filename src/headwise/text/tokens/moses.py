"""Moses tokenizer and detokenizer for English, German and French.

BLEU in the paper, and in the systems it compares with, is computed on text tokenized by the scripts of the Moses
decoder (Koehn et al. 2007), and Stanford's WMT 2014 text has that form. This module reimplements their rules for three
languages; the tests compare it line by line on Multi30k, which was tokenized by the original scripts.
"""

from __future__ import annotations

import html
import re
import string
import unicodedata
from functools import cache

from headwise.errors import ConfigError

LANGUAGES = ("en", "de", "fr")

# Abbreviations that keep their full stop in any context; single capitals are initials in all languages.
_ABBREVIATIONS = {
    "en": """Mr Mrs Ms Dr Prof St Sr Jr Rev Hon Gen Gov Sen Sens Rep Reps Capt Cmdr Col Lt Maj Sgt Cpl Pvt Adm Supt Insp
        Messrs Co Corp Bros Bldg Vol v vs i.e e.g Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec""",
    "de": """Dr Prof Hr Fr St Mio Mrd Tsd Chr Std Nr Abs Art Bd Jh Co Corp bzw usw usf ggf evtl vgl ca sog dgl inkl exkl
        bzgl max min v vs z.B d.h u.a u.U u.ä o.ä i.d.R z.T z.Zt d.J Jan Feb Apr Jun Jul Aug Sep Sept Okt Nov Dez""",
    "fr": """MM Mme Mmes Mlle Dr Pr Me St Ste av bd boul cf env etc ex fig p pp vol éd chap art c.-à-d p.ex i.e N.B
        janv févr avr juil sept oct nov déc""",
}
# Abbreviations that keep their full stop only before a number.
_BEFORE_NUMBERS = {"en": "No Nos Art Nr pp", "de": "", "fr": "no nos"}
_ESCAPES = str.maketrans({
    "&": "&amp;", "|": "&#124;", "<": "&lt;", ">": "&gt;", "'": "&apos;", '"': "&quot;", "[": "&#91;", "]": "&#93;",
})  # fmt: skip
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
# Characters that attach to the following word, and to the preceding word; straight quotes are handled separately.
_OPENING = {"en": frozenset("([{“‘"), "de": frozenset("([{„‚"), "fr": frozenset("([{")}
_CLOSING = {"en": frozenset(",.?!:;%}])”"), "de": frozenset(",.?!:;%}])“‘"), "fr": frozenset(",.}])")}
_DOTS_MARK = "\x02"  # delimits the length of a run of dots while the text is tokenized
_INNER = "\x03"  # placeholder of an apostrophe inside a word


def tokenize(line: str, language: str, *, escape: bool = False) -> str:
    """Separate punctuation from words; with `escape`, `'`, `"`, `&`, `|`, `<`, `>`, `[` and `]` become entities.

    Raises `ConfigError` for a language without rules.
    """
    always, before_numbers = _abbreviations(language)
    text = " ".join("".join(c for c in line if c >= " " or c == "\t").split())
    text = _SYMBOL.sub(r" \1 ", text)
    text = _DOTS.sub(lambda match: f" {_DOTS_MARK}{len(match[0])}{_DOTS_MARK} ", text)
    text = _COMMA.sub(" , ", text)
    text = _apostrophes(text, language)
    words = text.split()
    tokens: list[str] = []
    for index, word in enumerate(words):
        following = words[index + 1] if index + 1 < len(words) else ""
        tokens += _split_stop(word, following, always, before_numbers)
    text = re.sub(rf"{_DOTS_MARK}(\d+){_DOTS_MARK}", lambda match: "." * int(match[1]), " ".join(tokens))
    text = re.sub(r"\.' ?$", " . ' ", text).strip()
    return text.translate(_ESCAPES) if escape else text


def _apostrophes(text: str, language: str) -> str:
    """Separate apostrophes: inside words on the left in English (`it 's`) or right in French (`l' eau`), else both."""
    if language == "de":
        return text.replace("'", " ' ")
    before = rf"(?<={_LETTER})" if language == "fr" else rf"(?:(?<={_LETTER})|(?<=\d)(?='s))"
    inner_form = "' " if language == "fr" else " '"
    inside = rf"{before}'(?={_LETTER})"
    # Apostrophes inside words are replaced by a placeholder while the others are separated.
    return re.sub(inside, _INNER, text).replace("'", " ' ").replace(_INNER, inner_form)


def _split_stop(word: str, following: str, always: frozenset[str], before_numbers: frozenset[str]) -> list[str]:
    """Split the full stop from a word, unless it belongs to the word."""
    if len(word) < 2 or not word.endswith("."):
        return [word]
    stem = word[:-1]
    inside = "." in stem and any(c.isalpha() for c in stem)
    if inside or stem in always or following[:1].islower():
        return [word]
    if stem in before_numbers and following[:1].isdigit():
        return [word]
    return [stem, "."]


@cache
def _abbreviations(language: str) -> tuple[frozenset[str], frozenset[str]]:
    if language not in LANGUAGES:
        raise ConfigError(
            f"language: expected one with rules of tokenization ({', '.join(LANGUAGES)}), found {language!r}"
        )
    always = {*_ABBREVIATIONS[language].split(), *string.ascii_uppercase}
    if language == "de":
        always |= {*string.ascii_lowercase, *map(str, range(1, 100))}
    return frozenset(always), frozenset(_BEFORE_NUMBERS[language].split())


def plain_punctuation(line: str) -> str:
    """Replace typographic quotes, dashes and full-width punctuation by ASCII, as before the paper's BLEU."""
    return line.translate(_PUNCTUATION)


def detokenize(line: str, language: str) -> str:
    """Invert `tokenize`: decode entities and attach punctuation to its words.

    Raises `ConfigError` for a language without rules.
    """
    _abbreviations(language)
    text, open_quotes = "", {'"': False, "'": False}
    space_after = False  # whether a space precedes the next word, unless that attaches to its left
    words = html.unescape(line).split()
    for index, word in enumerate(words):
        following = words[index + 1] if index + 1 < len(words) else ""
        joins_left, joins_right = _joins(word, text, following, language, open_quotes)
        text += (" " if space_after and not joins_left else "") + word
        space_after = not joins_right
    return text


def _joins(word: str, text: str, following: str, language: str, open_quotes: dict[str, bool]) -> tuple[bool, bool]:
    """Return whether a word attaches to its left and to its right; updates `open_quotes` for a quote."""
    characters = frozenset(word)
    if characters <= _OPENING[language] or unicodedata.category(word[0]) == "Sc":
        return False, True
    if characters <= _CLOSING[language]:
        return True, False
    inside = text[-1:].isalpha() and not open_quotes["'"]
    if word == "'" and inside and (language == "en" or following[:2] in {"s", "s-"}):
        return True, language == "de"  # the boys', Joe's
    if word in open_quotes:
        open_quotes[word] = not open_quotes[word]
        return not open_quotes[word], open_quotes[word]
    if language == "en" and re.match(rf"'{_LETTER}", word):
        return text[-1:].isalnum(), False
    return False, language == "fr" and re.search(rf"{_LETTER}'$", word) is not None
