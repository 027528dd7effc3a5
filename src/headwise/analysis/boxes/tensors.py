"""What the boxes of a Transformer read and wrote in a recorded forward pass."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from headwise.analysis.boxes.structure import BoxPlace, StackModules, Structure, structure_of
from headwise.analysis.recording import ForwardPass
from headwise.nn.multihead import Attended, MultiHeadAttention
from headwise.nn.recording import Call


@dataclass(frozen=True)
class BoxTensors:
    """The inputs and outputs of boxes in a forward pass; `structure` raises `ConfigError` for a model without boxes."""

    forward: ForwardPass

    @cached_property
    def structure(self) -> Structure:
        """The boxes' modules, in the model without interventions."""
        return structure_of(self.forward.trained)

    def call(self, name: str) -> Call:
        """Return the only call of a module, its tensors as (time, features)."""
        (call,) = self.forward.recording.calls[name]
        return _of_one_text(call)

    def attended(self, name: str) -> Attended:
        """Return the tensors of an attention that is called once."""
        (attended,) = self.forward.recording.attended[name]
        return attended

    def embedded(self, modules: StackModules) -> Call:
        """Return the call of a stack's input embedding: embeddings to the input of the first layer."""
        calls = self.forward.recording.calls[modules.positions]
        return _of_one_text(calls[self.structure.stacks.index(modules) if len(calls) > 1 else 0])

    def written(self, place: BoxPlace) -> Tensor:
        """Return what a sub-layer adds, (time, d_model)."""
        module = self.structure.model.get_submodule(place.module)
        # Cross-attention isn't called as a module, but its last linear map is.
        name = f"{place.module}.output" if isinstance(module, MultiHeadAttention) else place.module
        return self.call(name).returned

    def read(self, place: BoxPlace) -> Tensor:
        """Return the input of a sub-layer, (time, d_model): with pre-norm it is normalized."""
        return self.call(place.norm).returned if self._pre else self.residual(place)

    def residual(self, place: BoxPlace) -> Tensor:
        """Return x in x + Sublayer(x), (time, d_model)."""
        assert place.sub_layer is not None
        if self._pre:
            return self.call(place.norm).given
        if place.sub_layer == 0:
            return self.call(place.of_layer).given
        return self.call(self._neighbor(place, -1).norm).returned

    def added(self, place: BoxPlace) -> Tensor:
        """Return x + Sublayer(x), or what takes its place, (time, d_model)."""
        assert place.sub_layer is not None
        if not self._pre:
            return self.call(place.norm).given
        if place.sub_layer + 1 == len(place.modules.sub_layers):
            return self.call(place.of_layer).returned
        return self.call(self._neighbor(place, 1).norm).given

    def last(self, modules: StackModules) -> Tensor:
        """Return the output of a stack, (time, d_model)."""
        return self.call(modules.norm).returned

    @property
    def logits(self) -> Tensor:
        """The logits (rows, size) that the last box chooses from."""
        return self.forward.logits.cpu()

    @property
    def pooled(self) -> Tensor:
        """The vector of an image that the classifier reads, (1, d_model): the class token's, or the patches' mean."""
        hidden, vision = self.last(self._last_stack), self.structure.vision
        assert vision is not None
        return hidden.mean(0, keepdim=True) if vision.class_token is None else hidden[:1]

    @property
    def hidden(self) -> Tensor:
        """The input of the last linear map, (rows, d_model)."""
        if self.structure.vision is not None:
            return self.pooled
        return self.call("head.norm").returned if self.structure.masked_head else self.last(self._last_stack)

    @property
    def _last_stack(self) -> StackModules:
        return self.structure.stacks[-1]

    @property
    def _pre(self) -> bool:
        return self.structure.config.norm == "pre"

    def _neighbor(self, place: BoxPlace, by: int) -> BoxPlace:
        assert place.sub_layer is not None
        return BoxPlace("", place.kind, place.modules, place.layer, place.sub_layer + by)


def _of_one_text(call: Call) -> Call:
    """Return a call with the only text's tensors, in float32 on the CPU."""
    # A linear map behind the last hidden state has no batch dimension.
    x, y = ((one[0] if one.dim() == 3 else one).float().cpu() for one in (call.given, call.returned))
    return Call(x, y, None if call.table is None else call.table.detach().float().cpu())
