from __future__ import annotations

import pytest

from headwise.training.parallel.watchdog import COMPUTING, OTHER, READING, Report, Watchdog, hung, message
from headwise.training.parallel.world import World


def report(rank: int, step: int, place: str, seconds: float) -> Report:
    return Report(rank, step, place, seconds, 1, "host", 100 + rank)


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        ([report(0, 5, COMPUTING, 1), report(1, 5, COMPUTING, 1)], []),
        # The one that still reads is waited for.
        ([report(0, 5, COMPUTING, 11), report(1, 5, READING, 12)], [1]),
        ([report(0, 5, COMPUTING, 11), report(1, 5, READING, 9)], []),
        ([report(0, 6, READING, 11), report(1, 5, COMPUTING, 11)], [1]),
        # All wait for each other, as where a network is gone.
        ([report(0, 5, COMPUTING, 11), report(1, 5, COMPUTING, 12)], [0, 1]),
        # The first rank validates for long, and the other waits for it.
        ([report(0, 5, OTHER, 1000), report(1, 5, OTHER, 1000)], []),
        ([report(0, 5, OTHER, 1000), report(1, 6, READING, 20)], []),
    ],
)
def test_the_earliest_rank_hangs_if_it_stays(reports: list[Report], expected: list[int]) -> None:
    assert [r.rank for r in hung(reports, {0: 0.0, 1: 0.0}, 10)] == expected


def test_a_rank_that_reports_no_more_hangs_wherever_it_was() -> None:
    reports = [report(0, 5, COMPUTING, 100), report(1, 6, OTHER, 1)]
    found = hung(reports, {0: 0.5, 1: 10.5}, 10)
    assert [r.rank for r in found] == [1]
    assert "rank 1 (process 101 on host), validating or saving of step 6" in message(found)


def test_one_rank_watches_nothing() -> None:
    with Watchdog(World(), 1.0).watching():
        pass
