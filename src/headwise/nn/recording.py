"""Recording of forward passes: the tensors that every module of a model computed, by the module's dotted name."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from headwise.nn.multihead import Attended, Probed
from headwise.nn.positions import Positions


@dataclass(frozen=True)
class Call:
    """The first input of a module and its output; `table` is the one that input positions added, if any."""

    given: Tensor
    returned: Tensor
    table: Tensor | None = None


@dataclass(frozen=True)
class Recording:
    """What modules computed, one entry per call, by their dotted names.

    Attributes:
        attended: of every attention, without a graph for gradients. A layer without attention weights (`state_space`)
            has no name here; an attention that isn't called has a name without entries.
        calls: of every module called with a tensor that returns one, with the graph; empty unless asked for.
    """

    attended: dict[str, list[Attended]] = field(default_factory=dict)
    calls: dict[str, list[Call]] = field(default_factory=dict)

    @property
    def weights(self) -> dict[str, list[Tensor]]:
        """The attention weights, (batch, heads, query, key) each."""
        return {name: [one.weights for one in entries] for name, entries in self.attended.items()}


Module = TypeVar("Module", bound=nn.Module)


def private_copy(model: Module) -> Module:
    """Copy the modules but share the parameters, so that probes set on the copy don't affect other requests."""
    shared = {id(tensor): tensor for tensor in itertools.chain(model.parameters(), model.buffers())}
    return copy.deepcopy(model, shared)


@contextmanager
def recording(model: nn.Module, *, calls: bool = False) -> Iterator[Recording]:
    """Context manager that records every attention inside a model and, with `calls`, every module.

    Recordings nest. With attention recorded, its dense weights are computed by their definition; what a `probe` makes
    of them is what is recorded.
    """
    found = Recording()
    with ExitStack() as undo:
        for name, module in model.named_modules():
            if isinstance(module, Probed):
                undo.callback(setattr, module, "watch", module.watch)
                module.watch = _recorder(found.attended.setdefault(name, []), module)
            if calls:
                undo.callback(module.register_forward_hook(partial(_record_call, found.calls, name)).remove)
        yield found


def _recorder(entries: list[Attended], attention: Probed) -> Callable[[Attended], None]:
    """Return what adds each call of an attention to `entries`, after an outer recording has it."""
    outer = attention.watch

    def record(attended: Attended) -> None:
        if outer is not None:
            outer(attended)
        new = replace(attended, **{name: _detached(value) for name, value in vars(attended).items()})
        if attention.continues:
            before = entries.pop()
            joined = ("q", "weights", "heads")
            new = replace(
                new,
                **{name: torch.cat([getattr(before, name), getattr(new, name)], dim=2) for name in joined},
            )
        entries.append(new)

    return record


def _detached(value: Tensor | None) -> Tensor | None:
    return None if value is None else value.detach()


def _record_call(
    calls: dict[str, list[Call]], name: str, module: nn.Module, given: tuple[Any, ...], returned: Any
) -> None:
    if given and isinstance(given[0], Tensor) and isinstance(returned, Tensor):
        table = module.table if isinstance(module, Positions) else None
        calls.setdefault(name, []).append(Call(given[0], returned, table))
