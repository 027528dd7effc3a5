"""How large a number may be that a user gives: one place, for configuration keys and for command-line options.

What a large machine can do stays possible; beyond that a number is a slip of the finger, or somebody's attempt to
exhaust the machine. A product of numbers that are fine one by one may still be too much: see `headwise.nn.memory`.
"""

from __future__ import annotations

from typing import Final

# Of a model
WIDTH: Final = 2**20  # d_model, d_ff, d_k, channels: the widest models have 2^14 and 2^17
HEADS: Final = 2**16
LAYERS: Final = 1000  # Wang et al. 2022 (DeepNet)
LENGTH: Final = 2**20  # subwords of a sequence, distances and windows in it
VOCABULARY: Final = 2**22  # the largest in use have a quarter of a million entries
KERNEL: Final = 2**12
PIXELS: Final = 2**14  # an edge of an image

# Of training
COUNT: Final = 2**31 - 1  # steps, lines, tokens: what a 32-bit counter holds
SEED: Final = 2**43 - 1  # times a million, for every rank's own, it still is a seed of torch's 64 bits
MINUTES: Final = 1e7  # nineteen years
RATE: Final = (
    1e30  # the learning rate or a factor of it, a weight of a part of the loss; 1e38 is infinite in float32
)
SMALLEST: Final = 1e-30  # an epsilon below that is 0 in float32
PROCESSES: Final = 4096  # or threads
CHECKPOINTS: Final = 10_000  # averaged
WEIGHT: Final = 1e9  # of a file among others
RATIO: Final = 1e9
ROTARY_BASE: Final = 1e12

# Of decoding
BEAM: Final = 1000  # Stahlberg & Byrne 2019 search with 100
SAMPLES: Final = 100_000  # of one line
ALPHA: Final = 50.0  # ((5 + |Y|) / 6)^alpha stays within float64 up to LENGTH
PATIENCE: Final = 1e6  # or infinity
COLDEST: Final = 1e-6  # temperature; log-probabilities divided by it stay within float32
HOTTEST: Final = 1e6

# Of analysis, data and benchmarks
RESAMPLES: Final = 1_000_000  # of a significance test
BINS: Final = 1000  # of a diagram
EXAMPLES: Final = 10_000_000  # drawn ones, which are held in memory
ROUNDS: Final = 1_000_000
