"""One forward pass of which the inputs and outputs of every module are kept: of a pair, of one text, of an image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headwise.analysis.boxes.structure import BoxPlace, Row, Stack, StackModules, Structure, structure_of
from headwise.analysis.interventions import Intervention, private_copy
from headwise.analysis.language_models import StackTracer
from headwise.analysis.patches import Maps
from headwise.analysis.trace import Side
from headwise.analysis.tracer import Tracer
from headwise.analysis.viewer import ClassifierViewer
from headwise.decoding.batching import padded
from headwise.errors import ConfigError
from headwise.nn.layers import FeedForward, LayerNorm, Residual, RMSNorm
from headwise.nn.multihead import Attended, MultiHeadAttention
from headwise.nn.positions import AttentionPositions
from headwise.nn.recording import Call, Recording, recording
from headwise.text.tokens.subwords import BOS, PAD


@dataclass(frozen=True)
class Outcome:
    """What the last box chooses from, and what it chose at each row.

    Attributes:
        logits: (rows, size).
        chosen: the tokens, or the class, whose probability is shown.
        what: `chosen` in words.
        names: the tokens, or the classes, of ids.
    """

    logits: Tensor
    chosen: Side
    what: str
    names: Callable[[list[int]], list[str]]


@dataclass(frozen=True)
class Recorded:
    """One forward pass over a pair, a text, or an image.

    Attributes:
        structure: of the model without interventions.
        interventions: those that acted.
        off: dotted names of what interventions switched off (`headwise.analysis.recording`).
        sides: what the rows of boxes are; `pooled` is one vector for all.
        outcome: of the last box.
        recording: what the modules computed; an input embedding that both stacks share has two calls.
    """

    structure: Structure
    interventions: tuple[Intervention, ...]
    off: frozenset[str]
    sides: dict[Row, Side]
    outcome: Outcome
    recording: Recording

    def call(self, name: str) -> Call:
        """Return the only call of a module, its tensors as (time, features)."""
        (call,) = self.recording.calls[name]
        return _of_one_text(call)

    def attended(self, name: str) -> Attended:
        """Return the tensors of an attention that is called once."""
        (attended,) = self.recording.attended[name]
        return attended

    def embedded(self, modules: StackModules) -> Call:
        """Return the call of a stack's input embedding: embeddings to the input of the first layer."""
        calls = self.recording.calls[modules.positions]
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


def record(
    tracer: Tracer | StackTracer,
    text: str,
    target: str | Sequence[int],
    interventions: Sequence[Intervention] = (),
) -> Recorded:
    """Record the forced decoding of `target` (text, or ids as `Forced.target.ids`).

    Raises `ConfigError` for an empty source, a target that the tracer refuses, and a model that isn't a Transformer.
    """
    if isinstance(tracer, StackTracer):
        return _record_text(tracer, text, target, interventions)
    source, _ = tracer.read(text)
    if len(source.ids) == 1:
        raise ConfigError("expected a text to look into, found an empty one")
    ids = tracer.target_ids(target)
    inputs = (BOS, *ids[:-1])
    structure = structure_of(_trained(tracer, interventions))
    with tracer.model(interventions) as model, torch.inference_mode():
        device = next(model.parameters()).device
        tokens, mask = padded([source.ids], PAD, device)
        off = switched_off(structure.model, model)
        with recording(model, calls=True) as recorded:
            hidden = model(tokens, mask, torch.tensor([inputs], device=device))
        logits = model.project(hidden[0]).float().cpu()
    sides: dict[Row, Side] = {"encoder": source, "decoder": tracer.side(inputs)}
    outcome = Outcome(
        logits,
        tracer.side(ids),
        "this translation's token",
        tracer.translator.subwords.target_pieces,
    )
    return Recorded(structure, tuple(interventions), off, sides, outcome, recorded)


def _trained(tracer: Tracer, interventions: Sequence[Intervention]) -> nn.Module:
    """Return the model whose parameters act: of the run, or of the checkpoint that an intervention names."""
    checkpoints = [change for change in interventions if change.kind == "checkpoint"]
    if not checkpoints:
        return tracer.translator.model
    with tracer.model(checkpoints) as model:
        return private_copy(model)


def _record_text(
    tracer: StackTracer, text: str, target: str | Sequence[int], interventions: Sequence[Intervention]
) -> Recorded:
    """Record a model of one text."""
    structure = structure_of(tracer.stack)
    inputs, ids = tracer.forced_ids(text, target)
    with tracer.model(interventions) as model, torch.inference_mode():
        off = switched_off(structure.model, model)
        with recording(model, calls=True) as recorded:
            logits = tracer.logits(model, inputs).float().cpu()
    row: Stack = structure.stacks[0].name
    what = "the next token of this text" if row == "decoder" else "this text's token"
    outcome = Outcome(logits, tracer.side(ids), what, lambda ids: list(map(tracer.vocabulary.piece, ids)))
    sides: dict[Row, Side] = {row: tracer.side(inputs)}
    return Recorded(structure, tuple(interventions), off, sides, outcome, recorded)


def record_image(
    viewer: ClassifierViewer, pixels: Maps, interventions: Sequence[Intervention] = ()
) -> Recorded:
    """Record the classification of an image (channels, height, width), from 0 to 1; raises `ConfigError`."""
    structure = structure_of(viewer.model)
    vision, classes = viewer.vision, viewer.classes
    with viewer.private(interventions) as model, torch.inference_mode():
        off = switched_off(structure.model, model)
        with recording(model, calls=True) as recorded:
            logits = model(viewer.normalized(pixels)[None]).float().cpu()
    rows, columns = vision.grid
    pieces = [f"{row + 1}, {column + 1}" for row in range(rows) for column in range(columns)]
    tokens = pieces if vision.class_token is None else ["class", *pieces]
    best = int(logits[0].argmax())
    outcome = Outcome(
        logits, _named([classes[best]], [best]), "the predicted class", lambda ids: [classes[i] for i in ids]
    )
    sides: dict[Row, Side] = {"encoder": _named(tokens), "pooled": _named(["image"])}
    return Recorded(structure, tuple(interventions), off, sides, outcome, recorded)


def _named(pieces: Sequence[str], ids: Sequence[int] | None = None) -> Side:
    """Return what isn't text as a side: each piece is a word."""
    numbers = tuple(range(len(pieces)))
    return Side(
        " ".join(pieces), numbers if ids is None else tuple(ids), tuple(pieces), tuple(pieces), numbers
    )


def switched_off(trained: nn.Module, model: nn.Module) -> frozenset[str]:
    """Return the dotted names of what acts in a trained model but not in its copy with interventions.

    Normalizations, feed-forward networks, residual connections (also those that the model was trained without),
    positions inside attention, and `NAME.causal` for the causal mask of an attention. (Positions that are added to
    embeddings are in the record of the input embedding.)
    """
    now = dict(model.named_modules(remove_duplicate=False))
    off: set[str] = set()
    for name, module in trained.named_modules(remove_duplicate=False):
        if isinstance(module, LayerNorm | RMSNorm | FeedForward | AttentionPositions):
            if not isinstance(now.get(name), type(module)):
                off.add(name)
        elif isinstance(module, Residual):
            other = now[name]
            if not (isinstance(other, Residual) and other.connected):
                off.add(name)
        elif isinstance(module, MultiHeadAttention):
            other = now[name]
            if module.causal and not (isinstance(other, MultiHeadAttention) and other.causal):
                off.add(f"{name}.causal")
    return frozenset(off)
