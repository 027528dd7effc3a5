"""Training batches of a workload: the same for every system, created before timing starts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headwise.bench.workload import Workload
from headwise.data.plans import plan_batches
from headwise.text.batches.examples import padded
from headwise.text.batches.pairs import Batch
from headwise.text.tokens.subwords import BOS, EOS, PAD


def training_batches(workload: Workload, tokens: int, count: int, *, seed: int = 1) -> list[Batch]:
    """Return the first `count` batches of an epoch, of at most `tokens` tokens per side; fewer if text is short."""
    lengths = [
        np.array([len(sentence) for sentence in side]) for side in (workload.sources, workload.targets)
    ]
    plan = plan_batches(lengths[0], lengths[1] + 1, tokens, seed=seed, epoch=0)
    return [_batch(workload, examples.tolist()) for examples in plan[:count]]


def shares(workload: Workload, batches: Sequence[Batch], rank: int, size: int) -> list[Batch]:
    """Return, of each batch, every `size`-th example from example `rank` on."""
    return [_batch(workload, batch.rows[rank::size]) for batch in batches]


def _batch(workload: Workload, examples: list[int]) -> Batch:
    sources = [workload.sources[example] for example in examples]
    targets = [workload.targets[example] for example in examples]
    source = padded(sources)
    return Batch(
        source=source,
        source_mask=source != PAD,
        target_input=padded([[BOS, *ids] for ids in targets]),
        target_output=padded([[*ids, EOS] for ids in targets]),
        rows=examples,
        target_tokens=sum(map(len, targets)) + len(examples),
    )
