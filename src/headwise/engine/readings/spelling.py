"""What a vocabulary can't spell, as in Nguyễn, 田中 or 🦖: it is read as something that it can, and put back.

To a model, a character that the vocabulary lacks is as good as any other one, and it makes of all what it knows least.
Instead it reads a letter without its marks, a symbol in its usual form (°C for ℃), and a name or a symbol that stands
in for any other, or for a whole transcription (/ˈfɒks/). A model that repeats names repeats these in its translation,
where they are replaced again. Of the characters that a vocabulary has, a small model has never read some, such as − and
·: these count as lacking, too.

A small model loses other things that it can spell, too. A range of numbers, as 9–17, and –5 are read with a hyphen; of
emoji side by side, or of marks as in "Yes!!!", the first is read; and if that is asked, a short number stands in for a
long one, such as 12,500.00, and a short code for an address, a file, a long code or grouped digits, as in photos.zip.
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import numpy as np

from headwise.characters import has_letters_or_digits
from headwise.documents.pieces import CURRENCY_CODES, CURRENCY_SIGNS, EMOJI, find_pieces
from headwise.engine.readings.reading import Reading, read_in_turn
from headwise.text.reading.glossary import Glossary
from headwise.text.tokens.subwords import SPECIAL, UNK, Subwords
from headwise.weights import Weights

_NAMES = ("Zanuko", "Tarupi", "Xuvo", "Qadir", "Jelka")  # that stand in for a word; nobody's in usual text
_SYMBOLS = ("←", "★", "•", "→", "✓")  # for a symbol
# Between slashes or brackets, with a letter or a mark of the phonetic alphabet.
_PHONETIC = r"[\u0250-\u02ff]"
_TRANSCRIPTION = rf"/[^/\s]{{0,40}}{_PHONETIC}[^/]{{0,60}}/|\[[^\[\]]{{0,40}}{_PHONETIC}[^\[\]]{{0,60}}\]"
_ROW = rf"(?P<first>{EMOJI}|[!?])(?:(?<=[!?])[!?]*|(?<![!?])(?: ?(?:{EMOJI}))*)"
# A transcription, emoji or exclamation and question marks side by side, letters, or other characters.
_RUN = re.compile(
    rf"(?P<transcription>{_TRANSCRIPTION})|(?P<row>{_ROW})|[^\W\d_]+|(?:(?!{_TRANSCRIPTION}|{EMOJI})[^\w\s!?])+"
)
_SEVERAL = re.compile(f"{EMOJI}|[!?]{{2}}")  # what may be a row
_TOKEN = re.compile(r"[^\W_]+")
_NUMBER = r"(?<![0-9.,:])([0-9][0-9.,:]*+)"
# A dash between two numbers, or before one as its sign.
_RANGE, _HYPHENATED = (
    re.compile(rf"(?:{_NUMBER}((?:[ap]m)?)|(?<![^\s(])){dash}(?=([0-9][0-9.,:]*+))") for dash in ("[‒–—]", "-")
)
# With a fraction, with marks between its digits, of many digits, or an amount of a currency with two decimals.
_MIXED = r"[0-9]{1,3} [1-9][0-9]?/[1-9][0-9]?"
_MARKED = r"[0-9]{1,3}(?:[.,][0-9]{3})+(?:[.,][0-9]+)?|[0-9]{3,}[.,][0-9]+"
_BEHIND_CURRENCY = rf"(?<=[{CURRENCY_SIGNS}])[0-9]+[.,][0-9]{{2}}"
_BEFORE_CURRENCY = rf"[0-9]+[.,][0-9]{{2}}(?=[ \u00a0]?(?:[{CURRENCY_SIGNS}]|{CURRENCY_CODES}))"
_LONG_NUMBER = re.compile(
    rf"(?<![\w.,:/=#&-])(?:{_MIXED}|{_MARKED}|[0-9]{{5,}}|{_BEHIND_CURRENCY}|{_BEFORE_CURRENCY})(?![\w/-]|[.,:][0-9])"
)
# Digits in groups: of a telephone, a bank account, a card, a book; at least 7, and no date.
_GROUPED = re.compile(
    r"(?<![\w.,:/=#&+-])(?:\+[0-9]{1,3}(?:[ \u00a0./-]?(?:\([0-9]{1,5}\)|[0-9]{1,8})){1,8}"
    r"|(?:\(0[0-9]{1,5}\)|0[0-9]{1,5})(?:[ \u00a0/-][0-9]{1,8}){1,6}"
    r"|\([0-9]{2,5}\)[ \u00a0]?[0-9]{2,4}(?:[ \u00a0-][0-9]{2,8}){1,4}"
    r"|[0-9]{1,7}(?:-[0-9]{1,7}){2,5}|[0-9]{3}\.[0-9]{3}\.[0-9]{4}|[0-9]{4}(?:[ \u00a0][0-9]{4}){3}"
    r"|[A-Z]{2}[0-9]{2}(?:[ \u00a0][A-Z0-9]{2,4}){3,8})(?![\w%]|[.,:/-][0-9])"
)
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}|[0-9]{1,2}([/-])[0-9]{1,2}\1[0-9]{2,4}")
_GROUPED_DIGITS = 7
_NUMBERS = ("46", "82", "38", "97", "72")  # that stand in for a long one
_SHORT_NUMBER = re.compile(r"(?<![0-9.,])([0-9]{2})(?:[.,]0+)?(?![0-9]|[.,][0-9])")
_DIGITS = re.compile(r"[0-9]+")
_CODES = ("X20", "RX8", "QK7", "MX5", "XP3")  # that stand in for an address; guarded, as they are codes themselves
_CODE = re.compile(rf"\b({'|'.join(_CODES)})(?![0-9])", re.IGNORECASE)
_LONG_CODE = 7  # characters
_SOMEWHERE = re.compile(rf"[@./\\]\w|:\\|[`{{$]|[A-Z0-9]{{{_LONG_CODE}}}")  # in each address, path, code and template
_MOST_CACHED = 1 << 16  # characters
# What Unicode has no plain form for: letters that aren't another one with a mark, and punctuation marks.
_PLAIN = {
    **{"Đ": "D", "đ": "d", "Ð": "D", "ð": "d", "Ħ": "H", "ħ": "h", "ı": "i", "Ł": "L", "ł": "l", "Ŋ": "N", "ŋ": "n"},
    **{"Ø": "O", "ø": "o", "Þ": "Th", "þ": "th", "Æ": "Ae", "æ": "ae", "Œ": "Oe", "œ": "oe", "ẞ": "SS", "ß": "ss"},
    **{"’": "'", "‘": "'", "‚": "'", "´": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"'},
    **{"‹": "<", "›": ">", "‟": '"', "·": "•", "⁄": "/"},
    **{"–": "-", "—": "–", "―": "–", "‐": "-", "−": "-"},
}  # fmt: skip
_SIGNS = "‹›·"  # in menus and lists: no punctuation marks that a translation has of its own
# Rows of an embedding that no text has changed are alike: cosines of unit vectors, and how many rows are a group.
_SAME, _ALIKE, _GROUP = 0.95, 0.85, 8
_COMPARED = 1024  # rows
_MOST_NUMBERS = 1 << 26  # of an embedding; that of a larger model isn't read for this


def unlearned(weights: Weights, d_model: int, subwords: Subwords) -> frozenset[int]:
    """Return the source tokens that a model has hardly ever read, by their ids.

    Where the embedding is the output projection, too, training moves the rows of all tokens that its text lacks in one
    direction (Land and Bartolo 2024, "Fishing for Magikarp", section 3). It is looked for among the symbols: of those,
    every vocabulary has some too many. Raises `CheckpointError` as `Weights.get`.
    """
    size = subwords.source_size
    rows = weights.get("source_embedding.weight") if size * d_model <= _MOST_NUMBERS else None
    if rows is None:
        return frozenset()
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))  # in float32, squares may be too large
    rows /= np.maximum(lengths, 1e-9)[:, None]
    symbols = rows[[number for number, piece in enumerate(subwords.lists()[0]) if not has_letters_or_digits(piece)]]
    compared = symbols[:: len(symbols) // _COMPARED + 1]
    same = (compared @ symbols.T > _SAME).sum(0) > _GROUP
    if not same.any():
        return frozenset()
    direction = symbols[same].mean(0)
    alike = rows @ (direction / np.linalg.norm(direction)) > _ALIKE
    return frozenset(np.flatnonzero(alike).tolist()) - {*SPECIAL}


class Speller:
    """Finder of what is read in the place of what a source vocabulary can't spell, or a model has never read."""

    def __init__(self, subwords: Subwords, unlearned: Collection[int] = ()) -> None:
        """Use the subwords of a model, which has never read its `unlearned` tokens."""
        self._subwords = subwords
        self._lacking = {UNK, *unlearned}
        self._is_known = functools.lru_cache(_MOST_CACHED)(self._in_known_tokens)  # short texts

    def _in_known_tokens(self, text: str) -> bool:
        return self._lacking.isdisjoint(self._subwords.encode_source(text))

    def respelled(self, text: str, *, shortened: bool = False, glossary: Glossary | None = None) -> Reading | None:
        """Return a line in characters that the vocabulary has, as far as possible; None if it is already.

        A translation has what the line has in the place of what was read, also of a word with an s behind it, unless
        that stands for several things of the line and isn't there as often as they are. With `shortened`, something
        short stands in for each address, file, long code and long number, unless that hid a term of the `glossary`, as
        Node.js may be.
        """
        stand_in = functools.partial(self._with_stand_ins, glossary=glossary)
        steps: list[Callable[[str], Reading | None]] = [_hyphenated]
        if shortened:
            steps = [
                lambda text: stand_in(text, _addresses(text), _CODES, _CODE),
                _hyphenated,
                lambda text: stand_in(text, _long_numbers(text), _NUMBERS, _SHORT_NUMBER),
            ]
        return read_in_turn(text, [*steps, self._in_known_characters])

    def _with_stand_ins(
        self,
        text: str,
        spans: Sequence[tuple[int, int]],
        stand_ins: Sequence[str],
        pattern: re.Pattern[str],
        glossary: Glossary | None,
    ) -> Reading | None:
        """Return a line with a stand-in, which it hasn't itself, for what is at each of `spans`.

        None without any, and where a term would be hidden. The first group of `pattern` finds a stand-in in a
        translation.
        """
        there = {*_DIGITS.findall(text), *_TOKEN.findall(text.upper())}
        free = (each for each in stand_ins if each not in there and self._is_known(each))
        read = dict(zip(dict.fromkeys(text[start:end] for start, end in spans), free, strict=False))
        if not read:
            return None
        parts, done = list[str](), 0
        for start, end in spans:
            parts += [text[done:start], read.get(text[start:end], text[start:end])]
            done = end
        line = "".join([*parts, text[done:]])
        if glossary is not None and glossary.find(line) != glossary.find(text):
            return None
        written = {short: long for long, short in read.items()}
        return Reading(
            line, lambda translation: pattern.sub(lambda found: written.get(found[1].upper(), found[0]), translation)
        )

    def _in_known_characters(self, text: str) -> Reading | None:
        if self._in_known_tokens(text) and not _SEVERAL.search(text):
            return None
        names, symbols = (
            (each for each in stand_ins if each not in text and self._is_known(each))
            for stand_ins in (_NAMES, _SYMBOLS)
        )
        chosen: dict[str, str] = {}  # what is read for a word or a symbol
        written = defaultdict[str, list[str]](list)  # what was written where this is read

        def read(one: str, like: str, beside: tuple[str, str], stand_ins: Iterator[str]) -> str:
            """Return what is read for a word or symbols: what they are `like`, as it is known, or what stands in."""
            if one not in chosen:
                spelled = "".join(self._spelled(each, beside) for each in like)
                # A word of which some letters are known is better read than replaced: it may be a whole sentence.
                stays = one[0].isalpha() and any(map(self._is_known, spelled))
                known = self._is_known_between(spelled, beside)
                chosen[one] = spelled if known else one if stays else next(stand_ins, one)
            written[chosen[one]].append(one)
            return chosen[one]

        def read_run(found: re.Match[str]) -> str:
            run = found[0]
            if found["row"]:
                return read(run, found["first"], self._beside(text, *found.span()), symbols)
            if found["transcription"] or run[0].isalpha():
                return read(run, run, ("", ""), names)
            parts: list[str] = []
            positions = range(*found.span())
            for lacking, group in itertools.groupby(positions, lambda position: self._lacks_symbol(text, position)):
                each = list(group)
                start, end = each[0], each[-1] + 1
                if lacking:
                    part = text[start:end]
                    parts.append(read(part, part, self._beside(text, start, end), symbols))
                else:
                    parts += [self._spelled(text[n], self._beside(text, n, n + 1)) for n in each]
            return "".join(parts)

        spelled = _RUN.sub(read_run, text)
        changed = {word: forms for word, forms in written.items() if set(forms) != {word}}
        if spelled == text:
            return None
        return Reading(spelled, _restoring(changed))

    def _lacks_symbol(self, text: str, position: int) -> bool:
        """Whether a symbol of a text isn't known there; of a punctuation mark, a translation has its own."""
        symbol, beside = text[position], self._beside(text, position, position + 1)
        if unicodedata.category(symbol).startswith("P") and symbol not in _SIGNS:
            symbol = "".join(self._spelled(each, beside) for each in symbol)
        return _seen(symbol) and not self._is_known_between(symbol, beside)

    def _spelled(self, character: str, beside: tuple[str, str]) -> str:
        """Return the first form of a character that is known between its neighbours; itself if none is."""
        known = (form for form in _forms(character) if self._is_known_between(form, beside))
        return next(known, character)

    def _beside(self, text: str, start: int, end: int) -> tuple[str, str]:
        """Return what stands for the characters around a part of a text; nothing for what isn't known itself."""
        kinds = _kind(text[start - 1 : start] if start else ""), _kind(text[end : end + 1])
        before, after = (kind if self._is_known(kind) else "" for kind in kinds)
        return before, after

    def _is_known_between(self, text: str, beside: tuple[str, str]) -> bool:
        return self._is_known(f"{beside[0]}{text}{beside[1]}")


def _kind(character: str) -> str:
    """Return what stands for a character beside a symbol: subwords depend on it."""
    if not character or character.isspace():
        return ""
    return "a" if character.isalpha() else "1" if character.isdecimal() else "."


def _addresses(text: str) -> list[tuple[int, int]]:
    """Return the places of a text's addresses, files, long codes, grouped digits, code in backticks and templates."""
    grouped = [
        found.span()
        for found in _GROUPED.finditer(text)
        if sum(map(str.isdigit, found[0])) >= _GROUPED_DIGITS and not _DATE.fullmatch(found[0])
    ]
    if not _SOMEWHERE.search(text):  # as in most
        return grouped
    pieces = [
        (start, end)
        for start, end, kind in find_pieces(text)
        if kind in ("url", "email")
        or (kind == "placeholder" and (text[end - 1] == "`" or _is_template(text, start, end)))
        or (kind == "code" and (end - start >= _LONG_CODE or not text[start:end].isalnum()))  # or a path
    ]
    return sorted([*pieces, *(each for each in grouped if not any(a < each[1] and each[0] < b for a, b in pieces))])


def _is_template(text: str, start: int, end: int) -> bool:
    """Whether a placeholder has spaces, as {{ user.name }}, and no word beside it; others a model may have read."""
    beside = text[max(start - 1, 0) : start] + text[end : end + 1]
    return " " in text[start:end] and not has_letters_or_digits(beside)


def _long_numbers(text: str) -> list[tuple[int, int]]:
    return [found.span() for found in _LONG_NUMBER.finditer(text)]


def _hyphenated(text: str) -> Reading | None:
    """Return a line with hyphens in its ranges and before its numbers, which a translation has as dashes; or None."""
    ranges = {_digits(found[1] or "", found[3]) for found in _RANGE.finditer(text)}
    if not ranges:
        return None

    def dashed(found: re.Match[str]) -> str:
        return f"{found[0][:-1]}–" if _digits(found[1] or "", found[3]) in ranges else found[0]

    return Reading(_RANGE.sub(r"\1\2-", text), functools.partial(_HYPHENATED.sub, dashed))


def _digits(*numbers: str) -> tuple[str, ...]:
    return tuple("".join(filter(str.isdigit, number)) for number in numbers)


def _seen(text: str) -> bool:
    """Whether a text has more than marks and joiners of the characters beside it."""
    return not all(unicodedata.category(each) in ("Cf", "Mn", "Sk") for each in text)


def _forms(character: str) -> Iterator[str]:
    """Yield a character, without its last mark, without that before it, and so on, then what it is compatible with."""
    marked = unicodedata.normalize("NFD", character)
    for length in range(len(marked), 0, -1):
        yield unicodedata.normalize("NFC", marked[:length])
    compatible = unicodedata.normalize("NFKC", character)
    for form in (marked[0], compatible):
        while form := _PLAIN.get(form, ""):
            yield form
    yield compatible


def _restoring(read: Mapping[str, Sequence[str]]) -> Callable[[str], str]:
    """Return what puts into a translation what is written in a line, in the place of what was read.

    `read` has what is written in the line for each thing that was read, in its order.
    """
    words = {one.lower(): forms for one, forms in read.items() if one[0].isalpha()}
    symbols = {one: forms for one, forms in read.items() if not one[0].isalpha()}
    any_symbol = re.compile("|".join(map(re.escape, sorted(symbols, key=len, reverse=True))))

    def of_word(word: str) -> tuple[str, str]:
        """Return the word that a word of the translation was read as, if any, and what is behind it there."""
        lower = word.lower()
        bare = lower not in words and lower.endswith("s") and lower[:-1] in words
        return (lower[:-1], word[-1]) if bare else (lower, "")

    def restore(translation: str) -> str:
        if symbols:
            translation = _replaced(translation, any_symbol, symbols, lambda symbol: (symbol, ""))
        return _replaced(translation, _TOKEN, words, of_word) if words else translation

    return restore


def _replaced(
    text: str,
    pattern: re.Pattern[str],
    read: Mapping[str, Sequence[str]],
    key: Callable[[str], tuple[str, str]],
) -> str:
    """Return a text with what is written in the place of what was read, where it is known for which of several."""
    found = Counter(key(each)[0] for each in pattern.findall(text))
    # The usual form of a symbol, such as 2 of ², may be there for itself.
    sure = {
        one: itertools.cycle(forms)
        for one, forms in read.items()
        if (len(set(forms)) == 1 and (one[0].isalpha() or one in _SYMBOLS)) or len(forms) == found[one]
    }

    def written(match: re.Match[str]) -> str:
        one, end = key(match[0])
        return next(sure[one]) + end if one in sure else match[0]

    return pattern.sub(written, text)
