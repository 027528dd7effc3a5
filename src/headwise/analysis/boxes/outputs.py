"""The steps after the last layer: projection to the vocabulary, and softmax (section 3.4)."""

from __future__ import annotations

from collections.abc import Callable

import torch

from headwise.analysis.boxes.recording import Recorded
from headwise.analysis.boxes.steps import Step, Vector, floats
from headwise.analysis.terminal import plain

LIKELIEST = 10  # tokens that are shown

Pieces = Callable[[list[int]], list[str]]


def projection_steps(recorded: Recorded, position: int, pieces: Pieces) -> list[Step]:
    """Return hidden state → logits of the most probable tokens, and the products of the first of them."""
    model = recorded.model
    hidden = recorded.call("decoder_norm").returned[position]
    logits = recorded.logits[position]
    best, names = _best(recorded, position, pieces)
    row = model.output_weight[best[0]].detach().float().cpu()
    bias = None if model.output_bias is None else model.output_bias[best[0]].item()
    owner = {"all": "the embedding table", "target": "the decoder's embedding table"}.get(
        model.config.share_embeddings, "a matrix of its own"
    )
    h, terms = Vector("h", floats(hidden)), hidden * row
    added = "" if bias is None else f" The token's bias is {bias:.4f}."
    return [
        Step(
            "logits",
            "z = h E^T" + ("" if bias is None else " + b"),
            f"The last hidden state is multiplied with each of {len(logits):,} rows of {owner}. These {len(best)} "
            "tokens have the largest logits.",
            (h, Vector("z", floats(logits[best]), names, tokens=True)),
            facts={
                "tokens": len(logits),
                "mean logit": float(logits.mean()),
                "smallest": float(logits.min()),
            },
        ),
        Step(
            "h · e",
            "z_t = Σ h_d e_d" + ("" if bias is None else " + b_t"),
            f"For {plain(names[0])!r}: the products add up to {float(terms.sum()):.4f}.{added}",
            (
                h,
                Vector("e", floats(row)),
                Vector("h_d e_d", floats(terms)),
                Vector("z", floats(logits[best]), names, tokens=True),
            ),
            facts={"sum": float(terms.sum())} | ({} if bias is None else {"bias": bias}),
        ),
    ]


def softmax_steps(recorded: Recorded, position: int, pieces: Pieces, temperature: float) -> list[Step]:
    """Return logits / T → exp → probabilities of the most probable tokens, with the sum over the vocabulary."""
    logits = recorded.logits[position].double()
    best, names = _best(recorded, position, pieces)
    scaled = logits / temperature
    top = float(scaled.max())
    numerators = (scaled - top).exp()
    total = float(numerators.sum())
    probabilities = numerators / total
    entropy = float(torch.special.entr(probabilities).sum())
    token = recorded.target.ids[position]
    z, divided = (
        Vector("z", floats(logits[best]), names, tokens=True),
        Vector("z / T", floats(scaled[best]), names, tokens=True),
    )
    exponentials = Vector("exp", floats(numerators[best]), names, tokens=True)
    p = Vector("P", floats(probabilities[best]), names, tokens=True)
    chosen = float(probabilities[token])
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
            f"prevents overflow. Over the whole vocabulary they sum to {total:.4f}.",
            (divided, exponentials),
            facts={"max": top, "Σ": total},
        ),
        Step(
            "÷ Σ",
            "P = exp / Σ",
            f"These {len(best)} tokens have {float(probabilities[best].sum()):.1%} of the probability. The token of "
            f"this translation, {plain(recorded.target.pieces[position])!r}, has {chosen:.1%}.",
            (exponentials, p),
            facts={
                "P of this translation's token": chosen,
                "log P": float(probabilities[token].log()),
                "entropy in nats": entropy,
            },
        ),
    ]


def _best(recorded: Recorded, position: int, pieces: Pieces) -> tuple[list[int], tuple[str, ...]]:
    logits = recorded.logits[position]
    best = logits.topk(min(LIKELIEST, len(logits))).indices.tolist()
    return best, tuple(pieces(best))
