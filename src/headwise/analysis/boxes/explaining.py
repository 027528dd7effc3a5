"""Every box of a Transformer with this model's numbers, for a chosen token and layer."""

from __future__ import annotations

from collections.abc import Sequence

from headwise.analysis.boxes.attention import attention_steps
from headwise.analysis.boxes.feed_forward import feed_forward_steps
from headwise.analysis.boxes.inputs import embedding_steps, position_steps
from headwise.analysis.boxes.outputs import projection_steps, softmax_steps
from headwise.analysis.boxes.places import Place, find_place, transformer
from headwise.analysis.boxes.recording import Recorded, record
from headwise.analysis.boxes.residual import add_norm_steps, add_steps, norm_steps
from headwise.analysis.boxes.steps import Box, Step
from headwise.analysis.interventions import Intervention
from headwise.analysis.tracer import Tracer
from headwise.errors import ConfigError


def explain_box(
    tracer: Tracer,
    text: str,
    target: str | Sequence[int],
    name: str,
    layer: int | None = None,
    position: int = 0,
    *,
    temperature: float = 1.0,
    interventions: Sequence[Intervention] = (),
) -> Box:
    """Compute one box during forced decoding of `target` (text, or ids as `Forced.target.ids`).

    `layer` and `position` count from 0; `temperature` acts in the box `softmax` only. Raises `ConfigError` for a box,
    layer or position that doesn't exist, and for a model that isn't a Transformer.
    """
    find_place(transformer(tracer.translator.model), name, layer)  # fails before the forward pass
    recorded = record(tracer, text, target, interventions)
    return box_of(tracer, recorded, name, layer, position, temperature=temperature)


def box_of(
    tracer: Tracer,
    recorded: Recorded,
    name: str,
    layer: int | None = None,
    position: int = 0,
    *,
    temperature: float = 1.0,
) -> Box:
    """Compute one box of a recorded forward pass; as `explain_box`."""
    place = find_place(recorded.model, name, layer)
    pieces = recorded.sides[place.stack].pieces
    if not 0 <= position < len(pieces):
        raise ConfigError(f"position: expected a number from 1 to {len(pieces)}, found {position + 1}")
    steps = _steps(tracer, recorded, place, position, temperature)
    return Box(place.name, place.title, place.layer, position, pieces, tuple(steps))


def _steps(
    tracer: Tracer, recorded: Recorded, place: Place, position: int, temperature: float
) -> Sequence[Step]:
    if place.kind == "projection":
        return projection_steps(recorded, position, tracer.translator.subwords.target_pieces)
    if place.kind == "softmax":
        return softmax_steps(recorded, position, tracer.translator.subwords.target_pieces, temperature)
    compute = {
        "embedding": embedding_steps,
        "positions": position_steps,
        "attention": attention_steps,
        "feed-forward": feed_forward_steps,
        "add-norm": add_norm_steps,
        "norm": norm_steps,
        "add": add_steps,
    }[place.kind]
    return compute(recorded, place, position)
