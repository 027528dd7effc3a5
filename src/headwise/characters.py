"""Text that is whole: JSON and file names can hold what no encoding of text can."""

from __future__ import annotations

import re

from headwise.errors import DataError

_SURROGATE = re.compile("[\ud800-\udfff]")


def unwritable(text: str) -> str | None:
    """Return the first surrogate of a text, as it would be escaped; None where there is none.

    One comes from JSON that escapes half of a character ("\\ud800"), or from a file name that isn't UTF-8, whose bytes
    Python keeps so ("\\udcff").
    """
    found = _SURROGATE.search(text)
    return None if found is None else f"\\u{ord(found[0]):04x}"


def check_characters(text: str, place: str) -> str:
    """Return a text that can be written in UTF-8; raises `DataError` naming the place of one that can't."""
    found = unwritable(text)
    if found is not None:
        raise DataError(f"{place}: expected whole characters, found half of one ({found})")
    return text
