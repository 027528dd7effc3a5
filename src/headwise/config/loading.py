"""Loading of configurations: shipped files, `key.sub=value` overrides, and error messages for invalid keys."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from headwise.config.base import Section
from headwise.errors import ConfigError
from headwise.parsing import Malformed, yaml_value


def find_file(path: Path) -> Path:
    """Return the path of a configuration: `path` itself, or the shipped file in the package."""
    shipped = Path(__file__).parent / "shipped" / Path(*path.parts[1:])
    return shipped if path.parts[:1] == ("configs",) and shipped.exists() and not path.exists() else path


def apply_overrides(tree: dict[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """Return a copy of `tree` with each override `key.sub=value` applied; values are parsed as YAML.

    Raises `ConfigError` for an override without `=`, with a value that isn't YAML, or with a key below a scalar value.
    """
    result = copy.deepcopy(tree)
    for override in overrides:
        key, value = parse_setting(override, "command line:", "key.sub=value")
        node = result
        *parents, last = key.split(".")
        for parent in parents:
            node = node.setdefault(parent, {})
            if not isinstance(node, dict):
                raise ConfigError(f"command line: {key}: {parent} is a value and has no keys inside")
        node[last] = value
    return result


def parse_setting(setting: str, place: str, form: str) -> tuple[str, Any]:
    """Return the key and the value of a setting `key=value`, whose value is YAML.

    Raises `ConfigError`, which begins with `place` and names the key, for one that hasn't this form.
    """
    key, equals, text = setting.partition("=")
    if not equals or not key:
        raise ConfigError(f"{place.removesuffix(':')}: expected {form}, found {setting!r}")
    try:
        return key, yaml_value(text)
    except Malformed as problem:
        problem.line = None
        if problem.kind == "grammar":
            problem.reason = repr(text[:60])
        raise ConfigError(problem.sentence(f"{place} {key}", "a YAML value")) from None


def describe_problem(problem: Any, root: type[Section]) -> str:
    """Return a one-sentence message for a pydantic error: key, expected value, found value, nearest key."""
    location: Sequence[str | int] = problem["loc"]
    key = ".".join(str(part) for part in location)
    if problem["type"] == "extra_forbidden":
        return f"{key}: unknown key ({_suggestion(root, location)})"
    message = problem["msg"].removeprefix("Value error, ")
    message = message[0].lower() + message[1:]
    if "found" in message:
        return f"{key}: {message}" if key else message
    return f"{key}: {message}, found {problem['input']!r}"


def _suggestion(root: type[Section], location: Sequence[str | int]) -> str:
    """Suggest a key: the same name in another section, else a similar one in this section, else in any section."""
    unknown = str(location[-1])
    section_keys = _known_keys(root, location[:-1])
    full_keys: dict[str, str] = {}  # last part of a key -> first full key that ends with it
    for known in _all_keys(root):
        full_keys.setdefault(known.rsplit(".", 1)[-1], known)
    if unknown in full_keys:
        return f"did you mean {full_keys[unknown]}?"
    if near := difflib.get_close_matches(unknown, section_keys, n=1, cutoff=0.5):
        return f"did you mean {'.'.join([*map(str, location[:-1]), near[0]])}?"
    if near := difflib.get_close_matches(unknown, full_keys, n=1, cutoff=0.7):
        return f"did you mean {full_keys[near[0]]}?"
    return f"known keys here: {', '.join(section_keys)}"


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
