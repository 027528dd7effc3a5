"""Parser of untrusted JSON (RFC 8259).

In addition to the syntax errors of Python's parser, it rejects duplicate names in an object, numbers that aren't finite
(`NaN`, `Infinity`, `1e999`), numbers with too many digits, nesting that is too deep, and lone surrogates.
"""

from __future__ import annotations

import json
import math
import re
from itertools import accumulate
from pathlib import Path
from typing import Any, NoReturn

from headwise.errors import DataError, HeadwiseError
from headwise.parsing.bounds import MOST_DEPTH, MOST_DIGITS, Malformed, decode, line_of, read_bounded

MOST_BYTES = 1 << 28  # size of a file; larger than any data set that is one JSON document
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)'  # up to the end of the text if it isn't closed
_OUTSIDE_BRACKETS = re.compile(rf'{_STRING}|[^][{{}}"]+', re.DOTALL)
_TOKEN = re.compile(rf"(?P<string>{_STRING})|(?P<word>[-+.\w]+)|(?P<mark>[][{{}}:,])", re.DOTALL)
_STEP = {"[": 1, "{": 1, "]": -1, "}": -1}
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def parse_json(
    text: str | bytes,
    place: object,
    *,
    expected: str = "JSON",
    error: type[HeadwiseError] = DataError,
    finite: bool = True,
) -> Any:
    """Parse one JSON value; raises `error` with a message from `place` and `expected` if the text is invalid.

    With `finite=False`, `NaN`, `Infinity` and `-Infinity` are accepted, as Python writes them.
    """
    try:
        return json_value(text, finite=finite)
    except Malformed as problem:
        if not ("\n" in text if isinstance(text, str) else b"\n" in text):
            problem.line = None  # `place` names the line
        raise error(problem.sentence(place, expected)) from None


def parse_object(
    text: str | bytes, place: object, *, error: type[HeadwiseError] = DataError, finite: bool = True
) -> dict[str, Any]:
    """Parse one JSON object; raises `error` like `parse_json`, also for another value."""
    value = parse_json(text, place, expected="a JSON object", error=error, finite=finite)
    if not isinstance(value, dict):
        raise error(f"{place}: expected a JSON object, found a {type(value).__name__}")
    return value


def read_json(
    path: Path,
    *,
    expected: str = "JSON",
    error: type[HeadwiseError] = DataError,
    finite: bool = True,
    most: int = MOST_BYTES,
) -> Any:
    """Read a file with one JSON value; raises `error` naming the file and the line at fault."""
    content = read_bounded(path, most, error, expected)
    try:
        return json_value(content, finite=finite)
    except Malformed as problem:
        raise error(problem.sentence(path, expected)) from None


def json_value(text: str | bytes, *, finite: bool = True) -> Any:
    """Parse one JSON value; raises `Malformed`."""
    text = decode(text) if isinstance(text, bytes) else text.removeprefix("\ufeff")
    if text.count("[") + text.count("{") > MOST_DEPTH and _depth(text) > MOST_DEPTH:
        raise _first_violation(text, finite)
    try:
        value = (_FINITE if finite else _ANY).decode(text)
    except json.JSONDecodeError as error:
        reason = error.msg.removesuffix(" at")
        description = f"{reason} at column {error.colno}" if text.strip() else f"{reason} (it is empty)"
        raise Malformed(description, error.lineno, "grammar") from None
    except _Violation:
        raise _first_violation(text, finite) from None
    if _SURROGATE.search(text) or not _is_text(text):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise _first_violation(text, finite) from None
    return value


class _Violation(Exception):
    """Raised by a hook of the parser for a rejected value; `_first_violation` then locates it."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise _Violation
    return mapping


def _integer(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise _Violation
    return int(digits)


def _float(digits: str) -> float:
    if len(digits) > MOST_DIGITS:
        raise _Violation
    return float(digits)


def _finite_float(digits: str) -> float:
    number = _float(digits)
    if not math.isfinite(number):
        raise _Violation
    return number


def _constant(name: str) -> NoReturn:
    raise _Violation


_FINITE = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_finite_float, parse_constant=_constant
)
_ANY = json.JSONDecoder(object_pairs_hook=_object, parse_int=_integer, parse_float=_float)


def _depth(text: str) -> int:
    brackets = _OUTSIDE_BRACKETS.sub("", text)
    return max(accumulate(map(_STEP.__getitem__, brackets)), default=0)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _first_violation(text: str, finite: bool) -> Malformed:
    """Return the first rejected value of a text, and its line, by scanning the tokens."""
    names: list[set[str] | None] = []  # names so far in each enclosing object; None for a list
    last: str | None = None  # the latest string
    for token in _TOKEN.finditer(text):
        content, line = token[0], line_of(text, token.start())
        if token["string"]:
            try:
                last = json.loads(content, strict=False)
                assert last is not None
                last.encode()
            except UnicodeEncodeError:
                return Malformed("half of a surrogate pair, which is no character", line, "unicode")
            except json.JSONDecodeError:
                return Malformed("a string that isn't closed", line)
        elif token["word"]:
            if len(content) > MOST_DIGITS:
                return Malformed(f"a number of {len(content):,} digits", line)
            if finite and _not_finite(content):
                return Malformed(f"{content}, which is no finite number", line)
        elif content in "[{":
            names.append(set() if content == "{" else None)
            if len(names) > MOST_DEPTH:
                return Malformed(f"lists or objects more than {MOST_DEPTH} deep inside each other", line)
        elif content in "]}" and names:
            names.pop()
        elif content == ":" and names and (known := names[-1]) is not None and last is not None:
            if last in known:
                return Malformed(f"the name {last[:60]!r} twice in one object", line)
            known.add(last)
    return Malformed("values that can't be used")


def _not_finite(word: str) -> bool:
    try:
        return not math.isfinite(float(word))  # float() also accepts NaN and Infinity
    except ValueError:
        return False
