"""The steps of a layer besides attention: residual connection and normalization around a sub-layer (section 3.1, Ba et
al. 2016), and the feed-forward network (section 3.3).
"""

from __future__ import annotations

import torch
from torch import Tensor

from headwise.analysis.boxes.steps import Step, Vector, floats
from headwise.analysis.boxes.structure import BoxPlace
from headwise.analysis.boxes.tensors import BoxTensors
from headwise.nn.layers import LayerNorm, RMSNorm


def add_norm_steps(recorded: BoxTensors, place: BoxPlace, position: int) -> list[Step]:
    """Return post-norm's Norm(x + Sublayer(x))."""
    return [*add_steps(recorded, place, position), *norm_steps(recorded, place, position)]


def add_steps(recorded: BoxTensors, place: BoxPlace, position: int) -> list[Step]:
    """Return x + Sublayer(x), or Sublayer(x) alone where the residual connection is switched off."""
    x, y = recorded.residual(place)[position], recorded.written(place)[position]
    total = recorded.added(place)[position]
    lengths = [f"{float(vector.norm()):.3f}" for vector in (y, x, total)]
    normalized = place.kind == "add" and place.norm not in recorded.forward.off
    sub_layer = Vector(f"Sublayer({'Norm(x)' if normalized else 'x'})", floats(y))
    vectors = (Vector("x", floats(x)), sub_layer, Vector("s", floats(total)))
    if place.around in recorded.forward.off:
        sentence = (
            f"The residual connection is switched off: what the sub-layer returned, of length {lengths[0]}, takes "
            f"the place of x, of length {lengths[1]}."
        )
        return [Step("no +", f"s = {sub_layer.label}", sentence, vectors)]
    sentence = (
        f"The residual connection adds what the sub-layer returned, of length {lengths[0]}, to x, of length "
        f"{lengths[1]}. The sum has length {lengths[2]}."
    )
    return [Step("+", f"s = x + {sub_layer.label}", sentence, vectors)]


def norm_steps(recorded: BoxTensors, place: BoxPlace, position: int) -> list[Step]:
    """Return the normalization of one position: its mean and variance, then gain and bias."""
    return normalization_steps(recorded, place.norm, position, "s" if place.kind == "add-norm" else "x")


def normalization_steps(recorded: BoxTensors, module_name: str, position: int, name: str) -> list[Step]:
    """Return the steps of a normalization, by its module; `name` is its input's."""
    call = recorded.call(module_name)
    s, out = call.given[position].double(), call.returned[position]
    module = recorded.structure.model.get_submodule(module_name)
    epsilon = recorded.structure.config.norm_epsilon
    before = Vector(name, floats(s))
    mean, variance = float(s.mean()), float(s.var(correction=0))
    if module_name in recorded.forward.off:
        what = "LayerNorm" if isinstance(module, LayerNorm) else "RMSNorm"
        facts = {"mean": mean, "variance": variance}
        sentence = f"{what} is switched off, so that its input is handed on: mean {mean:.4f}, variance {variance:.4f}."
        return [Step("no norm", f"out = {name}", sentence, (before, Vector("out", floats(out))), facts=facts)]
    if isinstance(module, RMSNorm):
        square = float((s**2).mean())
        root = (square + epsilon) ** 0.5
        normalized = s / root
        step = Step(
            "mean square",
            f"n = {name} / √(mean {name}^2 + ε)",
            f"The mean of the {len(s)} squares is {square:.4f}. RMSNorm divides by its root, {root:.4f}; it subtracts "
            "no mean.",
            (before, Vector("n", floats(normalized))),
            facts={"mean square": square, "ε": epsilon, "mean square after": float((normalized**2).mean())},
        )
    else:
        assert isinstance(module, LayerNorm)
        normalized = (s - mean) / (variance + epsilon) ** 0.5
        step = Step(
            "mean, variance",
            f"n = ({name} − μ) / √(σ^2 + ε)",
            f"The {len(s)} numbers have mean {mean:.4f} and variance {variance:.4f}. Without the mean, and divided by "
            f"√{variance + epsilon:.4f} = {(variance + epsilon) ** 0.5:.4f}, they have mean 0 and variance 1.",
            (before, Vector("n", floats(normalized))),
            facts={
                "mean": mean,
                "variance": variance,
                "ε": epsilon,
                "mean after": round(float(normalized.mean()), 9) + 0.0,  # without the rounding errors
                "variance after": float(normalized.var(correction=0)),
            },
        )
    return [step, _gain(module, normalized, out)]


def _gain(module: LayerNorm | RMSNorm, normalized: Tensor, out: Tensor) -> Step:
    assert module.weight is not None
    vectors = [Vector("n", floats(normalized)), Vector("γ", floats(module.weight.detach().float().cpu()))]
    name, formula, sentence = "γ", "out = γ n", "Each dimension has a learned gain γ."
    if isinstance(module, LayerNorm):
        vectors.append(Vector("β", floats(module.bias.detach().float().cpu())))
        name, formula, sentence = "γ, β", "out = γ n + β", "Each dimension has a learned gain γ and bias β."
    vectors.append(Vector("out", floats(out)))
    facts = {"mean of the result": float(out.mean()), "variance of the result": float(out.var(correction=0))}
    return Step(name, formula, sentence, tuple(vectors), facts=facts)


LARGEST = 10  # units that are named
FORMULAS = {
    "relu": "max(0, {})",
    "gelu": "{} · Φ({})",
    "gelu_tanh": "{} · Φ({}), Φ approximated by tanh",
    "silu": "{} · sigmoid({})",
}


def feed_forward_steps(recorded: BoxTensors, place: BoxPlace, position: int) -> list[Step]:
    """Return x → pre-activation → activation (→ gate) → output, and the units with the largest values."""
    config, name = recorded.structure.config, place.module
    if name in recorded.forward.off:
        vectors = (
            Vector("x", floats(recorded.read(place)[position])),
            Vector("FFN(x)", floats(recorded.written(place)[position])),
        )
        return [Step("no FFN", "FFN(x) = 0", "The feed-forward network is switched off.", vectors)]
    bias = (" + b_1", " + c", " + b_2") if config.feed_forward_bias else ("", "", "")
    call = recorded.call(f"{name}.w1")
    x, pre = Vector("x", floats(call.given[position])), Vector("z", floats(call.returned[position]))
    output = recorded.call(f"{name}.w2")
    hidden = output.given[position]
    h = Vector("h", floats(hidden))
    first = Step(
        "W_1",
        f"z = x W_1{bias[0]}",
        f"{len(x.values)} numbers become {len(pre.values)} pre-activations, one per unit; "
        f"{int((pre.values > 0).sum())} of them are positive.",
        (x, pre),
    )
    formula = FORMULAS[config.activation].replace("{}", "z")
    zeros, units = int((hidden == 0).sum()), len(hidden)
    share = f"{zeros} of {units} units are 0 ({zeros / units:.0%})"
    facts = {"units": units, "units that are 0": zeros, "share that is 0": zeros / units}
    steps = [first]
    if config.gated:
        gate = recorded.call(f"{name}.gate").returned[position]
        activated = recorded.structure.model.get_submodule(name).activation(call.returned[position])  # type: ignore[operator]
        a = Vector("a", floats(activated))
        sentence = f"Each unit is multiplied by its gate, another product with x. {share}."
        steps += [
            Step(config.activation, f"a = {formula}", "The activation of each unit.", (pre, a)),
            Step("gate", f"h = a · (x V{bias[1]})", sentence, (a, Vector("gate", floats(gate)), h), facts=facts),
        ]
    else:
        steps.append(Step(config.activation, f"h = {formula}", f"{share}.", (pre, h), facts=facts))
    result = Vector("FFN(x)", floats(output.returned[position]))
    last = Step(
        "W_2",
        f"FFN(x) = h W_2{bias[2]}",
        f"The units' values weigh the rows of W₂, whose sum has {len(result.values)} numbers again.",
        (h, result),
    )
    return [*steps, _units(recorded, place, position), last]


def _units(recorded: BoxTensors, place: BoxPlace, position: int) -> Step:
    """Name the units with the largest magnitude, with the number of tokens at which each isn't 0."""
    hidden = recorded.call(f"{place.module}.w2").given  # (time, d_ff)
    largest = hidden[position].abs().topk(min(LARGEST, hidden.size(1))).indices
    names = tuple(str(unit + 1) for unit in largest.tolist())
    tokens = (hidden[:, largest] != 0).sum(0)
    anywhere = float((hidden != 0).any(0).float().mean())
    sentence = (
        f"The {len(names)} units with the largest values, and at how many of the {len(hidden)} tokens each isn't 0. "
        f"{anywhere:.0%} of all units aren't 0 at one or more of these tokens."
    )
    return Step(
        "units",
        "h_j, largest first",
        sentence,
        (
            Vector("h_j", floats(hidden[position, largest]), names),
            Vector("tokens", floats(tokens.to(torch.float32)), names),
        ),
    )
