"""Interventions on a model and on its output: their notation, and their application."""

from headwise.analysis.interventions.applying import (
    Copies,
    attention_parts,
    heads_of,
    intervening,
    part_of,
    require_no_translation,
)
from headwise.analysis.interventions.notation import (
    PART_NAMES,
    PARTS,
    Intervention,
    Part,
    parse_interventions,
)
from headwise.analysis.interventions.sublayers import switched_off

__all__ = [
    "PARTS",
    "PART_NAMES",
    "Copies",
    "Intervention",
    "Part",
    "attention_parts",
    "heads_of",
    "intervening",
    "parse_interventions",
    "part_of",
    "require_no_translation",
    "switched_off",
]
