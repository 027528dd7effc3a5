"""Normalization after each sub-layer, as in the paper, or before it, as has become usual; rows are those of warm-up."""

from __future__ import annotations

from headwise.experiments import warm_up
from headwise.experiments.outcome import Finding
from headwise.experiments.registry import Evidence, Experiment


def find(evidence: Evidence) -> Finding:
    """Pre-norm trains where post-norm doesn't; with warm-up and few layers post-norm is no worse."""
    return Finding(
        [warm_up.table(evidence)],
        warm_up.charts(evidence),
        [
            warm_up.compare(
                evidence,
                "Without warm-up, pre-norm is the one that trains",
                "warm-up-none-pre",
                "warm-up-none-post",
            ),
            warm_up.compare(
                evidence,
                "With warm-up, post-norm ends at least as well as pre-norm",
                "warm-up-post",
                "warm-up-pre",
            ),
        ],
    )


EXPERIMENT = Experiment("norm", "Pre-norm and post-norm", warm_up.rows, find)
