"""Words in an unusual spelling, which a small model hardly knows, are read as its training text mostly had them.

That is German in the letters of other keyboards, countries and times (Muenchen, gross, daß), in forms for all genders
(Kund*innen), of which those are read that name a person as the text did, and words with drawn out letters (sooo). A
word that the translation repeats, as a name, gets the letters back that it was written with. A space that lacks behind
a punctuation mark is read, too.
"""

from __future__ import annotations

import itertools
import math
import re

from headwise.characters import WORD
from headwise.engine.readings.reading import Reading, outside_pieces, parts_and_pieces
from headwise.text.tokens.source_words import SourceWords

_LETTERS = {"ae": "ä", "oe": "ö", "ue": "ü", "ss": "ß", "ß": "ss"}
_PLACE = re.compile("ae|oe|ue|ss|ß(?![aeiouyäöü])", re.IGNORECASE)  # between vowels, ß is what it was before 1996
_MOST_PLACES = 4  # of a word
_DRAWN_OUT = re.compile(r"(\w)\1{2,}")
_NUMERAL = re.compile("[IVXLCDM]+")
_RARER = 10  # times: a word that is so much further down in the list counts as another's spelling
_WITHOUT_SPACE = re.compile(
    r"(?<=[^\W\d_]{2})(?:[,!?](?=[^\W\d_]{2})|[!?](?=[A-ZÄÖÜ]\b))|\b[a-zäöüß]{2,}\.(?=[A-ZÄÖÜ][a-zäöüß])"
)
_GERMAN, _GERMAN_PLACE = "der", 50  # a word of German, and its place in a list at most
_STAR = r"(?:[*:_·]|/-?)"
_PERSON = re.compile(rf"\b([A-ZÄÖÜ]\w{{2,40}}?)(?:(?:{_STAR}|\()in(?P<several>nen)?\b\)?|(?P<inside>Innen)\b)")
_ENDING = re.compile(rf"\b(\w{{1,40}}e){_STAR}([rns])\b|\b(\w{{2,40}}){_STAR}e\b")
_ARTICLE = re.compile(rf"\b(?:([Dd])ie{_STAR}d(er|en)|([Dd]er|[Dd]en){_STAR}die)\b")
_UNCHANGED = ("er", "el")  # the ends of nouns whose plural is like their singular


def usually_spelled(text: str, listed: SourceWords) -> Reading | None:
    """Return a line with its words as the training text mostly spelled them; None for a line that has them so.

    Those in addresses, placeholders and the like stay. Raises `CheckpointError` for a damaged list.
    """
    read = _of_one_gender(text, listed)
    words = {*WORD.findall(read)}
    usual = {word: found for word in words if (found := _usual(word, listed)) is not None}
    if read == text and not usual and not _WITHOUT_SPACE.search(text):
        return None

    def in_part(part: str) -> str:
        return WORD.sub(lambda word: usual.get(word[0], word[0]), _WITHOUT_SPACE.sub(r"\g<0> ", part))

    read = outside_pieces(read, in_part)
    if read == text:
        return None
    written = {found: word for word, found in usual.items() if found not in words}
    return Reading(read, lambda translation: WORD.sub(lambda word: written.get(word[0], word[0]), translation))


def _usual(word: str, listed: SourceWords) -> str | None:
    """Return the usual spelling of a word, with its capitals beside those of the usual one; None if it has that."""
    usual = listed.usual(*_forms(word))
    if usual is None or listed.rank(usual) * _RARER >= listed.rank(word):
        return None
    if word.isupper() and len(word) > 1:
        return usual.upper()
    return usual[0].upper() + usual[1:] if word[0].isupper() else usual


def _forms(word: str) -> list[str]:
    """Return the other spellings of a word: with other letters in some of the places, or in all."""
    small = word.lower()
    if _DRAWN_OUT.search(small):
        several = len({*small}) > 1 and not _NUMERAL.fullmatch(word)
        return [_DRAWN_OUT.sub(letters, small) for letters in (r"\1", r"\1\1")] if several else []
    written = [place[0] for place in itertools.islice(_PLACE.finditer(small), _MOST_PLACES)]
    between = _PLACE.split(small, maxsplit=_MOST_PLACES)
    chosen = itertools.islice(itertools.product(*((letters, _LETTERS[letters]) for letters in written)), 1, None)
    return ["".join(itertools.chain(*zip(between, [*letters, ""], strict=True))) for letters in chosen]


def _of_one_gender(text: str, listed: SourceWords) -> str:
    """Return a German line with the listed forms of its words in place of those for all genders."""
    if not any(form.search(text) for form in (_ARTICLE, _PERSON, _ENDING)) or listed.rank(_GERMAN) > _GERMAN_PLACE:
        return text
    parts = parts_and_pieces(text)
    for number, part in enumerate(parts):
        if number % 2 == 0:
            part = _ARTICLE.sub(lambda found: found[3] or f"{found[1]}{found[2]}", part)
            part = _PERSON.sub(lambda found: _most_frequent(_persons(found), listed) or found[0], part)
            part = _ENDING.sub(lambda found: _most_frequent([_masculine(found)], listed) or found[0], part)
            parts[number] = part
        elif name := _PERSON.fullmatch(part):  # with an underscore, as names in programs have
            parts[number] = _most_frequent(_persons(name), listed) or part
    return "".join(parts)


def _persons(found: re.Match[str]) -> list[str]:
    """Return the forms of a noun that one for all genders may stand for, of one person or of several."""
    stem = found[1]
    if not (found["several"] or found["inside"]):
        return [stem, f"{stem}e"]
    if stem.endswith(_UNCHANGED):
        return [stem]
    return [f"{stem}{ending}" for ending in ("en", "e", "n")]


def _masculine(found: re.Match[str]) -> str:
    return f"{found[1]}{found[2]}" if found[1] else found[3]


def _most_frequent(forms: list[str], listed: SourceWords) -> str | None:
    best = min(forms, key=listed.rank)
    return best if listed.rank(best) < math.inf else None
