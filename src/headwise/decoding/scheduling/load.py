"""How much a scheduler has to do, and how fast it is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Load:
    """What a scheduler has to do.

    Attributes:
        waiting: sentences that wait.
        waiting_tokens: their source tokens.
        running: sentences that are searched now.
        rows: their rows in the batch.
        tokens_per_second: source tokens finished in a second, of late; 0 before the first.
    """

    waiting: int
    waiting_tokens: int
    running: int
    rows: int
    tokens_per_second: float
