"""The steps of a feed-forward network (section 3.3)."""

from __future__ import annotations

import torch

from headwise.analysis.boxes.places import Place
from headwise.analysis.boxes.recording import Recorded
from headwise.analysis.boxes.steps import Step, Vector, floats

LARGEST = 10  # units that are named
FORMULAS = {
    "relu": "max(0, {})",
    "gelu": "{} · Φ({})",
    "gelu_tanh": "{} · Φ({}), Φ approximated by tanh",
    "silu": "{} · sigmoid({})",
}


def feed_forward_steps(recorded: Recorded, place: Place, position: int) -> list[Step]:
    """Return x → pre-activation → activation (→ gate) → output, and the units with the largest values."""
    config, name = recorded.structure.config, place.module
    if name in recorded.off:
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
        steps += [
            Step(config.activation, f"a = {formula}", "The activation of each unit.", (pre, a)),
            Step(
                "gate",
                f"h = a · (x V{bias[1]})",
                f"Each unit is multiplied by its gate, another product with x. {share}.",
                (a, Vector("gate", floats(gate)), Vector("h", floats(hidden))),
                facts=facts,
            ),
        ]
    else:
        steps.append(
            Step(
                config.activation,
                f"h = {formula}",
                f"{share}.",
                (pre, Vector("h", floats(hidden))),
                facts=facts,
            )
        )
    result = Vector("FFN(x)", floats(output.returned[position]))
    last = Step(
        "W_2",
        f"FFN(x) = h W_2{bias[2]}",
        f"The units' values weigh the rows of W₂, whose sum has {len(result.values)} numbers again.",
        (Vector("h", floats(hidden)), result),
    )
    return [*steps, _units(recorded, place, position), last]


def _units(recorded: Recorded, place: Place, position: int) -> Step:
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
