"""Interventions applied to a private copy of a model, and undone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from queue import Empty, LifoQueue
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from headwise.analysis.interventions import sublayers
from headwise.analysis.interventions.notation import LAYERS, PARTS, Intervention, Part
from headwise.analysis.interventions.weights import CHANGES
from headwise.errors import ConfigError
from headwise.nn.attention import attention_kind, attention_weights
from headwise.nn.multihead import MultiHeadAttention, Probe, Probed
from headwise.nn.recording import private_copy

Model = TypeVar("Model", bound=nn.Module)


def attention_parts(model: nn.Module) -> dict[Part, list[Probed]]:
    """Return a model's attention modules by part, in the order of their layers; a missing part has an empty list."""
    attentions: dict[Part, list[Probed]] = {part: [] for part in PARTS}
    for name, module in model.named_modules():
        if isinstance(module, Probed):
            attentions[part_of(name)].append(module)
    return attentions


def part_of(name: str) -> Part:
    """Return the part that an attention module belongs to, by its name, such as `decoder.0.cross_attention`."""
    if name.endswith("cross_attention"):
        return "cross"
    return sublayers.part_of(name)


def heads_of(attention: Probed) -> int:
    """Return the number of heads of an attention module; attention that isn't multi-head counts as one head."""
    return attention.heads if isinstance(attention, MultiHeadAttention) else 1


class Copies(Generic[Model]):
    """A trained model, and private copies of it, which share its parameters and are lent to one request each."""

    def __init__(self, trained: Model) -> None:
        self.trained = trained
        self._idle: LifoQueue[Model] = LifoQueue()

    @contextmanager
    def lent(self) -> Iterator[Model]:
        """Context manager that gives a copy."""
        try:
            copy = self._idle.get_nowait()
        except Empty:
            copy = private_copy(self.trained)
        try:
            yield copy
        finally:
            self._idle.put(copy)


@contextmanager
def intervening(model: nn.Module, interventions: Sequence[Intervention]) -> Iterator[None]:
    """Context manager that applies interventions to the model, in the order given.

    The model must be a private copy (`private_copy`). Probes set earlier are called first; everything is restored on
    exit. A checkpoint and interventions on the output are `Tracer`'s. Raises `ConfigError` for a head or layer that the
    model doesn't have, and for one that has no such part.
    """
    changes = sublayers.Changes()
    try:
        for intervention in interventions:
            if intervention.of_heads:
                for attention in _selected(attention_parts(model), intervention):
                    changes.set(attention, "probe", _probe(intervention, attention))
            elif intervention.kind in LAYERS:
                _change_layers(model, intervention, changes)
        yield
    finally:
        changes.undo()


def require_no_translation(interventions: Sequence[Intervention]) -> None:
    """Raise `ConfigError` for an intervention that only translation runs have: on the output, or of a checkpoint."""
    for change in interventions:
        if change.kind in ("prefix", "word", "checkpoint"):
            raise ConfigError(f"intervention {str(change)!r}: expected a translation run, found another")


def _change_layers(model: nn.Module, intervention: Intervention, changes: sublayers.Changes) -> None:
    """Apply an intervention on layers or on a whole part."""
    kind, number = intervention.kind, intervention.layer
    layers = sublayers.layers_of(model)
    parts: list[sublayers.Stack] = [part for part in layers if intervention.part in (None, part)]
    if not any(layers[part] for part in parts):
        raise _refused(intervention, f"a Transformer with {intervention.part or 'layers'}", "another model")
    most = max(len(layers[part]) for part in parts)
    if number is not None and number >= most:
        raise _refused(intervention, f"a layer from 1 to {most}", str(number + 1))
    within = [
        name for part in parts for name in (layers[part] if number is None else layers[part][number : number + 1])
    ]
    if kind == "no-residual":
        sublayers.remove_residuals(model, within, changes)
    elif kind == "no-norm":
        sublayers.remove_normalization(model, within, changes, parts if number is None else [])
    elif kind == "no-ffn":
        sublayers.remove_feed_forward(model, within, changes)
    elif kind == "no-mask":
        sublayers.remove_causal_mask(model, within, changes)
    for part in parts:
        if kind == "no-positions":
            sublayers.remove_positions(model, part, changes)
        elif kind == "shuffle-positions":
            if not sublayers.has_table(model):
                raise _refused(intervention, "positions added to the embeddings", "others, or none")
            sublayers.shuffle_positions(model, part, intervention.amount or 0, changes)


def _refused(intervention: Intervention, expected: str, found: str) -> ConfigError:
    return ConfigError(f"intervention {str(intervention)!r}: expected {expected}, found {found}")


def _selected(parts: dict[Part, list[Probed]], intervention: Intervention) -> list[Probed]:
    """Return the attention modules that an intervention on heads concerns."""
    part, number = intervention.part, intervention.layer
    chosen = {name: found for name, found in parts.items() if found and part in (None, name)}
    if not chosen:
        name = {None: "attention", "cross": "cross-attention"}.get(part, f"{part} self-attention")
        raise _refused(intervention, f"a model with {name}", "none in it")
    layers = max(map(len, chosen.values()))
    heads = max(heads_of(found[0]) for found in chosen.values())
    for what, index, count in (("layer", number, layers), ("head", intervention.head, heads)):
        if index is not None and index >= count:
            raise _refused(intervention, f"a {what} from 1 to {count}", str(index + 1))
    return [attention for found in chosen.values() for layer, attention in enumerate(found) if number in (None, layer)]


def _probe(intervention: Intervention, attention: Probed) -> Probe:
    kind, head, earlier = intervention.kind, intervention.head, attention.probe
    change, amount = CHANGES[kind], None if intervention.amount is None else float(intervention.amount)
    if kind in ("no-scaling", "temperature"):
        amount = _temperature(intervention, attention)

    def probe(weights: Tensor, mask: Tensor | None) -> Tensor:
        weights = (weights if earlier is None else earlier(weights, mask)).clone()
        unmasked = torch.ones_like(weights, dtype=torch.bool) if mask is None else mask.expand_as(weights)
        for number in range(weights.size(1)):
            if (head is None or number == head) != (kind == "only"):
                weights[:, number] = change(weights[:, number], unmasked[:, number], amount)
        return weights

    return probe


def _temperature(intervention: Intervention, attention: Probed) -> float:
    """Return the temperature at which softmax(QKᵀ / √d_k) is what the intervention wants; raises `ConfigError`."""
    multihead = isinstance(attention, MultiHeadAttention)
    if multihead and attention_kind(attention.kind).weights is not attention_weights:
        raise _refused(intervention, "softmax(QKᵀ/√d_k) attention", attention.kind)
    if intervention.temperature is not None:
        return intervention.temperature
    if not multihead:
        raise _refused(intervention, "a Transformer's multi-head attention", "one without √d_k")
    if attention.positions is not None and "bias" in attention.positions.needs:
        raise _refused(intervention, "scores without a position bias", f"positions={attention.positions.name}")
    return attention.key_size**-0.5
