"""Trials, what they choose, the judgement of differences, and the command that finishes what is unfinished."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.corpora.built_in import write_built_in
from headwise.corpora.catalog import find_corpus
from headwise.errors import DataError, TrainingError
from headwise.experiments import normalization, table2, table3, text_size, trials
from headwise.experiments.attention import PERMUTATION, SCALING
from headwise.experiments.harness.cost import parameters
from headwise.experiments.harness.outcome import BLEU, Measure, Table, compare, judge
from headwise.experiments.harness.records import Mean, Record, Results, mean, write_record
from headwise.experiments.harness.rows import Machine, MeasuredRow, Place, TrainingRow
from headwise.experiments.harness.runner import STAGES, RowJob, collect, finish, plan, run, stage_jobs, unfinished
from headwise.experiments.harness.test_sets import TestSet
from headwise.experiments.harness.texts import part_of, prepare_text
from headwise.experiments.scales import ARCHITECTURES, SCALES, RowRecipe, Scale
from headwise.files import hold
from headwise.training.schedule import decays
from invented_records import invent
from paths import ROOT

pytestmark = pytest.mark.usefixtures("at_the_root", "forked")
TINY = SCALES["tiny"]


@pytest.fixture(scope="module")
def all_tried(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record every trial of the scale tiny; the best is `root` of each system and 2 times each row's rate."""
    folder = tmp_path_factory.mktemp("tried")
    with contextlib.chdir(ROOT):
        for row in trials.trial_rows(TINY):
            invent(folder, row, 1, 80.0 if row.name.endswith(("-root", "-x2")) else 70.0)
    return folder


@pytest.fixture
def elsewhere(here: Path) -> Path:
    """A working directory that has nothing but the configurations."""
    (here / "configs").symlink_to(ROOT / "configs")
    return here


@pytest.fixture
def tried(all_tried: Path, tmp_path: Path) -> Path:
    """Return a copy of these records, to change."""
    return shutil.copytree(all_tried, tmp_path / "results")


@pytest.mark.parametrize("name", list(trials.BUDGETS))
def test_every_system_has_as_many_trials_and_none_sees_the_test_set(name: str) -> None:
    rows = trials.trial_rows(SCALES[name])
    assert len({row.identity(1) for row in rows}) == len({row.name for row in rows}) == len(rows)
    systems = SCALES[name].comparison.models
    counts = {system: sum(row.name.startswith(f"trial-{system}-") for row in rows) for system in systems}
    assert len(set(counts.values())) == 1
    for system in systems:  # each tries rates, schedules, dropout and an optimizer of its own
        tried = [row.configuration() for row in rows if row.name.startswith(f"trial-{system}-")]
        assert len({each.schedule.peak for each in tried}) >= 4
        assert len({each.schedule.name for each in tried}) >= 2
        assert len({each.model.dropout for each in tried}) >= 2
        assert len({(each.optimizer.name, each.optimizer.beta2) for each in tried}) >= 2
    assert not any(row.scored for row in rows)
    for row in rows:
        config = row.configuration()
        assert config.training.patience * config.training.validate_every >= 2 * config.schedule.warmup
        assert config.training.max_steps == trials.BUDGETS[name].trial_steps
        assert config.training.validate_share == 1  # so that the last step doesn't depend on the machine
        assert parameters(config) > 0
    paper = next(row for row in rows if row.name == "trial-transformer-paper").configuration()
    assert (paper.schedule.name, paper.optimizer.name, paper.optimizer.beta2) == ("noam", "adam", 0.98)
    assert trials.trial_rows(SCALES["wmt14"]) == []


def test_the_text_enters_the_identity_of_rows_that_state_it_alone() -> None:
    row = trials.trial_rows(TINY)[0]
    assert row.text == TINY.checksum
    other, none = (replace(row, text=text).identity(1) for text in ("0123456789ab", ""))
    assert other != row.identity(1) != none


def test_the_best_trial_of_what_has_all_of_them_is_taken(tried: Path) -> None:
    scale = trials.with_choices(TINY, tried)
    assert {scale.chosen[system] for system in ARCHITECTURES} == {"root"}
    assert scale.chosen["table3-base"] == "2"
    assert scale.seeds == (2, 3, 4, 5, 6)  # not the trials' own
    luong = [row for row in trials.trial_rows(TINY) if row.name.startswith("trial-luong-")]
    invent(tried, luong[0], 1, 99.0)
    invent(tried, next(row for row in luong if row.name.endswith("-root")), 1, None)  # diverged
    (tried / "tiny" / "trial-gnmt-own.seed1.json").unlink()
    again = trials.with_choices(TINY, tried)
    assert again.chosen["luong"] == "paper"
    assert "gnmt" not in again.chosen
    names = {row.name for row in table2.rows(again)}
    assert names == {f"table2-{system}" for system in ARCHITECTURES if system != "gnmt"}
    assert table2.rows(TINY) == table3.rows(TINY) == []  # nothing is tried yet


def test_what_is_chosen_is_run_with_every_seed(tried: Path) -> None:
    scale = trials.with_choices(TINY, tried)
    jobs = plan(table2.EXPERIMENT, TINY, results=tried)
    assert [(job.row.name, job.seed) for job in jobs[:7]] == [
        *((f"table2-{system}", 2) for system in ARCHITECTURES),
        ("table2-sutskever", 3),
    ]
    assert len(jobs) == 6 * 5
    assert all(isinstance(job.row, TrainingRow) and job.row.scored for job in jobs)

    base, *others = table3.rows(scale)
    assert base.configuration().schedule.peak == pytest.approx(0.008)  # twice its own
    assert len(others) == 19 + 3
    assert all(decays(row.configuration().schedule) for row in (*table2.rows(scale), *table3.rows(scale)))
    assert len(plan(trials.TRIALS, TINY, results=tried)) == 6 * 8 + 23 * 3


@pytest.mark.parametrize(
    ("differences", "expected", "status", "words"),
    [
        ([2.0, 2.2, 1.8], 1, "confirmed", "+2.00 ± 0.50 BLEU (3 seeds)."),
        ([2.0, 2.2, 1.8], -1, "refuted", ""),
        ([0.3, -0.2, 0.1], 1, "undecided", "seeds would decide it"),
        ([2.0], 1, "undecided", "One seed decides nothing"),
        ([0.05, -0.05, 0.0], 0, "confirmed", ""),  # its interval, ± 0.12, is within 0.3
        ([2.0, 2.2, 1.8], 0, "refuted", ""),
        ([0.5, -0.3, 0.1], 0, "undecided", "seeds would decide it"),
        ([0.0, 0.0], 1, "undecided", ""),
    ],
)
def test_a_difference_within_its_interval_decides_nothing(
    differences: list[float], expected: int, status: str, words: str
) -> None:
    claim = judge("It is better", mean(differences), expected, "BLEU")
    assert claim.status == status
    assert words in claim.because


@pytest.mark.parametrize(
    ("count", "half", "difference", "expected", "seeds"),
    [
        (3, 4.303 / 3**0.5, 0.5, 1, 18),  # a deviation of 1: 2.110 / √18 = 0.497, and 2.120 / √17 = 0.514
        (3, 4.303 / 3**0.5, 1.3, 1, 5),  # 2.776 / √5 = 1.24, and 3.182 / √4 = 1.59
        (
            3,
            4.303 / 3**0.5,
            0.1,
            0,
            99,
        ),  # 0.2 are left of 0.3: 1.984 / √99 = 0.1994, and 1.985 / √98 = 0.2005
    ],
)
def test_the_seeds_that_would_decide_have_an_interval_as_wide_as_what_is_to_be_told_apart(
    count: int, half: float, difference: float, expected: int, seeds: int
) -> None:
    claim = judge("", Mean(difference, half, count), expected, "BLEU")
    assert f"About {seeds} seeds would decide it" in claim.because


@given(st.integers(-500, 500), st.integers(-500, 500))
def test_no_number_of_seeds_tells_nothing_from_a_rounding_error(a: int, b: int) -> None:
    """The differences cancel, but for the rounding of their sum."""
    claim = judge("", mean([a / 100, b / 100, -(a + b) / 100]), 1, "BLEU")
    assert claim.status == "undecided"
    assert "seeds would decide it" not in claim.because


@pytest.mark.parametrize(
    ("row", "other", "measure", "expected", "status"),
    [
        ([None, None], [80.0, 81.0], BLEU, -1, "confirmed"),
        ([None, None], [80.0, 81.0], replace(BLEU, more_is_better=False), -1, "refuted"),
        ([80.0, 81.0], [None, None], BLEU, 1, "confirmed"),
        ([None], [80.0, 81.0], BLEU, -1, "undecided"),
        ([80.0, 81.0, None], [70.0, 71.0, 72.0], BLEU, 1, "undecided"),  # the third may be worse
        ([80.0, 81.0, None], [90.0, 91.0, 92.0], BLEU, -1, "confirmed"),
        ([80.0, 81.0, None], [80.0, 81.0, 92.0], BLEU, 0, "undecided"),
        ([None, None], [None, None], BLEU, -1, "undecided"),
        ([80.0, None], [None, 80.0], BLEU, -1, "not run yet"),
        ([], [80.0], BLEU, -1, "not run yet"),
    ],
)
def test_training_that_diverged_with_several_seeds_is_the_worse_one(
    row: list[float | None], other: list[float | None], measure: Measure, expected: int, status: str
) -> None:
    records = {
        name: [
            Record(name, "tiny", seed, "", "", {"diverged": ""} if bleu is None else {"dev": {"bleu": bleu}})
            for seed, bleu in enumerate(scores)
        ]
        for name, scores in (("a", row), ("b", other))
    }
    assert compare(Results(TINY, [], records), "", "a", "b", measure, expected, "b").status == status


def found(results: Path, scores: dict[str, float]) -> Results:
    """Record every system with these scores of seeds 2 to 6, others with 80, and collect them."""
    scale = trials.with_choices(TINY, results)
    for row in table2.rows(scale):
        for seed in scale.seeds:
            invent(results, row, seed, scores.get(row.name.removeprefix("table2-"), 80.0) + 0.1 * (seed % 2))
    return collect(table2.EXPERIMENT, TINY, results)


def cells(table: Table, name: str) -> dict[str, str]:
    """Return a system's cells by their columns."""
    (row,) = (row for row in table.rows if row[0] == name)
    return dict(zip(table.columns, row, strict=True))


def test_systems_are_compared_over_paired_seeds_and_at_equal_quality(tried: Path, tmp_path: Path) -> None:
    finding = table2.find(found(tried, {"transformer": 90.0, "luong": 85.0}))
    best, longer, cost = finding.claims
    assert longer.status == "undecided"  # every system loses as much on long sentences
    fifth = "in the fifth of longest sentences (more than 5 words) against the shortest"
    assert f"+0.00 ± 0.00 BLEU {fifth}" in longer.because
    assert best.status == "confirmed"
    assert "+5.00 ± 0.00 BLEU against the best of the others, recurrent, multiplicative" in best.because
    assert "(5 seeds)" in best.because
    (table,) = finding.tables
    ours, luong = (cells(table, name) for name in ("Transformer", "recurrent, multiplicative attention (Luong)"))
    assert ours["trial"] == "root"
    assert ours["dev BLEU"].startswith("90.0")
    # 80 BLEU lies between 45 at 1 minute and 90 at 2 minutes.
    assert ours["min to 80 dev BLEU"].startswith("1.8")
    assert luong["min to 80 dev BLEU"].startswith("1.9")
    assert cost.status in ("confirmed", "refuted")  # no seed differs from another in its operations
    assert "% operations to 80 development BLEU" in cost.because
    assert [chart.name for chart in finding.charts] == ["table2-tiny", "length-tiny"]
    for chart in finding.charts:
        assert chart.save(tmp_path).stat().st_size > 0


def test_a_systems_row_has_the_means_of_all_seeds(tried: Path) -> None:
    results = found(tried, {})
    first = results.records[table2.OURS][0].result
    first |= {"parameters": 6_000_000, "steps": 2000, "target_tokens": 4_000_000, "curve": []}
    ours = cells(table2.systems_table(results, ""), "Transformer")
    # Of five seeds, the others have 1,000 parameters, 1,000 steps, and 1,000,000 tokens in two minutes.
    assert (ours["parameters"], ours["steps"], ours["target tokens/s"]) == ("1.20 M", "1,200", "20,000")


def test_the_time_of_a_run_on_a_gpu_does_not_count(tried: Path) -> None:
    results = found(tried, {})
    for record in results.records[table2.OURS][1:]:
        record.recipe["hardware"] = {"gpus": ["a shared GPU"]}
        for point in record.result["curve"]:
            point["minutes"] /= 9
    table = table2.systems_table(results, "", level=40.0)
    ours = cells(table, "Transformer")
    assert ours["seeds"] == "5"
    assert ours["min to 40 dev BLEU"] == "1.0"
    assert ours["target tokens/s"] == "8,333"  # 1,000,000 tokens in two minutes
    assert "on a GPU" in table.note


def test_what_the_smallest_scale_alone_has_is_planned_nowhere_else(tmp_path: Path) -> None:
    for scale in (TINY, SCALES["multi30k"], SCALES["open-en-de"]):
        place = Place(scale, tmp_path, tmp_path)
        planned = {name for stage in STAGES for name, _ in stage_jobs(place, stage)}
        assert "trials" in planned
        assert ("norm" in planned) == ("gradients" in planned) == (scale is TINY)
    finding = normalization.find(Results(TINY, normalization.rows(TINY), {}))
    assert sum("12 layers" in row[0] for row in finding.tables[0].rows) == 2
    assert {claim.status for claim in finding.claims} == {"not run yet"}


@pytest.mark.parametrize(
    ("system", "diverged", "statuses"),
    [
        ("gnmt", 5, ["confirmed", "undecided", "confirmed"]),  # what diverged isn't the best of the others
        ("gnmt", 1, ["confirmed", "undecided", "confirmed"]),
        ("transformer", 5, ["refuted", "undecided", "undecided"]),
        ("transformer", 1, ["undecided", "undecided", "undecided"]),
    ],
)
def test_a_system_that_diverged_has_been_run(tried: Path, system: str, diverged: int, statuses: list[str]) -> None:
    found(tried, {"transformer": 90.0, "luong": 85.0})
    row = next(row for row in table2.rows(trials.with_choices(TINY, tried)) if row.name == f"table2-{system}")
    for seed in range(2, 2 + diverged):
        invent(tried, row, seed, None)
    claims = table2.find(collect(table2.EXPERIMENT, TINY, tried)).claims
    assert [claim.status for claim in claims] == statuses


def test_what_some_systems_reach_is_told_and_decides_nothing(tried: Path) -> None:
    results = found(tried, {"transformer": 90.0, "luong": 85.0})
    results.records["table2-gnmt"] = []
    best, longer, cost = table2.find(results).claims
    assert {best.status, longer.status, cost.status} == {"undecided"}
    assert "+5.00 ± 0.00 BLEU against the best of the others, recurrent, multiplicative" in best.because
    assert best.because.endswith("(5 seeds). Not run yet: recurrent, residual stack (GNMT).")
    results.records[table2.OURS] = []
    assert {claim.status for claim in table2.find(results).claims} == {"not run yet"}


def test_nothing_is_claimed_before_the_runs(tmp_path: Path) -> None:
    nothing = [table.find(collect(table.EXPERIMENT, TINY, tmp_path)) for table in (table2, table3)]
    assert {claim.status for finding in nothing for claim in finding.claims} == {"not run yet"}


@pytest.mark.parametrize(("score", "status"), [(70.0, "undecided"), (90.0, "confirmed")])
def test_a_row_whose_best_rate_was_the_lowest_is_not_found_worse(tried: Path, score: float, status: str) -> None:
    for row in trials.trial_rows(TINY):
        if row.name.startswith("trial-table3-big"):
            invent(tried, row, 1, 90.0 if row.name.endswith("x0.5") else 80.0)
    for row in table3.rows(trials.with_choices(TINY, tried)):
        for seed in (2, 3):
            invent(tried, row, seed, score if row.name == "table3-big" else 80.0)
    claims = {claim.text: claim for claim in table3.find(collect(table3.EXPERIMENT, TINY, tried)).claims}
    big = claims["The big model is better than base"]
    assert (big.status, "lowest rate" in big.because) == (status, status == "undecided")


def test_variations_are_compared_with_base(tried: Path) -> None:
    scale = trials.with_choices(TINY, tried)
    for row in table3.rows(scale):
        for seed in scale.seeds:
            invent(tried, row, seed, (60.0 if row.name.endswith("a-h1") else 80.0) + seed)
    finding = table3.find(collect(table3.EXPERIMENT, TINY, tried))
    status = {claim.text: claim.status for claim in finding.claims}
    assert status["(A) A single head is worse than several"] == "confirmed"
    assert status["(A) Too many heads are worse, too"] == "undecided"
    assert status["(E) Learned positions are nearly identical to sinusoids"] == "confirmed"
    (row,) = [row for row in finding.tables[0].rows if row[0].startswith("(A) h = 1,")]
    assert row[5:8] == ("2.00 ± 0.00", "64.00 ± 1.96", "-20.00 ± 0.00")
    assert row[-1] == "-0.9"
    finding.charts[0].save(tried)


def test_a_missing_text_names_the_command_that_makes_it(elsewhere: Path) -> None:
    scale, said = SCALES["open-en-de"], list[str]()
    rows = trials.trial_rows(scale)
    with pytest.raises(DataError, match="`headwise data get open-en-de-text` brings it"):
        prepare_text(rows, scale, said.append)
    for file in (scale.test.source, scale.test.target):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("a\n")
    made = r"train\.en: there is no such file; `python examples/open_text.py .*` makes it"
    with pytest.raises(DataError, match=made):
        prepare_text(rows, scale, said.append)
    prepare_text([], scale, said.append)  # what reads no text needs none


@pytest.mark.parametrize("name", ["dev.en", "train.de", "test.de"])
def test_a_missing_file_of_the_built_in_text_names_the_command_that_brings_it(elsewhere: Path, name: str) -> None:
    write_built_in("tiny", Path("data/tiny"))
    Path("data/tiny", name).unlink()
    with pytest.raises(DataError, match=f"{name}: there is no such file; `headwise data get tiny` brings it"):
        prepare_text(trials.trial_rows(TINY), TINY, pytest.fail)


@pytest.mark.parametrize("scale", SCALES.values(), ids=lambda scale: scale.name)
def test_a_test_set_is_part_of_the_corpus_that_brings_it(scale: Scale) -> None:
    for test in (scale.test, *scale.other_tests.values()):
        corpus = find_corpus(test.corpus)
        files = {corpus.folder / file.name for file in corpus.files}
        assert {test.source, test.target} <= files


def test_a_smaller_text_is_part_of_a_larger_one(tried: Path, elsewhere: Path) -> None:
    rows = text_size.rows(trials.with_choices(TINY, tried))

    whole = [row for row in rows if row.name.startswith("table2-")]
    prepare_text(whole, TINY, pytest.fail)
    assert not list(Path("data/tiny").glob("*.every*"))
    prepare_text(rows, TINY, pytest.fail)
    for side in ("en", "de"):
        file = f"data/tiny/train.{side}"
        lines = Path(file).read_text().split("\n")[:-1]
        for of in TINY.parts:
            assert Path(part_of(file, of)).read_text().split("\n")[:-1] == lines[::of]
    part = Path("data/tiny/train.every8.en")
    before = part.stat()
    prepare_text(rows, TINY, pytest.fail)
    assert part.stat() == before  # a run may be reading it
    part.write_text("of other text\n")
    prepare_text(rows, TINY, pytest.fail)
    assert part.stat().st_size == before.st_size


def test_the_size_of_the_text_alone_differs_from_table_2(tried: Path) -> None:
    assert text_size.rows(TINY) == []  # nothing is tried yet
    whole = {row.name: row for row in table2.rows(trials.with_choices(TINY, tried))}
    rows = text_size.rows(trials.with_choices(TINY, tried))
    assert len({row.identity(2) for row in rows}) == len({row.name for row in rows}) == 3 * 4
    for row in rows:
        if row.name in whole:
            assert row == whole[row.name]
            continue
        _, system, of = row.name.split("-")
        found, original = row.configuration().model_copy(deep=True), whole[f"table2-{system}"].configuration()
        for side in ("source", "target"):
            (file,) = getattr(original.data, side)
            assert getattr(found.data, side) == [part_of(file, int(of))]
            setattr(found.data, side, [file])
        assert found == original


@pytest.mark.parametrize(("on_the_least", "status"), [(60.0, "confirmed"), (95.0, "refuted")])
def test_what_the_transformer_gains_with_text_is_judged_over_paired_seeds(
    tried: Path, tmp_path: Path, on_the_least: float, status: str
) -> None:
    scale = trials.with_choices(TINY, tried)
    for row in text_size.rows(scale):
        for seed in scale.seeds:
            better = row.name == "table2-transformer"
            few = row.name.endswith("-transformer-8")
            invent(tried, row, seed, (90.0 if better else on_the_least if few else 80.0) + seed)
    finding = text_size.find(collect(text_size.EXPERIMENT, TINY, tried))
    (claim,) = finding.claims
    assert claim.status == status
    # 10 ahead on all of the text; 20 behind, or 15 ahead, on an eighth of it.
    gain = 10 - (on_the_least - 80)
    assert f"{gain:+.2f} ± 0.00 BLEU on all of the text against 1/8 of it" in claim.because
    for table in finding.tables:
        assert table.rows[-1][-1].startswith("94.00 ±")
    assert finding.charts[0].save(tmp_path).stat().st_size > 0
    nothing = collect(text_size.EXPERIMENT, TINY, tmp_path)
    assert [claim.status for claim in text_size.find(nothing).claims] == ["not run yet"]


@pytest.mark.parametrize("diverged", [1, 5])
@pytest.mark.parametrize("name", ["table2-transformer", "size-luong-8"])
def test_a_gain_of_the_seeds_that_did_not_diverge_decides_nothing(tried: Path, name: str, diverged: int) -> None:
    scale = trials.with_choices(TINY, tried)
    for row in text_size.rows(scale):
        for seed in scale.seeds:
            score = 60.0 if row.name.endswith("-transformer-8") else 80.0
            invent(tried, row, seed, None if row.name == name and seed < 2 + diverged else score)
    (claim,) = text_size.find(collect(text_size.EXPERIMENT, TINY, tried)).claims
    assert claim.status == "undecided"
    assert f"{name}: {5 - diverged} and {diverged} diverged." in claim.because


def test_trials_are_all_listed(tried: Path) -> None:
    systems, variations = trials.find_trials(collect(trials.TRIALS, TINY, tried)).tables
    assert [row[-1] for row in systems.rows] == ["root"] * 6
    assert [len(row) for row in systems.rows] == [1 + 8 + 1] * 6
    assert all(f"{trial}: " in systems.note for trial in trials.BUDGETS["tiny"].trials)
    assert [row[-1] for row in variations.rows] == ["2"] * 23


def test_a_scale_is_run_on_its_own_text_alone(tmp_path: Path) -> None:
    for name in ("train.en", "train.de", "dev.en", "dev.de"):
        (tmp_path / name).write_text("a b c\n")
    text = (
        f"data.source=[{tmp_path}/train.en]", f"data.target=[{tmp_path}/train.de]",
        f"data.dev_source={tmp_path}/dev.en", f"data.dev_target={tmp_path}/dev.de",
    )  # fmt: skip
    base = RowRecipe(TINY.base.file, (*TINY.base.changes, *text))
    scale = replace(TINY, base=base, test=TestSet(tmp_path / "dev.en", tmp_path / "dev.de"), built_in="")
    rows = trials.trial_rows(scale)[:1]
    with pytest.raises(DataError, match=rf"text of the scale tiny \(checksum {TINY.checksum}\), found"):
        prepare_text(rows, scale, pytest.fail)
    prepare_text(rows, replace(scale, checksum=""), pytest.fail)


def test_every_recorded_seed_counts(tmp_path: Path) -> None:
    row = table2.rows(SCALES["wmt14"])[0]
    longer = replace(row, name=f"{row.name}.seed5")  # another row, whose name begins with this one's
    for seed in (1, 0, 42):
        invent(tmp_path, row, seed, 20.0 + seed)
        invent(tmp_path, longer, seed + 1, 50.0)
    results = collect(table2.EXPERIMENT, SCALES["wmt14"], tmp_path)
    assert results.values(row.name, BLEU.path) == {0: 20.0, 1: 21.0, 42: 62.0}
    one = collect(table2.EXPERIMENT, SCALES["wmt14"], tmp_path, [42])
    assert [*one.values(row.name, BLEU.path)] == [42]


@pytest.mark.slow
def test_what_is_unfinished_is_continued(tmp_path: Path) -> None:
    """Real commands, in processes of their own: what is recorded isn't run again, and a failure is named at the end."""
    place = Place(TINY, tmp_path / "runs", tmp_path / "results", Machine("cpu"))
    said: list[str] = []
    (done,), (open_,) = plan(SCALING, TINY), plan(PERMUTATION, TINY)
    write_record(Record(done.row.name, done.row.scale, 1, done.row.identity(1), "", {}), place.results)
    finish(place, 2, said.append, [["permutation", "sqrt-dk"], ["sqrt-dk"]])
    assert said == ["permutation, sqrt-dk: 1 rows to run, 2 at a time", "sqrt-dk: 0 rows to run, 2 at a time"]
    bases = [job.row.name for _, job in unfinished(place, ["permutation", "trials"], ["*-base-*"])]
    assert bases == [f"trial-table3-base-x{multiple}" for multiple in ("0.5", "1", "2")]
    made = open_.record(place.results)
    assert made is not None
    assert made.result["exact"] == 0.0
    place.results.rename(tmp_path / "before")
    place.results.write_text("a file where the folder of records is to be")
    with pytest.raises(TrainingError, match=r"found 1 that failed: permutation \(seed 1\)"):
        finish(place, 1, said.append, [["permutation"]])


def test_what_another_process_runs_or_trains_is_skipped(tmp_path: Path) -> None:
    place = Place(TINY, tmp_path / "runs", tmp_path / "results")
    row = TrainingRow("base", "", "tiny", TINY.base.file)
    measured = MeasuredRow("measured", "", dict, {}, "heads", "tiny", (row,))
    said: list[str] = []
    with hold(place.lock("base", 1)):
        run([RowJob(row, 1), RowJob(measured, 1)], place, said.append)
    assert [line for line in said if not line.startswith("$ ")] == [
        f"{name} (seed 1): another process is at it" for name in ("base", "measured")
    ]


def test_where_a_row_was_stopped_no_other_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []

    def interrupted(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        started.append(command)
        return subprocess.CompletedProcess(command, 130)

    monkeypatch.setattr(subprocess, "run", interrupted)
    machine = Machine("cuda:1", processes=3)
    place = Place(TINY, tmp_path / "runs", tmp_path / "results", machine)
    with pytest.raises(KeyboardInterrupt):
        finish(place, 1, lambda line: None, [["trials"]])
    assert len(started) == 1
    assert "--device cuda:1 --processes 3" in " ".join(started[0])
