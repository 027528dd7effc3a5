"""The losses, compared with torch's losses of complete logits."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from headwise.training import loss
from headwise.training.loss import choice_loss, r_drop_cross_entropy, smoothed_cross_entropy

ROWS, VOCABULARY, D_MODEL = 37, 53, 16
EPSILONS = [0.0, 0.1, 0.9]

# Chunks of one token; of several, with a shorter last chunk; all in one chunk.
chunked = pytest.mark.parametrize("chunk_elements", [1, 10 * VOCABULARY, 10**9])


def make(rows: int = ROWS, dtype: torch.dtype = torch.float64, size: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    """Return hidden states and weights that require gradients, and targets with repetitions."""
    generator = torch.Generator().manual_seed(0)
    hidden = size * torch.randn(rows, D_MODEL, generator=generator)
    weight = torch.randn(VOCABULARY, D_MODEL, generator=generator)
    targets = torch.randint(VOCABULARY, (ROWS,), generator=generator)
    return hidden.to(dtype).requires_grad_(), weight.to(dtype).requires_grad_(), targets


def plain_smoothed(hidden: Tensor, weight: Tensor, targets: Tensor, epsilon: float) -> Tensor:
    return functional.cross_entropy(hidden @ weight.t(), targets, label_smoothing=epsilon, reduction="sum")


def plain_r_drop(hidden: Tensor, weight: Tensor, targets: Tensor, epsilon: float, alpha: float) -> Tensor:
    """½ (CE₁ + CE₂) + α/4 (KL(P₁‖P₂) + KL(P₂‖P₁)), summed over tokens (Liang et al. 2021, eq. 4, halved)."""
    log_p1, log_p2 = (hidden @ weight.t()).log_softmax(-1).chunk(2)
    # torch's kl_div(a, b) is KL(b‖a)
    divergence = functional.kl_div(log_p2, log_p1, log_target=True, reduction="sum") + functional.kl_div(
        log_p1, log_p2, log_target=True, reduction="sum"
    )
    return plain_smoothed(hidden, weight, targets.repeat(2), epsilon) / 2 + alpha / 4 * divergence


def backward(total: Tensor, *inputs: Tensor, scale: float = 1.0) -> list[Tensor]:
    return list(torch.autograd.grad(total * scale, inputs))


@chunked
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_smoothed_cross_entropy_is_torchs(
    chunk_elements: int, epsilon: float, dtype: torch.dtype, tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss, "_LEAST_CHUNK_TOKENS", 1)
    monkeypatch.setattr(loss, "_CHUNK_ELEMENTS", chunk_elements)
    hidden, weight, targets = make(dtype=dtype)
    total, nll = smoothed_cross_entropy(hidden, weight, targets, epsilon)
    expected = plain_smoothed(hidden, weight, targets, epsilon)
    assert total.dtype == nll.dtype == dtype
    assert_close(total, expected, rtol=tolerance, atol=tolerance)
    assert_close(nll, plain_smoothed(hidden, weight, targets, 0.0).detach(), rtol=tolerance, atol=tolerance)
    assert not nll.requires_grad
    found, wanted = (backward(part, hidden, weight, scale=1 / 3) for part in (total, expected))
    assert_close(found, wanted, rtol=tolerance, atol=10 * tolerance)


@chunked
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("alpha", [0.0, 0.5, 5.0])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 3e-5)])
def test_r_drop_is_its_formula(
    chunk_elements: int,
    epsilon: float,
    alpha: float,
    dtype: torch.dtype,
    tolerance: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loss, "_LEAST_CHUNK_TOKENS", 1)
    monkeypatch.setattr(loss, "_CHUNK_ELEMENTS", 3 * chunk_elements)
    hidden, weight, targets = make(rows=2 * ROWS, dtype=dtype)
    total, nll = r_drop_cross_entropy(hidden, weight, targets, epsilon, alpha)
    expected = plain_r_drop(hidden, weight, targets, epsilon, alpha)
    assert_close(total, expected, rtol=tolerance, atol=tolerance)
    assert_close(nll, plain_r_drop(hidden, weight, targets, 0.0, 0.0).detach(), rtol=tolerance, atol=tolerance)
    found, wanted = (backward(part, hidden, weight, scale=0.3) for part in (total, expected))
    assert_close(found, wanted, rtol=tolerance, atol=30 * tolerance)


def test_gradients_are_those_of_the_function_itself() -> None:
    hidden, weight, targets = make(rows=2 * ROWS)
    assert torch.autograd.gradcheck(
        lambda h, w: smoothed_cross_entropy(h, w, targets.repeat(2), 0.1)[0], (hidden, weight), fast_mode=True
    )
    assert torch.autograd.gradcheck(
        lambda h, w: r_drop_cross_entropy(h, w, targets, 0.1, 3.0)[0], (hidden, weight), fast_mode=True
    )


def test_r_drop_of_two_equal_passes_is_the_plain_loss() -> None:
    hidden, weight, targets = make()
    double = hidden.detach().repeat(2, 1)
    total, nll = r_drop_cross_entropy(double, weight, targets, 0.1, alpha=5.0)
    assert_close((total, nll), smoothed_cross_entropy(hidden, weight, targets, 0.1))


def test_perfect_and_hopeless_predictions_stay_finite() -> None:
    """With logits in the thousands, the loss of a certain and right prediction is 0, of a wrong one its margin."""
    weight = torch.eye(4).requires_grad_()
    hidden = (5000 * torch.eye(4)[:1]).requires_grad_()
    right, _ = smoothed_cross_entropy(hidden, weight, torch.tensor([0]), 0.0)
    wrong, _ = smoothed_cross_entropy(hidden, weight, torch.tensor([1]), 0.0)
    assert right.item() == 0.0
    assert wrong.item() == 5000.0
    assert all(g.isfinite().all() for g in backward(right + wrong, hidden, weight))


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_a_uniform_prediction_costs_the_logarithm_of_the_vocabulary(epsilon: float) -> None:
    hidden, weight, targets = make()
    total, nll = smoothed_cross_entropy(torch.zeros_like(hidden), weight, targets, epsilon)
    assert total.item() == pytest.approx(ROWS * math.log(VOCABULARY))
    assert nll.item() == pytest.approx(ROWS * math.log(VOCABULARY))


def test_no_tokens_cost_nothing() -> None:
    hidden, weight, _ = make()
    nothing = torch.empty(0, dtype=torch.long)
    for total, nll in (
        smoothed_cross_entropy(hidden[:0], weight, nothing, 0.1),
        r_drop_cross_entropy(hidden[:0], weight, nothing, 0.1, 1.0),
    ):
        assert total.item() == nll.item() == 0.0
        assert all(g.eq(0).all() for g in backward(total, hidden, weight))


def bfloat16_case() -> tuple[Tensor, Tensor, Tensor]:
    """As in training: bfloat16 hidden states, float32 weights of the embedding's size, normalized states."""
    hidden, weight, targets = make(rows=2 * ROWS)
    half = hidden.detach().bfloat16().requires_grad_()
    return half, (weight.detach() / math.sqrt(D_MODEL)).float().requires_grad_(), targets


@pytest.mark.parametrize("function", ["smoothed", "r_drop"])
def test_bfloat16_is_close_to_float32(function: str) -> None:
    """Logits of a few units have a relative rounding error of 2^-9, so an absolute one of about 0.01."""
    half, weight, targets = bfloat16_case()
    full = half.detach().float().requires_grad_()

    def run(hidden: Tensor) -> tuple[Tensor, Tensor]:
        if function == "smoothed":
            return smoothed_cross_entropy(hidden, weight, targets.repeat(2), 0.1)
        return r_drop_cross_entropy(hidden, weight, targets, 0.1, 1.0)

    total, nll = run(half)
    expected, expected_nll = run(full)
    assert total.dtype == nll.dtype == torch.float32
    assert_close(total, expected, rtol=0.005, atol=0)
    assert_close(nll, expected_nll, rtol=0.005, atol=0)
    to_half, to_weight = backward(total, half, weight)
    to_full, expected_to_weight = backward(expected, full, weight)
    assert to_half.dtype == torch.bfloat16
    assert to_weight.dtype == torch.float32
    for found, wanted in ((to_half.float(), to_full), (to_weight, expected_to_weight)):
        assert (found - wanted).norm() <= 0.02 * wanted.norm()


def test_a_bfloat16_gradient_is_scaled_by_the_exact_scale() -> None:
    """Dividing by 25,001 tokens must not divide by the nearest bfloat16, 25,088."""
    half, weight, targets = bfloat16_case()
    total, _ = smoothed_cross_entropy(half, weight, targets.repeat(2), 0.1)
    (whole,) = torch.autograd.grad(total, half, retain_graph=True)
    (divided,) = torch.autograd.grad(total / 25_001, half)
    assert torch.equal(divided, (whole.double() / 25_001).bfloat16())


class Largest(TorchDispatchMode):
    """Records the number of elements of the largest result of any operation."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        sizes = [leaf.numel() for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        self.elements = max(self.elements, *sizes, 0)
        return result


@pytest.mark.parametrize("function", ["smoothed", "r_drop"])
def test_no_vocabulary_sized_tensor_exists(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No tensor of forward and backward pass is larger than a chunk, the weight or the hidden states."""
    chunk = 1000
    monkeypatch.setattr(loss, "_LEAST_CHUNK_TOKENS", 1)
    monkeypatch.setattr(loss, "_CHUNK_ELEMENTS", chunk)
    hidden, weight, targets = make(rows=2 * ROWS, dtype=torch.float32)
    limit = max(chunk, weight.numel(), hidden.numel())
    assert limit < ROWS * VOCABULARY

    def run(plain: bool) -> int:
        with Largest() as seen:
            if function == "smoothed":
                arguments = (hidden, weight, targets.repeat(2), 0.1)
                total = plain_smoothed(*arguments) if plain else smoothed_cross_entropy(*arguments)[0]
            else:
                total = (
                    plain_r_drop(hidden, weight, targets, 0.1, 1.0)
                    if plain
                    else r_drop_cross_entropy(hidden, weight, targets, 0.1, 1.0)[0]
                )
            total.backward()
        return seen.elements

    assert run(plain=False) <= limit
    assert run(plain=True) >= 2 * ROWS * VOCABULARY


def test_what_is_kept_for_the_backward_pass_is_the_two_gradients() -> None:
    hidden, weight, targets = make(dtype=torch.float32)
    kept: list[torch.Size] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.shape) or t, lambda t: t):
        smoothed_cross_entropy(hidden, weight, targets, 0.1)
    assert kept == [hidden.shape, weight.shape]


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_without_gradients_the_value_is_the_same(epsilon: float) -> None:
    hidden, weight, targets = make()
    total, nll = smoothed_cross_entropy(hidden, weight, targets, epsilon)
    with torch.no_grad():
        quick_total, quick_nll = smoothed_cross_entropy(hidden, weight, targets, epsilon)
    assert torch.equal(quick_total, total)
    assert torch.equal(quick_nll, nll)
    assert not quick_total.requires_grad


def test_a_second_derivative_is_refused_rather_than_wrong() -> None:
    hidden, weight, targets = make()
    for total in (
        smoothed_cross_entropy(hidden, weight, targets, 0.1)[0],
        r_drop_cross_entropy(hidden.repeat(2, 1), weight, targets, 0.1, 1.0)[0],
    ):
        (first,) = torch.autograd.grad(total.square(), hidden, create_graph=True)
        with pytest.raises(RuntimeError, match="once_differentiable"):
            first.sum().backward()


def test_a_chunk_is_not_so_short_that_adding_up_outweighs_it() -> None:
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert [part.stop - part.start for part in loss._chunks(1200, 64_000, cpu)] == [512, 512, 176]
    assert loss._chunks(1200, 64_000, cpu, multiple=3)[0] == slice(0, 512 // 3)
    assert [part.stop - part.start for part in loss._chunks(1200, 5_000, cpu)] == [1000, 200]
    assert loss._chunks(1200, 64_000, gpu) == [slice(0, 1200)]


LOWEST = torch.finfo(torch.float32).min


def random_logits(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), requires_grad=True)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_the_loss_of_choices_is_torchs(smoothing: float) -> None:
    logits, targets = random_logits(7, 5), torch.tensor([0, 1, 2, 3, 4, 0, 1])
    loss = choice_loss(logits, targets, smoothing)
    expected = functional.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")
    assert_close(loss.total, expected)
    assert_close(loss.nll, functional.cross_entropy(logits, targets, reduction="sum").detach())
    assert loss.count == 7


def test_options_that_cannot_be_chosen_take_no_part_in_smoothing() -> None:
    logits, targets = random_logits(4, 3), torch.tensor([0, 2, 1, 1])
    padded = torch.cat([logits, torch.full((4, 2), LOWEST)], dim=1)
    assert_close(choice_loss(padded, targets, 0.3).total, choice_loss(logits, targets, 0.3).total)
    gradient = torch.autograd.grad(choice_loss(padded, targets, 0.3).total, logits)[0]
    assert_close(gradient, torch.autograd.grad(choice_loss(logits, targets, 0.3).total, logits)[0])


def test_r_drop_of_choices_is_its_formula() -> None:
    first, second, targets = (
        random_logits(6, 4),
        random_logits(6, 4, seed=1),
        torch.tensor([0, 1, 2, 3, 0, 1]),
    )
    p, q = (logits.log_softmax(-1) for logits in (first, second))
    divergence = functional.kl_div(p, q, log_target=True, reduction="sum")
    divergence = divergence + functional.kl_div(q, p, log_target=True, reduction="sum")
    entropies = [functional.cross_entropy(x, targets, reduction="sum") for x in (first, second)]
    expected = sum(entropies) / 2 + 1.7 / 4 * divergence
    assert_close(choice_loss(first, targets, other=second, r_drop=1.7).total, expected)
    assert_close(choice_loss(first, targets, other=first, r_drop=1.7).total, entropies[0])
