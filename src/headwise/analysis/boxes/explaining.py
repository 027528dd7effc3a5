"""Every box of a Transformer with this model's numbers, for a chosen token and layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headwise.analysis.boxes.attention import attention_steps
from headwise.analysis.boxes.feed_forward import feed_forward_steps
from headwise.analysis.boxes.inputs import embedding_steps, patch_steps, position_steps
from headwise.analysis.boxes.outputs import head_steps, pooling_steps, projection_steps, softmax_steps
from headwise.analysis.boxes.places import Kind, Place, find_place
from headwise.analysis.boxes.recording import Recorded, record
from headwise.analysis.boxes.residual import add_norm_steps, add_steps, norm_steps
from headwise.analysis.boxes.steps import Box, Step
from headwise.analysis.boxes.structure import structure_of
from headwise.analysis.interventions import Intervention
from headwise.analysis.single_stack import StackTracer
from headwise.analysis.tracer import Tracer
from headwise.errors import ConfigError


def explain_box(
    tracer: Tracer | StackTracer,
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
    model = tracer.stack if isinstance(tracer, StackTracer) else tracer.translator.model
    find_place(structure_of(model), name, layer)  # fails before the forward pass
    return box_of(record(tracer, text, target, interventions), name, layer, position, temperature=temperature)


def box_of(
    recorded: Recorded, name: str, layer: int | None = None, position: int = 0, *, temperature: float = 1.0
) -> Box:
    """Compute one box of a recorded forward pass; as `explain_box`."""
    place = find_place(recorded.structure, name, layer)
    pieces = recorded.sides[place.row].pieces
    if not 0 <= position < len(pieces):
        raise ConfigError(f"position: expected a number from 1 to {len(pieces)}, found {position + 1}")
    if place.kind == "softmax":
        steps = softmax_steps(recorded, place, position, temperature)
    else:
        steps = _STEPS[place.kind](recorded, place, position)
    return Box(place.name, place.title, place.layer, position, pieces, tuple(steps))


_STEPS: dict[Kind, Callable[[Recorded, Place, int], Sequence[Step]]] = {
    "embedding": embedding_steps,
    "patches": patch_steps,
    "positions": position_steps,
    "attention": attention_steps,
    "feed-forward": feed_forward_steps,
    "add-norm": add_norm_steps,
    "norm": norm_steps,
    "add": add_steps,
    "pooling": pooling_steps,
    "head": head_steps,
    "projection": projection_steps,
}
