"""Label-smoothed cross-entropy (Szegedy et al. 2016; the paper's section 5.4), and R-Drop with it.

`choice_loss` takes logits, of few options. The other losses are fused with the output projection, for a vocabulary.
With smoothing ε spread over the vocabulary V the target distribution is q = (1 - ε) onehot(y) + ε / |V|, and

    loss(x, y) = logsumexp(Wx) - (1 - ε) w_y·x - (ε / |V|) Σ_v w_v·x
    ∂loss/∂logits = softmax(Wx) - q

Only the softmax is a dense part of the gradient: the one-hot and the uniform part of q contribute to ∂x and ∂W in
closed form (a row of W, and the mean of W's rows). So each chunk of logits is replaced by its softmax, multiplied twice
and freed: no tensor of shape (target tokens, vocabulary) ever exists, only chunks of it. The gradients are computed in
the forward pass, if gradients are enabled, and scaled in the backward pass.

Sums, the log-normalizer and the gradient of W are float32 if the hidden states are bfloat16.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from headwise.nn.device import sum_dtype
from headwise.nn.linear import selected_gemm

_CHUNK_ELEMENTS = 5_000_000  # logits in a chunk: 10 MB in bfloat16, which fits a CPU's last-level cache
_CHUNK_ELEMENTS_ON_GPU = 200_000_000  # 400 MB: small chunks wait there for their operations to be launched
_LEAST_CHUNK_TOKENS = 512  # fewer are slower: each chunk adds to the whole gradient of W


@dataclass(frozen=True)
class LossSum:
    """Loss summed over target tokens, not yet divided by their number.

    total: smoothed loss with a gradient, R-Drop term included; nll: negative log-likelihood in nats, without a
    gradient, for reports; count: target tokens.
    """

    total: Tensor
    nll: Tensor
    count: int


def _chunks(tokens: int, vocabulary: int, device: torch.device, multiple: int = 1) -> list[slice]:
    elements = _CHUNK_ELEMENTS if device.type == "cpu" else _CHUNK_ELEMENTS_ON_GPU
    size = max(1, max(_LEAST_CHUNK_TOKENS, elements // vocabulary) // multiple)
    return [slice(start, min(start + size, tokens)) for start in range(0, tokens, size)]


def _normalized(logits: Tensor, at_target: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return the logsumexp (tokens,) in the dtype of sums, and the softmax in the dtype of the logits.

    log softmax(y) = logit(y) - logsumexp holds for every y, so one logit and its probability give the logsumexp. The
    target's logit is already known; only if a target's probability is too small for a logarithm, the most probable
    token of each position is used instead.
    """
    probabilities = torch.softmax(logits, dim=-1)
    probability = probabilities.gather(1, targets[:, None]).squeeze(1)
    if logits.device.type != "cpu" or bool((probability < torch.finfo(probability.dtype).tiny).any()):
        # The largest probability is at least 1/|V|. A GPU always does this: it is cheap there, and the test would wait
        # for the GPU.
        at_target, probability = logits.amax(dim=-1), probabilities.amax(dim=-1)
    wide = sum_dtype(logits)
    return at_target.to(wide) - probability.to(wide).log(), probabilities


def _add_target_part(
    to_hidden: Tensor,
    to_weight: Tensor,
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    epsilon: float,
    share: float = 1.0,
) -> None:
    """Add the gradient of -share · Σ q·logits to `to_hidden` and `to_weight`, in closed form and in place."""
    expected_weight = (1 - epsilon) * functional.embedding(targets, weight) + epsilon * weight.mean(dim=0)
    to_hidden.sub_(expected_weight.to(to_hidden.dtype), alpha=share)
    x = hidden.to(to_weight.dtype)
    to_weight.index_add_(0, targets, x, alpha=-share * (1 - epsilon))
    to_weight.sub_(x.sum(dim=0), alpha=share * epsilon / weight.size(0))


class _ChunkedLoss(torch.autograd.Function):
    """Base class of the losses whose forward pass, of five arguments, saves the gradients of the first two."""

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        to_hidden, to_weight = ctx.saved_tensors
        return to_hidden * scale, to_weight * scale, None, None, None


class _SmoothedCrossEntropy(_ChunkedLoss):
    """Autograd function (hidden, weight, targets, ε, differentiate?) -> (smoothed loss, nll), summed over tokens."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, epsilon: float, differentiate: bool
    ) -> tuple[Tensor, Tensor]:
        tokens, vocabulary = hidden.size(0), weight.size(0)
        w = weight.to(hidden.dtype)
        products = selected_gemm(hidden, w)
        to_hidden = torch.empty_like(hidden)
        to_weight = weight.new_zeros(weight.shape if differentiate else (0,), dtype=sum_dtype(weight))
        nll = torch.zeros((), dtype=sum_dtype(hidden), device=hidden.device)
        log_sum_exps = torch.zeros_like(nll)
        for part in _chunks(tokens, vocabulary, hidden.device):
            x, y = hidden[part], targets[part]
            logits = products.forward(x, w)  # (chunk, vocabulary)
            at_target = logits.gather(1, y[:, None]).squeeze(1)
            log_sum_exp, probabilities = _normalized(logits, at_target, y)
            nll += (log_sum_exp - at_target).sum()
            log_sum_exps += log_sum_exp.sum()
            if differentiate:
                to_hidden[part] = products.input_gradient(probabilities, w)
                products.add_weight_gradient(to_weight, probabilities, x)
        if differentiate:
            _add_target_part(to_hidden, to_weight, hidden, weight, targets, epsilon)
            ctx.save_for_backward(to_hidden, to_weight)
        uniform = log_sum_exps - weight.mean(dim=0).to(nll.dtype) @ hidden.to(nll.dtype).sum(dim=0)
        return (1 - epsilon) * nll + epsilon * uniform, nll


class _RegularizedDropout(_ChunkedLoss):
    """Autograd function (hidden of two passes, weight, targets, ε, α) -> (loss, nll), see `r_drop_cross_entropy`."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, epsilon: float, alpha: float
    ) -> tuple[Tensor, Tensor]:
        tokens, vocabulary = targets.size(0), weight.size(0)
        pair = alpha / 4
        w = weight.to(hidden.dtype)
        products = selected_gemm(hidden, w)
        to_hidden = torch.empty_like(hidden)
        to_weight = torch.zeros_like(weight, dtype=sum_dtype(weight))
        nll, log_sum_exps, divergence = torch.zeros(3, dtype=sum_dtype(hidden), device=hidden.device).unbind()
        for part in _chunks(tokens, vocabulary, hidden.device, multiple=3):
            second = slice(part.start + tokens, part.stop + tokens)
            y = targets[part, None]
            x = torch.cat([hidden[part], hidden[second]])
            logits = products.forward(x, w)  # (2 chunk, vocabulary)
            at_target = logits.gather(1, y.repeat(2, 1)).squeeze(1)
            log_sum_exp, probabilities = _normalized(logits, at_target, y.squeeze(1).repeat(2))
            nll += (log_sum_exp - at_target).sum() / 2
            log_sum_exps += log_sum_exp.sum() / 2
            size = y.size(0)
            p1, p2 = probabilities[:size], probabilities[size:]
            # log p1 - log p2, from the logits because small probabilities would lose precision
            ratio = logits[:size].sub_(logits[size:]).sub_((log_sum_exp[:size] - log_sum_exp[size:])[:, None])
            kl12 = torch.linalg.vecdot(p1, ratio)
            kl21 = -torch.linalg.vecdot(p2, ratio)
            divergence += (kl12.to(nll.dtype) + kl21.to(nll.dtype)).sum()
            # ∂KL(p1‖p2)/∂z1 = p1 (ratio - KL12) and ∂KL(p2‖p1)/∂z1 = p1 - p2, each times `pair`; for z2 with the
            # opposite signs. The cross-entropies add ½ p1 and ½ p2.
            g1 = (ratio * pair).add_((0.5 + pair * (1 - kl12))[:, None]).mul_(p1).sub_(p2, alpha=pair)
            g2 = ratio.mul_(-pair).add_((0.5 + pair * (1 - kl21))[:, None]).mul_(p2).sub_(p1, alpha=pair)
            gradient = torch.cat([g1, g2])
            to_x = products.input_gradient(gradient, w)
            to_hidden[part], to_hidden[second] = to_x[:size], to_x[size:]
            products.add_weight_gradient(to_weight, gradient, x)
        _add_target_part(to_hidden, to_weight, hidden, weight, targets.repeat(2), epsilon, share=0.5)
        ctx.save_for_backward(to_hidden, to_weight)
        uniform = log_sum_exps - weight.mean(dim=0).to(nll.dtype) @ hidden.to(nll.dtype).sum(dim=0) / 2
        return (1 - epsilon) * nll + epsilon * uniform + pair * divergence, nll


def smoothed_cross_entropy(
    hidden: Tensor, weight: Tensor, targets: Tensor, epsilon: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Return the label-smoothed cross-entropy and the negative log-likelihood (without gradient), summed over tokens.

    hidden (tokens, d_model), weight (vocabulary, d_model), targets (tokens,) without padding. Both results are float32
    scalars in nats (float64 if hidden is float64).
    """
    differentiate = torch.is_grad_enabled()
    smoothed, nll = _SmoothedCrossEntropy.apply(hidden, weight, targets, epsilon, differentiate)  # type: ignore[misc]
    return smoothed, nll.detach()


def r_drop_cross_entropy(
    hidden: Tensor, weight: Tensor, targets: Tensor, epsilon: float, alpha: float
) -> tuple[Tensor, Tensor]:
    """Return the R-Drop loss (Liang et al. 2021, eq. 4) and the nll of two passes with different dropout masks.

    hidden (2 · tokens, d_model) has the tokens of the first pass, then those of the second; targets (tokens,). The loss
    is the sum over tokens of ½ (CE₁ + CE₂) + (α/4) (KL(P₁‖P₂) + KL(P₂‖P₁)), which is half the paper's L_i, so that
    α = 0 is the plain loss. The nll is the mean of both negative log-likelihoods, summed over tokens.
    """
    loss, nll = _RegularizedDropout.apply(hidden, weight, targets, epsilon, alpha)  # type: ignore[misc]
    return loss, nll.detach()


def choice_loss(
    logits: Tensor, targets: Tensor, smoothing: float = 0.0, other: Tensor | None = None, r_drop: float = 0.0
) -> LossSum:
    """Return the label-smoothed cross-entropy of logits, summed over targets, with R-Drop if `other` is given.

    Args:
        logits: (choices, options); impossible options have the lowest number of the dtype.
        targets: (choices,).
        smoothing: ε, spread evenly over the possible options (Szegedy et al. 2016).
        other: logits of a second pass with another dropout mask, for R-Drop.
        r_drop: weight α of the mean of the two KL divergences between both passes; the cross-entropy is then the mean
            of both passes (Liang et al. 2021, equation 4, halved).
    """
    loss, nll, log_p = _smoothed(logits, targets, smoothing)
    if other is not None:
        second, other_nll, log_q = _smoothed(other, targets, smoothing)
        divergence = ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum()  # KL(p‖q) + KL(q‖p)
        loss, nll = (loss + second) / 2 + r_drop / 4 * divergence, (nll + other_nll) / 2
    return LossSum(loss, nll.detach(), len(targets))


def _smoothed(logits: Tensor, targets: Tensor, epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    possible = logits > torch.finfo(logits.dtype).min
    log_p = logits.float().log_softmax(dim=-1)
    nll = -log_p.gather(1, targets[:, None]).sum()
    if not epsilon:
        return nll, nll, log_p
    uniform = -(log_p.where(possible, 0.0).sum(dim=-1) / possible.sum(dim=-1)).sum()
    return (1 - epsilon) * nll + epsilon * uniform, nll, log_p
