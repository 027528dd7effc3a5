"""Reading a configuration: files that are shipped, `key.sub=value` overrides, and what to say of a bad key."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from headwise.config.base import Section
from headwise.errors import ConfigError
from headwise.parsing.bounds import Malformed
from headwise.parsing.yaml_text import yaml_value


def find_file(path: Path) -> Path:
    """Return the path of a configuration: as given, or in the package for one that is shipped."""
    shipped = Path(__file__).parent / "shipped" / Path(*path.parts[1:])
    return shipped if path.parts[:1] == ("configs",) and shipped.exists() and not path.exists() else path


def apply_overrides(tree: dict[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """Return a copy of `tree` with each `key.sub=value` set; values are read as YAML.

    Raises `ConfigError` for an override that has no `=`, whose value isn't YAML, or that looks inside a value.
    """
    result = copy.deepcopy(tree)
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals or not key:
            raise ConfigError(f"command line: expected key.sub=value, found {override!r}")
        try:
            value = yaml_value(text)
        except Malformed as problem:
            problem.line = None
            if problem.kind == "grammar":
                problem.reason = repr(text[:60])
            raise ConfigError(problem.sentence(f"command line: {key}", "a YAML value")) from None
        node = result
        *parents, last = key.split(".")
        for parent in parents:
            node = node.setdefault(parent, {})
            if not isinstance(node, dict):
                raise ConfigError(f"command line: {key}: {parent} is a value and has no keys inside")
        node[last] = value
    return result


def describe_problem(problem: Any, root: type[Section]) -> str:
    """Say one pydantic problem in a sentence: key, what was expected, what was found, nearest key."""
    location: Sequence[str | int] = problem["loc"]
    key = ".".join(str(part) for part in location)
    if problem["type"] == "extra_forbidden":
        return f"{key}: unknown key ({_nearest(root, location)})"
    message = problem["msg"].removeprefix("Value error, ")
    message = message[0].lower() + message[1:]
    if "found" in message:
        return f"{key}: {message}" if key else message
    return f"{key}: {message}, found {problem['input']!r}"


def _nearest(root: type[Section], location: Sequence[str | int]) -> str:
    """Hint at the key meant: the same name in another section, a similar one here, a similar one elsewhere."""
    wrong = str(location[-1])
    here = _known_keys(root, location[:-1])
    everywhere: dict[str, str] = {}  # last part of a key -> the first whole key that ends so
    for known in _all_keys(root):
        everywhere.setdefault(known.rsplit(".", 1)[-1], known)
    if wrong in everywhere:
        return f"did you mean {everywhere[wrong]}?"
    if near := difflib.get_close_matches(wrong, here, n=1, cutoff=0.5):
        return f"did you mean {'.'.join([*map(str, location[:-1]), near[0]])}?"
    if near := difflib.get_close_matches(wrong, everywhere, n=1, cutoff=0.7):
        return f"did you mean {everywhere[near[0]]}?"
    return f"known keys here: {', '.join(here)}"


def _known_keys(root: type[Section], location: Sequence[str | int]) -> list[str]:
    section: Any = root
    for part in location:
        section = section.model_fields[str(part)].annotation
    return list(section.model_fields)


def _all_keys(section: type[Section], prefix: str = "") -> list[str]:
    keys = []
    for name, field in section.model_fields.items():
        keys.append(prefix + name)
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            keys += _all_keys(field.annotation, f"{prefix}{name}.")
    return keys
