"""What the heads of a trained Transformer attend to: the maps of a sentence, and the roles of all heads (section 4)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray

from headwise.analysis.heads.measuring import Annotated, measure_heads
from headwise.analysis.heads.roles import HeadRoles
from headwise.analysis.interventions import PARTS, Part
from headwise.analysis.recording import attention_by_part
from headwise.decoding.translator_model import pytorch_model
from headwise.engine.translator import Translator
from headwise.errors import DataError
from headwise.experiments import table2
from headwise.experiments.harness.outcome import Chart, Claim, Finding, Table
from headwise.experiments.harness.records import Results
from headwise.experiments.harness.rows import MeasuredRow, Place
from headwise.experiments.harness.runner import Experiment
from headwise.experiments.harness.test_sets import TestSet
from headwise.experiments.scales import Scale
from headwise.experiments.trials import how_to_continue, with_choices
from headwise.nn.recording import recording
from headwise.text.reading.conllu import read_trees
from headwise.text.tokens.subwords import BOS, EOS
from headwise.weights import read_recipe

_ATTENTION = "heads-attention"
_TITLES = {
    "encoder": "encoder",
    "decoder": "decoder, over earlier words",
    "cross": "decoder, over the source",
}
_SHORTEST, _LONGEST = 7, 10  # subwords of the sentence in the figure


def measure_attention(*, seed: int, place: Place, sentences: int) -> dict[str, Any]:
    """Record the attention of one short test pair, and measure the heads on the first `sentences` test pairs."""
    run, test = place.run(table2.OURS, seed), place.scale.test
    translator = Translator.load(run, device="cpu")
    sources, references = test.pairs()
    first_pairs = sources[:sentences], references[:sentences]
    source, target = _short_pair(translator, *first_pairs, test)
    maps = _maps(translator, source, target)
    annotated = [_annotated(file, side) for file, side in zip((test.source, test.target), first_pairs, strict=True)]
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
    with recording(pytorch_model(translator)) as recorded:
        pytorch_model(translator)(ids, torch.ones_like(ids, dtype=torch.bool), torch.tensor([target]))
    maps = attention_by_part(recorded)
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


def rows(scale: Scale) -> list[MeasuredRow]:
    """Return the row of this scale's Transformer of table 2, if it has its settings."""
    return [
        MeasuredRow(
            _ATTENTION,
            "attention of a trained model",
            measure_attention,
            {"sentences": 200},
            "heads",
            scale.name,
            (row,),
        )
        for row in table2.rows(scale)
        if row.name == table2.OURS
    ]


def find(results: Results) -> Finding:
    """Draw and tabulate the heads of the first seed, and judge over all seeds whether they have several roles."""
    record = results.first(_ATTENTION)
    if record is None:
        return Finding(claims=[_roles_claim(results)])
    charts = [_attention_chart(record.result, part, results.scale.name) for part in PARTS]
    return Finding([_heads_table(record.result, results.scale)], charts, [_roles_claim(results)])


def _roles_claim(results: Results) -> Claim:
    text = "Heads learn different tasks (section 4 and the paper's appendix)"
    records = results.records.get(_ATTENTION)
    if not records:
        return Claim(text, "not run yet", how_to_continue(results.scale))
    models = [record.result["heads"] for record in records]
    roles = [{role for head in heads for role in head["roles"]} for heads in models]
    counts = sorted(sum(bool(head["roles"]) for head in heads) for heads in models)
    several = sum(len(found) > 1 for found in roles)
    always = ", ".join(sorted(set.intersection(*roles))) or "none"
    some = str(counts[0]) if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"
    because = (
        f"{some} of {len(models[0])} heads have a role that passes its threshold, and {several} of {len(models)} "
        f"trained models have heads of several roles (in each of them: {always})."
    )
    if several == len(models):
        return Claim(text, "confirmed", because)
    if not any(head["relation"] for heads in models for head in heads):
        because += " This text has no trees: only fixed offsets and rare words were looked for."
        return Claim(text, "undecided", because)
    return Claim(text, "undecided" if several else "refuted", because)


def _heads_table(result: dict[str, Any], scale: Scale) -> Table:
    return Table(
        f"Heads of a trained Transformer over {result['sentences']} test sentences ({scale.name})",
        (
            "part", "layer", "head", "commonest offset", "share of it (chance)", "entropy (uniform)",
            "weight on </s> or <s>", "best relation", "found (best offset)", "roles",
        ),
        tuple(_head_row(head) for head in result["heads"]),
        "Offset: where the largest weight lies, key less query. Entropy in nats, a mean over queries. The end symbol "
        "for the source, the start symbol for earlier words. Relation: the gold link on which the head "
        "is furthest ahead of the best fixed offset in every other sentence; its rate in the rest. Roles and "
        "thresholds: `headwise analyze heads`.",
    )  # fmt: skip


def _head_row(head: dict[str, Any]) -> tuple[str, ...]:
    relation = ("–", "–")
    if head["relation"] is not None:
        relation = (head["relation"], f"{head['relation_found']:.0%} ({head['relation_by_offset']:.0%})")
    return (
        _TITLES[head["part"]],
        str(head["layer"] + 1),
        str(head["head"] + 1),
        f"{head['offset']:+d}",
        f"{head['share']:.0%} ({head['share_by_chance']:.0%})",
        f"{head['entropy']:.2f} ({head['entropy_if_uniform']:.2f})",
        f"{head['border']:.2f}",
        *relation,
        ", ".join(head["roles"]),
    )


def _attention_chart(result: dict[str, Any], part: str, scale: str) -> Chart:
    maps = [torch.tensor(layer).numpy() / 1000 for layer in result["maps"][part]]
    queries = result["source"] if part == "encoder" else result["target"]
    keys = result["target"] if part == "decoder" else result["source"]
    layers, heads = len(maps), len(maps[0])

    def draw(figure: Figure) -> None:
        axes = figure.subplots(layers, heads, sharex=True, sharey=True, squeeze=False)
        for layer, row in enumerate(axes):
            for head, axis in enumerate(row):
                axis.imshow(maps[layer][head], cmap="Blues", vmin=0, vmax=1, aspect="auto")
                axis.tick_params(length=0)
                axis.set_title(f"layer {layer + 1}, head {head + 1}", fontsize=7, pad=2)
        for axis in axes[-1]:
            axis.set_xticks(range(len(keys)), keys, rotation=90, fontsize=6)
        for axis in axes[:, 0]:
            axis.set_yticks(range(len(queries)), queries, fontsize=6)

    text = f"Attention of every head of the {_TITLES[part]}: rows look at columns ({scale})"
    return Chart(f"attention-{part}-{scale}", text, draw, (1.7 * heads + 0.8, 1.5 * layers + 0.6))


EXPERIMENT = Experiment(
    "heads", "Heads of a trained Transformer", rows, find, seeds=(), scale="tiny", tune=with_choices
)
