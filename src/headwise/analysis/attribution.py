"""What the model uses, beside what attention shows: rollout, gradient × input, and deleted words.

    rollout      attention multiplied through the layers, half of each state being its residual (Abnar & Zuidema 2020)
    gradient     Σ_d x_jd ∂ log P(y_i) / ∂x_jd for source embedding x_j (Denil et al. 2014; Shrikumar et al. 2017)
    deletion     log P(y_i | source) - log P(y_i | source without word j): what the word was worth

All are (target words, source words), for the same forced target; end symbols are left out. `rank_correlation` is the
mean over target words of Spearman's ρ across source words: attention is an explanation only as far as these agree
(Jain & Wallace 2019, "Attention is not explanation").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from headwise.analysis.attention import Sentence, overlap
from headwise.analysis.trace import Forced
from headwise.analysis.tracer import Tracer
from headwise.decoding.batching import padded
from headwise.decoding.forced import token_log_probs
from headwise.errors import ConfigError
from headwise.models.embedded import EmbeddedSeq2Seq
from headwise.text.tokens.subwords import BOS, EOS, PAD

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Attribution:
    """Four views of one translation, each (target words, source words); `rollout` is None without self-attention.

    `attention` is the mean of all layers and heads of the cross-attention, None for a model that has none.
    """

    source_words: tuple[str, ...]
    target_words: tuple[str, ...]
    gradient: Matrix
    deletion: Matrix
    attention: Matrix | None
    rollout: Matrix | None

    def correlations(self) -> dict[str, tuple[float, int]]:
        """Return the rank correlation of each pair of views, and the number of target words that it is the mean of.

        Gradients count by their size, whatever their sign.
        """
        views = {
            "attention": self.attention,
            "rollout": self.rollout,
            "gradient": np.abs(self.gradient),
            "deletion": self.deletion,
        }
        known = {name: view for name, view in views.items() if view is not None}
        names = list(known)
        return {
            f"{one}, {other}": rank_correlation(known[one], known[other])
            for place, one in enumerate(names)
            for other in names[place + 1 :]
        }


def attribute(tracer: Tracer, text: str, target: str) -> Attribution:
    """Compute all views for a target forced over a source; raises `ConfigError` where one of them is empty."""
    source, said = Sentence.of(text), Sentence.of(target)
    if not source.words or not said.words:
        raise ConfigError("attribution: expected a source and a target with words, found an empty one")
    forced = tracer.force(text, target)
    read, _ = tracer.read(text)
    columns = overlap(source, read.pieces[:-1])
    rows = overlap(said, forced.target.pieces[:-1]) > 0
    columns = columns / np.maximum(columns.sum(axis=0), 1)  # (source words, pieces)
    mean_rows = rows / np.maximum(rows.sum(axis=1, keepdims=True), 1)  # (target words, pieces)
    cross = forced.attention.get("cross")
    shown = None if cross is None else mean_rows @ cross.mean((0, 1))[:-1, :-1] @ columns.T
    rolled = rollout(forced)
    return Attribution(
        source.words,
        said.words,
        gradient=rows @ gradient_times_input(tracer, text, forced)[:-1, :-1] @ columns.T,
        deletion=rows @ word_deletion(tracer, source, forced)[:-1],
        attention=shown,
        rollout=None if rolled is None else mean_rows @ rolled[:-1, :-1] @ columns.T,
    )


def rollout(forced: Forced) -> Matrix | None:
    """Return how much of each decoder state comes from each source token, (target tokens, source tokens).

    Encoder: E ← ½ (A + I) E for each layer, A the mean over heads. Decoder: its states begin with nothing of the
    source; X ← ½ (S + I) X for self-attention S, then X ← ½ (X + C E) for cross-attention C. What is missing from a
    row's sum of 1 comes from the target's own tokens. None for a model without self-attention.
    """
    if set(forced.attention) != {"encoder", "decoder", "cross"}:
        return None
    means = {part: layers.mean(1).astype(np.float64) for part, layers in forced.attention.items()}
    encoded = np.eye(means["encoder"].shape[1])
    for layer in means["encoder"]:
        encoded = (layer @ encoded + encoded) / 2
    states = np.zeros((means["decoder"].shape[1], len(encoded)))
    for own, cross in zip(means["decoder"], means["cross"], strict=True):
        states = (own @ states + states) / 2
        states = (states + cross @ encoded) / 2
    return states


def gradient_times_input(tracer: Tracer, text: str, forced: Forced) -> Matrix:
    """Return x · ∂ log P(token) / ∂x for each target token and source embedding, (target tokens, source tokens)."""
    read, _ = tracer.read(text)
    with tracer.model() as model, torch.enable_grad():
        if not isinstance(model, EmbeddedSeq2Seq):
            raise ConfigError("gradient: expected a model with source embeddings, found another")
        whole = model.source_embedding
        try:
            # Every position gets a row of its own, so that each has its own gradient.
            rows = whole.weight.detach()[list(read.ids)]
            model.source_embedding = nn.Embedding.from_pretrained(rows.clone(), freeze=False)
            device = rows.device
            source = torch.arange(len(read.ids), device=device)[None]
            inputs = torch.tensor([forced.reads.ids], device=device)
            outputs = torch.tensor([forced.target.ids], device=device)
            gains = token_log_probs(
                model, source, torch.ones_like(source, dtype=torch.bool), inputs, outputs
            )[0]
            weight = model.source_embedding.weight
            slopes = [torch.autograd.grad(gain, weight, retain_graph=True)[0] for gain in gains]
        finally:
            model.source_embedding = whole
    return np.stack([(slope * rows).sum(1).double().cpu().numpy() for slope in slopes])


@torch.inference_mode()
def word_deletion(tracer: Tracer, source: Sentence, forced: Forced) -> Matrix:
    """Return what each target token's log-probability loses without each word, (target tokens, source words)."""
    subwords = tracer.translator.subwords
    texts = [source.text] + [
        " ".join(source.words[:number] + source.words[number + 1 :]) for number in range(len(source.words))
    ]
    with tracer.model() as model:
        device = next(model.parameters()).device
        ids = [[*subwords.encode_source(text)[: tracer.longest], EOS] for text in texts]
        tokens, mask = padded(ids, PAD, device)
        target = torch.tensor([forced.target.ids], device=device).expand(len(texts), -1)
        inputs = torch.cat([torch.full_like(target[:, :1], BOS), target[:, :-1]], dim=1)
        gains = token_log_probs(model, tokens, mask, inputs, target).double().cpu().numpy()  # (texts, tokens)
    return (gains[0] - gains[1:]).T


def rank_correlation(one: Matrix, other: Matrix) -> tuple[float, int]:
    """Return the mean over rows of Spearman's ρ, and how many rows have one (those that aren't all ties).

    NaN where no row has one.
    """
    found = [rho for a, b in zip(one, other, strict=True) if not np.isnan(rho := spearman(a, b))]
    return (float(np.mean(found)) if found else float("nan")), len(found)


def spearman(one: Sequence[float] | Matrix, other: Sequence[float] | Matrix) -> float:
    """Spearman's ρ: the correlation of ranks, ties sharing their mean rank; NaN where one side is constant."""
    a, b = (_ranks(np.asarray(values, np.float64)) for values in (one, other))
    a, b = a - a.mean(), b - b.mean()
    size = np.sqrt((a**2).sum() * (b**2).sum())
    return float((a * b).sum() / size) if size > 0 else float("nan")


def _ranks(values: Matrix) -> Matrix:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = counts.cumsum()
    return (ends - (counts - 1) / 2)[inverse]
