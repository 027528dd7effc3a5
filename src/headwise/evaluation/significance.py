"""Is one system better than another, or was it the choice of test sentences?

Two paired tests over the sentences of one test set, for BLEU and chrF2, after Koehn 2004, "Statistical
Significance Tests for Machine Translation Evaluation", and Riezler & Maxwell 2005, "On Some Pitfalls in
Automatic Evaluation and Significance Testing for MT":

* paired bootstrap resampling (Koehn): score both systems on test sets drawn with replacement from this one.
  The p-value is that of the shifted bootstrap (Riezler & Maxwell): how often a resampled difference, less the
  mean of all of them, reaches the difference that was observed.
* approximate randomization (Riezler & Maxwell): swap the systems' outputs at random,
  sentence by sentence, and count how often chance alone gives a difference as large as the observed one.

Both use the p-value and the random stream of sacreBLEU's `--paired-bs` and `--paired-ar`, so that the same
seed gives the same number. We don't call its `PairedTest`, which takes the seed from the environment only,
gives no interval for the difference, and counts strict excess, so that a system is significantly different
from itself; here a tie counts for chance and p is then 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from headwise.errors import ConfigError
from headwise.evaluation.translation import bleu_metric, check_lines

Method = Literal["bootstrap", "randomization"]
SAMPLES = {"bootstrap": 1000, "randomization": 10_000}
SEED = 12345  # sacreBLEU's default
LEVEL = 0.05
_INTERVAL_SAMPLES = 1000  # resamples behind the interval when the test itself doesn't resample
_CHUNK = 1 << 27  # random swaps held in memory at once, a byte each
_TIE = 1e-9  # scores this close are the same: they differ by rounding only

_Scorer = Callable[[NDArray[np.float64]], float]


@dataclass(frozen=True)
class Comparison:
    """The outcome of a paired test between a baseline and a system on one metric.

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
    test: Method
    samples: int
    seed: int
    signature: str

    @property
    def significant(self) -> bool:
        """Whether chance is ruled out at the 5% level."""
        return self.p_value < LEVEL

    def sentence(self, baseline: str = "the baseline", system: str = "the system") -> str:
        """Say the result in one sentence, with the names given."""
        name = "paired bootstrap" if self.test == "bootstrap" else "approximate randomization"
        numbers = (
            f"{self.metric} {self.system:.2f} against {self.baseline:.2f}, "
            f"difference {self.difference:+.2f}, 95% interval {self.low:+.2f} to {self.high:+.2f}, "
            f"{name} with {self.samples:,} samples, seed {self.seed}"
        )
        p = f"p = {self.p_value:.3f}" if self.p_value >= 0.001 else "p < 0.001"
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
    lowercase: bool = False,
) -> Comparison:
    """Test whether two systems differ on one test set.

    `samples` is 1,000 for the bootstrap and 10,000 for randomization unless given. `tokenize` and `lowercase`
    mean what they do in `score_translations` and apply to BLEU. The same arguments give the same result.

    Raises `DataError` where the sides differ in length or are empty, `ConfigError` for an unknown metric,
    test or tokenizer, or a number of samples below 1.
    """
    check_lines(baseline, references)
    check_lines(system, references)
    if test not in SAMPLES:
        raise ConfigError(f"--test: expected one of {', '.join(SAMPLES)}, found {test!r}")
    if samples is not None and samples < 1:
        raise ConfigError(f"--samples: expected at least 1, found {samples}")
    judge = _metric(metric, tokenize, lowercase)
    ours, theirs = _statistics(judge, system, references), _statistics(judge, baseline, references)
    count = samples or SAMPLES[test]
    score = _scorer(judge)
    a, b = score(ours.sum(0)), score(theirs.sum(0))
    resamples = count if test == "bootstrap" else _INTERVAL_SAMPLES
    differences = _bootstrap(ours, theirs, score, resamples, seed)
    if test == "bootstrap":
        p_value = _shifted_p_value(differences, a - b)
    else:
        p_value = _randomization_p_value(ours, theirs, score, count, seed, abs(a - b))
    low, high = np.quantile(differences, [0.025, 0.975])
    signature = judge.get_signature()
    signature.update("seed", seed)
    signature.update("bs" if test == "bootstrap" else "ar", count)
    return Comparison(
        metric="BLEU" if metric == "bleu" else "chrF2",
        baseline=b,
        system=a,
        difference=a - b,
        low=float(low),
        high=float(high),
        wins=float((differences > _TIE).mean()),
        p_value=p_value,
        test="bootstrap" if test == "bootstrap" else "randomization",
        samples=count,
        seed=seed,
        signature=str(signature),
    )


def _metric(name: str, tokenize: str, lowercase: bool) -> BLEU | CHRF:
    if name == "bleu":
        return bleu_metric(tokenize, lowercase)
    if name == "chrf":
        return CHRF()
    raise ConfigError(f"--metric: expected one of bleu, chrf, found {name!r}")


def _statistics(
    metric: BLEU | CHRF, hypotheses: Sequence[str], references: Sequence[str]
) -> NDArray[np.float64]:
    """One row of counts per sentence; a corpus score is a function of the sum of its rows."""
    rows = metric._extract_corpus_statistics(list(hypotheses), [list(references)])
    return np.array(rows, dtype=np.float64)  # (sentence, statistic)


def _scorer(metric: BLEU | CHRF) -> _Scorer:
    """Return a function from summed statistics to the score; the sums are whole numbers, so exact."""
    return lambda sums: float(metric._compute_score_from_stats([int(n) for n in sums]).score)


def _bootstrap(
    ours: NDArray[np.float64], theirs: NDArray[np.float64], score: _Scorer, samples: int, seed: int
) -> NDArray[np.float64]:
    """Return the score differences on `samples` test sets drawn with replacement, both systems alike."""
    rng = np.random.default_rng(seed)
    sentences = len(ours)
    differences = []
    for _ in range(samples):
        drawn = rng.choice(sentences, size=sentences, replace=True)
        times = np.bincount(drawn, minlength=sentences).astype(np.float64)
        differences.append(score(times @ ours) - score(times @ theirs))
    return np.array(differences)


def _shifted_p_value(differences: NDArray[np.float64], observed: float) -> float:
    sizes = np.abs(differences)
    return _share(sizes - sizes.mean(), abs(observed))


def _randomization_p_value(
    ours: NDArray[np.float64],
    theirs: NDArray[np.float64],
    score: _Scorer,
    samples: int,
    seed: int,
    observed: float,
) -> float:
    """Share of random swaps whose absolute score difference reaches the observed one."""
    rng = np.random.default_rng(seed)
    total, both, change = ours.sum(0), ours.sum(0) + theirs.sum(0), theirs - ours
    sizes = []
    step = max(1, _CHUNK // len(ours))
    for start in range(0, samples, step):
        for swap in rng.integers(2, size=(min(step, samples - start), len(ours)), dtype=bool):
            sums = total + swap @ change
            sizes.append(abs(score(sums) - score(both - sums)))
    return _share(np.array(sizes), observed)


def _share(sizes: NDArray[np.float64], observed: float) -> float:
    """(c + 1) / (n + 1), where c of n chance differences are at least as large as the observed one."""
    return (int((sizes >= observed - _TIE).sum()) + 1) / (len(sizes) + 1)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:] if text.startswith("the ") else text
