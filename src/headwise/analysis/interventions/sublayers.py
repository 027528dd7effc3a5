"""Parts of a model that are switched off for a while: residual connections, LayerNorm, FFN, positions, causal mask.

The functions change a private copy of a model (`private_copy`) by replacing modules and attributes, never parameters.
`Changes.undo` restores them, so that the model computes the same bits as before.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn

from headwise.analysis.interventions.weights import order
from headwise.models.base import Memory, Seq2Seq, State
from headwise.models.transformer import DecoderLayer, EncoderLayer, InputEmbedding
from headwise.nn.layers import FeedForward, LayerNorm, Residual, RMSNorm
from headwise.nn.multihead import MultiHeadAttention
from headwise.nn.positions import AttentionPositions

_Kind = TypeVar("_Kind", bound=nn.Module)
# The table of positions, and the number of tokens, to another table.
Table = Callable[[Tensor | None, int], Tensor | None]


class Changes:
    """The changes of a model, which `undo` takes back in reverse order."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def set(self, module: nn.Module, name: str, value: object) -> None:
        """Set an attribute or child of a module; a method is restored by removing the attribute that hides it."""
        hides_method = name not in vars(module) and name not in module._modules
        before = None if hides_method else getattr(module, name)
        setattr(module, name, value)
        self._undo.append((lambda: delattr(module, name)) if hides_method else (lambda: setattr(module, name, before)))

    def replace(self, model: nn.Module, name: str, new: nn.Module) -> None:
        """Replace the module of a dotted name."""
        parent, _, child = name.rpartition(".")
        self.set(model.get_submodule(parent), child, new)

    def undo(self) -> None:
        """Restore everything."""
        while self._undo:
            self._undo.pop()()


Stack = Literal["encoder", "decoder"]


def part_of(name: str) -> Stack:
    """Return the stack that a module belongs to, by its name: `encoder`, or `decoder` for all others."""
    return "encoder" if name.startswith("encoder") or ".encoder." in name else "decoder"


def layers_of(model: nn.Module) -> dict[Stack, list[str]]:
    """Return the names of a Transformer's layers by part, in their order; a missing part has an empty list."""
    found: dict[Stack, list[str]] = {"encoder": [], "decoder": []}
    for name, module in model.named_modules():
        if isinstance(module, EncoderLayer | DecoderLayer):
            found[part_of(name)].append(name)
    return found


def remove_residuals(model: nn.Module, within: Iterable[str], changes: Changes) -> None:
    """Make the input of the next sub-layer Sublayer(x) in place of x + Sublayer(x), in the layers of these names."""
    for _, residual in _inside(model, within, Residual):
        changes.set(residual, "connected", False)


def remove_normalization(
    model: nn.Module, within: Iterable[str], changes: Changes, stacks: Iterable[Stack] = ()
) -> None:
    """Make LayerNorm (or RMSNorm) the identity in these layers, and after the last layer of the parts in `stacks`."""
    names = [*within]
    for stack in stacks:
        layers = layers_of(model)[stack]
        names += [
            name
            for name, module in model.named_modules()
            if isinstance(module, LayerNorm | RMSNorm)
            and part_of(name) == stack
            and not any(name.startswith(f"{layer}.") for layer in layers)
        ]
    for kind in (LayerNorm, RMSNorm):
        for name, _ in _inside(model, names, kind):
            changes.replace(model, name, nn.Identity())


def remove_feed_forward(model: nn.Module, within: Iterable[str], changes: Changes) -> None:
    """Make FFN(x) = 0 in the layers of these names; the residual connection around it stays."""
    for name, _ in _inside(model, within, FeedForward):
        changes.replace(model, name, _Zero())


def remove_positions(model: nn.Module, part: str, changes: Changes) -> None:
    """Leave out the position encoding of a part: the table added to its embeddings, or what acts inside attention."""
    for name, attention in model.named_modules():
        if isinstance(attention, MultiHeadAttention) and part_of(name) == part:
            changes.set(attention, "positions", None)
    _with_table(model, part, changes, lambda table, _: None)


def shuffle_positions(model: nn.Module, part: str, number: int, changes: Changes) -> None:
    """Give the tokens of a part each other's positions, in the order with a number; the last token keeps its own.

    The part's table of positions must be added to the embeddings, and its length be known at once: that of an encoder.
    """

    def shuffled(table: Tensor | None, length: int) -> Tensor | None:
        return None if table is None else table[position_order(length, number).to(table.device)]

    _with_table(model, part, changes, shuffled)


def has_table(model: nn.Module) -> bool:
    """Return whether a table of positions is added to the model's embeddings."""
    return any(isinstance(module, InputEmbedding) and module.table is not None for module in model.modules())


def position_order(length: int, number: int) -> Tensor:
    """Return the position that each of `length` tokens gets when positions are shuffled; the last keeps its own."""
    inner = order(max(length - 1, 0), number)
    return torch.cat([inner, torch.arange(max(length - 1, 0), length)])


def remove_causal_mask(model: nn.Module, within: Iterable[str], changes: Changes) -> None:
    """Let every position attend to later ones, in the self-attention of these layers.

    Step-by-step decoding then computes the whole prefix anew at every step, because its earlier positions attend to the
    newest one; forced decoding has the whole target at once, so that a position sees the token that it predicts.
    """
    for name in within:
        attention = model.get_submodule(name).self_attention
        if isinstance(attention, MultiHeadAttention):
            changes.set(attention, "causal", False)
    if isinstance(model, Seq2Seq):
        changes.set(model, "start", lambda memory, beams=1: _Prefix(memory, beams))
        changes.set(model, "step", lambda tokens, state: _step(model, tokens, state))


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


class _Zero(nn.Module):
    """A sub-layer that outputs 0."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)


class _Prefix(State):
    """Decoding state without a cache: the encoded source, and all tokens so far (rows, time)."""

    def __init__(self, memory: Memory, beams: int) -> None:
        self.memory, self.beams = memory, beams
        self.tokens = memory.mask.new_zeros(memory.mask.size(0) * beams, 0, dtype=torch.long)

    def reorder(self, rows: Tensor) -> _Prefix:
        self.tokens = self.tokens[rows]
        return self

    def keep(self, sentences: Tensor) -> _Prefix:
        self.memory = Memory(self.memory.states[sentences], self.memory.mask[sentences])
        return self.reorder(self.rows_of(sentences))


def _step(model: Seq2Seq, tokens: Tensor, state: State) -> tuple[Tensor, State]:
    """Decode the whole prefix, and return the log-probabilities after its last token."""
    assert isinstance(state, _Prefix)
    state.tokens = torch.cat([state.tokens, tokens[:, None]], dim=1)
    states, mask = (x.repeat_interleave(state.beams, 0) for x in (state.memory.states, state.memory.mask))
    hidden = model.decode(Memory(states, mask), state.tokens)[:, -1]
    return model.project(hidden).float().log_softmax(-1), state


def _inside(model: nn.Module, within: Iterable[str], kind: type[_Kind]) -> Iterator[tuple[str, _Kind]]:
    """Yield the modules of a kind that have one of these names, or are inside a module of these names."""
    prefixes = tuple(within)
    for name, module in list(model.named_modules()):
        inside = any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)
        if inside and isinstance(module, kind):
            yield name, module


def _shallow_copy(module: _Kind) -> _Kind:
    """Return a shallow copy with dictionaries of its own; parameters, buffers and children are shared."""
    copied = copy.copy(module)
    for name in ("_parameters", "_buffers", "_modules"):
        vars(copied)[name] = dict(vars(module)[name])
    return copied


def _with_table(model: nn.Module, part: str, changes: Changes, changed: Table) -> None:
    """Change the table of positions while a part computes.

    The encoder and the decoder of a translator share the table, so it is changed around the calls of their methods.
    """
    if not isinstance(model, Seq2Seq):
        return _change_tables(model, changes, changed)
    for method in ("encode",) if part == "encoder" else ("decode", "step"):
        changes.set(model, method, _around(model, getattr(model, method), changed))


def _around(model: nn.Module, method: Callable[..., Any], changed: Table) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        changes = Changes()
        try:
            _change_tables(model, changes, changed)
            return method(*arguments, **named)
        finally:
            changes.undo()

    return call


def _change_tables(model: nn.Module, changes: Changes, changed: Table) -> None:
    for name, embedding in list(model.named_modules()):
        if isinstance(embedding, InputEmbedding):
            changes.replace(model, name, _with_changed_table(embedding, changed))


def _with_changed_table(embedding: InputEmbedding, changed: Table) -> InputEmbedding:
    """Return a copy whose table is computed at each call, from that of an embedding that may be such a copy itself."""
    copied, table = _shallow_copy(embedding), embedding.table
    copied._parameters.pop("table", None)
    copied._buffers.pop("table", None)
    earlier: Callable[[int], Tensor | None] = vars(embedding).get("table_of", lambda length: table)

    def table_of(length: int) -> Tensor | None:
        return changed(earlier(length), length)

    def forward(x: Tensor, *more: Any, **named: Any) -> Tensor:
        copied.table = table_of(x.size(-2))
        return type(copied).forward(copied, x, *more, **named)

    vars(copied).update(table=None, table_of=table_of, forward=forward)
    return copied
