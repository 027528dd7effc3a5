"""`headwise reproduce` on a toy scale: rows are run once, recorded and resumed."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from commands import every_command
from headwise.config import Config
from headwise.config.presets import PRESETS, preset
from headwise.config.removed import REMOVED
from headwise.errors import ConfigError, DataError, TrainingError
from headwise.experiments.harness.cost import estimates, parameters, table
from headwise.experiments.harness.outcome import Claim, Finding, Table
from headwise.experiments.harness.records import Record, Results, environment, read_record, write_record
from headwise.experiments.harness.rows import Machine, MeasuredRow, Place, TrainingRow
from headwise.experiments.harness.runner import NAMES, Experiment, RowJob, collect, find_experiment, plan, run
from headwise.experiments.harness.test_sets import TestSet
from headwise.experiments.scales import ARCHITECTURES, SCALES, RowRecipe, Scale
from headwise.experiments.trials import BUDGETS, trial_rows
from headwise.experiments.variations import scaled_changes
from headwise.parsing import read_yaml
from program import Call
from toy import Toy

pytestmark = pytest.mark.usefixtures("at_the_root", "forked")


@pytest.fixture
def toy_scale(toy: Toy) -> Scale:
    return replace(
        SCALES["tiny"],
        name="toy",
        comparison=replace(SCALES["tiny"].comparison, alike=(), models={"transformer": RowRecipe(str(toy.config))}),
        base=RowRecipe(str(toy.config)),
        test=TestSet(toy.source, toy.target),
        sentence=6,
    )


@pytest.fixture
def toy_experiment() -> Experiment:
    def rows(scale: Scale) -> list[TrainingRow]:
        file, changes = scale.base.file, scale.base.changes
        return [
            TrainingRow("toy-short", "six steps", scale.name, file, (*changes, "training.max_steps=6")),
            TrainingRow("toy-pre", "pre-norm", scale.name, file, (*changes, "training.max_steps=6", "model.norm=pre")),
        ]

    def find(evidence: Results) -> Finding:
        cells = tuple((row.label, evidence.cell(row.name, "dev.loss")) for row in evidence.rows)
        return Finding([Table("toy", ("row", "loss"), cells)], (), [Claim("It runs", "confirmed", "It ran.")])

    return Experiment("toy", "A toy", rows, find)


def place_in(folder: Path, scale: Scale, **machine: int) -> Place:
    return Place(scale, folder / "runs", folder / "results", Machine(device="cpu", **machine))


def test_rows_are_run_once_and_recorded(toy_scale: Scale, toy_experiment: Experiment, tmp_path: Path) -> None:
    place, said = place_in(tmp_path, toy_scale), []
    jobs = plan(toy_experiment, toy_scale, rows=["toy-short"])
    run(jobs, place, said.append)
    assert said[0].startswith("$ headwise train -c ")
    record = jobs[0].record(place.results)
    assert record is not None
    assert record.result["steps"] == 6
    assert set(record.result["test"]) >= {"bleu", "tokenized_bleu", "chrf", "perplexity"}
    assert "tok:13a" in record.result["test"]["bleu"]["signature"]
    assert sum(record.result["calibration"]["counts"]) > 400
    assert set(record.recipe) >= {"hardware", "version", "data", "subwords", "seconds"}
    again: list[str] = []
    run(jobs, place, again.append)
    assert again == ["toy-short (seed 1): recorded already"]
    evidence = collect(toy_experiment, toy_scale, place.results)
    assert evidence.cell("toy-pre", "dev.loss") == "–"
    assert float(evidence.cell("toy-short", "dev.loss")) > 0


def test_a_stopped_row_resumes(toy_scale: Scale, toy_experiment: Experiment, tmp_path: Path) -> None:
    """A run that stopped at step 4, as if killed, is resumed and not restarted."""
    place = place_in(tmp_path, toy_scale)
    (job,) = plan(toy_experiment, toy_scale, rows=["toy-short"])
    command = job.row.command(1, place)
    stopped = [*command, "--max-steps", "4"]
    assert isinstance(job.row, TrainingRow)
    job.row._train(stopped)
    before = (place.run("toy-short", 1) / "metrics.jsonl").read_text().splitlines()[:4]
    run([job], place, lambda line: None)
    record = job.record(place.results)
    assert record is not None
    assert record.result["steps"] == 6
    assert (place.run("toy-short", 1) / "metrics.jsonl").read_text().splitlines()[:4] == before


def test_what_is_measured_is_trained_first(toy_scale: Scale, toy_experiment: Experiment, tmp_path: Path) -> None:
    place = place_in(tmp_path, toy_scale)
    short = toy_experiment.rows(toy_scale)[0]
    assert isinstance(short, TrainingRow)

    def measure(*, seed: int, place: Place) -> dict[str, int]:
        model = place.run(short.name, seed) / "model.safetensors"
        return {"bytes": model.stat().st_size, "made": model.stat().st_mtime_ns}

    row = MeasuredRow("measured", "its size", measure, {}, "toy", toy_scale.name, (short,))
    once = row.run(1, place)
    assert once["bytes"] > 1000
    assert row.run(1, place) == once  # it isn't trained again
    wild = ("schedule.name=constant", "schedule.peak=1e30", "training.max_steps=20")
    diverging = replace(short, name="wild", changes=(*short.changes, *wild))
    with pytest.raises(TrainingError, match=r"row wild: expected a trained run, found that step \d+: "):
        replace(row, trained=(diverging,)).run(1, place)


def test_a_changed_row_does_not_match_its_old_record(
    toy_scale: Scale, toy_experiment: Experiment, tmp_path: Path
) -> None:
    short, pre = (job.row for job in plan(toy_experiment, toy_scale))
    assert isinstance(short, TrainingRow)
    assert short.identity(1) != short.identity(2)
    assert short.identity(1) != pre.identity(1)
    changed = replace(short, changes=(*short.changes, "model.dropout=0.3"))
    elsewhere = replace(short, changes=(*short.changes, "training.device=cpu", "training.threads=3"))
    assert changed.identity(1) != short.identity(1) == elsewhere.identity(1)
    write_record(Record("toy-short", "toy", 1, short.identity(1), "", {}), tmp_path)
    assert RowJob(short, 1).record(tmp_path) is not None
    assert RowJob(changed, 1).record(tmp_path) is None


def test_a_removed_key_with_its_unused_value_changes_no_identity(
    toy_scale: Scale, toy_experiment: Experiment, tmp_path: Path
) -> None:
    row = toy_experiment.rows(toy_scale)[0]
    assert isinstance(row, TrainingRow)
    tree = read_yaml(Path(row.config))
    for key, unused in REMOVED.items():
        *sections, name = key.split(".")
        place = tree
        for section in sections:
            place = place.setdefault(section, {})
        place[name] = unused
    old = tmp_path / "of_an_earlier_version.yaml"
    old.write_text(json.dumps(tree))
    assert replace(row, config=str(old)).identity(1) == row.identity(1)


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_divergence_is_a_result(toy_scale: Scale, toy_experiment: Experiment, tmp_path: Path, processes: int) -> None:
    place = place_in(tmp_path, toy_scale, processes=processes)
    (job,) = plan(toy_experiment, toy_scale, rows=["toy-short"])
    assert isinstance(job.row, TrainingRow)
    wild = ("schedule.name=constant", "schedule.peak=1e30", "training.max_steps=20")
    row = replace(job.row, changes=(*job.row.changes, *wild))
    run([RowJob(row, 1)], place, lambda line: None)
    record = RowJob(row, 1).record(place.results)
    assert record is not None
    assert "step" in record.result["diverged"]
    evidence = Results(toy_scale, [row], {row.name: [record]})
    assert evidence.cell(row.name, "dev.loss") == "diverged"
    assert evidence.mean(row.name, "dev.loss") is None


def test_a_plan_has_each_row_with_each_seed_once() -> None:
    experiment, scale = find_experiment("table3"), SCALES["wmt14"]
    jobs = [(job.row.name, job.seed) for job in plan(experiment, scale, seeds=(1, 2))]
    assert len(jobs) == len(set(jobs)) == 2 * (20 + 3)
    chosen = plan(experiment, scale, rows=["table3-a-*"], seeds=[7])
    assert [(job.row.name, job.seed) for job in chosen] == [(f"table3-a-h{h}", 7) for h in (1, 4, 16, 32)]
    with pytest.raises(ConfigError, match="found 'table3-z'"):
        plan(experiment, scale, rows=["table3-z"])


@pytest.mark.parametrize("scale", SCALES.values(), ids=lambda scale: scale.name)
def test_every_row_has_a_command_that_parses_and_a_model_that_builds(scale: Scale) -> None:
    """Check all rows of all experiments, without allocating memory. A name means the same row in every experiment."""
    train, known, built = every_command()[("train",)], {}, set()
    place = Place(scale, Path("runs"), Path("results"))
    for name in NAMES:
        for row in find_experiment(name).rows(scale):
            assert known.setdefault(row.name, row) == row
    for row in known.values():
        if isinstance(row, TrainingRow):
            words = row.command(1, place)
            assert words[:2] == ["headwise", "train"]
            with train.make_context("train", words[2:]) as context:
                given = context.params
            config = Config.load(given["configuration"], given["overrides"])
            assert config == row.configuration(1)
            if (model := (config.task, config.subwords.size, config.model.model_dump_json())) not in built:
                assert parameters(config) > 0
                built.add(model)


@pytest.mark.parametrize("scale", SCALES.values(), ids=lambda scale: scale.name)
def test_systems_are_compared_at_equal_sizes(scale: Scale) -> None:
    systems = scale.comparison.models
    recipes = [scale.comparison.recipe(name) for name in systems]
    sizes = dict(zip(systems, (parameters(Config.load(one.file, one.changes)) for one in recipes), strict=True))
    assert len(sizes) == (3 if scale.name == "open-en-de" else 6)
    assert all(abs(size / sizes["transformer"] - 1) < 0.02 for size in sizes.values()), sizes


@pytest.mark.parametrize("name", list(BUDGETS))
def test_systems_differ_in_their_models_and_trials_alone(name: str) -> None:
    """The comparison uses the same training options for all systems, whatever their configurations are tuned with."""
    rows = {row.name: row for row in trial_rows(SCALES[name])}
    for trial in BUDGETS[name].trials:
        trees = []
        for system in SCALES[name].comparison.models:
            tree = rows[f"trial-{system}-{trial}"].configuration().model_dump()
            assert tree["training"]["r_drop"] == 0.0
            tree["model"] = {"dropout": tree["model"]["dropout"], "d_model": tree["model"]["d_model"]}
            trees.append(tree)
        assert all(tree == trees[0] for tree in trees)


@pytest.mark.parametrize("scale", SCALES.values(), ids=lambda scale: scale.name)
def test_what_is_said_of_the_subwords_of_a_scale_is_so(scale: Scale) -> None:
    recipe = scale.comparison.recipe("transformer")
    size = Config.load(recipe.file, recipe.changes).subwords.size
    assert f"the same {size:,} subwords" in scale.comparison.treatment


def test_an_analysis_of_a_run_changes_identity_with_the_run() -> None:
    scale = SCALES["wmt14"]
    wider = replace(scale, comparison=replace(scale.comparison, alike=("model.d_ff=4096",)))
    before, after = (
        {row.name: row.identity(1) for row in find_experiment("gradients").rows(one)} for one in (scale, wider)
    )
    assert before["gradients-untrained"] == after["gradients-untrained"]
    assert before["gradients-trained"] != after["gradients-trained"]


@pytest.mark.parametrize("name", [name for name in PRESETS if name != "tiny"])
def test_scaling_the_papers_base_gives_the_papers_rows(name: str) -> None:
    base = Config.load("configs/wmt14/en-de-base.yaml")
    assert base.model == preset("base")
    changed = base.with_overrides(scaled_changes(name, base.model, base.training.max_steps))
    row = preset(name)
    sizes = ("encoder_layers", "d_model", "d_ff", "heads", "key_size", "value_size", "dropout", "positions")
    assert [getattr(changed.model, key) for key in sizes] == [getattr(row, key) for key in sizes]
    assert changed.training.max_steps == (300_000 if name == "big" else 100_000)
    assert changed.training.label_smoothing == {"table3-d-ls0": 0.0, "table3-d-ls2": 0.2}.get(name, 0.1)


def test_the_papers_recipe_is_written_out() -> None:
    for pair, size in (("en-de", 37_000), ("en-fr", 32_000)):
        for name, steps, average in (("base", 100_000, 5), ("big", 300_000, 20)):
            config = Config.load(f"configs/wmt14/{pair}-{name}.yaml")
            expected = preset(name)
            if (pair, name) == ("en-fr", "big"):
                expected.dropout = 0.1  # section 6.1
            assert config.model == expected
            assert (config.subwords.size, config.subwords.joint, config.batch.tokens) == (size, True, 25_000)
            assert (config.training.max_steps, config.training.average_last) == (steps, average)
            assert (config.schedule.name, config.schedule.warmup, config.schedule.scale) == (
                "noam",
                4000,
                1.0,
            )
            o = config.optimizer
            assert (o.beta1, o.beta2, o.epsilon, o.weight_decay, o.clip_norm) == (0.9, 0.98, 1e-9, 0.0, None)
            assert (config.decoding.beam, config.decoding.alpha, config.decoding.extra_length) == (4, 0.6, 50)
            assert config.training.label_smoothing == 0.1


def test_a_base_that_cannot_be_scaled_says_so() -> None:
    base = Config.load("configs/multi30k-en-de.yaml")  # four layers: a third of them is no integer
    with pytest.raises(ConfigError, match=r"scaled by 2/6 to a whole number, found 4"):
        scaled_changes("table3-c-n2", base.model, 100)


def test_several_processes_share_the_batch(toy_scale: Scale, toy_experiment: Experiment, tmp_path: Path) -> None:
    row = toy_experiment.rows(toy_scale)[0]
    words = row.command(1, place_in(tmp_path, toy_scale, processes=4))
    launch = ["torchrun", "--standalone", "--nproc-per-node", "4", "-m"]
    alone = row.command(1, place_in(tmp_path, toy_scale))
    assert words == [*launch, *alone]  # `batch.tokens` is the whole batch, whatever the processes
    assert isinstance(row, TrainingRow)
    assert row.identity(1) == toy_experiment.rows(toy_scale)[0].identity(1)


def test_a_cost_is_estimated_before_anything_runs(toy_scale: Scale, toy_experiment: Experiment, tmp_path: Path) -> None:
    place = place_in(tmp_path, toy_scale)
    said: list[str] = []
    cost, other = estimates(plan(toy_experiment, toy_scale), place, said.append)
    assert said == ["timing toy-short", "timing toy-pre"]
    assert other.minutes is not None
    assert cost.tokens == pytest.approx(0.9 * 200 * 2 * 6)
    assert cost.minutes is not None
    assert 0 < cost.minutes < 1
    assert not place.runs.exists()


def test_costs_are_of_the_remaining_rows_and_a_model_is_timed_once(
    toy_scale: Scale, toy_experiment: Experiment, tmp_path: Path
) -> None:
    place, said = place_in(tmp_path, toy_scale), []
    done = plan(toy_experiment, toy_scale, rows=["toy-short"])
    run(done, place, lambda line: None)
    costs = estimates(plan(toy_experiment, toy_scale, seeds=[1, 2, 3]), place, said.append)
    assert [cost.recorded for cost in costs] == [True, False, False, False, False, False]
    assert said == ["timing toy-pre", "timing toy-short"]
    assert "recorded already" in table(costs).text()


def test_the_command_line(tmp_path: Path, program: Call) -> None:
    folders = ["--out", tmp_path / "runs", "--results", tmp_path / "results"]
    done = program("reproduce", "permutation", *folders).ok()
    assert ": confirmed. " in done.out
    assert (tmp_path / "runs" / "figures" / "permutation.png").exists()
    again = program("reproduce", "permutation", *folders)
    assert "recorded already" in again.err
    assert again.out == done.out
    assert "sqrt-dk" in program("reproduce", "list").out


def test_a_seed_that_is_named_twice_counts_once(tmp_path: Path, program: Call) -> None:
    """A claim of two seeds of which one is the other would be decided by one."""
    (job,) = plan(find_experiment("gradients"), SCALES["tiny"], rows=["gradients-untrained"], seeds=(1,))
    flows = {name: {"encoder": [1.0] * 10, "decoder": [1.0] * 9 + [len(name)]} for name in ARCHITECTURES}
    write_record(Record(job.row.name, job.row.scale, 1, job.row.identity(1), "", flows), tmp_path)
    command = ["reproduce", "gradients", "--rows", job.row.name, "--out", tmp_path, "--results", tmp_path]
    once, twice = (program(*command, "--seeds", seeds) for seeds in ("1", "1,01"))
    assert "undecided" in once.out.split("untrained: the")[1]
    assert "(1 seed)" in once.out
    assert twice.out == once.out


def test_a_slow_git_loses_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit is asked for when a row is finished, which may have taken days."""

    def slow(command: list[str], *, timeout: float, **_: object) -> None:
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", slow)
    assert environment()["version"]["commit"] is None


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text("{}")
    with pytest.raises(DataError, match=r"x\.json: expected the record of a result"):
        read_record(file)
    assert read_record(tmp_path / "none.json") is None


def test_where_no_record_can_be_written_nothing_is_run(tmp_path: Path, toy_scale: Scale) -> None:
    def measure(*, seed: int) -> dict[str, int]:
        raise AssertionError("it is run")

    (tmp_path / "results").write_text("a file")
    job = RowJob(MeasuredRow("measured", "", measure), 1)
    with pytest.raises(TrainingError, match=r"results/measured: can't be written"):
        run([job], place_in(tmp_path, toy_scale), print)
