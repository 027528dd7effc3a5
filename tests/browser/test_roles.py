"""Roles on the page: the badge of a planted head, and interventions on all heads of a role."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from playwright.sync_api import expect
from safetensors.torch import load_file, save_file

from browser.conftest import TEXT, Served, Visit, number, serving, six_sentences
from headwise.analysis.interventions import parse_interventions
from headwise.analysis.translation_tracer import TranslationTracer
from headwise.engine.translator import Translator
from headwise.nn.positions import shift_matrix
from translator_run import make_run

WIDTH = 16


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose first encoder head attends to the previous token: its query rotates the positions by one."""
    run = make_run(tmp_path_factory.mktemp("runs") / "planted", seed=3, d_k=WIDTH)
    weights = load_file(run / "model.safetensors")
    weights["source_embedding.weight"] *= 0.01
    own = "encoder.0.self_attention"
    weights[f"{own}.query.weight"][:WIDTH] = 30 * shift_matrix(-1, WIDTH).float()
    weights[f"{own}.key.weight"][:WIDTH] = torch.eye(WIDTH)
    save_file(weights, run / "model.safetensors")
    return run


@pytest.fixture(scope="module")
def served(run: Path) -> Iterator[Served]:
    with serving(run, corpus=six_sentences()) as server:
        yield server


@pytest.mark.slow
def test_heads_of_a_role_against_as_many_random_ones(visit: Visit, run: Path) -> None:
    page = visit.open(f"text={TEXT}&part=encoder")
    where = page.locator("#interventions [aria-label=Where]")
    expect(where.locator("option", has_text="all “previous token” heads (1)")).to_have_count(1)
    expect(page.locator("[data-key=head-0-0] .badge")).to_have_text("−1")
    page.locator("[data-key=head-0-0]").focus()
    expect(page.locator("#heads .detail")).to_contain_text("previous token: 9")
    expect(page.locator("#heads .detail")).to_contain_text("(chance: ")

    tracer = TranslationTracer(Translator.load(run, device="cpu"))
    before = tracer.trace(TEXT)
    assert before.forced is not None

    def applied(option: str) -> str:
        where.select_option(option)
        page.locator("[data-key=apply]").click()
        visit.settled()
        change = visit.state()["changes"]
        assert before.forced is not None
        under = tracer.force(TEXT, before.forced.target.ids, parse_interventions([change]))
        row = visit.effect()
        assert row[0] == "of the translation before"
        assert number(row[2]) == pytest.approx(under.log_probability, abs=2e-4)
        assert number(row[3]) == pytest.approx(under.log_probability - before.hypotheses[0].log_probability, abs=2e-4)
        page.locator("#interventions button", has_text="Undo").click()
        visit.settled()
        assert "changes" not in visit.state()
        return change

    assert applied("role:previous token") == "silence:encoder.1.1"
    other = applied("random:previous token")
    assert other in {"silence:encoder.1.2", "silence:encoder.2.1", "silence:encoder.2.2"}
    assert applied("random:previous token") == other  # the same ones each time
