"""A line of a list is read without its marker, which stands before the translation.

To a small model, what comes behind a marker begins no sentence: "Tomatoes" is a name in "• Tomatoes".
"""

from __future__ import annotations

from headwise.characters import has_letters_or_digits
from headwise.documents.list_markers import markers_end
from headwise.engine.readings.reading import Reading


def without_markers(text: str, language: str | None) -> Reading | None:
    """Return a line without the markers at its beginning; None without any, and where no word is behind them.

    `language` is the code of its language, if it is known.
    """
    end = markers_end(text, language)
    if not end or not has_letters_or_digits(text[end:]):
        return None
    return Reading(text[end:], lambda translation: text[:end] + translation)
