"""What a key of the configuration may do, as metadata of its field, and what is read from it.

A field has its metadata in `Annotated[…]`: `MAY_CHANGE` says that a run may resume with another value, as it doesn't
change what is computed, only how long, how often and where, or where files are whose checksum is known; `YOUNGER` that
runs were recorded before there was the key, whose digests then stay what they were; `Tasks` and `Models` name those
that use the key, where not all do. What a section has holds for all of its keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Self

from pydantic import BaseModel

MAY_CHANGE: Final = "may change when a run resumes"
YOUNGER: Final = "isn't part of a configuration's digest while it has its default"

# Tasks by what they read, and the kinds of models that have Transformer layers; a new one adds its name.
PAIRS = ("translation",)
LABELED = ("classification", "tagging", "question_answering")
ENCODERS = ("masked_language_model", *LABELED)
TEXTS = ("language_model", "denoising", *ENCODERS)
IMAGES = ("image_classification", "image_text")
TRANSFORMERS = ("transformer", "decoder-only", "encoder-only", "images")


class _Users:
    """Those that use a key, by name; setting it for another one is an error."""

    def __init__(self, *names: str, others: bool = False) -> None:
        self.names, self._others = names, others

    @classmethod
    def all_but(cls, *names: str) -> Self:
        """Return all except these."""
        return cls(*names, others=True)

    def __contains__(self, name: str) -> bool:
        return (name in self.names) != self._others


class Tasks(_Users):
    """The tasks that use a key."""


class Models(_Users):
    """The architectures, and the kinds of models with one stack of layers, that use a key of `model`."""


def unused_keys(section: BaseModel, users: type[_Users], name: str, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the keys, with values, that aren't their defaults and that the task or the model `name` doesn't use."""
    for field_name, field in type(section).model_fields.items():
        key, value = f"{prefix}{field_name}", getattr(section, field_name)
        if any(isinstance(item, users) and name not in item for item in field.metadata):
            yield from _set_keys(key, value, field.get_default(call_default_factory=True))
        elif isinstance(value, BaseModel):
            yield from unused_keys(value, users, name, f"{key}.")


def _set_keys(key: str, value: object, default: object) -> Iterator[tuple[str, Any]]:
    """Yield a key, or the keys of a section, with values, that aren't the defaults."""
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _set_keys(f"{key}.{name}", getattr(value, name), getattr(default, name))
    elif value != default:
        yield key, value


def recorded(section: BaseModel) -> dict[str, Any]:
    """Return the keys as JSON values, except the younger ones that have their defaults."""
    tree = section.model_dump(mode="json")
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if YOUNGER in field.metadata and value == field.get_default(call_default_factory=True):
            del tree[name]
        elif isinstance(value, BaseModel):
            tree[name] = recorded(value)
    return tree


def changed_keys(before: BaseModel, now: BaseModel, prefix: str = "") -> list[str]:
    """Return `KEY=VALUE, found KEY=VALUE now` for each key that has changed and must not when a run resumes."""
    changed: list[str] = []
    for name, field in type(before).model_fields.items():
        key, old, new = f"{prefix}{name}", getattr(before, name), getattr(now, name)
        if MAY_CHANGE in field.metadata:
            continue
        if isinstance(old, BaseModel):
            changed += changed_keys(old, new, f"{key}.")
        elif old != new:
            changed.append(f"{key}={old}, found {key}={new} now")
    return sorted(changed)
