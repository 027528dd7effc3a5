"""Interfaces of a training task and its batches, as the training loop uses them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, Self

from torch import nn

from headwise.training.loss import LossSum


class BatchSource(Protocol):
    """Resumable, endless iterator over training batches."""

    def __iter__(self) -> Iterator[Any]: ...

    def state(self) -> dict[str, Any]:
        """Return the position of the next batch, as JSON values."""
        ...

    def load_state(self, state: dict[str, Any]) -> None:
        """Resume from a position that `state` returned."""
        ...

    def share(self, rank: int, size: int, *, whole: bool = False) -> None:
        """Yield only every `size`-th example of each batch, from example `rank` on; a `StandIn` if there is none.

        With `whole`, yield every `size`-th batch instead, as it is. Called where there are several ranks.
        """
        ...

    def close(self) -> None:
        """Stop threads and processes that prefetch batches."""
        ...


class Task(Protocol):
    """A training task: a model with its batches, loss and validation."""

    @property
    def model(self) -> nn.Module:
        """The model to train."""
        ...

    @property
    def d_model(self) -> int:
        """The model's width, for the paper's learning-rate schedule."""
        ...

    @property
    def dev_tokens(self) -> int:
        """Target tokens of the development set, by which the time of the first validation is estimated."""
        ...

    def batches(self) -> BatchSource:
        """Return the training batches."""
        ...

    def with_model(self, model: nn.Module) -> Self:
        """Return the same task with a copy of its model, of which only `loss` is used, and `locate`."""
        ...

    def loss(self, batch: Any) -> LossSum:
        """Return the loss of one batch, summed over its target tokens."""
        ...

    def validate(self, *, final: bool = False) -> dict[str, float]:
        """Return the scores of the model on the development set, with `loss`; none without development data.

        The model is in evaluation mode. A `final` validation may take more time.
        """
        ...

    def measured(self) -> dict[str, Any]:
        """Return what the final validation has found besides scores, as JSON values."""
        ...

    def locate(self, batch: Any) -> str:
        """Return the input lines of a batch, for an error message."""
        ...

    def identity(self) -> dict[str, str]:
        """Return checksums of the inputs of the training (data, subwords), which every checkpoint records."""
        ...
