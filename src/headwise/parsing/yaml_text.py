"""Parser of untrusted YAML 1.1, restricted to the values of JSON.

A value is null, true or false, a number, text, a list, or a mapping. Aliases (`*name`), which can expand beyond any
memory or contain themselves, and tags (`!!python/…`, `!!binary`) are rejected; a date is text.
Numbers may be `.inf` and `.nan`: the configuration rejects them, naming the key.
"""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from headwise.errors import ConfigError, HeadwiseError
from headwise.parsing.bounds import MOST_DEPTH, MOST_DIGITS, Malformed, decode, read_bounded

MOST_BYTES = 1 << 20
_TEXT = tuple(f"tag:yaml.org,2002:{kind}" for kind in ("timestamp", "merge", "value"))  # dates, << and =
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


def parse_yaml(
    text: str, place: object, *, expected: str = "YAML", error: type[HeadwiseError] = ConfigError
) -> Any:
    """Parse one YAML value; raises `error` with a message from `place` and `expected` if the text is invalid."""
    try:
        return yaml_value(text)
    except Malformed as problem:
        if "\n" not in text:
            problem.line = None
        raise error(problem.sentence(place, expected)) from None


def read_yaml(path: Path, *, expected: str = "a YAML file", error: type[HeadwiseError] = ConfigError) -> Any:
    """Read a file with one YAML value; raises `error` naming the file and the line at fault."""
    content = read_bounded(path, MOST_BYTES, error, expected)
    try:
        return yaml_value(decode(content))
    except Malformed as problem:
        raise error(problem.sentence(path, expected)) from None


def yaml_value(text: str) -> Any:
    """Parse one YAML value; raises `Malformed`."""
    if len(text) > MOST_BYTES:
        raise Malformed(f"{len(text):,} characters, more than {MOST_BYTES:,}")
    loader = None
    try:
        loader = _Loader(text)
        return loader.get_single_data()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
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


class _Loader(yaml.SafeLoader):
    """Loader of plain values; every error has its line."""

    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in _TEXT]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose a node with its children; rejects aliases, tags and deep nesting before anything is constructed."""
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent):
            raise _Mistake(f"the alias *{event.anchor}; write the value itself", event)
        if getattr(event, "tag", None) not in (None, "!"):
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
