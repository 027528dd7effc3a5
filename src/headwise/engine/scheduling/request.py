"""A sentence that was submitted, and the future of its hypotheses."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headwise.engine.hypotheses import Hypothesis
from headwise.engine.options import SearchOptions
from headwise.engine.terms import Terms


@dataclass(frozen=True, eq=False)
class Request:
    """A sentence, with the arguments of `Scheduler.submit`.

    The future stays pending until the result is there, so that it can be cancelled until then.
    """

    source: Sequence[int]
    options: SearchOptions
    client: str
    prefix: Sequence[int] | None
    allowed: NDArray[np.int32] | None
    terms: Terms | None = None
    future: Future[list[Hypothesis]] = field(default_factory=Future)

    @property
    def cost(self) -> int:
        """The part of a batch that it takes: source tokens times hypotheses."""
        return len(self.source) * self.options.rows

    def settle(self, result: list[Hypothesis] | Exception) -> None:
        """Set the result or the error, unless the future was cancelled."""
        if not self.future.set_running_or_notify_cancel():
            return
        if isinstance(result, Exception):
            self.future.set_exception(result)
        else:
            self.future.set_result(result)
