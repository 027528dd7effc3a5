"""The numbers on the page equal those of the model, computed independently."""

from __future__ import annotations

import copy
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from playwright.sync_api import expect

from browser.conftest import MOSTLY_SERVER, TEXT, Visit, number
from headwise.analysis.interventions.weights import order
from headwise.analysis.translation_tracer import TranslationTracer
from headwise.cli.main import run as command_line
from headwise.decoding.translator_model import pytorch_model, with_model
from headwise.engine.translator import Translator
from headwise.nn.multihead import MultiHeadAttention
from headwise.nn.recording import recording
from headwise.text.tokens.subwords import BOS, EOS

pytestmark = MOSTLY_SERVER
SHOWN = 6e-5  # four decimals
PARTS = {"encoder": "self_attention", "decoder": "self_attention", "cross": "cross_attention"}


def forward(model: Any, source: list[int], target: list[int]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """One forward pass: weights (layers, heads, query, key) by part, and each target token's log-probability."""
    ids, reads = torch.tensor([source]), torch.tensor([[BOS, *target[:-1]]])
    with torch.inference_mode(), recording(model) as records:
        hidden = model(ids, torch.ones_like(ids, dtype=torch.bool), reads)
        gains = model.project(hidden)[0].log_softmax(-1)[torch.arange(len(target)), torch.tensor(target)]
    weights = {
        part: np.stack(
            [
                w[0][0].numpy()
                for name, w in records.weights.items()
                if name.endswith(ending) and name.startswith("encoder") == (part == "encoder")
            ]
        )
        for part, ending in PARTS.items()
    }
    return weights, gains.numpy()


def cross_attentions(model: Any) -> list[MultiHeadAttention]:
    modules = [
        m for name, m in model.named_modules() if "cross_attention" in name and isinstance(m, MultiHeadAttention)
    ]
    assert len(modules) == 2
    return modules


def best(translator: Translator, **options: Any) -> tuple[list[int], list[int]]:
    """The ids of the source and of the best output, both with the end symbol."""
    output = translator.translate([TEXT], **options)[0].outputs[0]
    return [*translator.subwords.encode_source(TEXT), EOS], [*output.tokens, EOS]


@pytest.mark.parametrize("part", PARTS)
def test_weights_equal_a_forward_pass(visit: Visit, translator: Translator, part: str) -> None:
    expected, _ = forward(pytorch_model(translator), *best(translator))
    for layer in range(2):
        for head in range(2):
            visit.open(f"text={TEXT}&part={part}&layer={layer}&head={head}")
            shown = visit.matrix("microscope")
            assert shown.shape == expected[part][layer, head].shape
            assert np.abs(shown - expected[part][layer, head]).max() < SHOWN
            assert np.abs(shown.sum(1) - 1).max() < SHOWN * shown.shape[1]
            if part == "decoder":
                assert (shown[np.triu_indices(len(shown), 1)] == 0).all()


def test_a_cell_has_all_its_digits_and_a_masked_one_says_so(visit: Visit, translator: Translator) -> None:
    expected, _ = forward(pytorch_model(translator), *best(translator))
    page = visit.open(f"text={TEXT}&part=decoder&layer=1&head=1&query=2&key=1")
    value = page.locator("#weight").get_attribute("value")
    assert value is not None
    assert float(value) == pytest.approx(float(expected["decoder"][1, 1, 2, 1]), abs=1e-6)
    page.locator("#microscope .cells").focus()
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    expect(page.locator("#weight")).to_have_text("masked, exactly 0")
    expect(page.locator("#weight")).to_have_attribute("value", "0")


def test_the_steps_recombine(visit: Visit, translator: Translator) -> None:
    page = visit.open(f"text={TEXT}&part=cross&layer=1&head=0&query=1&key=2&stage=2")

    def strips() -> list[np.ndarray]:
        """The vectors of a step, by the numbers that their bars have."""
        figures = page.locator("#stage figure").all()
        titles = [figure.locator("title").all_text_contents() for figure in figures]
        return [np.array([number(title.split(": ")[-1]) for title in vector]) for vector in titles]

    def column(name: str) -> np.ndarray:
        """A column of the table of all keys."""
        place = page.locator("#stage thead th").all_inner_texts().index(name)
        rows = [row.locator("th, td").all_inner_texts() for row in page.locator("#stage tbody tr").all()]
        return np.array([number(row[place]) for row in rows])

    q, k, terms = strips()
    dots = column("q·k")
    assert q * k == pytest.approx(terms, abs=1e-3)
    assert terms.sum() == pytest.approx(dots[2], abs=2e-3)

    page.locator("#stage-5").click()
    scores, weights = column("÷ √dₖ"), column("α")
    assert dots / math.sqrt(8) == pytest.approx(scores, abs=1e-3)
    assert np.exp(scores) / np.exp(scores).sum() == pytest.approx(weights, abs=1e-3)
    expected, _ = forward(pytorch_model(translator), *best(translator))
    assert weights == pytest.approx(expected["cross"][1, 0, 1], abs=SHOWN)

    page.locator("#stage-6").click()
    assert visit.state()["stage"] == "6"
    total = result = np.zeros(8)
    for key in range(len(weights)):
        page.evaluate(f"location.hash = location.hash.replace(/key=[0-9]+/, 'key={key}')")
        expect(page.locator("#stage strong").first).to_have_text(re.compile(f"^{weights[key]:.4f}"))
        v, weighted, result = strips()
        assert weights[key] * v == pytest.approx(weighted, abs=1e-3)
        total = total + weighted
    assert total == pytest.approx(result, abs=2e-3)

    page.locator("#stage-7").click()
    part, output = strips()
    matrix = cross_attentions(pytorch_model(translator))[1].output.weight.detach().numpy()
    assert matrix[:, :8] @ result == pytest.approx(part, abs=2e-3)
    assert len(output) == 16


def test_the_best_hypothesis_is_the_command_lines(visit: Visit, run: Path, tmp_path: Path) -> None:
    source, out = tmp_path / "source.txt", tmp_path / "out.txt"
    source.write_text(TEXT + "\n")
    options = ("--beam", "4", "--alpha", "0.8", "--scores", "--n-best", "4", "--device", "cpu")
    assert command_line(["translate", str(run), str(source), "-o", str(out), *options]) == 0
    page = visit.open(f"text={TEXT}&beam=4&alpha=0.8")
    shown = page.locator(".hypothesis").all_inner_texts()
    expected = [line.split("\t") for line in out.read_text().splitlines()]
    assert len(shown) == len(expected) == 4
    for text, (_, score, translation) in zip(shown, expected, strict=True):
        words, figures = text.rsplit("\n", 1)
        assert words.strip() == translation
        assert number(figures.rsplit("= ", 1)[1]) == pytest.approx(float(score), abs=6e-4)


def test_each_nodes_log_probabilities_sum_to_its_score(visit: Visit, tracer: TranslationTracer) -> None:
    visit.open(f"text={TEXT}&beam=3&alpha=0.7")
    rows = visit.table("beam")[1:]
    tree = tracer.trace(TEXT, beam=3, alpha=0.7).to_json()["tree"]
    assert len(rows) == len(tree) > 20
    for row, node in zip(rows, tree, strict=True):
        _, length, gain, total, penalty, score, state = row
        sum_of_path, place = 0.0, node
        while place is not None:
            sum_of_path += place["token_log_probability"]
            place = None if place["parent"] is None else tree[place["parent"]]
        assert sum_of_path == pytest.approx(number(total), abs=1e-3)
        assert number(gain) == pytest.approx(node["token_log_probability"], abs=SHOWN)
        assert number(penalty) == pytest.approx(((5 + int(length)) / 6) ** 0.7, abs=SHOWN)
        assert number(total) / number(penalty) == pytest.approx(number(score), abs=1e-3)
        assert state.startswith("finished") == node["finished"]


def test_each_hypothesis_shows_its_own_attention(visit: Visit, translator: Translator) -> None:
    page = visit.open(f"text={TEXT}&part=cross&layer=0&head=1")
    outputs = translator.translate([TEXT], n_best=3)[0].outputs
    assert len({output.tokens for output in outputs}) == 3
    source = [*translator.subwords.encode_source(TEXT), EOS]
    for rank, output in enumerate(outputs):
        page.locator(".hypothesis").nth(rank).click()
        visit.settled()
        weights, gains = forward(pytorch_model(translator), source, [*output.tokens, EOS])
        shown = visit.matrix("microscope")
        assert np.abs(shown - weights["cross"][0, 1]).max() < SHOWN
        tokens = [number(row[2]) for row in visit.table("translate")[1:]]
        assert tokens == pytest.approx(gains, abs=1e-4)
        visit.chart("translate")


@pytest.mark.slow
def test_an_unfinished_hypothesis_can_be_looked_into(visit: Visit, translator: Translator) -> None:
    page = visit.open(f"text={TEXT}&part=cross&layer=1&head=0")
    node = page.locator(".node[data-column='4'][data-row='2']")
    node.click()
    visit.settled()
    assert len(visit.table("microscope")) == 1 + 4
    page.keyboard.press("Escape")
    visit.settled()
    assert len(visit.table("microscope")) == 1 + len(best(translator)[1])


@pytest.mark.slow
def test_dragging_alpha_ranks_anew(visit: Visit) -> None:
    page = visit.open(f"text={TEXT}&beam=4")
    slider = page.locator("#alpha-slider")
    slider.evaluate("e => { e.value = '2'; e.dispatchEvent(new Event('input')) }")
    rows = [row.locator("th, td").all_inner_texts() for row in page.locator("#beam .ranking tbody tr").all()]
    scores = [number(row[4]) for row in rows]
    assert scores == sorted(scores, reverse=True)
    for row in rows:
        assert number(row[2]) / number(row[3]) == pytest.approx(number(row[4]), abs=1e-3)
    assert "alpha" not in visit.state()
    slider.evaluate("e => e.dispatchEvent(new Event('change'))")
    visit.settled()
    assert visit.state()["alpha"] == "2"


def test_silencing_equals_taking_the_heads_output_away(visit: Visit, translator: Translator) -> None:
    page = visit.open(f"text={TEXT}&part=cross&layer=1&head=1")

    def shown() -> tuple[object, ...]:
        output, hypotheses = (page.locator(place).inner_text() for place in ("#output", ".hypotheses"))
        return output, visit.table("heads"), hypotheses

    before = shown()
    source, target = best(translator)
    visit.chart("heads")
    page.locator("[data-key=head-1-1]").focus()
    page.keyboard.press("x")
    visit.settled()

    masked = copy.deepcopy(pytorch_model(translator))
    output = cross_attentions(masked)[1].output
    with torch.no_grad():
        output.weight[:, 8:] = 0.0  # the second of two heads of eight
    _, gains = forward(masked, source, target)
    row = visit.effect()
    assert row[0] == "of the translation before"
    assert number(row[2]) == pytest.approx(float(gains.sum()), abs=2e-4)
    assert number(row[3]) == pytest.approx(number(row[2]) - number(row[1]), abs=2e-4)
    expected = with_model(translator, masked)
    assert page.locator(".hypothesis > span").first.inner_text() == expected.translate([TEXT])[0].text
    expect(page.locator("[data-key=head-1-1]")).to_have_accessible_name("Layer 2, head 2, silenced")

    page.keyboard.press("u")
    visit.settled()
    assert shown() == before


def test_the_page_states_the_order_of_a_shuffle(visit: Visit, translator: Translator) -> None:
    page = visit.open(f"text={TEXT}&changes=shuffle:cross.1.1@7")
    count = len(translator.subwords.encode_source(TEXT)) + 1
    places = order(count, 7).tolist()
    numbers, targets = (" ".join(str(i + 1) for i in each) for each in (range(count), places))
    expect(page.locator("#interventions .chips li")).to_contain_text(f"positions {numbers} become {targets}")
