"""Source attribution by attention rollout, gradient × input and word deletion, to compare with attention.

    rollout      attention multiplied through the layers, half of each state being its residual (Abnar & Zuidema 2020)
    gradient     Σ_d x_jd ∂ log P(y_i) / ∂x_jd for source embedding x_j (Denil et al. 2014; Shrikumar et al. 2017)
    deletion     log P(y_i | source) - log P(y_i | source without word j)

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

from headwise.analysis.attention import SentenceWords, joining, overlap
from headwise.analysis.trace import ForcedDecoding, Side
from headwise.analysis.translation_tracer import TranslationTracer
from headwise.decoding.batching import padded
from headwise.decoding.scoring import token_log_probs
from headwise.errors import ConfigError
from headwise.models.embedded import EmbeddedSeq2Seq
from headwise.nn.recording import recording
from headwise.text.tokens.subwords import BOS, EOS, PAD

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Attribution:
    """Four attributions of one sentence pair, each (target words, source words).

    `attention` is the cross-attention averaged over all layers and heads, None for a model without cross-attention.
    `rollout` is None for a model without self-attention.
    """

    source_words: tuple[str, ...]
    target_words: tuple[str, ...]
    gradient: Matrix
    deletion: Matrix
    attention: Matrix | None
    rollout: Matrix | None

    def correlations(self) -> dict[str, tuple[float, int]]:
        """Return the rank correlation of each pair of attributions, and the number of target words averaged over.

        Gradients are compared by absolute value.
        """
        views = {
            "attention": self.attention,
            "rollout": self.rollout,
            "gradient": np.abs(self.gradient),
            "deletion": self.deletion,
        }
        available = {name: view for name, view in views.items() if view is not None}
        names = list(available)
        return {
            f"{one}, {other}": rank_correlation(available[one], available[other])
            for index, one in enumerate(names)
            for other in names[index + 1 :]
        }


def attributable(tracer: TranslationTracer, text: str, target: str) -> bool:
    """Whether a pair has words on both sides, and is no longer than the tracer reads."""
    subwords = tracer.translator.subwords
    ids = (subwords.encode_source(tracer.line(text)), subwords.encode_target(target))
    return bool(text.split() and target.split()) and max(map(len, ids)) <= tracer.longest


def attribute(tracer: TranslationTracer, text: str, target: str) -> Attribution:
    """Compute all attributions of a forced target; raises `ConfigError` if the source or the target has no words."""
    source, translation = SentenceWords.of(tracer.line(text)), SentenceWords.of(target)
    if not source.words or not translation.words:
        raise ConfigError("attribution: expected a source and a target with words, found an empty one")
    source_side, _ = tracer.read(text)
    forced = tracer.force(source_side, target)
    codes = tracer.translator.subwords.codes
    _, columns = joining(overlap(source, source_side.pieces[:-1], codes))  # (source words, pieces)
    mean_rows, _ = joining(overlap(translation, forced.target.pieces[:-1], codes))  # (target words, pieces)
    rows = mean_rows > 0
    cross = forced.attention.get("cross")
    attention = None if cross is None else mean_rows @ cross.mean((0, 1))[:-1, :-1] @ columns.T
    rolled_out = rollout(forced)
    return Attribution(
        source.words,
        translation.words,
        gradient=rows @ gradient_times_input(tracer, source_side, forced)[:-1, :-1] @ columns.T,
        deletion=rows @ word_deletion(tracer, source, forced)[:-1],
        attention=attention,
        rollout=None if rolled_out is None else mean_rows @ rolled_out[:-1, :-1] @ columns.T,
    )


def rollout(forced: ForcedDecoding) -> Matrix | None:
    """Return the share of each source token in each decoder state, (target tokens, source tokens).

    Encoder: E ← ½ (A + I) E for each layer, A the mean over heads. Decoder: X starts at 0; X ← ½ (S + I) X for
    self-attention S, then X ← ½ (X + C E) for cross-attention C. The rest of each row, up to 1, is the share of the
    target's own tokens. None for a model without self-attention.
    """
    if set(forced.attention) != {"encoder", "decoder", "cross"}:
        return None
    means = {part: layers.mean(1).astype(np.float64) for part, layers in forced.attention.items()}
    encoded = np.eye(means["encoder"].shape[1])
    for layer in means["encoder"]:
        encoded = (layer @ encoded + encoded) / 2
    states = np.zeros((means["decoder"].shape[1], len(encoded)))
    for self_attention, cross_attention in zip(means["decoder"], means["cross"], strict=True):
        states = (self_attention @ states + states) / 2
        states = (states + cross_attention @ encoded) / 2
    return states


def gradient_times_input(tracer: TranslationTracer, source: Side, forced: ForcedDecoding) -> Matrix:
    """Return x · ∂ log P(token) / ∂x for each target token and source embedding x, (target tokens, source tokens)."""
    with tracer.model() as model, torch.enable_grad():
        if not isinstance(model, EmbeddedSeq2Seq):
            raise ConfigError("gradient: expected a model with source embeddings, found another")
        tokens, mask = padded([source.ids], PAD, model.device)
        inputs = torch.tensor([forced.reads.ids], device=model.device)
        outputs = torch.tensor([forced.target.ids], device=model.device)
        with recording(model.source_embedding, calls=True) as recorded:
            log_probs = token_log_probs(model, tokens, mask, inputs, outputs)[0]
        # (1, source, d_model); a decoder that shares them comes later
        embeddings = recorded.calls[""][0].returned
        gradients = [torch.autograd.grad(log_prob, embeddings, retain_graph=True)[0] for log_prob in log_probs]
    return np.stack([(gradient * embeddings).sum(-1)[0].detach().double().cpu().numpy() for gradient in gradients])


@torch.inference_mode()
def word_deletion(tracer: TranslationTracer, source: SentenceWords, forced: ForcedDecoding) -> Matrix:
    """Return the drop in each target token's log-probability when a word is deleted, (target tokens, source words)."""
    subwords = tracer.translator.subwords
    texts = [source.text] + [
        " ".join(source.words[:index] + source.words[index + 1 :]) for index in range(len(source.words))
    ]
    with tracer.model() as model:
        device = next(model.parameters()).device
        ids = [[*subwords.encode_source(text)[: tracer.longest], EOS] for text in texts]
        tokens, mask = padded(ids, PAD, device)
        target = torch.tensor([forced.target.ids], device=device).expand(len(texts), -1)
        inputs = torch.cat([torch.full_like(target[:, :1], BOS), target[:, :-1]], dim=1)
        # (texts, tokens)
        log_probs = token_log_probs(model, tokens, mask, inputs, target).double().cpu().numpy()
    return (log_probs[0] - log_probs[1:]).T


def rank_correlation(one: Matrix, other: Matrix) -> tuple[float, int]:
    """Return the mean over rows of Spearman's ρ, and how many rows have one (a constant row has none).

    The mean is NaN if no row has one.
    """
    coefficients = [rho for a, b in zip(one, other, strict=True) if not np.isnan(rho := spearman(a, b))]
    return (float(np.mean(coefficients)) if coefficients else float("nan")), len(coefficients)


def spearman(one: Sequence[float] | Matrix, other: Sequence[float] | Matrix) -> float:
    """Return Spearman's ρ: the correlation of ranks, ties sharing their mean rank; NaN if one side is constant."""
    a, b = (_ranks(np.asarray(values, np.float64)) for values in (one, other))
    a, b = a - a.mean(), b - b.mean()
    norm = np.sqrt((a**2).sum() * (b**2).sum())
    return float((a * b).sum() / norm) if norm > 0 else float("nan")


def _ranks(values: Matrix) -> Matrix:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = counts.cumsum()
    return (ends - (counts - 1) / 2)[inverse]
