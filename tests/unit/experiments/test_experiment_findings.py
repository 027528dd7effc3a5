"""Tables and claims computed from synthetic records, whose findings are known."""

from __future__ import annotations

from typing import Any

import pytest

from headwise.analysis.interventions import PARTS
from headwise.config import Config, DataConfig
from headwise.config.presets import preset
from headwise.experiments import extrapolation, gradients, heads, ingredients, table3
from headwise.experiments.harness.outcome import Claim, Finding
from headwise.experiments.harness.records import Record, Results
from headwise.experiments.harness.runner import Experiment
from headwise.experiments.paper import TABLE_3, row_name
from headwise.experiments.scales import ARCHITECTURES, SCALES, Scale
from headwise.experiments.variations import ablation_rows, variation_row
from headwise.tasks.recipes import CorpusSize, choose

pytestmark = pytest.mark.usefixtures("at_the_root")
BASE = 40.0
UNTRIED = SCALES["wmt14"]  # whose rows are there without trials


def synthetic_results(experiment: Experiment, scale: Scale, results: dict[str, dict[int, dict[str, Any]]]) -> Results:
    """Return results from synthetic records: row -> seed -> result."""
    records = {
        name: [Record(name, scale.name, seed, "", "", result) for seed, result in seeds.items()]
        for name, seeds in results.items()
    }
    rows = list(experiment.rows(scale))
    return Results(scale, rows, {row.name: records.get(row.name, []) for row in rows})


def variations(differences: dict[str, list[float]]) -> Finding:
    """Return Table 3's finding: base has 40 and 50 BLEU with seeds 1 and 2, the other rows differ from it as given."""
    results = {
        row_name(line.preset): {
            seed: {
                "parameters": 1000,
                "dev": {"bleu": BASE + 10 * (seed - 1) + difference, "perplexity": 5.0},
                "curve": [],
            }
            for seed, difference in enumerate(differences.get(line.preset, [-1.0, -1.0]), start=1)
        }
        for line in TABLE_3
    }
    return table3.find(synthetic_results(table3.EXPERIMENT, UNTRIED, results))


def cells(finding: Finding, label: str) -> dict[str, str]:
    """Return the row of the first table whose first cell ends with `label`, by column."""
    (table, *_) = finding.tables
    (row,) = [row for row in table.rows if row[0].endswith(label)]
    return dict(zip(table.columns, row, strict=True))


def claim(finding: Finding, words: str) -> Claim:
    (found,) = [claim for claim in finding.claims if words in claim.text]
    return found


def test_a_difference_is_of_seeds_that_both_have() -> None:
    """Base's second seed is 10 BLEU better; a row without that seed is compared with the first alone."""
    finding = variations({"base": [0.0, 0.0], "table3-a-h1": [-2.0], "table3-a-h4": [-1.0, -3.0]})
    one, two = cells(finding, "h = 1, d_k = d_v = 512"), cells(finding, "h = 4, d_k = d_v = 128")
    assert one["Δ to base"] == "-2.00"
    assert two["Δ to base"].startswith("-2.00 ± 12.7")  # Student's quantile for two values, times s / √2 = 1
    assert two["BLEU"].startswith("43.00 ± ")


def test_a_row_that_is_missing_has_empty_cells() -> None:
    finding = variations({"base": [0.0], "table3-b-dk16": []})
    assert cells(finding, "d_k = 16")["Δ to base"] == "–"
    assert claim(finding, "d_k = 16").status == "not run yet"


def test_the_rate_goes_with_the_width() -> None:
    for name in ("tiny", "multi30k"):
        scale = SCALES[name]
        base = Config.load(scale.base.file, scale.base.changes)
        assert base.schedule.peak is not None
        for line in TABLE_3:
            config = variation_row(line.preset, scale).configuration()
            by_width = base.schedule.peak * (base.model.d_model / config.model.d_model) ** 0.5
            assert config.schedule.peak == pytest.approx(by_width, rel=1e-3)
    assert variation_row("big", UNTRIED).configuration().schedule.peak is None  # the paper's formula


@pytest.mark.parametrize(
    ("roles", "relation", "status"),
    [
        (["det → head", "rare word"], "det → head", "confirmed"),
        (["offset -1", "rare word"], None, "confirmed"),
        ([], "det → head", "refuted"),
        ([], None, "undecided"),  # without trees, few roles can be detected
    ],
)
def test_roles_are_undecided_without_trees(roles: list[str], relation: str | None, status: str) -> None:
    head: dict[str, Any] = {
        "part": "encoder", "layer": 0, "head": 0, "offset": -1, "share": 0.5, "share_by_chance": 0.1,
        "entropy": 1.0, "entropy_if_uniform": 2.0, "border": 0.1, "relation": relation,
        "relation_found": 0.5, "relation_by_offset": 0.4, "roles": roles,
    }  # fmt: skip
    maps = {part: [[[[1000]]]] for part in PARTS}  # (layers, heads, query, key)
    result = {"heads": [head], "sentences": 1, "source": ["a"], "target": ["b"], "maps": maps}
    finding = heads.find(synthetic_results(heads.EXPERIMENT, UNTRIED, {"heads-attention": {1: result, 2: result}}))
    assert claim(finding, "Heads learn").status == status


@pytest.mark.parametrize(
    ("learned", "longest", "status"),
    [
        (0.99, [0.99, 0.98, 0.99], "confirmed"),
        (0.99, [0.2, 0.3, 0.25], "refuted"),
        (0.99, [0.99, 0.7, 0.95], "undecided"),
        (0.99, [0.99], "undecided"),
        (0.6, [0.5, 0.5, 0.5], "undecided"),  # not learned at the trained lengths
    ],
)
def test_positions_extrapolate_where_every_seed_is_accurate(learned: float, longest: list[float], status: str) -> None:
    records = {
        "extrapolation-sinusoidal": {
            seed: {"accuracy": {"64": learned, "128": 0.5, "256": 0.5, "512": value}}
            for seed, value in enumerate(longest, start=1)
        }
    }
    found = extrapolation.find(synthetic_results(extrapolation.EXPERIMENT, SCALES["tiny"], records))
    assert claim(found, "Sinusoids extrapolate").status == status
    assert claim(found, "ALiBi").status == "not run yet"


@pytest.mark.parametrize(
    ("fading", "status"), [([1e-4], "undecided"), ([1e-4, 2e-4], "confirmed"), ([30.0, 33.0], "refuted")]
)
def test_gradients_that_reach_far_are_those_of_several_seeds(fading: list[float], status: str) -> None:
    """The Transformer's stay as they are over 20 positions; those of all others end with `fading`."""
    results = {
        seed: {
            name: {part: [1.0] * 19 + [1.0 if name == "transformer" else end] * 2 for part in ("encoder", "decoder")}
            for name in ARCHITECTURES
        }
        for seed, end in enumerate(fading, start=1)
    }
    names = ("gradients-untrained", "gradients-trained")
    found = gradients.find(synthetic_results(gradients.EXPERIMENT, UNTRIED, dict.fromkeys(names, results)))
    assert [claim(found, f"gradients, {of}").status for of in ("untrained", "trained")] == [status] * 2


def test_the_rows_of_the_ablation_differ_from_base_in_one_key() -> None:
    whole = variation_row("base", SCALES["tiny"]).configuration().model
    for row in ablation_rows(SCALES["tiny"]):
        model = row.configuration().model
        assert sum(getattr(model, key) != getattr(whole, key) for key in type(model).model_fields) == 1


def test_the_last_ingredient_makes_the_recipe_of_two_files() -> None:
    """All keys of regularization, optimizer and schedule are those that `headwise train` chooses with a time limit."""
    size = CorpusSize(29_000, 320_000, 2_000_000, set("abc"), {str(n) for n in range(20_000)})
    chosen = choose(size, DataConfig(source=["a.en"], target=["a.de"]), timed=True).config
    for name in ("tiny", "multi30k"):
        *_, last = ingredients.ladder(SCALES[name])
        config = last.configuration()
        assert config.optimizer == chosen.optimizer
        assert config.schedule.model_copy(update={"warmup": chosen.schedule.warmup}) == chosen.schedule
        for key in ("dropout", "norm", "activation", "normalization"):
            assert getattr(config.model, key) == getattr(chosen.model, key), key
        for key in ("label_smoothing", "average_last", "best_by", "r_drop"):
            assert getattr(config.training, key) == getattr(chosen.training, key), key


def test_the_first_ingredient_is_the_papers_recipe() -> None:
    """Sections 5.3 and 5.4, as the presets have them."""
    paper = preset("base")
    for name in ("tiny", "multi30k"):
        first, whole, *others = ingredients.ladder(SCALES[name])
        config, longer = first.configuration(), whole.configuration()
        assert (config.schedule.name, config.schedule.warmup, config.schedule.scale) == ("noam", 4000, 1.0)
        assert (config.optimizer.name, config.optimizer.beta1, config.optimizer.beta2) == ("adam", 0.9, 0.98)
        assert config.optimizer.epsilon == 1e-9
        assert (config.model.norm, config.model.dropout) == (paper.norm, paper.dropout)
        assert config.model.share_embeddings == paper.share_embeddings
        assert config.training.label_smoothing == 0.1
        assert longer.training.max_steps == 4 * config.training.max_steps
        assert longer.schedule == config.schedule
        for row in others:
            assert row.configuration().training.max_steps == config.training.max_steps


def test_both_recipes_train_the_papers_base_for_an_equal_time() -> None:
    first, _, *_, last = ingredients.ladder(SCALES["multi30k"])
    paper, ours = (row.configuration() for row in ingredients.base_rows(SCALES["multi30k"]))
    base = preset("base")
    for config, recipe in ((paper, first.configuration()), (ours, last.configuration())):
        for key in ("encoder_layers", "decoder_layers", "d_model", "d_ff", "heads"):
            assert getattr(config.model, key) == getattr(base, key)
        assert config.model.norm == recipe.model.norm
        assert config.optimizer == recipe.optimizer
        assert config.schedule.name == recipe.schedule.name
        assert config.training.max_minutes is not None
        assert 60 <= config.training.max_minutes <= 360
    assert paper.training.max_minutes == ours.training.max_minutes
    assert paper.batch == ours.batch
    assert paper.schedule == first.configuration().schedule
    assert not ingredients.base_rows(SCALES["tiny"])


@pytest.mark.parametrize(("ours", "status"), [([94.0, 95.0, 96.0], "confirmed"), ([40.0, 41.0, 42.0], "refuted")])
def test_recipes_are_compared_over_seeds(ours: list[float], status: str) -> None:
    scores = {"ingredients-paper": [60.0, 61.0, 62.0], "ingredients-muon": ours}
    records = {
        row: {
            seed: {
                "steps": 2000, "dev": {"bleu": score, "perplexity": 2.0}, "test": {"bleu": {"score": score}},
                "curve": [{"step": 1000, "bleu": score / 2}, {"step": 2000, "bleu": score}],
            }
            for seed, score in enumerate(values, start=1)
        }
        for row, values in scores.items()
    }  # fmt: skip
    found = ingredients.find(synthetic_results(ingredients.EXPERIMENT, SCALES["tiny"], records))
    assert claim(found, "At equal steps").status == status
    assert claim(found, "Today's recipe").status == "not run yet"
    assert len(found.charts) == 1
