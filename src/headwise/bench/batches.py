"""Training batches of a workload: the same for every system, created before timing starts."""

from __future__ import annotations

import numpy as np

from headwise.bench.workload import Workload
from headwise.data.plans import plan_batches
from headwise.text.batches.examples import padded
from headwise.text.batches.pairs import Batch
from headwise.text.tokens.subwords import BOS, EOS, PAD


def training_batches(
    workload: Workload, tokens: int, count: int, *, seed: int = 1, rank: int = 0, size: int = 1
) -> list[Batch]:
    """Return the first `count` batches of an epoch, of at most `tokens` tokens per side; fewer if text is short.

    Of each batch, every `size`-th example from example `rank` on.
    """
    lengths = [
        np.array([len(sentence) for sentence in side]) for side in (workload.sources, workload.targets)
    ]
    plan = plan_batches(lengths[0], lengths[1] + 1, tokens, seed=seed, epoch=0)
    shares = [examples[rank::size] for examples in plan[:count]]
    return [_batch(workload, examples.tolist()) for examples in shares]


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
