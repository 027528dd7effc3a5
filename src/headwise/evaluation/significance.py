"""Paired significance tests of the difference between two translation systems.

Two tests over the sentences of one test set, for BLEU and chrF2, after Koehn 2004, "Statistical Significance Tests
for Machine Translation Evaluation", and Riezler & Maxwell 2005, "On Some Pitfalls in Automatic Evaluation and
Significance Testing for MT":

* paired bootstrap resampling (Koehn): score both systems on test sets drawn with replacement from this one.
  The p-value is that of the shifted bootstrap (Riezler & Maxwell): how often a resampled difference, minus the
  mean of all of them, reaches the observed difference.
* approximate randomization (Riezler & Maxwell): swap the systems' outputs at random,
  sentence by sentence, and count how often the difference is as large as the observed one.

Both use the p-value and the random stream of sacreBLEU's `--paired-bs` and `--paired-ar`, so that the same
seed gives the same result. Its `PairedTest` isn't called, as it reads the seed from the environment only,
gives no confidence interval of the difference, and counts strictly larger differences, so that a system differs
significantly from itself; here ties count as chance, which gives p = 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.errors import ConfigError
from headwise.evaluation.metrics import check_lines, find_metric

SAMPLES = {"bootstrap": 1000, "randomization": 10_000}
SEED = 12345  # sacreBLEU's default
LEVEL = 0.05
_INTERVAL_SAMPLES = 1000  # bootstrap samples for the interval of the randomization test
_CHUNK = 1 << 27  # random swaps in memory at once, one byte each
_TIE = 1e-9  # smaller differences of scores are rounding errors

_Scorer = Callable[[NDArray[np.float64]], float]


@dataclass(frozen=True)
class Comparison:
    """Result of a paired test between a baseline and a system on one metric.

    `difference` is system minus baseline, `low` and `high` bound its 95% bootstrap interval, and `wins` is
    the share of resampled test sets on which the system scores higher (Koehn 2004).
    """

    metric: str
    baseline: float
    system: float
    difference: float
    low: float
    high: float
    wins: float
    p_value: float
    test: str
    samples: int
    seed: int
    signature: str

    @property
    def significant(self) -> bool:
        """Whether the difference is significant at the 5% level."""
        return self.p_value < LEVEL

    def sentence(self, baseline: str = "the baseline", system: str = "the system") -> str:
        """Return the result as one sentence with the given names."""
        name = "paired bootstrap" if self.test == "bootstrap" else "approximate randomization"
        numbers = (
            f"{self.metric} {self.system:.2f} against {self.baseline:.2f}, "
            f"difference {self.difference:+.2f}, 95% interval {self.low:+.2f} to {self.high:+.2f}, "
            f"{name} with {self.samples:,} samples, seed {self.seed}"
        )
        p = f"p = {self.p_value:.4f}" if self.p_value >= 0.001 else "p < 0.001"
        if not self.significant:
            return f"There is no significant difference between {system} and {baseline}, {p} ({numbers})."
        word = "better" if self.difference > 0 else "worse"
        return f"{_capital(system)} is significantly {word} than {baseline}, {p} ({numbers})."

    def to_json(self) -> dict[str, Any]:
        """Return all fields and `significant`."""
        return {**asdict(self), "significant": self.significant}


def compare(
    baseline: Sequence[str],
    system: Sequence[str],
    references: Sequence[str],
    *,
    metric: str = "bleu",
    test: str = "bootstrap",
    samples: int | None = None,
    seed: int = SEED,
    tokenize: str = "13a",
) -> Comparison:
    """Test whether two systems differ on one test set.

    `samples` is 1,000 for the bootstrap and 10,000 for randomization unless given. `tokenize` is that of
    `score_translations` and applies to BLEU. The same arguments give the same result.

    Raises `DataError` where the sides differ in length or are empty, `ConfigError` for an unknown metric,
    test or tokenizer, or a number of samples below 1.
    """
    check_lines(baseline, references)
    check_lines(system, references)
    check_test(test)
    if samples is not None and samples < 1:
        raise ConfigError(f"--samples: expected at least 1, found {samples}")
    scorer = find_metric(metric, tokenize)
    system_stats, baseline_stats = (scorer.statistics(side, references) for side in (system, baseline))
    count = samples or SAMPLES[test]

    def score(sums: NDArray[np.float64]) -> float:  # sums of whole numbers, hence exact
        return scorer.combined([int(n) for n in sums])

    system_score, baseline_score = score(system_stats.sum(0)), score(baseline_stats.sum(0))
    resamples = count if test == "bootstrap" else _INTERVAL_SAMPLES
    differences = _bootstrap(system_stats, baseline_stats, score, resamples, seed)
    observed = abs(system_score - baseline_score)
    if test == "bootstrap":
        magnitudes = np.abs(differences)
        p_value = _share(magnitudes - magnitudes.mean(), observed)
    else:
        p_value = _share(_swapped(system_stats, baseline_stats, score, count, seed), observed)
    low, high = np.quantile(differences, [0.025, 0.975])
    return Comparison(
        metric=scorer.title,
        baseline=baseline_score,
        system=system_score,
        difference=system_score - baseline_score,
        low=float(low),
        high=float(high),
        wins=float((differences > _TIE).mean()),
        p_value=p_value,
        test=test,
        samples=count,
        seed=seed,
        signature=scorer.signature(**{"seed": seed, "bs" if test == "bootstrap" else "ar": count}),
    )


def check_test(test: str) -> None:
    """Raise `ConfigError` for an unknown test."""
    if test not in SAMPLES:
        raise ConfigError(f"--test: expected one of {', '.join(SAMPLES)}, found {test!r}")


def _bootstrap(
    system_stats: NDArray[np.float64],
    baseline_stats: NDArray[np.float64],
    score: _Scorer,
    samples: int,
    seed: int,
) -> NDArray[np.float64]:
    """Return the score differences on `samples` test sets drawn with replacement, the same for both systems."""
    rng = np.random.default_rng(seed)
    sentences = len(system_stats)
    differences = []
    for _ in range(samples):
        drawn = rng.choice(sentences, size=sentences, replace=True)
        weights = np.bincount(drawn, minlength=sentences).astype(np.float64)
        differences.append(score(weights @ system_stats) - score(weights @ baseline_stats))
    return np.array(differences)


def _swapped(
    system_stats: NDArray[np.float64],
    baseline_stats: NDArray[np.float64],
    score: _Scorer,
    samples: int,
    seed: int,
) -> NDArray[np.float64]:
    """Return the absolute score differences after `samples` random swaps of the systems' outputs."""
    rng = np.random.default_rng(seed)
    total, change = system_stats.sum(0), baseline_stats - system_stats
    both = total + baseline_stats.sum(0)
    magnitudes = []
    # The generator takes 32 bits at a time and drops what a chunk leaves of them: chunks of a multiple of 32 rows
    # give the swaps of one draw.
    step = max(1, _CHUNK // (32 * len(system_stats))) * 32
    for start in range(0, samples, step):
        for swap in rng.integers(2, size=(min(step, samples - start), len(system_stats)), dtype=bool):
            sums = total + swap @ change
            magnitudes.append(abs(score(sums) - score(both - sums)))
    return np.array(magnitudes)


def _share(magnitudes: NDArray[np.float64], observed: float) -> float:
    """Return (c + 1) / (n + 1), where c of n random differences are at least as large as the observed one."""
    return (int((magnitudes >= observed - _TIE).sum()) + 1) / (len(magnitudes) + 1)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:] if text.startswith("the ") else text
