"""Training batches of a workload: the same for every system, made before the clock starts."""

from __future__ import annotations

import numpy as np

from headwise.bench.workload import Workload
from headwise.data.plans import plan_batches
from headwise.text.batches.examples import padded
from headwise.text.batches.pairs import Batch
from headwise.text.tokens.subwords import BOS, EOS, PAD


def training_batches(workload: Workload, tokens: int, count: int, *, seed: int = 1) -> list[Batch]:
    """Return the first `count` batches of an epoch, of up to `tokens` source and target tokens; fewer in small text."""
    lengths = [np.array([len(row) for row in rows]) for rows in (workload.sources, workload.targets)]
    plan = plan_batches(lengths[0], lengths[1] + 1, tokens, seed=seed, epoch=0)
    return [_batch(workload, rows.tolist()) for rows in plan[:count]]


def _batch(workload: Workload, rows: list[int]) -> Batch:
    sources = [workload.sources[row] for row in rows]
    targets = [workload.targets[row] for row in rows]
    source = padded(sources)
    return Batch(
        source=source,
        source_mask=source != PAD,
        target_input=padded([[BOS, *ids] for ids in targets]),
        target_output=padded([[*ids, EOS] for ids in targets]),
        rows=rows,
        target_tokens=sum(map(len, targets)) + len(rows),
    )
