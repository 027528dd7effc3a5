"""Bounds of the numbers that users set, shared by configuration keys and command-line options.

They allow whatever a large machine can do; a larger number is a typing error or an attempt to exhaust the machine.
Numbers within their bounds may still need too much memory together: see `headwise.nn.memory`.
"""

from __future__ import annotations

from typing import Final

# Models
WIDTH: Final = 2**20  # d_model, d_ff, d_k, channels: the widest models have 2^14 and 2^17
HEADS: Final = 2**16
LAYERS: Final = 1000  # Wang et al. 2022 (DeepNet)
LENGTH: Final = 2**20  # sequence length in subwords; also relative distances and attention windows
LEAST_VOCABULARY: Final = 8  # of a vocabulary to learn: four special pieces, and some characters
VOCABULARY: Final = 2**22  # the largest in use have a quarter of a million entries
KERNEL: Final = 2**12
PIXELS: Final = 2**14  # height or width of an image

# Training
COUNT: Final = 2**31 - 1  # steps, lines, tokens: the largest value of a 32-bit counter
SEED: Final = 2**43 - 1  # multiplied by a million for a seed per rank, it still fits torch's 64-bit seeds
MINUTES: Final = 1e7  # nineteen years
RATE: Final = 1e30  # learning rates, factors of them, weights of loss terms; float32 ends at 3.4e38
SMALLEST: Final = 1e-30  # epsilons; float32 underflows below about 1e-38
PROCESSES: Final = 4096  # or threads
CHECKPOINTS: Final = 10_000  # checkpoints to average
WEIGHT: Final = 1e9  # sampling weight of a file, or weight of a penalty
RATIO: Final = 1e9
ROTARY_BASE: Final = 1e12

# Decoding
BEAM: Final = 1000  # beam size; Stahlberg & Byrne 2019 search with 100
SAMPLES: Final = 100_000  # samples per line
ALPHA: Final = 50.0  # length penalty; ((5 + |Y|) / 6)^alpha stays within float64 up to LENGTH
PATIENCE: Final = 1e6  # or infinity
COLDEST: Final = 1e-6  # lowest temperature; log-probabilities divided by it stay within float32
HOTTEST: Final = 1e6  # highest temperature

# Analysis, data and benchmarks
LEAST_RADIUS: Final = 0.1  # spectral radius of a recurrent network; less underflows float32 in a sentence
MOST_RADIUS: Final = 4.0  # beyond it, tanh is always saturated
RESAMPLES: Final = 1_000_000  # resamples of a significance test
BINS: Final = 1000  # bins of a diagram
EXAMPLES: Final = 10_000_000  # generated examples, which are held in memory
ROUNDS: Final = 1_000_000

# Serving
SERVED_BEAM: Final = 16  # beam size of a request
WORKERS: Final = 256  # processes that translate; more than most machines have processors

# Documents
DOCUMENT_BYTES: Final = 2**23  # of a text file, or of one part of an archive
UNPACKED_BYTES: Final = 2**26  # of all parts of an archive
