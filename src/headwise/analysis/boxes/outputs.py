"""The steps after the last layer: head or pooling, projection to vocabulary or classes, softmax (section 3.4)."""

from __future__ import annotations

import torch

from headwise.analysis.boxes.layers import FORMULAS, normalization_steps
from headwise.analysis.boxes.steps import Grid, Step, Vector, floats
from headwise.analysis.boxes.structure import BoxPlace
from headwise.analysis.boxes.tensors import BoxTensors
from headwise.analysis.terminal import plain

LIKELIEST = 10  # tokens that are shown


def pooling_steps(recorded: BoxTensors, place: BoxPlace, position: int) -> list[Step]:
    """Return the class token's last hidden state, or the mean over all patches."""
    vision = recorded.structure.vision
    assert vision is not None
    hidden, pooled = recorded.last(place.modules), Vector("h", floats(recorded.pooled[0]))
    if vision.class_token is not None:
        sentence = "The classifier reads the last hidden state of the class token only; patches act through attention."
        first = Vector("x_{class}", floats(hidden[0]))
        return [Step("class token", "h = x_{class}", sentence, (first, pooled))]
    pieces = recorded.forward.sides["encoder"].pieces
    sentence = f"The last hidden states of all {len(pieces)} patches are averaged."
    grid = Grid("x", floats(hidden), pieces, tokens=True)
    return [Step("mean", "h = mean over the patches", sentence, (pooled,), (grid,))]


def head_steps(recorded: BoxTensors, place: BoxPlace, position: int) -> list[Step]:
    """Return x → W x + b → activation → normalization, BERT's head for masked tokens (Devlin et al. 2019)."""
    config, dense = recorded.structure.config, recorded.call("head.dense")
    z = Vector("z", floats(dense.returned[position]))
    a = Vector("a", floats(recorded.call("head.norm").given[position]))
    return [
        Step(
            "W",
            "z = x W + b",
            "The last hidden state goes through one more linear map.",
            (Vector("x", floats(dense.given[position])), z),
        ),
        Step(
            config.activation,
            f"a = {FORMULAS[config.activation].replace('{}', 'z')}",
            f"{int((a.values == 0).sum())} of {len(a.values)} numbers are 0.",
            (z, a),
        ),
        *normalization_steps(recorded, "head.norm", position, "a"),
    ]


def projection_steps(recorded: BoxTensors, place: BoxPlace, position: int) -> list[Step]:
    """Return hidden state → logits of the most probable tokens, and the products of the first of them."""
    structure = recorded.structure
    hidden, logits = recorded.hidden[position], recorded.logits[position]
    best, names = _best(recorded, position)
    row = structure.output_weight[best[0]].detach().float().cpu()
    bias = None if structure.output_bias is None else structure.output_bias[best[0]].item()
    h, terms = Vector("h", floats(hidden)), hidden * row
    one, matrix = ("class", "W") if place.pooled else ("token", "E")
    many = "classes" if place.pooled else "tokens"
    added = "" if bias is None else f" The {one}'s bias is {bias:.4f}."
    largest = f"These {len(best)} {many} have the largest logits."
    return [
        Step(
            "logits",
            f"z = h {matrix}^T" + ("" if bias is None else " + b"),
            f"The last hidden state is multiplied with each of {len(logits):,} rows of {structure.output_owner}. "
            f"{largest}",
            (h, Vector("z", floats(logits[best]), names, tokens=True)),
            facts={
                many: len(logits),
                "mean logit": float(logits.mean()),
                "smallest": float(logits.min()),
            },
        ),
        Step(
            f"h · {matrix.lower()}",
            f"z_t = Σ h_d {matrix.lower()}_d" + ("" if bias is None else " + b_t"),
            f"For {plain(names[0])!r}: the products add up to {float(terms.sum()):.4f}.{added}",
            (
                h,
                Vector(matrix.lower(), floats(row)),
                Vector(f"h_d {matrix.lower()}_d", floats(terms)),
                Vector("z", floats(logits[best]), names, tokens=True),
            ),
            facts={"sum": float(terms.sum())} | ({} if bias is None else {"bias": bias}),
        ),
    ]


def softmax_steps(recorded: BoxTensors, place: BoxPlace, position: int, temperature: float) -> list[Step]:
    """Return logits / T → exp → probabilities of the most probable tokens, with the sum over the vocabulary."""
    forward = recorded.forward
    logits = recorded.logits[position].double()
    best, names = _best(recorded, position)
    scaled = logits / temperature
    top = float(scaled.max())
    numerators = (scaled - top).exp()
    total = float(numerators.sum())
    probabilities = numerators / total
    log_probabilities = scaled.log_softmax(0)  # finite where a probability underflows
    entropy = float(torch.special.entr(probabilities).sum())
    token = forward.chosen.ids[position]
    z, divided = (
        Vector("z", floats(logits[best]), names, tokens=True),
        Vector("z / T", floats(scaled[best]), names, tokens=True),
    )
    exponentials = Vector("exp", floats(numerators[best]), names, tokens=True)
    p = Vector("P", floats(probabilities[best]), names, tokens=True)
    chosen = float(probabilities[token])
    many, whole = ("classes", "all classes") if place.pooled else ("tokens", "the whole vocabulary")
    what = forward.what[0].upper() + forward.what[1:]
    return [
        Step(
            "÷ T",
            "z / T",
            f"The logits are divided by the temperature, {temperature:g}: below 1 the distribution becomes sharper, "
            "above 1 flatter.",
            (z, divided),
            facts={"T": temperature},
        ),
        Step(
            "exp",
            "exp(z/T − max)",
            f"Exponentials are positive. The largest z/T, {top:.4f}, is subtracted first, which changes no share and "
            f"prevents overflow. Over {whole} they sum to {total:.4f}.",
            (divided, exponentials),
            facts={"max": top, "Σ": total},
        ),
        Step(
            "÷ Σ",
            "P = exp / Σ",
            f"These {len(best)} {many} have {float(probabilities[best].sum()):.1%} of the probability. {what}, "
            f"{plain(forward.chosen.pieces[position])!r}, has {chosen:.1%}.",
            (exponentials, p),
            facts={
                f"P of {forward.what}": chosen,
                "log P": float(log_probabilities[token]),
                "entropy in nats": entropy,
            },
        ),
    ]


def _best(recorded: BoxTensors, position: int) -> tuple[list[int], tuple[str, ...]]:
    logits = recorded.logits[position]
    best = logits.topk(min(LIKELIEST, len(logits))).indices.tolist()
    return best, tuple(recorded.forward.names(best))
