"""The paper's figures and formulas: schedule, sinusoids, label smoothing, attention maps, roles of heads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray

from headwise.analysis.heads.measuring import Annotated, measure_heads
from headwise.analysis.heads.roles import HeadRoles
from headwise.analysis.interventions import PARTS, Part
from headwise.analysis.recording import attention_by_part
from headwise.config import ScheduleConfig
from headwise.decoding.translator_model import pytorch_model
from headwise.engine.translator import Translator
from headwise.errors import DataError
from headwise.experiments import table2
from headwise.experiments.harness.outcome import Chart, Claim, Finding, Table, decide, plain
from headwise.experiments.harness.records import Results
from headwise.experiments.harness.rows import MeasuredRow, Place
from headwise.experiments.harness.runner import Experiment
from headwise.experiments.harness.test_sets import TestSet
from headwise.experiments.scales import Scale
from headwise.experiments.table1 import trained_run
from headwise.nn.positions import shift_matrix, sinusoids
from headwise.nn.recording import recording
from headwise.text.reading.conllu import read_trees
from headwise.text.tokens.subwords import BOS, EOS
from headwise.training.schedule import learning_rate
from headwise.weights import read_recipe

_SHIFT, _ATTENTION = "figures-shift", "figures-attention"
_TITLES = {
    "encoder": "encoder",
    "decoder": "decoder, over earlier words",
    "cross": "decoder, over the source",
}
_SHORTEST, _LONGEST = 7, 10  # subwords of the sentence in the figure


def measure_attention(*, seed: int, place: Place, sentences: int) -> dict[str, Any]:
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


def measure_shift(*, seed: int, d_model: int, length: int, offsets: list[int]) -> dict[str, Any]:
    """Return max |PE(pos + k) - M_k PE(pos)| over all positions, for each offset k (section 3.5)."""
    table = sinusoids(length, d_model).double()
    return {
        "errors": {
            str(k): (table[k:] - table[: length - k] @ shift_matrix(k, d_model).T).abs().max().item()
            for k in offsets
        }
    }


def rows(scale: Scale) -> list[MeasuredRow]:
    """Return the rows: the shift of the sinusoids, and the attention of this scale's trained Transformer."""
    shift = {"d_model": 512, "length": 512, "offsets": [1, 10, 100]}
    return [
        MeasuredRow(_SHIFT, "sinusoids are shifted by a matrix", measure_shift, shift, "figures"),
        MeasuredRow(
            _ATTENTION,
            "attention of a trained model",
            measure_attention,
            {"sentences": 200},
            "figures",
            scale.name,
            tuple(row for row in table2.systems(scale) if row.name == "table2-transformer"),
        ),
    ]


def find(results: Results) -> Finding:
    """Make the charts, the table of heads and the claims; attention only if it is recorded."""
    charts = [_schedule_chart(), _sinusoids_chart(), _smoothing_chart()]
    tables = []
    record = results.first(_ATTENTION)
    if record is not None:
        charts += [_attention_chart(record.result, part, results.scale.name) for part in PARTS]
        tables.append(_heads_table(record.result, results.scale))
    return Finding(tables, charts, [_shift_claim(results), _roles_claim(results)])


def _shift_claim(results: Results) -> Claim:
    text = "For any fixed offset k, PE(pos + k) is a linear function of PE(pos)"
    record = results.first(_SHIFT)
    if record is None:
        return Claim(text, "not run yet", "`headwise reproduce figures` takes seconds.")
    errors = record.result["errors"]
    worst = max(errors.values())
    offsets = ", ".join(errors)
    because = f"With the matrix of the addition theorems, the largest error for k = {offsets} is {worst:.0e} (float32)."
    return Claim(text, decide(worst < 1e-6), because)


def _roles_claim(results: Results) -> Claim:
    text = "Heads learn different tasks (section 4 and the paper's appendix)"
    record = results.first(_ATTENTION)
    if record is None:
        return Claim(
            text,
            "not run yet",
            f"It needs the Transformer of `headwise reproduce table2 --scale {results.scale.name}`.",
        )
    heads = record.result["heads"]
    with_role = [head for head in heads if head["roles"]]
    roles = sorted({role for head in with_role for role in head["roles"]})
    found = ", ".join(roles) or "none"
    because = f"{len(with_role)} of {len(heads)} heads have a role that passes its threshold ({found})."
    if len(roles) > 1 or any(head["relation"] for head in heads):
        return Claim(text, decide(len(roles) > 1), because)
    because += " This text has no trees: only fixed offsets and rare words were looked for."
    return Claim(text, "undecided", because)


def _heads_table(result: dict[str, Any], scale: Scale) -> Table:
    return Table(
        f"Heads of a trained Transformer over {result['sentences']} test sentences ({scale.name})",
        (
            "part", "layer", "head", "commonest offset", "share of it (chance)", "entropy (uniform)",
            "weight on </s> or <s>", "best relation", "found (best offset)", "roles",
        ),
        tuple(_head_row(head) for head in result["heads"]),
        "Offset: where the largest weight lies, key less query. Entropy in nats, a mean over queries. The end symbol "
        "for the source, the start symbol for earlier words. Relation: the gold link that the head's largest weight "
        "follows most, beside the best fixed offset. Roles and thresholds: `headwise analyze heads`.",
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


def _schedule_chart() -> Chart:
    def draw(figure: Figure) -> None:
        axis = plain(figure.subplots())
        steps = range(1, 20_001, 20)
        for d_model, warmup in ((512, 4000), (512, 8000), (1024, 4000)):
            config = ScheduleConfig(warmup=warmup)
            axis.plot(
                steps,
                [learning_rate(config, d_model, step, 100_000) for step in steps],
                label=f"d_model = {d_model}, warm-up {warmup:,}",
            )
        axis.set(xlabel="step", ylabel="learning rate")
        axis.legend(frameon=False)

    return Chart("schedule", "Learning rate of the paper's equation 3 against steps", draw)


def _sinusoids_chart() -> Chart:
    def draw(figure: Figure) -> None:
        axis = figure.subplots()
        image = axis.imshow(sinusoids(100, 128).numpy(), cmap="RdBu", aspect="auto", vmin=-1, vmax=1)
        axis.set(xlabel="dimension (d_model = 128)", ylabel="position")
        figure.colorbar(image, label="PE(pos, i)")

    return Chart("sinusoids", "The sinusoids of section 3.5: value by position and dimension", draw)


def _smoothing_chart() -> Chart:
    """Return a chart of the loss against the gold subword's probability, the rest spread evenly over V - 1 others."""

    def draw(figure: Figure) -> None:
        axis = plain(figure.subplots())
        size = 37_000
        odds = np.linspace(-4, 16, 400)  # log of p / (1 - p)
        p = 1 / (1 + np.exp(-odds))
        for epsilon in (0.0, 0.1, 0.2):
            gold_target = (1 - epsilon) + epsilon / size
            log_p_others = np.log1p(-p) - math.log(size - 1)
            loss = -(gold_target * np.log(p) + (1 - gold_target) * log_p_others)
            line = axis.plot(odds, loss - loss.min(), label=f"ε = {epsilon}")
            if epsilon:
                axis.axvline(
                    math.log(gold_target / (1 - gold_target)), color=line[0].get_color(), linestyle=":"
                )
        axis.set(
            xlabel="log p / (1 − p) of the right subword", ylabel="loss above its minimum (nats)", ylim=(0, 4)
        )
        axis.legend(frameon=False)

    text = "Label smoothing gives the loss a minimum at a finite confidence (dotted), 37,000 subwords"
    return Chart("smoothing", text, draw)


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


EXPERIMENT = Experiment("figures", "The paper's figures", rows, find)
