from __future__ import annotations

import pytest

from headwise.clock import clock, in_words


@pytest.mark.parametrize(
    ("seconds", "shown", "said"),
    [
        (-1, "0:00", "-1 seconds"),
        (1.2, "0:01", "1 second"),
        (65, "1:05", "65 seconds"),
        (7200, "2:00:00", "2.0 hours"),
        (7265, "2:01:05", "2.0 hours"),
        (3 * 86400, "72:00:00", "3.0 days"),
        (800 * 86400, "19200:00:00", "2.2 years"),
    ],
)
def test_durations(seconds: float, shown: str, said: str) -> None:
    assert (clock(seconds), in_words(seconds)) == (shown, said)
