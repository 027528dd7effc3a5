"""Paired tests compared with sacreBLEU and exact enumeration, and on systems with known differences."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

from headwise.api.evaluating import ScoringSettings, score_runs
from headwise.errors import ConfigError, DataError
from headwise.evaluation import significance
from headwise.evaluation.significance import compare


def corpus(lines: int, damage: float, seed: int) -> tuple[list[str], list[str]]:
    """Return references and translations of them in which each word is replaced with probability `damage`."""
    words = [
        "the",
        "a",
        "man",
        "woman",
        "dog",
        "house",
        "red",
        "small",
        "runs",
        "sees",
        "old",
        "tree",
        "blue",
    ]
    rng, noise = random.Random(7), random.Random(seed)
    references = [[rng.choice(words) for _ in range(rng.randint(5, 12))] for _ in range(lines)]
    damaged = [[noise.choice(words) if noise.random() < damage else w for w in r] for r in references]
    return [" ".join(r) for r in references], [" ".join(d) for d in damaged]


REFERENCES, BASELINE = corpus(60, 0.22, 1)
SYSTEM = corpus(60, 0.18, 2)[1]


@pytest.mark.parametrize(("seed", "chunk"), [(1, significance._CHUNK), (12345, significance._CHUNK), (1, 400)])
@pytest.mark.parametrize(("metric", "key"), [("bleu", "BLEU"), ("chrf", "chrF2")])
@pytest.mark.parametrize(("test", "kind"), [("bootstrap", "bs"), ("randomization", "ar")])
def test_equals_sacrebleus_paired_test(
    monkeypatch: pytest.MonkeyPatch, test: str, kind: str, metric: str, key: str, seed: int, chunk: int
) -> None:
    monkeypatch.setattr(significance, "_CHUNK", chunk)  # as for a test set of many sentences
    monkeypatch.setenv("SACREBLEU_SEED", str(seed))
    signatures, results = PairedTest(
        [("baseline", BASELINE), ("system", SYSTEM)],
        {"m": BLEU(force=True) if metric == "bleu" else CHRF()},
        [REFERENCES],
        test_type=kind,
        n_samples=300,
    )()
    ours = compare(BASELINE, SYSTEM, REFERENCES, metric=metric, test=test, samples=300, seed=seed)
    before, after = results[key]
    assert not isinstance(before, str)
    assert not isinstance(after, str)
    assert ours.baseline == pytest.approx(before.score)
    assert ours.system == pytest.approx(after.score)
    assert ours.p_value == after.p_value
    assert ours.signature == str(signatures[key])
    assert 0.0 < ours.p_value < 1.0


def test_randomization_approaches_the_exact_permutation_test() -> None:
    references, baseline, system = REFERENCES[:7], BASELINE[:7], SYSTEM[:7]
    metric = CHRF()

    def gap(swaps: tuple[bool, ...]) -> float:
        pairs = [(b, s) if swap else (s, b) for swap, s, b in zip(swaps, system, baseline, strict=True)]
        first, second = ([pair[side] for pair in pairs] for side in (0, 1))
        return abs(metric.corpus_score(first, [references]).score - metric.corpus_score(second, [references]).score)

    gaps = [gap(swaps) for swaps in itertools.product([False, True], repeat=7)]
    exact = sum(g >= gaps[0] - 1e-9 for g in gaps) / len(gaps)
    ours = compare(baseline, system, references, metric="chrf", test="randomization", samples=4000)
    assert ours.p_value == pytest.approx(exact, abs=0.04)  # five standard errors of 4,000 draws at worst


@pytest.mark.parametrize("test", ["bootstrap", "randomization"])
def test_a_system_is_never_better_than_itself(test: str) -> None:
    result = compare(SYSTEM, SYSTEM, REFERENCES, test=test, samples=50)
    assert result.p_value == 1.0
    assert (result.difference, result.low, result.high, result.wins) == (0.0, 0.0, 0.0, 0.0)
    assert result.sentence().startswith("There is no significant difference between the system and")


@pytest.mark.parametrize("test", ["bootstrap", "randomization"])
def test_a_clear_difference_is_found_in_both_directions(test: str) -> None:
    references, bad = corpus(80, 0.6, 3)
    good = corpus(80, 0.1, 4)[1]
    better = compare(bad, good, references, test=test, samples=200)
    worse = compare(good, bad, references, test=test, samples=200)
    assert better.significant
    assert worse.significant
    assert better.low > 0.0
    assert better.low < better.difference < better.high
    assert (worse.low, worse.high) == pytest.approx((-better.high, -better.low))
    assert better.wins == 1.0
    assert "runs/b is significantly better than runs/a, p = 0.0050 (BLEU" in better.sentence("runs/a", "runs/b")
    assert "significantly worse" in worse.sentence()
    assert better.to_json()["significant"] is True


def test_same_seed_same_result_and_other_seed_another() -> None:
    first, again, other = (compare(BASELINE, SYSTEM, REFERENCES, samples=100, seed=s) for s in (5, 5, 6))
    assert first == again
    assert (first.low, first.high) != (other.low, other.high)
    assert "seed:5|" in first.signature


@pytest.mark.parametrize("wrong", [{"test": "sign"}, {"metric": "ter"}])
def test_wrong_options_are_named_before_anything_is_translated(wrong: dict[str, str], tmp_path: Path) -> None:
    settings = ScoringSettings("cpu", None, "auto", compare=tmp_path / "no run", **wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=f"--{next(iter(wrong))}: expected one of"):
        score_runs([tmp_path], [], settings, {}, lambda _: None)


def test_wrong_options_are_named() -> None:
    with pytest.raises(ConfigError, match="--metric: expected one of bleu, chrf, found 'ter'"):
        compare(BASELINE, SYSTEM, REFERENCES, metric="ter")
    with pytest.raises(ConfigError, match="--test: expected one of bootstrap, randomization, found 'sign'"):
        compare(BASELINE, SYSTEM, REFERENCES, test="sign")
    with pytest.raises(ConfigError, match="--samples: expected at least 1, found 0"):
        compare(BASELINE, SYSTEM, REFERENCES, samples=0)
    with pytest.raises(DataError, match="found 59 translations and 60 references"):
        compare(BASELINE, SYSTEM[:-1], REFERENCES)
