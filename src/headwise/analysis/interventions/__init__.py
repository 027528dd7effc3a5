"""Interventions on a model and on its output: their notation, and their application."""

from headwise.analysis.interventions.applying import (
    attention_parts,
    heads_of,
    intervening,
    part_of,
    private_copy,
)
from headwise.analysis.interventions.notation import PARTS, Intervention, Part, parse_interventions

__all__ = [
    "PARTS",
    "Intervention",
    "Part",
    "attention_parts",
    "heads_of",
    "intervening",
    "parse_interventions",
    "part_of",
    "private_copy",
]
