"""Attention of a trained Transformer, for the figures: the maps of one sentence, and the roles of every head."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from headwise.analysis.heads.measuring import Annotated, measure_heads
from headwise.analysis.heads.roles import HeadRoles
from headwise.analysis.interventions import PARTS, Part
from headwise.analysis.tracer import stacked
from headwise.decoding.translator import Translator
from headwise.errors import DataError
from headwise.experiments.gradient_flow import trained_run
from headwise.experiments.harness.rows import Place
from headwise.experiments.harness.test_sets import TestSet
from headwise.models.weights import read_recipe
from headwise.nn.multihead import recording
from headwise.text.reading.conllu import read_trees
from headwise.text.tokens.subwords import BOS, EOS

_SHORTEST, _LONGEST = 7, 10  # subwords of the sentence in the figure


def measure(*, seed: int, place: Place, sentences: int) -> dict[str, Any]:
    """Record the attention of one short test pair, and measure the heads on the first `sentences` test pairs."""
    run, test = trained_run(place, "transformer", seed), place.scale.test
    translator = Translator.load(run, device="cpu")
    sources, references = test.pairs()
    first_pairs = sources[:sentences], references[:sentences]
    source, target = _short_pair(translator, *first_pairs, test)
    maps = _maps(translator, source, target)
    annotated = [
        _annotated(file, side) for file, side in zip((test.source, test.target), first_pairs, strict=True)
    ]
    reports = measure_heads(translator, *annotated)
    return {
        "source": [*translator.subwords.source_pieces(source[:-1]), "</s>"],
        "target": ["<s>", *translator.subwords.target_pieces(target[1:])],
        "maps": {part: (weights * 1000).round().astype(int).tolist() for part, weights in maps.items()},
        "heads": [_summary(report.part, head) for report in reports for head in report.heads],
        "sentences": len(first_pairs[0]),
        "checksums": read_recipe(run / "model.safetensors"),
    }


def _short_pair(
    translator: Translator, sources: Sequence[str], references: Sequence[str], test: TestSet
) -> tuple[list[int], list[int]]:
    """Return the encoder's and the decoder's input ids of the first pair short enough for a figure."""
    subwords = translator.subwords
    for source, reference in zip(sources, references, strict=True):
        ids = subwords.encode_source(source), subwords.encode_target(reference)
        if all(_SHORTEST <= len(side) <= _LONGEST for side in ids):
            return [*ids[0], EOS], [BOS, *ids[1]]
    raise DataError(
        f"{test.source}: expected a sentence pair of {_SHORTEST} to {_LONGEST} subwords among the first "
        f"{len(sources)}, found none"
    )


def _annotated(file: Path, lines: Sequence[str]) -> list[Annotated]:
    """Annotate sentences with the trees in the .conllu file beside their file, if there is one."""
    trees = file.with_name(f"{file.name}.conllu")
    if not trees.exists():
        return [Annotated.of(line) for line in lines]
    return [Annotated.of_tree(tree) for tree in read_trees(trees)[: len(lines)]]


@torch.no_grad()
def _maps(translator: Translator, source: Sequence[int], target: Sequence[int]) -> dict[Part, NDArray]:
    """Return the attention weights of each part, (layers, heads, query, key)."""
    ids = torch.tensor([source])
    with recording(translator.model) as records:
        translator.model(ids, torch.ones_like(ids, dtype=torch.bool), torch.tensor([target]))
    maps = stacked(records)
    return {part: maps[part] for part in PARTS}


def _summary(part: Part, head: HeadRoles) -> dict[str, Any]:
    relation = head.relation
    return {
        "part": part,
        "layer": head.layer,
        "head": head.head,
        "offset": head.offset,
        "share": head.position.rate,
        "share_by_chance": head.position.baselines["chance"],
        "entropy": head.entropy.rate,
        "entropy_if_uniform": head.entropy.baselines["uniform"],
        "border": head.end.rate,
        "relation": None if relation is None else relation.name,
        "relation_found": None if relation is None else relation.found.rate,
        "relation_by_offset": None if relation is None else relation.found.baselines["offset"],
        "roles": list(head.roles),
    }
