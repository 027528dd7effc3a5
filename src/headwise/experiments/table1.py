"""Table 1: complexity, sequential operations and path length, by formula and measured, and gradient flow.

Gradient flow is ‖∂output_t/∂input_s‖ against the distance t - s, for each architecture. There are two measurements:
through the encoder, from its states to the source embeddings, and through the decoder, from its hidden states to the
embeddings of earlier target tokens. The Frobenius norm of each Jacobian is estimated by random projections: for
v ~ N(0, I), E ‖vᵀ J‖² = ‖J‖².
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from headwise.config import Config
from headwise.decoding.translator_model import pytorch_model
from headwise.engine.translator import Translator
from headwise.errors import DataError
from headwise.experiments import complexity, table2
from headwise.experiments.charts import COLORS
from headwise.experiments.complexity import (
    KERNEL,
    KINDS,
    Convolutional,
    Recurrent,
    SelfAttention,
    layers_to_connect,
)
from headwise.experiments.complexity import longest_chain as chain
from headwise.experiments.harness.outcome import Chart, Claim, Finding, Table, decide, judge, plain
from headwise.experiments.harness.records import Results, mean
from headwise.experiments.harness.rows import MeasuredRow, Place
from headwise.experiments.harness.runner import Experiment
from headwise.experiments.paper import TABLE_1
from headwise.experiments.scales import ARCHITECTURES, SCALES, Scale
from headwise.models.base import Seq2Seq
from headwise.models.build import build_model
from headwise.models.embedded import EmbeddedSeq2Seq
from headwise.nn.recording import recording
from headwise.text.tokens.subwords import BOS

_PATHS, _UNTRAINED, _TRAINED = "table1-paths", "table1-gradient-untrained", "table1-gradient-trained"
_LENGTHS = (8, 16, 32, 64, 128)
_RADIUS = 4  # of restricted attention in the path measurement
_PROJECTIONS = 4  # random ones, of each Jacobian


def flow(model: Seq2Seq, source: Tensor, target: Tensor) -> dict[str, list[float]]:
    """Return the gradient norms of `encoder` and `decoder`, by distance 0, 1, …

    source (batch, n) and target (batch, m) are ids without padding. The encoder's gradients are those of its first and
    last state (to cover both directions of a recurrent encoder), the decoder's those of its last hidden state.
    """
    assert isinstance(model, EmbeddedSeq2Seq)
    model.eval()
    mask = torch.ones_like(source, dtype=torch.bool)
    with recording(model.source_embedding, calls=True) as sources:
        memory = model.encode(source, mask)
        states = memory.states
    encoder = sum(
        (
            _squared_norms(states[:, end], sources.calls[""][0].returned).flip(0 if end else ())
            for end in (-1, 0)
        ),
        start=torch.zeros(source.size(1), dtype=torch.float64),
    )
    with recording(model.target_embedding, calls=True) as targets:
        hidden = model.decode(memory, target)
    decoder = _squared_norms(hidden[:, -1], targets.calls[""][0].returned).flip(0)
    return {"encoder": encoder.sqrt().tolist(), "decoder": decoder.sqrt().tolist()}


def _squared_norms(output: Tensor, embedded: Tensor) -> Tensor:
    """Return ‖∂output/∂input_s‖² averaged over the batch, (time,) float64.

    output is (batch, width), embedded (batch, time, d).
    """
    generator = torch.Generator().manual_seed(0)
    total = torch.zeros(embedded.size(1), dtype=torch.float64)
    for _ in range(_PROJECTIONS):
        projection = torch.randn(output.shape, generator=generator).to(output)
        (gradient,) = torch.autograd.grad((output * projection).sum(), embedded, retain_graph=True)
        total += gradient.double().square().sum(-1).mean(0).cpu()
    return total / _PROJECTIONS


def measure_untrained(
    *, seed: int, systems: dict[str, str], length: int, sentences: int
) -> dict[str, dict[str, list[float]]]:
    """Measure each system, built from its configuration file with random weights, on random tokens."""
    norms = {}
    for name, file in systems.items():
        torch.manual_seed(seed)
        config = Config.load(file)
        size = config.subwords.size
        model = build_model(config.model, size, size)
        source, target = (torch.randint(4, size, (sentences, length)) for _ in range(2))
        norms[name] = flow(model, source, target)
    return norms


def measure_trained(*, seed: int, place: Place, systems: Sequence[str], length: int) -> dict[str, Any]:
    """Measure table 2's trained runs on test pairs of at least `length` subwords per side, truncated to `length`."""
    norms = {}
    for name in systems:
        run = trained_run(place, name, seed)
        translator = Translator.load(run, device="cpu")
        source, target = _long_sentences(translator, *place.scale.test.pairs(), length)
        norms[name] = flow(pytorch_model(translator), source, target)
    return norms


def trained_run(place: Place, name: str, seed: int) -> Path:
    """Return the run directory of a system of table 2; raises `DataError` if it hasn't been trained."""
    run = place.run(f"table2-{name}", seed)
    if not (run / "model.safetensors").exists():
        raise DataError(
            f"{run}: expected a trained run, found none; `headwise reproduce table2 --scale {place.scale.name} --rows "
            f"table2-{name} --seeds {seed} --out {place.runs}` makes it"
        )
    return run


def _long_sentences(
    translator: Translator, sources: Sequence[str], references: Sequence[str], length: int
) -> tuple[Tensor, Tensor]:
    subwords = translator.subwords
    pairs = [
        (subwords.encode_source(source)[:length], [BOS, *subwords.encode_target(reference)][:length])
        for source, reference in zip(sources, references, strict=True)
    ]
    long_pairs = [pair for pair in pairs if min(map(len, pair)) == length][:64]
    if not long_pairs:
        raise DataError(f"gradient flow: expected test sentences of {length} subwords, found none so long")
    return torch.tensor([s for s, _ in long_pairs]), torch.tensor([t for _, t in long_pairs])


def measure_paths(*, seed: int, lengths: list[int], radius: int) -> dict[str, Any]:
    """Return, by length, the longest operation chain of one layer and the layers that connect first and last token.

    A single recurrent layer connects them, but through a chain of steps; convolutions are measured with contiguous
    kernels and with dilations 1, k, k², … (the paper's log_k(n)).
    """
    torch.manual_seed(seed)
    sequential = {
        "self-attention": SelfAttention(8),
        "recurrent": Recurrent(8, unrolled=True),
        "convolutional": Convolutional(8),
        "restricted": SelfAttention(8, "window", radius),
    }
    connecting = {
        "self-attention": lambda number: SelfAttention(8),
        "recurrent": lambda number: Recurrent(8, unrolled=True),
        "convolutional": lambda number: Convolutional(8, KERNEL**number),
        "convolutional, contiguous": lambda number: Convolutional(8),
        "restricted": lambda number: SelfAttention(8, "window", radius),
    }
    inputs = {n: torch.randn(1, n, 8, requires_grad=True) for n in lengths}
    return {
        "lengths": lengths,
        "chain": {kind: [chain(layer(inputs[n])) for n in lengths] for kind, layer in sequential.items()},
        "layers": {
            kind: [layers_to_connect(build, n) for n in lengths] for kind, build in connecting.items()
        },
    }


def rows(scale: Scale) -> list[MeasuredRow]:
    """Return the rows for paths, cost and gradients; those of trained models use this scale's runs of table 2."""
    systems = {name: recipe.file for name, recipe in SCALES["multi30k"].systems.items()}
    untrained = {"systems": systems, "length": 100, "sentences": 8}
    trained = {"systems": list(scale.systems), "length": 10 if scale.name == "tiny" else 20}
    runs = tuple(table2.systems(scale))
    return [
        MeasuredRow(
            _PATHS,
            "sequential operations and paths",
            measure_paths,
            {"lengths": _LENGTHS, "radius": _RADIUS},
            "table1",
        ),
        *complexity.rows(scale),
        MeasuredRow(_UNTRAINED, "gradient flow, untrained", measure_untrained, untrained, "table1"),
        MeasuredRow(_TRAINED, "gradient flow, trained", measure_trained, trained, "table1", scale.name, runs),
    ]


def find(results: Results) -> Finding:
    """Compare the paper's formulas with the measurements."""
    tables, charts = [_paper_table(results)], []
    scale = results.scale.name
    for name, title, chart_name in (
        (_UNTRAINED, "untrained", "gradient-untrained"),
        (_TRAINED, f"trained on {scale}", f"gradient-trained-{scale}"),
    ):
        record = results.first(name)
        if record is not None:
            tables.append(_gradient_table(record.result, title))
            charts.append(_gradient_chart(record.result, title, chart_name))
    claims = [_path_claim(results), _untrained_claim(results), _trained_claim(results)]
    return Finding(tables, charts, claims)


def _paper_table(results: Results) -> Table:
    record = results.first(_PATHS)
    lines = []
    for kind, layer in KINDS.items():
        paper = next(row for row in TABLE_1 if row.name == layer.paper)
        measured = ("not run yet", "not run yet")
        if record is not None:
            measured = tuple(
                ", ".join(str(value) for value in record.result[part][kind]) for part in ("chain", "layers")
            )
        lines.append((paper.name, paper.complexity, paper.sequential, measured[0], paper.path, measured[1]))
    if record is not None:
        contiguous = ", ".join(str(value) for value in record.result["layers"]["convolutional, contiguous"])
        lines.append(("Convolutional, contiguous kernels", "", "", "", "O(n/k)", contiguous))
    lengths = ", ".join(str(n) for n in _LENGTHS)
    return Table(
        f"Table 1 of the paper, and counted here for n = {lengths}",
        (
            "layer type",
            "complexity",
            "sequential operations",
            "longest chain",
            "path length",
            "layers to connect",
        ),
        tuple(lines),
        "Longest chain: operations of one layer that wait for each other, in torch's own graph. Layers to connect: "
        f"until the last position's gradient reaches the first; kernels of {KERNEL}, dilated by powers of {KERNEL} for "
        f"the paper's log_k(n); restricted to |i - j| < {_RADIUS}. A recurrent layer needs one, through a chain that "
        "grows.",
    )


def _path_claim(results: Results) -> Claim:
    text = (
        "Self-attention connects all positions in a constant number of operations, a recurrent layer in O(n)"
    )
    record = results.first(_PATHS)
    if record is None:
        return Claim(text, "not run yet", "`headwise reproduce table1` takes a minute.")
    chains, layers = record.result["chain"], record.result["layers"]
    attention, recurrent = chains["self-attention"], chains["recurrent"]
    holds = len(set(attention)) == 1 and set(layers["self-attention"]) == {1}
    growth_ratio = (recurrent[-1] - recurrent[-2]) / (recurrent[-2] - recurrent[-3])
    because = (
        f"From n = {_LENGTHS[0]} to {_LENGTHS[-1]} its longest chain stays at {attention[-1]} operations, while the "
        f"recurrent layer's grows from {recurrent[0]} to {recurrent[-1]}."
    )
    return Claim(text, decide(holds and 1.9 < growth_ratio < 2.1), because)


def _far_gradient(norms: list[float]) -> float:
    """Return the mean gradient norm over the farthest tenth of distances, relative to distance 1."""
    tail = norms[-max(1, len(norms) // 10) :]
    return sum(tail) / len(tail) / norms[1]


def _untrained_claim(results: Results) -> Claim:
    """Return the claim on random weights: it takes a factor of ten, so that it isn't a matter of the seed."""
    text = "Long-range gradients, untrained: the Transformer's reach far positions where recurrent ones fade"
    record = results.first(_UNTRAINED)
    if record is None:
        return Claim(text, "not run yet", "`headwise reproduce table1` takes a minute.")
    ours, others, best, distance = _far_gradients(record.result)
    because = (
        f"In the decoder, what arrives over about {distance} positions is {ours:.2g} of what arrives over one in the "
        f"Transformer, and {others:.2g} in the best of the others ({best})."
    )
    if 0.1 < ours / others < 10:
        return Claim(text, "undecided", f"{because} Less than a factor of ten may be a matter of the seed.")
    return Claim(text, decide(ours > others), because)


def _trained_claim(results: Results) -> Claim:
    scale = results.scale.name
    text = f"Long-range gradients, trained on {scale}: the Transformer's reach far positions where recurrent ones fade"
    records = results.records.get(_TRAINED)
    if not records:
        return Claim(text, "not run yet", "It needs the trained runs of `headwise reproduce table2`.")
    powers = [math.log10(ours / others) for ours, others, *_ in (_far_gradients(r.result) for r in records)]
    *_, best, distance = _far_gradients(records[0].result)
    of = (
        f"powers of ten of the decoder's gradient over about {distance} positions, relative to one, against the best "
        f"of the others ({best})"
    )
    return judge(text, mean(powers), 1, of)


def _far_gradients(result: dict[str, Any]) -> tuple[float, float, str, int]:
    """Return the far gradient of the Transformer, of the best other system, that system, and the distance."""
    ratios = {system: _far_gradient(flows["decoder"]) for system, flows in result.items()}
    ours = ratios.pop("transformer")
    best = max(ratios, key=lambda system: ratios[system])
    return ours, ratios[best], best, len(result["transformer"]["decoder"]) - 1


def _gradient_table(result: dict[str, Any], title: str) -> Table:
    distance = len(result["transformer"]["decoder"]) - 1
    distances = [t_minus_s for t_minus_s in (1, 5, 10, 20, 50, distance) if t_minus_s <= distance]
    distances = sorted(set(distances))
    return Table(
        f"Gradient flow through the decoder, {title}: ‖∂output_t/∂input_s‖ relative to t - s = 1",
        ("system", *(f"t - s = {t_minus_s}" for t_minus_s in distances)),
        tuple(
            (
                ARCHITECTURES[name],
                *(f"{flows['decoder'][t_minus_s] / flows['decoder'][1]:.1e}" for t_minus_s in distances),
            )
            for name, flows in result.items()
        ),
    )


def _gradient_chart(result: dict[str, Any], title: str, chart_name: str) -> Chart:
    def draw(figure: Figure) -> None:
        for axis, part in zip(figure.subplots(1, 2, sharey=True), ("encoder", "decoder"), strict=True):
            plain(axis)
            for name, flows in result.items():
                norms = [norm / flows[part][1] for norm in flows[part]]
                shown = [(distance, norm) for distance, norm in enumerate(norms) if norm > 1e-12]
                axis.plot(*zip(*shown, strict=True), color=COLORS[name], label=ARCHITECTURES[name])
            axis.set_yscale("log")
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
            axis.set(xlabel="distance between output and input", title=f"{part}, {title}")
        figure.axes[0].set_ylabel("gradient, relative to distance 1")
        figure.axes[0].legend(frameon=False, fontsize=7)

    return Chart(chart_name, f"Gradient against distance for each architecture, {title}", draw, (10, 3.8))


EXPERIMENT = Experiment("table1", "Table 1: complexity, paths and gradients", rows, find)
