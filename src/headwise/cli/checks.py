"""Checks of options that have an effect only with others, or only without them."""

from __future__ import annotations

from collections.abc import Mapping

from headwise.errors import ConfigError


def refuse_beside(other: str, options: Mapping[str, object]) -> None:
    """Raise `ConfigError` for an option that is given, not None or False, beside what leaves it without effect."""
    for option, value in options.items():
        if value is not None and value is not False:
            raise ConfigError(f"{option}: expected none beside {other}, found one")


def refuse_without(needed: str, options: Mapping[str, object]) -> None:
    """Raise `ConfigError` for an option that is given, not None or False, without what it needs."""
    for option, value in options.items():
        if value is not None and value is not False:
            raise ConfigError(f"{option}: expected {needed} beside it, found none")
