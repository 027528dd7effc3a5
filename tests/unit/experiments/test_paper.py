"""The paper's tables against a second transcript, and the models' parameter counts against the printed ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwise.config.presets import PRESETS, preset
from headwise.errors import ConfigError
from headwise.experiments.harness.runner import find_experiment
from headwise.experiments.paper import (
    DEVICE_FLOPS,
    DEVICES,
    HOURS,
    TABLE_1,
    TABLE_2,
    TABLE_3,
    TABLE_4,
    TABLES,
    VOCABULARY,
    Variation,
    parameter_shares,
)
from headwise.models.counting import parameter_formula
from paths import ROOT
from program import Call

# Transcribed from the paper row by row: the rows of Table 3 without their settings.
PRINTED_3 = """
base 4.92 25.8 65
A 5.29 24.9
A 5.00 25.5
A 4.91 25.8
A 5.01 25.4
B 5.16 25.1 58
B 5.01 25.4 60
C 6.11 23.7 36
C 5.19 25.3 50
C 4.88 25.5 80
C 5.75 24.5 28
C 4.66 26.0 168
C 5.12 25.4 53
C 4.75 26.2 90
D 5.77 24.6
D 4.95 25.5
D 4.67 25.3
D 5.47 25.7
E 4.92 25.7
big 4.33 26.4 213
"""
PRINTED_2 = """
ByteNet | 23.75 | | |
Deep-Att + PosUnk | | 39.2 | | 1.0e20
GNMT + RL | 24.6 | 39.92 | 2.3e19 | 1.4e20
ConvS2S | 25.16 | 40.46 | 9.6e18 | 1.5e20
MoE | 26.03 | 40.56 | 2.0e19 | 1.2e20
Deep-Att + PosUnk Ensemble | | 40.4 | | 8.0e20
GNMT + RL Ensemble | 26.30 | 41.16 | 1.8e20 | 1.1e21
ConvS2S Ensemble | 26.36 | 41.29 | 7.7e19 | 1.2e21
"""
# The vocabulary that each printed size implies (docs/models.md): about 41,000 for the rows of base's kind.
IMPLIED_VOCABULARY, PRINTED_VOCABULARY = 41_000, 37_000


def test_table_3_is_the_papers() -> None:
    lines = [line.split() for line in PRINTED_3.strip().splitlines()]
    assert len(lines) == len(TABLE_3) == 20
    for (name, perplexity, bleu, *millions), row in zip(lines, TABLE_3, strict=True):
        assert name == (row.group or row.preset)
        assert (row.perplexity, row.bleu) == (float(perplexity), float(bleu))
        assert row.parameters == (int(millions[0]) if millions else None)
    assert {row.preset for row in TABLE_3} == set(PRESETS) - {"tiny"}


def test_table_2_is_the_papers() -> None:
    def number(cell: str) -> float | None:
        return float(cell) if cell.strip() else None

    lines = [[cell.strip() for cell in line.split("|")] for line in PRINTED_2.strip().splitlines()]
    for (name, *cells), row in zip(lines, TABLE_2, strict=False):
        assert row.name == name
        assert [row.en_de, row.en_fr, row.flops_en_de, row.flops_en_fr] == [number(cell) for cell in cells]
    base, big = TABLE_2[-2:]
    assert (base.en_de, base.en_fr, base.flops) == (27.3, 38.1, 3.3e18)
    assert (big.en_de, big.en_fr, big.flops) == (28.4, 41.8, 2.3e19)


def test_tables_1_and_4_have_the_papers_rows() -> None:
    assert [row.complexity for row in TABLE_1] == ["O(n²·d)", "O(n·d²)", "O(k·n·d²)", "O(r·n·d)"]
    assert [row.path for row in TABLE_1] == ["O(1)", "O(n)", "O(log_k(n))", "O(n/r)"]
    f1 = "88.3 90.4 90.4 91.7 91.3 91.3 91.3 92.1 92.1 92.7 93.0 93.3"
    assert [row.f1 for row in TABLE_4] == [float(each) for each in f1.split()]


@pytest.mark.parametrize(("size", "name"), [("base", "Transformer (base model)"), ("big", "Transformer (big)")])
def test_the_printed_cost_is_time_times_devices_times_their_speed(size: str, name: str) -> None:
    """The paper's cost estimate (section 6.1), to the two digits that it prints."""
    cost = next(row.flops for row in TABLE_2 if row.name == name)
    assert cost == pytest.approx(HOURS[size] * 3600 * DEVICES * DEVICE_FLOPS, rel=0.02)


@pytest.mark.parametrize("row", [row for row in TABLE_3 if row.parameters], ids=lambda row: row.preset)
def test_our_parameter_counts_are_the_papers(row: Variation) -> None:
    """Equal within 1 % plus rounding to millions: big with the printed vocabulary, the others with the implied one."""
    assert row.parameters is not None
    vocabulary = PRINTED_VOCABULARY if row.preset == "big" else IMPLIED_VOCABULARY
    ours = parameter_formula(preset(row.preset), vocabulary, vocabulary) / 1e6
    assert abs(ours - row.parameters) <= 0.01 * row.parameters + 0.5


# ------------------------------------------------------------------------------------------ headwise reproduce --show


@pytest.mark.parametrize(("name", "shares"), [("base", (30, 30, 40, 0)), ("big", (18, 35, 47, 0))])
def test_the_parts_of_a_model_add_up_to_the_formula(name: str, shares: tuple[int, ...]) -> None:
    """Embeddings V·d, 18 attentions of 4 d², 12 networks of 2 · d · d_ff and biases; the rest is LayerNorm."""
    counts = parameter_shares(name)
    total = parameter_formula(preset(name), VOCABULARY, VOCABULARY)
    assert sum(counts.values()) == total
    model = preset(name)
    assert counts["embeddings"] == VOCABULARY * model.d_model
    assert counts["attention"] == 18 * 4 * model.d_model**2
    assert counts["feed-forward"] == 12 * (2 * model.d_model * model.d_ff + model.d_ff + model.d_model)
    assert tuple(round(100 * count / total) for count in counts.values()) == shares


def test_the_printed_tables_are_complete() -> None:
    assert [len(TABLES[name]().rows) for name in ("table1", "table2", "table3", "table4")] == [4, 10, 20, 12]
    for name, table in TABLES.items():
        made = table()
        assert all(len(row) == len(made.columns) for row in made.rows), name
    printed = [row.split("|") for row in PRINTED_2.strip().splitlines()]
    for theirs, ours in zip(printed, TABLES["table2"]().rows, strict=False):
        assert [cell.strip() for cell in theirs] == list(ours)
    by_row = {row[0]: row for row in TABLES["table3"]().rows}
    assert by_row["base"][1:10] == ("6", "512", "2048", "8", "64", "64", "0.1", "0.1", "100K")
    assert by_row["big"][1:10] == ("", "1024", "4096", "16", "", "", "0.3", "", "300K")
    rows_of_a = [row for row in TABLES["table3"]().rows if row[0] == "(A)"]
    assert [row[4:7] for row in rows_of_a] == [
        ("1", "512", "512"), ("4", "128", "128"), ("16", "32", "32"), ("32", "16", "16"),
    ]  # fmt: skip


def test_headwise_prints_the_papers_table_and_its_own(program: Call, tmp_path: Path) -> None:
    done = program("reproduce", "table2", "--show", "--results", ROOT / "results").ok()
    assert "Transformer (big)           " in done.out
    assert "7.0 times base" in done.out
    assert "Bahdanau" in done.out
    alone = program("reproduce", "table2", "--show", "--results", tmp_path)  # installed without records
    assert alone.code == 0
    assert done.out.startswith(alone.out)
    as_json = program("reproduce", "table3", "--show", "--json").json
    assert len(as_json["rows"]) == 20
    assert program("reproduce", "table9", "--show").code == 2


@pytest.mark.usefixtures("at_the_root")
def test_rows_that_a_scale_never_has_are_not_said_to_wait_for_trials(program: Call, tmp_path: Path) -> None:
    undivided = program("reproduce", "text-size", "--scale", "multi30k", "--results", ROOT / "results")
    assert "text-size: expected rows at the scale multi30k, found none" in undivided.err
    assert "trials" not in undivided.err
    untried = program("reproduce", "text-size", "--results", tmp_path)
    assert "`headwise reproduce all --scale tiny` runs the trials first" in untried.err


@pytest.mark.parametrize("name", ["table4", "parameters"])
def test_a_table_without_an_experiment_is_shown_alone(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{name}: expected --show beside it"):
        find_experiment(name)
