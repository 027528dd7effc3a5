"""How much of an output's gradient arrives at words far away, for each system of table 2, untrained and trained.

Gradient flow is ‖∂output_t/∂input_s‖ against the distance t - s. There are two measurements: through the encoder, from
its states to the source embeddings, and through the decoder, from its hidden states to the embeddings of earlier target
tokens. The Frobenius norm of each Jacobian is estimated by random projections: for v ~ N(0, I), E ‖vᵀ J‖² = ‖J‖².
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from headwise.config import Config
from headwise.decoding.translator_model import pytorch_model
from headwise.engine.translator import Translator
from headwise.errors import DataError
from headwise.experiments import table2
from headwise.experiments.charts import COLORS
from headwise.experiments.harness.outcome import Chart, Claim, Finding, Table, judge, plain
from headwise.experiments.harness.records import Results, mean
from headwise.experiments.harness.rows import MeasuredRow, Place
from headwise.experiments.harness.runner import Experiment
from headwise.experiments.scales import ARCHITECTURES, SCALES, Scale, system_row_name
from headwise.experiments.trials import how_to_continue, with_choices
from headwise.models.base import Seq2Seq
from headwise.models.build import build_model
from headwise.models.embedded import EmbeddedSeq2Seq
from headwise.nn.recording import recording
from headwise.text.tokens.subwords import BOS

_UNTRAINED, _TRAINED = "gradients-untrained", "gradients-trained"
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
        (_squared_norms(states[:, end], sources.calls[""][0].returned).flip(0 if end else ()) for end in (-1, 0)),
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
        translator = Translator.load(place.run(system_row_name(name), seed), device="cpu")
        source, target = _long_sentences(translator, *place.scale.test.pairs(), length)
        norms[name] = flow(pytorch_model(translator), source, target)
    return norms


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


def rows(scale: Scale) -> list[MeasuredRow]:
    """Return the row of random weights and, where every system of table 2 has its settings, that of its runs."""
    files = {name: recipe.file for name, recipe in SCALES["multi30k"].comparison.models.items()}
    untrained = {"systems": files, "length": 100, "sentences": 8}
    measured = [MeasuredRow(_UNTRAINED, "untrained", measure_untrained, untrained, "gradients")]
    systems = list(scale.comparison.models)
    names = {system_row_name(name) for name in systems}
    runs = tuple(row for row in table2.rows(scale) if row.name in names)
    if len(runs) == len(systems):
        trained = {"systems": systems, "length": 10}
        measured.append(MeasuredRow(_TRAINED, "trained", measure_trained, trained, "gradients", scale.name, runs))
    return measured


def find(results: Results) -> Finding:
    """Tabulate and draw the gradients of the first seed, and judge what arrives far away over all seeds."""
    tables, charts, claims = [], [], []
    scale = results.scale.name
    for name, title, chart_name in (
        (_UNTRAINED, "untrained", "gradients-untrained"),
        (_TRAINED, f"trained on {scale}", f"gradients-trained-{scale}"),
    ):
        record = results.first(name)
        if record is not None:
            tables.append(_gradient_table(record.result, title))
            charts.append(_gradient_chart(record.result, title, chart_name))
        claims.append(_claim(results, name, title))
    return Finding(tables, charts, claims)


def _claim(results: Results, name: str, title: str) -> Claim:
    text = f"Long-range gradients, {title}: the Transformer's reach far positions where recurrent ones fade"
    records = results.records.get(name)
    if not records:
        return Claim(text, "not run yet", how_to_continue(results.scale))
    powers = [math.log10(ours / others) for ours, others, *_ in (_far_gradients(r.result) for r in records)]
    *_, best, distance = _far_gradients(records[0].result)
    of = (
        f"powers of ten of the decoder's gradient over about {distance} positions, relative to one, against the best "
        f"of the others ({ARCHITECTURES[best]})"
    )
    return judge(text, mean(powers), 1, of)


def _far_gradient(norms: list[float]) -> float:
    """Return the mean gradient norm over the farthest tenth of distances, relative to distance 1."""
    tail = norms[-max(1, len(norms) // 10) :]
    return sum(tail) / len(tail) / norms[1]


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


EXPERIMENT = Experiment("gradients", "Gradients over a distance", rows, find, seeds=(), scale="tiny", tune=with_choices)
