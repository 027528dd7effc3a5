"""How much a scheduler has to do, and how fast it is."""

from __future__ import annotations

import operator
import time
from dataclasses import astuple, dataclass

HALF_LIFE = 10.0  # seconds of work after which a measurement counts half


@dataclass(frozen=True)
class Load:
    """The load of a scheduler.

    Attributes:
        waiting: sentences that wait.
        waiting_tokens: their source tokens.
        running: sentences that are searched.
        rows: hypotheses of these in the batches.
        tokens_per_second: source tokens of finished sentences in a second of work, of late; 0 before the first.
    """

    waiting: int = 0
    waiting_tokens: int = 0
    running: int = 0
    rows: int = 0
    tokens_per_second: float = 0.0

    def __add__(self, other: Load) -> Load:
        return Load(*map(operator.add, astuple(self), astuple(other)))


class Meter:
    """The mean number of tokens in a second of work, where recent seconds weigh more."""

    def __init__(self) -> None:
        self._tokens = self._seconds = 0.0
        self._since: float | None = None  # None while there is no work

    def begin(self) -> None:
        """Note that there is work."""
        if self._since is None:
            self._since = time.monotonic()

    def add(self, tokens: int, *, idle: bool) -> None:
        """Add finished tokens; `idle` is whether no work is left."""
        now = time.monotonic()
        elapsed = 0.0 if self._since is None else now - self._since
        weight = 0.5 ** (elapsed / HALF_LIFE)
        self._tokens = self._tokens * weight + tokens
        self._seconds = self._seconds * weight + elapsed
        self._since = None if idle else now

    @property
    def rate(self) -> float:
        """Tokens in a second of work."""
        return self._tokens / self._seconds if self._seconds else 0.0
