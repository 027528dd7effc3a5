"""A sentence that was submitted, and the future of its hypotheses."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field

from headwise.engine.base import SearchSentence
from headwise.engine.hypotheses import Hypothesis


@dataclass(frozen=True, eq=False)
class Submission:
    """A sentence that was submitted by a client.

    The future stays pending until the result is there, so that it can be cancelled until then.
    """

    sentence: SearchSentence
    client: str
    future: Future[list[Hypothesis]] = field(default_factory=Future)

    def settle(self, result: list[Hypothesis] | Exception) -> None:
        """Set the result or the error, unless the future was cancelled."""
        if not self.future.set_running_or_notify_cancel():
            return
        if isinstance(result, Exception):
            self.future.set_exception(result)
        else:
            self.future.set_result(result)
