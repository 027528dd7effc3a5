"""The panel of a language model: its next-token distribution equals a forward pass, and sampling its definitions."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from playwright.sync_api import Browser, expect

from browser.conftest import number, serving, visiting
from headwise.decoding.generation import Generator, first_token
from headwise.engine.options import GenerationOptions
from language_model_run import make_language_model_run

PROMPT = "the cat sat"


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_language_model_run(tmp_path_factory.mktemp("runs") / "writer")


def test_the_next_token_and_what_it_is_drawn_from(browser: Browser, writer: Path) -> None:
    generator = Generator.load(writer, device="cpu")
    vocabulary = generator.vocabulary
    ids = [first_token(generator.config, vocabulary), *vocabulary.encode(PROMPT)]
    with torch.no_grad():
        scores = generator.model.project(generator.model(torch.tensor([ids])))[0, -1].double()
    scores[: vocabulary.line_end] = -torch.inf
    own = scores.softmax(0)
    warm = (scores / 0.5).softmax(0)
    kept = warm.topk(5)

    with serving(writer) as served, visiting(browser, served) as visit:
        page = visit.open(f"text={PROMPT}&temperature=0.5&topk=5")
        panels = "language heads microscope architecture inside interventions recurrence training"
        assert visit.panels() == panels.split()
        expect(page.locator("#language .detail")).to_contain_text("5 tokens can be drawn")
        rows = visit.table("language")[1:]
        for place, (row, i) in enumerate(zip(rows, own.topk(len(rows)).indices.tolist(), strict=True)):
            assert row[0].replace("␣", " ").replace("↵", "\n") == vocabulary.piece(i)
            assert number(row[1]) == pytest.approx(float(own[i]), abs=6e-5)
            drawn = float(warm[i] / kept.values.sum()) if place < 5 else 0.0
            assert number(row[2]) == pytest.approx(drawn, abs=6e-5)

        visit.chart("language")
        page.locator(".next").first.focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        visit.settled()
        said = vocabulary.piece(own.topk(2).indices.tolist()[1])
        assert page.locator("#prompt").input_value() == PROMPT + said
        page.locator("#language button", has_text="Write on").click()
        options = GenerationOptions(temperature=0.5, top_k=5, max_tokens=40)
        expected = PROMPT + said + generator.generate(PROMPT + said, options)[0]
        expect(page.locator("#prompt")).to_have_value(expected)
        assert visit.axe() == ""
        page.locator("#prompt").fill("日本")
        expect(page.locator("#language .notice")).to_contain_text(
            "expected characters of the training text, found '日'"
        )
        visit.refused()
