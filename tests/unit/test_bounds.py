"""Every number that a user can set has a lower and an upper bound, in the configuration and on the command line."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any, get_args, get_origin, get_type_hints

import pytest
import typer
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from commands import every_command
from headwise import bounds
from headwise.config import Config, ModelConfig
from headwise.engine.hypotheses import length_penalty
from headwise.engine.options import GenerationOptions, SearchOptions
from headwise.errors import ConfigError
from headwise.training.randomness import seed_random


def _sections(kind: type[BaseModel]) -> Iterator[type[BaseModel]]:
    yield kind
    for field in kind.model_fields.values():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _sections(field.annotation)


def _kinds(annotation: Any) -> set[Any]:
    """Return the types that an annotation names, at any depth."""
    parts = get_args(annotation)
    return {annotation} if not parts else set().union(*map(_kinds, parts))


NUMBERS: list[tuple[type[BaseModel], str, FieldInfo]] = [
    (section, name, field)
    for section in _sections(Config)
    for name, field in section.model_fields.items()
    if _kinds(field.annotation) & {int, float}
]


def _refused(section: type[BaseModel], name: str, field: FieldInfo, value: float) -> bool:
    """Return whether a section rejects a value because of this key itself."""
    given = [value] if get_origin(field.annotation) is list else value
    try:
        section.model_validate({name: given})
    except ValidationError as error:
        return any(problem["loc"][:1] == (name,) for problem in error.errors())
    return False


@pytest.mark.parametrize(
    ("section", "name", "field"), NUMBERS, ids=[f"{section.__name__}.{name}" for section, name, _ in NUMBERS]
)
def test_every_number_of_the_configuration_is_bounded(section: type[BaseModel], name: str, field: FieldInfo) -> None:
    whole = (2**63, -(2**63)) if int in _kinds(field.annotation) else ()
    for value in (*whole, 1e300, -1e300, math.inf, -math.inf, math.nan, 10**100):
        assert _refused(section, name, field, value), value


def test_there_are_numbers() -> None:
    assert len(NUMBERS) > 60


def _numeric_options() -> Iterator[tuple[str, Any]]:
    """Yield every option of every command whose annotation names a number."""
    for words, one in every_command().items():
        hints = get_type_hints(one.callback)
        for option in one.params:
            if option.name in hints and _kinds(hints[option.name]) & {int, float}:
                yield f"{' '.join(words)} {option.opts[-1]}", (one, option)


NUMERIC = dict(_numeric_options())


@pytest.mark.parametrize("place", NUMERIC)
def test_every_number_on_the_command_line_is_bounded(place: str) -> None:
    command, option = NUMERIC[place]
    context = command.make_context(command.name, [], resilient_parsing=True)
    context.resilient_parsing = False
    for value in ("1" + "0" * 20, "-1" + "0" * 20, "1e300", "-1e300", "nan", "-inf", "inf", "9" * 5000):
        with pytest.raises((typer.BadParameter, ConfigError)):
            option.handle_parse_result(context, {option.name: value}, [])


def test_there_are_options() -> None:
    assert len(NUMERIC) > 50


HUGE = (10**30, 1e300, math.inf, math.nan)


@pytest.mark.parametrize("kind", [SearchOptions, GenerationOptions])
def test_every_number_of_the_python_interface_is_bounded(kind: Any) -> None:
    for field in dataclasses.fields(kind):
        if field.type in ("bool", bool):
            continue
        for value in HUGE:
            if field.name == "patience" and value == math.inf:
                continue
            with pytest.raises(ConfigError, match=f"^{field.name}: "):
                kind(**{field.name: value, **({"sample": True} if kind is SearchOptions else {})})


def test_what_is_large_but_possible_is_allowed() -> None:
    tree = {"model": {"d_model": 65_536, "d_ff": 262_144, "heads": 512, "max_length": 2**12}}
    config = Config.from_tree({**tree, "subwords": {"size": 1_000_000}, "decoding": {"beam": 1000}})
    assert config.model.d_model == 65_536
    assert ModelConfig(d_model=256, max_length=2**20).max_length == 2**20
    SearchOptions(beam=1000, alpha=50.0, max_length=2**20)


def test_the_bounds_keep_what_they_promise() -> None:
    assert math.isfinite(length_penalty(bounds.LENGTH, bounds.ALPHA))
    seed_random(bounds.SEED * 1_000_003 + bounds.PROCESSES)
