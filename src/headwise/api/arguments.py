"""Errors of the Python interface, in which the command line's options are arguments."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

from headwise.errors import ConfigError, HeadwiseError

# Options whose argument has another name; `--max-steps` is max_steps, and so on.
_ARGUMENTS = {
    "-o": "out",
    "-c": "config",
    "--from": "initialize_from",
    "--import": "imports",
    "--with": "others",
    "--from-language": "languages",
    "--to-language": "languages",
    "--no-checks": "checks=False",
    "--restart": "restart=True",
}
_OPTION = re.compile(r"(?<![\w/.-])(--[a-z][a-z-]*[a-z]|-[oc])(?![\w-])")
_MODULE = re.compile(r"--import ([\w.]+)")
_VALUE = re.compile(r"(?<![\w/.-])-s (?=[a-z_]+\b)")
_COMMAND = re.compile(r"`[a-z][^`]*`")  # what a terminal runs stays as it is

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")
_Value = TypeVar("_Value")


def with_arguments(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Let the errors of a function of the Python interface name its arguments."""

    @functools.wraps(function)
    def call(*arguments: _Parameters.args, **options: _Parameters.kwargs) -> _Result:
        try:
            return function(*arguments, **options)
        except HeadwiseError as error:
            error.args = (in_arguments(str(error)),)
            raise

    return call


def several(name: str, values: Sequence[_Value]) -> Sequence[_Value]:
    """Return the values of an argument; raises `ConfigError` for one string, whose characters aren't meant."""
    if isinstance(values, str):
        raise ConfigError(f"{name}: expected a list, found one string, {values!r}")
    return values


def in_arguments(message: str) -> str:
    """Return an error message of the command line with arguments instead of options: max_steps for --max-steps."""
    message = message.removeprefix("command line: ")
    parts = zip([*_COMMAND.findall(message), ""], _COMMAND.split(message), strict=True)
    return "".join(_replaced(text) + command for command, text in parts)


def _replaced(text: str) -> str:
    text = _MODULE.sub(r"imports=['\1']", _VALUE.sub("", text))
    return _OPTION.sub(lambda found: _ARGUMENTS.get(found[0], found[0].lstrip("-").replace("-", "_")), text)
