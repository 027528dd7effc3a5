"""Characters: scripts without spaces, what nobody sees, and lone surrogates, which JSON can hold but UTF-8 can't."""

from __future__ import annotations

import re
import unicodedata

from headwise.errors import DataError

# Scripts written without spaces between words: Thai, Lao, Burmese, Khmer, kana, Chinese, full-width forms.
UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef]")
# Controls, soft hyphens, marks of direction, and spaces without width but the joiners, which letters and emoji need.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]")
_LIGATURE = re.compile("[\ufb00-\ufb06]")  # of Latin letters, as in text from PDF files


def join_texts(parts: list[str]) -> str:
    """Join translated parts with a space, or without one where the script has no spaces between words."""
    joined = ""
    for part in filter(None, parts):
        space = joined and not (UNSPACED.match(joined[-1]) or UNSPACED.match(part[0]))
        joined += (" " if space else "") + part
    return joined


WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")  # letters, with apostrophes between them


def has_letters(text: str) -> bool:
    """Whether a text has a letter."""
    return any(map(str.isalpha, text))


def has_letters_or_digits(text: str) -> bool:
    """Whether a text has a letter or a digit."""
    return any(map(str.isalnum, text))


def as_seen(text: str) -> str:
    """Return a text that looks the same, in its most usual characters.

    Letters are composed (Unicode's form C) and not in ligatures, white space is ordinary spaces, and what nobody sees
    isn't there.
    """
    text = _UNSEEN.sub("", re.sub(r"\s", " ", text)).strip()
    return unicodedata.normalize("NFC", _LIGATURE.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text))


def unwritable(text: str) -> str | None:
    """Return the first surrogate of a text in escaped form, or None.

    JSON yields one by escaping half of a surrogate pair ("\\ud800"); Python represents the bytes of a file name that
    isn't UTF-8 as surrogates ("\\udcff").
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"\\u{ord(text[error.start]):04x}"
    return None


def check_characters(text: str, place: str) -> str:
    """Return the text if UTF-8 can encode it; otherwise raise `DataError` naming the place."""
    surrogate = unwritable(text)
    if surrogate is not None:
        raise DataError(f"{place}: expected whole characters, found half of one ({surrogate})")
    return text
