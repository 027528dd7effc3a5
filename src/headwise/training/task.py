"""What the loop asks of a task: its model, its batches, its loss, its validation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from torch import nn

from headwise.training.loss import LossSum


class TrainingBatch(Protocol):
    """A batch: the loop needs only the number of target tokens, which the loss will be divided by."""

    @property
    def target_tokens(self) -> int:
        """Target tokens that the loss is summed over."""
        ...


class BatchSource(Protocol):
    """An endless stream of batches that knows its position."""

    def __iter__(self) -> Iterator[Any]: ...

    def state(self) -> dict[str, Any]:
        """Where the next batch comes from, as JSON values."""
        ...

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue from a position that `state` gave."""
        ...

    def share(self, rank: int, size: int) -> None:
        """Give out every `size`-th row of each batch, from row `rank` on; a `StandIn` where there is none."""
        ...

    def close(self) -> None:
        """Stop whatever makes batches ahead."""
        ...


class Task(Protocol):
    """One thing to learn."""

    @property
    def model(self) -> nn.Module:
        """What is trained."""
        ...

    @property
    def d_model(self) -> int:
        """Width in the paper's learning-rate formula."""
        ...

    def batches(self, rank: int, world: int) -> BatchSource:
        """Training batches of one rank out of `world`."""
        ...

    def loss(self, batch: Any) -> LossSum:
        """Loss of one batch, summed over its target tokens."""
        ...

    def validate(self, *, final: bool = False) -> dict[str, float]:
        """Scores of the model, which is in evaluation mode, `loss` among them; none without development data.

        `final` may take more time, and measures everything; one before may leave out what wouldn't compare with later
        ones. Where the parameters are those that were scored last, nothing has to be measured again.
        """
        ...

    def locate(self, batch: Any) -> str:
        """Name the input lines of a batch, for a message."""
        ...

    def identity(self) -> dict[str, str]:
        """Checksums of what the run is made from (data, subwords), kept in every checkpoint."""
        ...
