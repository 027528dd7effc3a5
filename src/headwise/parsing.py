"""Parsers of untrusted JSON (RFC 8259) and YAML, with limits on size and nesting, and errors of one sentence.

Values may be nested `MOST_DEPTH` deep, and numbers may have `MOST_DIGITS` digits. Code that traverses, copies, prints
or converts them therefore never reaches Python's recursion limit, its limit of 4,300 digits, or the range of a float.

JSON: in addition to the syntax errors of Python's parser, duplicate names in an object, numbers that aren't finite
(`NaN`, `Infinity`, `1e999`), and lone surrogates are rejected.

YAML 1.1 is restricted to the values of JSON: null, true or false, a number, text, a list, or a mapping. Aliases
(`*name`), which can expand beyond any memory or contain themselves, and tags (`!!python/…`, `!!binary`) are rejected; a
date is text. Numbers may be `.inf` and `.nan`: the configuration rejects them, naming the key.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import re
from collections.abc import Callable, Hashable, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar

import yaml
from pydantic import TypeAdapter, ValidationError
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

from headwise.characters import unwritable
from headwise.errors import CheckpointError, ConfigError, DataError, HeadwiseError

_Kind = TypeVar("_Kind")

MOST_DEPTH = 64  # levels of nested lists and objects
MOST_DIGITS = 100  # digits of a number; the state of a random generator has 39


class Malformed(Exception):
    """Invalid input: `reason` says what was found, `line` (from 1) where.

    `kind` is "grammar" for a syntax error, "value" for an unusable value, "unicode" for bytes that aren't Unicode text.
    """

    def __init__(
        self, reason: str, line: int | None = None, kind: Literal["grammar", "value", "unicode"] = "value"
    ) -> None:
        super().__init__(reason)
        self.reason, self.line, self.kind = reason, line, kind

    def sentence(self, place: object, expected: str) -> str:
        """Return the error message: the place, what was expected, what was found, and the line if known."""
        line = "" if self.line is None else f" (line {self.line})"
        return f"{place}: expected {expected}, found {self.reason}{line}"


def decode(content: bytes) -> str:
    """Decode UTF-8 without its byte-order mark, if any; raises `Malformed` naming the line."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Malformed("bytes that aren't UTF-8 text", line, "unicode") from None


def line_of(text: str, offset: int) -> int:
    """Return the line number, from 1, of the character at `offset`."""
    return text.count("\n", 0, offset) + 1


def read_bounded(path: Path, most: int, error: type[HeadwiseError], expected: str) -> bytes:
    """Read a file of at most `most` bytes; raises `error` if it is larger or can't be read.

    `expected` describes the expected content, for the message.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(most + 1)
    except (OSError, ValueError) as problem:  # ValueError: a NUL character in the name
        reason = getattr(problem, "strerror", None) or str(problem)
        raise error(f"{path}: expected {expected}, found that it can't be read ({reason})") from None
    if len(content) > most:
        raise error(f"{path}: expected {expected} of at most {most:,} bytes, found a larger file")
    return content


MOST_JSON_BYTES = 1 << 28  # size of a file; larger than any data set that is one JSON document
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
    return as_object(parse_json(text, place, expected="a JSON object", error=error, finite=finite), place, error)


def as_object(value: Any, place: object, error: type[HeadwiseError] = DataError) -> dict[str, Any]:
    """Return a parsed value that must be an object; raises `error` for another one."""
    if not isinstance(value, dict):
        raise error(f"{place}: expected a JSON object, found {kind_of(value)}")
    return value


def kind_of(value: Any) -> str:
    """Return what kind of value of JSON or YAML this is, for a message."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    kinds = {str: "text", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return kinds.get(type(value)) or f"a {type(value).__name__}"


def read_json(
    path: Path,
    *,
    expected: str = "JSON",
    error: type[HeadwiseError] = DataError,
    finite: bool = True,
    most: int = MOST_JSON_BYTES,
) -> Any:
    """Read a file with one JSON value; raises `error` naming the file and the line at fault."""
    try:
        return json_value(read_bounded(path, most, error, expected), finite=finite)
    except Malformed as problem:
        raise error(problem.sentence(path, expected)) from None


def read_object(
    path: Path, *, error: type[HeadwiseError] = DataError, finite: bool = True, most: int = MOST_JSON_BYTES
) -> dict[str, Any]:
    """Read a file with one JSON object; raises `error` like `read_json`, also for another value."""
    value = read_json(path, expected="a JSON object", error=error, finite=finite, most=most)
    return as_object(value, path, error)


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
    if (_SURROGATE.search(text) or unwritable(text)) and unwritable(json.dumps(value, ensure_ascii=False)):
        raise _first_violation(text, finite)
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


def checked(kind: type[_Kind], tree: Any, place: object) -> _Kind:
    """Return a tree as a model of pydantic or a dataclass.

    Raises `CheckpointError` naming the place and the key that can't be used.
    """
    try:
        return TypeAdapter(kind).validate_python(tree)
    except ValidationError as error:
        problem = error.errors()[0]
        if not problem["loc"] and not isinstance(tree, Mapping):
            found = "nothing" if tree is None else repr(str(tree)[:60])
            raise CheckpointError(f"{place}: expected keys and their values, found {found}") from None
        key = ".".join(map(str, problem["loc"])) or "content"
        message = problem["msg"].lower().replace("input should be", "expected", 1)
        raise CheckpointError(f"{place}: {key}: {message}, found {str(problem['input'])[:60]!r}") from None


MOST_YAML_BYTES = 1 << 20
_TEXT = tuple(f"tag:yaml.org,2002:{kind}" for kind in ("timestamp", "merge", "value"))  # dates, << and =
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


def read_yaml(path: Path, *, error: type[HeadwiseError] = ConfigError) -> Any:
    """Read a file with one YAML value; raises `error` naming the file and the line at fault."""
    try:
        return yaml_value(decode(read_bounded(path, MOST_YAML_BYTES, error, "a YAML file")))
    except Malformed as problem:
        raise error(problem.sentence(path, "a YAML file")) from None


def yaml_value(text: str) -> Any:
    """Parse one YAML value; raises `Malformed`."""
    if len(text) > MOST_YAML_BYTES:
        raise Malformed(f"{len(text):,} characters, more than {MOST_YAML_BYTES:,}")
    if yaml.__with_libyaml__:
        with contextlib.suppress(yaml.YAMLError, _Mistake, ValueError, OverflowError):
            return _quick_loader()(text).get_single_data()
    # Says what is wrong and where, or knows an escape that libyaml doesn't.
    loader = None
    try:
        loader = _Loader(text)
        return loader.get_single_data()
    except yaml.reader.ReaderError as error:
        line = line_of(text, error.position)
        raise Malformed(f"the character U+{error.character:04X}, which YAML hasn't", line) from None
    except _Mistake as error:
        raise Malformed(error.reason, error.line) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = " ".join(f"{error.context or ''} {error.problem or ''}".split())
        line = None if mark is None else mark.line + 1
        raise Malformed(f"something else: {reason}", line, "grammar") from None
    except (ValueError, OverflowError):  # \U00110000 in a string, or a version of 5,000 digits
        line = None if loader is None else loader.line + 1
        raise Malformed("an escape or a number that stands for nothing", line) from None


class _Mistake(Exception):
    """YAML that isn't accepted here, or a value that only looks like a number."""

    def __init__(self, reason: str, node: Any) -> None:
        super().__init__(reason)
        self.reason, self.line = reason, node.start_mark.line + 1


class _Values(Composer, SafeConstructor, Resolver):
    """Maker of plain values from what a parser finds; every error has its line."""

    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in _TEXT]
        for first, resolvers in Resolver.yaml_implicit_resolvers.items()
    }

    peek_event: Callable[[], Any]  # of the parser
    _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose a node with its children; rejects aliases, tags and deep nesting before anything is constructed."""
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent):
            raise _Mistake(f"the alias *{event.anchor}; write the value itself", event)
        if getattr(event, "tag", None) is not None:
            raise _Mistake(f"the tag {event.tag[:60]!r}; write a plain value", event)
        if self._depth >= MOST_DEPTH and isinstance(event, yaml.CollectionStartEvent):
            raise _Mistake(f"lists or keys more than {MOST_DEPTH} deep inside each other", event)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        """Construct a value."""
        if node.tag in _NUMBERS and len(node.value) > MOST_DIGITS:
            raise _Mistake(f"a number of {len(node.value):,} digits", node)
        try:
            return super().construct_object(node, deep)
        except (ValueError, OverflowError) as error:  # 0x_ looks like a number
            raise _Mistake(f"{node.value[:60]!r}, which is no number", node) from error

    def construct_scalar(self, node: Any) -> str:
        """Construct text; a surrogate pair in escapes, as in JSON, becomes one character."""
        value: str = super().construct_scalar(node)
        if "\0" in value:  # never part of a file name or of real text
            raise _Mistake("a NUL character", node)
        try:
            value.encode()
        except UnicodeEncodeError:
            try:
                return value.encode("utf-16", "surrogatepass").decode("utf-16")
            except UnicodeDecodeError:
                raise _Mistake("half of a surrogate pair, which is no character", node) from None
        return value

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        """Construct a mapping; keys are text, and each is unique."""
        mapping: dict[Hashable, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise _Mistake("a key that is not text", key_node)
            key = self.construct_scalar(key_node)  # as written, even if it looks like a number
            if key in mapping:
                raise _Mistake(f"the key {key[:60]!r} twice", key_node)
            mapping[key] = self.construct_object(value_node, deep=deep)
        return mapping


class _Loader(_Values, yaml.SafeLoader):
    """Loader whose parser knows its place in the text."""


@functools.cache
def _quick_loader() -> Callable[[str], _Values]:
    """Return a loader with libyaml's parser, which takes a sixth of the time."""

    class QuickLoader(_Values, yaml.CSafeLoader):
        def __init__(self, text: str) -> None:
            yaml.CSafeLoader.__init__(self, text)
            Composer.__init__(self)

    return QuickLoader
