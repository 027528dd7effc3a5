"""One forward pass with forced decoding, of which the inputs and outputs of every module are kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from headwise.analysis.boxes.places import SUB_LAYERS, Place, Stack, transformer
from headwise.analysis.interventions import Intervention
from headwise.analysis.trace import Side
from headwise.analysis.tracer import Tracer
from headwise.decoding.batching import padded
from headwise.errors import ConfigError
from headwise.models.transformer import Transformer
from headwise.nn.multihead import Attended, MultiHeadAttention
from headwise.text.tokens.subwords import BOS, PAD


@dataclass(frozen=True)
class Call:
    """The input and the output of a module for one sentence, (time, features)."""

    given: Tensor
    returned: Tensor


@dataclass(frozen=True)
class Recorded:
    """One forward pass over a sentence pair.

    Attributes:
        model: for its parameters.
        sides: the tokens that each stack reads.
        target: the tokens that the decoder predicts.
        calls: by the module's dotted name; the input embedding has one call per stack.
        attended: the intermediate tensors of each multi-head attention, by its dotted name.
        logits: (target, vocabulary).
    """

    model: Transformer
    sides: dict[Stack, Side]
    target: Side
    logits: Tensor
    calls: dict[str, list[Call]] = field(default_factory=dict)
    attended: dict[str, Attended] = field(default_factory=dict)

    def call(self, name: str) -> Call:
        """Return the only call of a module."""
        (call,) = self.calls[name]
        return call

    def embedded(self, stack: Stack) -> Call:
        """Return the call of the input embedding: embeddings to the input of the first layer."""
        return self.calls["positions"][stack == "decoder"]

    def written(self, place: Place) -> Tensor:
        """Return what a sub-layer adds, (time, d_model)."""
        module = self.model.get_submodule(place.module)
        # Cross-attention isn't called as a module, but its last linear map is.
        name = f"{place.module}.output" if isinstance(module, MultiHeadAttention) else place.module
        return self.call(name).returned

    def read(self, place: Place) -> Tensor:
        """Return the input of a sub-layer, (time, d_model): with pre-norm it is normalized."""
        return self.call(place.norm).returned if self.model.config.norm == "pre" else self.residual(place)

    def residual(self, place: Place) -> Tensor:
        """Return x in x + Sublayer(x), (time, d_model)."""
        assert place.sub_layer is not None
        if self.model.config.norm == "pre":
            return self.call(place.norm).given
        if place.sub_layer == 0:
            return self.call(f"{place.stack}.{place.layer}").given
        return self.call(self._neighbor(place, -1).norm).returned

    def added(self, place: Place) -> Tensor:
        """Return x + Sublayer(x), (time, d_model)."""
        assert place.sub_layer is not None
        if self.model.config.norm == "post":
            return self.call(place.norm).given
        if place.sub_layer + 1 == len(SUB_LAYERS[place.stack]):
            return self.call(f"{place.stack}.{place.layer}").returned
        return self.call(self._neighbor(place, 1).norm).given

    @property
    def memory(self) -> Tensor:
        """The encoder's output, (source, d_model)."""
        return self.call("encoder_norm").returned

    def _neighbor(self, place: Place, by: int) -> Place:
        assert place.sub_layer is not None
        return Place("", place.kind, place.stack, place.layer, place.sub_layer + by)


def record(
    tracer: Tracer, text: str, target: str | Sequence[int], interventions: Sequence[Intervention] = ()
) -> Recorded:
    """Record the forced decoding of `target` (text, or ids as `Forced.target.ids`).

    Raises `ConfigError` for an empty text, a target that `Tracer.target_ids` refuses, and a model that isn't a
    Transformer.
    """
    source, _ = tracer.read(text)
    if len(source.ids) == 1:
        raise ConfigError("expected a text to look into, found an empty one")
    ids = tracer.target_ids(target)
    inputs = (BOS, *ids[:-1])
    original = transformer(tracer.translator.model)
    with tracer.model(interventions) as model, torch.inference_mode():
        device = next(model.parameters()).device
        tokens, mask = padded([source.ids], PAD, device)
        with _recording_modules(model) as (calls, attended):
            hidden = model(tokens, mask, torch.tensor([inputs], device=device))
        logits = model.project(hidden[0]).float().cpu()
    sides: dict[Stack, Side] = {"encoder": source, "decoder": tracer.side(inputs)}
    return Recorded(original, sides, tracer.side(ids), logits, calls, attended)


@contextmanager
def _recording_modules(model: nn.Module) -> Iterator[tuple[dict[str, list[Call]], dict[str, Attended]]]:
    """Record the calls of all modules with one sentence; the model must be a private copy."""
    calls: dict[str, list[Call]] = {}
    attended: dict[str, Attended] = {}

    def after(name: str, module: nn.Module, given: tuple[Any, ...], returned: Any) -> None:
        if given and isinstance(given[0], Tensor) and isinstance(returned, Tensor) and given[0].dim() == 3:
            call = Call(given[0][0].float().cpu(), returned[0].float().cpu())
            calls.setdefault(name, []).append(call)

    def watch(name: str, seen: Attended) -> None:
        attended[name] = seen

    handles = []
    try:
        for name, module in model.named_modules():
            handles.append(module.register_forward_hook(partial(after, name)))
            if isinstance(module, MultiHeadAttention):
                module.watch = partial(watch, name)
        yield calls, attended
    finally:
        for handle in handles:
            handle.remove()
        for module in model.modules():
            if isinstance(module, MultiHeadAttention):
                module.watch = None
