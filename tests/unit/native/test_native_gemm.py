"""The native library's matrix products: those of torch in every layout, with any number of threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.testing import assert_close

from headwise.config import ModelConfig
from headwise.models.transformer import Transformer
from headwise.native.library import Library
from headwise.nn.linear import linear, use_gemm
from headwise.nn.native_gemm import NativeGemm
from headwise.training.loss import r_drop_cross_entropy, smoothed_cross_entropy
from native_engines import compiled

pytestmark = compiled


@pytest.fixture(scope="module")
def products(library: Library) -> NativeGemm:
    return NativeGemm(library)


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def make(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def close(found: Tensor, exact: Tensor) -> None:
    """Compare with a result in float64: relative to its norm, by 1e-6, and each element by 1e-5 of the largest."""
    difference = found.double() - exact
    assert difference.norm() <= 1e-6 * exact.norm()
    assert difference.abs().max() <= 1e-5 * exact.abs().max()


def gradients(x: Tensor, weight: Tensor, bias: Tensor | None, gradient: Tensor) -> list[Tensor]:
    """Return the result of `linear` and its gradients."""
    inputs = [t.detach().requires_grad_() for t in (x, weight, bias) if t is not None]
    result = linear(inputs[0], inputs[1], inputs[2] if bias is not None else None)
    return [result.detach(), *torch.autograd.grad(result, inputs, gradient)]


def exact_gradients(x: Tensor, weight: Tensor, bias: Tensor | None, gradient: Tensor) -> list[Tensor]:
    """Return torch's own result and gradients in float64."""
    inputs = [t.double().detach().requires_grad_() for t in (x, weight, bias) if t is not None]
    result = functional.linear(*inputs)
    return [result.detach(), *torch.autograd.grad(result, inputs, gradient.double())]


# Widths around the tiles' 16 to 64, and more than the blocks' 256 inputs and 1,024 outputs.
SHAPES = [(1, 1, 1), (5, 7, 3), (6, 16, 64), (97, 130, 63), (40, 600, 65), (13, 30, 2100), (700, 33, 17)]


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize(("rows", "inputs", "outputs"), SHAPES)
def test_products_are_torchs(products: NativeGemm, rows: int, inputs: int, outputs: int, with_bias: bool) -> None:
    x, weight = make(rows, inputs), make(outputs, inputs, seed=1)
    bias = make(outputs, seed=2) if with_bias else None
    gradient = make(rows, outputs, seed=3)
    with use_gemm(products):
        found = gradients(x, weight, bias, gradient)
    for ours, exact in zip(found, exact_gradients(x, weight, bias, gradient), strict=True):
        close(ours, exact)


LAYOUTS = {
    "contiguous": lambda t: t,
    "transposed": lambda t: t.transpose(0, 1).contiguous().transpose(0, 1),
    "a part": lambda t: torch.cat([t, t], dim=-1)[..., : t.size(-1)],
    "every second": lambda t: t.repeat_interleave(2, dim=-1)[..., ::2],
    "one row": lambda t: t[:1].expand_as(t),
    "one number": lambda t: t.flatten()[0].expand_as(t),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_layout(products: NativeGemm, layout: str) -> None:
    change: Any = LAYOUTS[layout]
    x, weight = change(make(3, 11, 40)), change(make(70, 40, seed=1))
    gradient = change(make(3, 11, 70, seed=3))
    with use_gemm(products):
        found = gradients(x, weight, None, gradient)
    for ours, exact in zip(found, exact_gradients(x, weight, None, gradient), strict=True):
        close(ours, exact)
    total = make(70, 40, seed=4)
    expected = total.double() + gradient.flatten(0, 1).double().t() @ x.flatten(0, 1).double()
    products.add_weight_gradient(total, gradient.flatten(0, 1), x.flatten(0, 1))
    close(total, expected)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(("rows", "inputs", "outputs"), [(97, 300, 63), (5, 40, 2100), (1, 3, 1)])
def test_the_number_of_threads_does_not_change_a_bit(
    products: NativeGemm, rows: int, inputs: int, outputs: int
) -> None:
    x, weight, gradient = make(rows, inputs), make(outputs, inputs, seed=1), make(rows, outputs, seed=2)
    results = []
    for count in (1, 2, 5):
        torch.set_num_threads(count)
        with use_gemm(products):
            results.append(gradients(x, weight, None, gradient))
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert torch.equal(a, b)


def test_values_that_are_not_finite_show(products: NativeGemm) -> None:
    x, weight = make(20, 30), make(40, 30, seed=1)
    x[3, 5], x[4, 6] = float("nan"), float("inf")
    result = products.forward(x, weight)
    assert result[3].isnan().all()
    assert not result[4].isfinite().any()
    assert result[5:].isfinite().all()


@pytest.mark.parametrize(
    ("shape", "dtype"), [((0, 8), torch.float32), ((5, 8), torch.float64), ((5, 8), torch.bfloat16)]
)
def test_torch_computes_other_dtypes_and_nothing(
    shape: tuple[int, int], dtype: torch.dtype, products: NativeGemm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NativeGemm, "forward", None)
    x, weight = make(*shape).to(dtype), make(6, 8).to(dtype)
    with use_gemm(products):
        assert torch.equal(linear(x, weight), functional.linear(x, weight))


def test_only_the_block_uses_them(products: NativeGemm, monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = make(5, 8).requires_grad_(), make(6, 8)
    with use_gemm(products):
        inside = linear(x, weight)
    assert type(inside.grad_fn).__name__ == "_LinearFunctionBackward"
    close(torch.autograd.grad(inside.sum(), x)[0], weight.double().sum(0).expand(5, 8))
    monkeypatch.setattr(NativeGemm, "forward", None)
    assert torch.equal(linear(x, weight), functional.linear(x, weight))


@pytest.mark.parametrize("r_drop", [False, True])
def test_the_loss_is_the_same(products: NativeGemm, r_drop: bool) -> None:
    targets = torch.randint(90, (24,), generator=torch.Generator().manual_seed(5))

    def loss() -> list[Tensor]:
        hidden = make(48 if r_drop else 24, 16).requires_grad_()
        weight = make(90, 16, seed=1).requires_grad_()
        if r_drop:
            total, nll = r_drop_cross_entropy(hidden, weight, targets, 0.1, 4.0)
        else:
            total, nll = smoothed_cross_entropy(hidden, weight, targets, 0.1)
        return [total.detach(), nll, *torch.autograd.grad(total, [hidden, weight])]

    expected = loss()
    with use_gemm(products):
        found = loss()
    for ours, theirs in zip(found, expected, strict=True):
        assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_a_model_has_the_same_gradients(products: NativeGemm) -> None:
    torch.manual_seed(1)
    changes = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 32, "d_ff": 48, "heads": 4}
    config = ModelConfig.model_validate(changes | {"dropout": 0.0, "attention_dropout": 0.0})
    model = Transformer(config, 50, 50)
    source = torch.randint(4, 50, (3, 7))

    def step() -> dict[str, Tensor]:
        model.zero_grad()
        hidden = model(source, source > 0, source)
        smoothed_cross_entropy(hidden.flatten(0, 1), model.output_weight, source.flatten(), 0.1)[0].backward()
        return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}

    expected = step()
    with use_gemm(products):
        found = step()
    assert found.keys() == expected.keys()
    for name, gradient in found.items():
        assert_close(gradient, expected[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"a": None}, "expected two factors, found none"),
        ({"b": None}, "expected two factors, found none"),
        ({"c": None}, "expected room for the product, found none"),
        ({"rows": -1}, "expected rows of a product from 0 to"),
        ({"columns": 2**30}, "expected columns of a product from 0 to"),
        ({"depth": -5}, "expected terms of a product from 0 to"),
        ({"c_row": 7}, "rows of the product that don't overlap"),
        ({"add": 1}, "expected a bias or a sum, found both"),
        ({"threads": 0}, "expected threads from 1 to"),
    ],
)
def test_arguments_that_can_not_be(library: Library, changes: dict[str, Any], sentence: str) -> None:
    place = (room := torch.ones(64)).data_ptr()
    arguments = {
        **{"a": place, "a_row": 8, "a_column": 1, "b": place, "b_row": 8, "b_column": 1},
        **{"bias": place, "c": torch.empty(64).data_ptr(), "c_row": 8},
        **{"rows": 8, "columns": 8, "depth": 8, "add": 0, "threads": 1},
    }
    with pytest.raises(ValueError, match=sentence):
        library.call("product", *(arguments | changes).values())
    assert room.eq(1).all()


def test_a_product_without_terms(library: Library) -> None:
    bias, result = make(8), make(4, 8, seed=1)
    kept = result.clone()
    factors = (result.data_ptr(), 8, 1) * 2
    library.call("product", *factors, None, result.data_ptr(), 8, 4, 8, 0, 1, 1)
    assert torch.equal(result, kept)
    library.call("product", *factors, bias.data_ptr(), result.data_ptr(), 8, 4, 8, 0, 0, 1)
    assert torch.equal(result, bias.expand(4, 8))
