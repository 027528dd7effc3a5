"""The figure of the architecture, and the numbers inside its boxes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, expect

from browser.conftest import SERVER_ONLY, TEXT, Served, Visit, number, serving, visiting
from browser.test_numbers import best, forward
from headwise.decoding.translator_model import pytorch_model
from headwise.engine.translator import Translator
from headwise.models.counting import parameter_count
from translator_run import ENGLISH, make_run

CLOSE = {"rtol": 0, "atol": 3e-4}  # sums and products of numbers with four decimals
DEEP = {"encoder_layers": 4, "decoder_layers": 3, "norm": "pre", "positions": "rotary"}


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(make_run(tmp_path_factory.mktemp("runs") / "deep", seed=3, **DEEP)) as server:
        yield server


def vectors(visit: Visit, box: str, step: int, more: str = "") -> dict[str, np.ndarray]:
    return visit.vectors(f"text={TEXT}&box={box}&boxStep={step}&position=2{more}")


@SERVER_ONLY
def test_the_numbers_of_the_boxes_recombine(visit: Visit, translator: Translator) -> None:
    """From the token to the second layer's input, and from one box to the next."""
    w = {name: p.detach().numpy() for name, p in pytorch_model(translator).named_parameters()}
    embedded = vectors(visit, "encoder.embedding", 1)
    np.testing.assert_allclose(embedded["e"] * 4, embedded["√d_model e"], **CLOSE)
    summed = vectors(visit, "encoder.positions", 1)
    np.testing.assert_allclose(summed["√d_model e"] + summed["PE"], summed["x"], **CLOSE)
    np.testing.assert_allclose(embedded["√d_model e"], summed["√d_model e"], **CLOSE)

    queries = vectors(visit, "encoder.self-attention", 0)
    np.testing.assert_allclose(queries["x"], summed["x"], **CLOSE)
    query = w["encoder.0.self_attention.query.weight"]
    np.testing.assert_allclose(query @ queries["x"], queries["q"], **CLOSE)
    joined = vectors(visit, "encoder.self-attention", 4)
    output = w["encoder.0.self_attention.output.weight"]
    np.testing.assert_allclose(output @ joined["heads"], joined["out"], **CLOSE)

    x = normalized(visit, "encoder.self-attention.add-norm", summed["x"], joined["out"])
    inner = vectors(visit, "encoder.feed-forward", 0)
    np.testing.assert_allclose(inner["x"], x, **CLOSE)
    part = "encoder.0.feed_forward"
    np.testing.assert_allclose(w[f"{part}.w1.weight"] @ x + w[f"{part}.w1.bias"], inner["z"], **CLOSE)
    active = vectors(visit, "encoder.feed-forward", 1)
    np.testing.assert_allclose(np.maximum(inner["z"], 0), active["h"], **CLOSE)
    assert visit.facts()["share that is 0"] == pytest.approx((active["h"] == 0).mean())
    outer = vectors(visit, "encoder.feed-forward", 3)
    np.testing.assert_allclose(w[f"{part}.w2.weight"] @ active["h"] + w[f"{part}.w2.bias"], outer["FFN(x)"], **CLOSE)
    x = normalized(visit, "encoder.feed-forward.add-norm", x, outer["FFN(x)"])
    np.testing.assert_allclose(vectors(visit, "encoder.self-attention", 0, "&boxLayer=1")["x"], x, **CLOSE)


def normalized(visit: Visit, box: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Check the steps of an Add & Norm box that gets x and y; return its result."""
    added = vectors(visit, box, 0)
    np.testing.assert_allclose(added["x"], x, **CLOSE)
    np.testing.assert_allclose(added["Sublayer(x)"], y, **CLOSE)
    np.testing.assert_allclose(added["x"] + added["Sublayer(x)"], added["s"], **CLOSE)
    moments = vectors(visit, box, 1)
    shown = visit.facts()
    assert shown["mean"] == pytest.approx(added["s"].mean(), abs=1e-4)
    assert shown["variance"] == pytest.approx(added["s"].var(), abs=1e-3)
    scale = math.sqrt(shown["variance"] + shown["ε"])
    np.testing.assert_allclose((moments["s"] - shown["mean"]) / scale, moments["n"], **CLOSE)
    gained = vectors(visit, box, 2)
    np.testing.assert_allclose(gained["γ"] * gained["n"] + gained["β"], gained["out"], **CLOSE)
    return gained["out"]


@SERVER_ONLY
def test_the_softmax_ends_in_the_probabilities_of_a_forward_pass(visit: Visit, translator: Translator) -> None:
    _, gains = forward(pytorch_model(translator), *best(translator))
    z = vectors(visit, "projection", 0)["z"]
    divided = vectors(visit, "softmax", 0, "&temperature=2")
    np.testing.assert_allclose(divided["z"], z, **CLOSE)
    np.testing.assert_allclose(divided["z"] / 2, divided["z / T"], **CLOSE)
    exponentials = vectors(visit, "softmax", 1)
    shown = visit.facts()
    np.testing.assert_allclose(np.exp(exponentials["z / T"] - shown["max"]), exponentials["exp"], **CLOSE)
    shares = vectors(visit, "softmax", 2)
    np.testing.assert_allclose(shares["exp"] / shown["Σ"], shares["P"], **CLOSE)
    assert visit.facts()["log P"] == pytest.approx(gains[2], abs=1e-5)
    assert visit.page.locator("#inside .ranking-of").last.locator("li").count() == 10


@SERVER_ONLY
def test_the_figure_by_keyboard(visit: Visit) -> None:
    page = visit.open()
    boxes = page.locator("#architecture .box")
    assert boxes.count() == 2 + 2 * 4 + 2 + 2 * 6 + 2
    assert page.locator("#architecture .box[tabindex='0']").count() == 1
    first = page.locator("#architecture .box[tabindex='0']")
    expect(first).to_have_accessible_name(re.compile("^Encoder embedding: .* by 16, 2,400 parameters$"))
    first.focus()
    for key in ("ArrowUp", "ArrowUp", "ArrowRight"):
        page.keyboard.press(key)
    expect(page.locator(":focus")).to_have_attribute("data-key", "box-decoder.self-attention-0")
    for _ in range(9):
        page.keyboard.press("ArrowUp")
    expect(page.locator(":focus")).to_have_attribute("data-key", "box-decoder.cross-attention.add-norm-1")
    page.keyboard.press("Enter")
    visit.settled()
    expect(page.locator("#inside h2")).to_be_focused()
    expect(page.locator("#inside .where")).to_have_text(
        re.compile("^Decoder layer 2, Add & Norm after the cross-attention")
    )
    assert (visit.state()["box"], visit.state()["boxLayer"]) == ("decoder.cross-attention.add-norm", "1")
    page.locator("[data-key='box-decoder.cross-attention-1']").focus()
    page.keyboard.press(" ")
    visit.settled()
    expect(page.locator("#microscope h2")).to_be_focused()
    expect(page.locator("#microscope .where")).to_have_text("cross layer 2, head 1")


@pytest.mark.slow
@SERVER_ONLY
def test_one_head_of_a_box_is_of_its_layer(visit: Visit) -> None:
    page = visit.open(f"text={TEXT}&part=cross&layer=1&head=1&box=encoder.self-attention&boxLayer=1")
    page.get_by_role("button", name="One head").click()
    expect(page.locator("#microscope h2")).to_be_focused()
    expect(page.locator("#microscope .where")).to_have_text("encoder layer 2, head 1")
    page.keyboard.press("]")
    page.get_by_role("button", name="One head").click()
    expect(page.locator("#microscope .where")).to_have_text("encoder layer 2, head 2")
    visit.settled()


@pytest.mark.slow
@SERVER_ONLY
def test_the_shares_add_up_to_the_model(visit: Visit, translator: Translator) -> None:
    page = visit.open()
    shown = page.locator("#architecture .parts li").all()[1:]
    columns = zip(*[[number(one) for one in re.findall(r"[0-9.]+ %", row.inner_text())] for row in shown], strict=True)
    assert [round(sum(column), 6) for column in columns] == [100, 100]
    rows = visit.table("architecture")[1:]
    boxes = [row for row in rows if not row[0].startswith("All ")]
    assert len(boxes) == 26
    parameters = [int(row[2].replace(",", "")) for row in boxes if row[2] != "shared"]
    assert sum(parameters) == parameter_count(pytorch_model(translator))


@pytest.mark.slow
def test_a_deep_pre_norm_model_is_folded_and_says_what_it_has_not_got(browser: Browser, deep: Served) -> None:
    with visiting(browser, deep) as visit:
        page = visit.open(f"text={TEXT}&box=encoder.self-attention.add-norm&boxLayer=1")
        expect(page.locator("#inside .where")).to_have_text(re.compile("^Encoder embedding"))
        assert page.locator("#architecture .folded").count() == 3 + 2
        page.locator("[data-key='layer-decoder-2']").focus()
        page.keyboard.press("Enter")
        expect(page.locator(":focus")).to_have_attribute("data-key", "box-decoder.self-attention.norm-2")
        visit.settled()
        assert page.locator("#architecture .folded").count() == 3 + 2
        expect(page.locator("[data-key='box-decoder.feed-forward.add-2']")).to_be_visible()
        assert page.locator("[data-key='box-decoder.feed-forward.add-norm-2']").count() == 0
        page.locator("[data-key='box-encoder.positions-0']").click()
        visit.settled()
        expect(page.locator("#inside .sentence")).to_have_text(re.compile("rotary positions rotate"))
        page.locator("[data-key='box-name']").select_option("encoder.self-attention")
        page.locator("[data-key='box-layer']").select_option("3")
        visit.settled()
        queries = vectors(visit, "encoder.self-attention", 0, "&boxLayer=3")
        assert [*queries] == ["x", "x W^Q", "q"]
        pairs = [queries[name].reshape(-1, 2) for name in ("x W^Q", "q")]
        np.testing.assert_allclose(*[np.hypot(*pair.T) for pair in pairs], **CLOSE)  # a rotation keeps lengths
        assert visit.axe() == ""


@pytest.mark.slow
def test_a_wide_model_shows_a_long_text(browser: Browser, tmp_path: Path) -> None:
    layers = {"encoder_layers": 1, "decoder_layers": 1}
    run = make_run(tmp_path / "wide", d_model=1024, heads=16, max_length=200, **layers)
    with serving(run) as served, visiting(browser, served) as visit:
        page = visit.open(f"box=encoder.self-attention&boxStep=1&text={' '.join(ENGLISH * 4)}")
        expect(page.locator("#box-step")).to_contain_text("Each of the 129 tokens has a key and a value")
        expect(page.locator("#box-step .rows").first.locator("li")).to_have_count(129)


@pytest.mark.slow
@SERVER_ONLY
def test_motion_follows_the_reader(browser: Browser, served: Served) -> None:
    moving = "document.querySelectorAll('#architecture svg')[0].getAnimations({subtree: true}).length"
    for motion, moves in (("no-preference", True), ("reduce", False)):
        with visiting(browser, served, reduced_motion=motion) as visit:
            page = visit.open()
            page.locator("#source").fill("A man.")
            expect(page.locator("#architecture .caption").first).to_contain_text("A man.")
            expect(page.locator("#architecture svg.flowing")).to_have_count(1)
            page.locator("#architecture svg").evaluate("(svg) => svg.classList.remove('flowing')")
            assert page.evaluate(moving) == 0
            page.locator("#architecture svg").evaluate("(svg) => svg.classList.add('flowing')")
            assert (page.evaluate(moving) > 0) == moves


@pytest.mark.slow
@SERVER_ONLY
def test_heat_maps_have_a_color_bar_and_numbers_where_they_fit(visit: Visit) -> None:
    page = visit.open("text=A man&part=cross&layer=1&head=0")
    for panel in ("heads", "microscope"):
        bar = page.locator(f"#{panel} .color-bar")
        expect(bar).to_have_accessible_name("Colors from 0 to 1.0, deeper for larger magnitudes")
    expect(page.locator("#microscope .texts span").first).to_be_visible()
    written = [float(cell) for cell in page.locator("#microscope .texts span").all_inner_texts()]
    weights = [number(cell) for row in visit.table("microscope")[1:] for cell in row[1:]]
    assert written == pytest.approx(weights, abs=0.00501)
    visit.open(f"text={TEXT}&part=cross&layer=1&head=0")  # more than 20 subwords
    visit.chart("microscope")
    expect(page.locator("#microscope .texts span")).to_have_count(0)
