"""The panel of a vision model: its numbers equal a forward pass written out here, by pointer, keyboard and link."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.image import imsave
from playwright.sync_api import Browser, Route, expect
from torch import Tensor
from torch.nn import functional

from browser.conftest import Served, Visit, number, serving, visiting
from headwise.config import Config
from headwise.images.captions import CaptionWords
from headwise.images.prepared import ImageFormat, PreparedImages
from headwise.models.vision import ImageClassifier
from headwise.tasks.image_classification import load_classifier
from headwise.tasks.image_text import TEST_SEED, load_image_text, make_gallery
from image_run import make_image_run
from translator_run import make_run

pytest.importorskip("sklearn", reason="the digits need pip install 'headwise[digits]'")
SHOWN = 6e-5  # four decimals
CURSOR = "one => 4 * one.style.getPropertyValue('--row') + Number(one.style.getPropertyValue('--column'))"


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_image_run(tmp_path_factory.mktemp("runs") / "digits", "image_classification", patch=2)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_image_run(tmp_path_factory.mktemp("runs") / "pairs", "image_text", patch=4, width=16)


@pytest.fixture(scope="module")
def served(digits: Path, pairs: Path) -> Iterator[Served]:
    with serving(digits, pairs) as server:
        yield server


@torch.no_grad()
def attention(model: ImageClassifier, image: Tensor) -> Tensor:
    """Attention weights (layers, heads, tokens, tokens) of a normalized image, from their definition."""
    x = model.vision.patch(functional.unfold(image[None], 2, stride=2).transpose(1, 2))
    table = model.vision.positions.table
    assert model.vision.class_token is not None
    assert table is not None
    x = torch.cat([model.vision.class_token.expand(1, 1, -1), x], dim=1) + table[:17]
    layers = []
    for layer in model.vision.encoder.layers:
        own, seen = layer.self_attention, layer.around_attention.norm(x)[0]  # pyright: ignore[reportCallIssue, reportAttributeAccessIssue, reportArgumentType]
        q, k = own.query(seen).view(17, 2, 8), own.key(seen).view(17, 2, 8)  # pyright: ignore[reportCallIssue, reportAttributeAccessIssue]
        layers.append((torch.einsum("qhd,khd->hqk", q, k) / 8**0.5).softmax(-1))
        x = layer(x)
    return torch.stack(layers)


def held_out(run: Path, row: int) -> tuple[ImageClassifier, Tensor, np.ndarray, int]:
    """The model, a normalized image, its pixels from 0 to 16, and its class."""
    test, form = PreparedImages.open(run / "prepared").test, ImageFormat.load(run)
    model = load_classifier(run, Config.load(run / "config.yaml"), device="cpu")
    return model, torch.from_numpy(form.normalized(test.images[row])), test.images[row], int(test.labels[row])


def weights(visit: Visit) -> np.ndarray:
    return visit.matrix("patches")


def test_weights_and_rollout_equal_a_pass_written_out(visit: Visit, digits: Path) -> None:
    model, image, _, _ = held_out(digits, 4)
    expected = attention(model, image).numpy()
    for layer in range(2):
        for head in range(2):
            visit.open(f"image=4&over=head&layer={layer}&head={head}")
            shown = weights(visit)
            assert np.abs(shown - expected[layer, head]).max() < SHOWN
            assert np.abs(shown.sum(1) - 1).max() < SHOWN * 17
    visit.open("image=4&over=layer&layer=1")
    assert np.abs(weights(visit) - expected[1].mean(0)).max() < SHOWN
    visit.open("image=4&over=all")
    half = [(layer.mean(0) + np.eye(17)) / 2 for layer in expected]
    assert np.abs(weights(visit) - half[1] @ half[0]).max() < SHOWN


@torch.no_grad()
def test_images_are_stepped_through_and_classified(visit: Visit, digits: Path) -> None:
    page = visit.open("")
    panels = visit.panels()
    assert panels == ["patches", "heads", "architecture", "inside", "interventions", "training"]
    page.locator("[aria-label='Next image']").click()
    visit.settled()
    assert visit.state()["image"] == "1"
    model, image, _, label = held_out(digits, 1)
    probabilities = model(image[None])[0].softmax(-1)
    rows = page.locator("#patches .next").all_inner_texts()
    assert len(rows) == 10
    for row, i in zip(rows, probabilities.argsort(descending=True).tolist(), strict=True):
        name, *_, share = row.split("\n")
        assert name.split()[0] == str(i)
        assert ("true" in row) == (i == label)
        assert number(share) / 100 == pytest.approx(float(probabilities[i]), abs=6e-3)
    expect(page.locator(".picture")).to_have_accessible_name(
        f"Held-out image 2: {label}. 8 × 8 pixels in 4 × 4 patches."
    )
    page.locator("[aria-label='Previous image']").click()
    page.locator("[aria-label='Previous image']").click()
    assert visit.state()["image"] == "598"
    page.locator("#image").fill("600")
    expect(page.locator("#patches .notice")).to_contain_text("image: expected a number below 599, found 599")
    page.locator("#image").fill("7")
    visit.settled()
    expect(page.locator("#patches .notice")).to_be_empty()
    visit.refused()


def test_why_another_run_is_not_there_is_said(visit: Visit) -> None:
    page = visit.open("run=digits")
    page.route("**/api/run?**", lambda route: route.abort())
    page.locator("#run").select_option("pairs")
    expect(page.locator("#translate .notice")).to_contain_text("can’t be reached")
    expect(page.locator("#translate .notice")).to_be_visible()
    page.unroute("**/api/run?**")
    expect(page.locator("#patches")).to_be_visible()  # as soon as the server answers
    expect(page.locator("#translate")).to_be_hidden()
    visit.refused()


def test_any_patch_can_be_asked_by_keyboard_and_by_pointer(visit: Visit, digits: Path) -> None:
    model, image, _, _ = held_out(digits, 0)
    expected = attention(model, image)
    page = visit.open("over=head")
    cell = page.locator("#patches .cells")
    cell.focus()
    keys = page.keyboard
    for _ in range(4):
        keys.press("ArrowUp")
        keys.press("ArrowLeft")
    keys.press("ArrowRight")
    expect(page.locator("#patches [aria-live]")).to_contain_text("row 1, column 2 gets")
    assert float(page.locator("#patch").get_attribute("value") or "") == pytest.approx(
        float(expected[0, 0, 0, 2]), abs=1e-6
    )
    keys.press("Enter")  # that patch is the query now
    assert visit.state()["query"] == "2"
    expect(page.locator("#patches .where")).to_contain_text("What row 1, column 2 looked at, in layer 1, head 1")
    keys.press("End")
    keys.press("ArrowDown")
    value = float(page.locator("#patch").get_attribute("value") or "")
    place = int(page.locator("#patches .picture .cursor").evaluate(CURSOR))
    assert value == pytest.approx(float(expected[0, 0, 2, 1 + place]), abs=1e-6)
    keys.press("]")
    expect(page.locator("#patches .where")).to_contain_text("layer 1, head 2")
    assert visit.state()["head"] == "1"
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    visit.settled()
    expect(page.locator("#patches .where")).to_contain_text("What row 1, column 2 looked at, in layer 1, head 2")
    page.keyboard.press("Escape")
    expect(page.locator("#patches .where")).to_contain_text("What the class token looked at")

    box = page.locator(".picture").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + box["height"] * 0.6)
    expect(page.locator("#patches [aria-live]")).to_contain_text("row 3, column 4 gets")
    page.locator("[data-key=patch-head-2-1]").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.locator("#patches .where")).to_contain_text("layer 2, head 2")


@torch.no_grad()
def test_a_picture_of_ones_own_is_looked_at_and_kept_in_the_link(visit: Visit, digits: Path, tmp_path: Path) -> None:
    model, _, pixels, _ = held_out(digits, 3)
    imsave(tmp_path / "own.png", pixels[0] / 16, cmap="gray", vmin=0, vmax=1)
    (tmp_path / "no.png").write_text("no picture")
    page = visit.open("")
    page.locator("#patches input[type=file]").set_input_files(tmp_path / "no.png")
    expect(page.locator("#patches [role=status]")).to_have_text("no.png is no picture that this browser can read.")
    page.locator("#patches input[type=file]").set_input_files(tmp_path / "own.png")
    expect(page.locator(".picture")).to_have_accessible_name("Own picture. 8 × 8 pixels in 4 × 4 patches.")
    bytes_ = np.round(pixels / 16 * 255)
    form = ImageFormat.load(digits)
    probabilities = model(torch.from_numpy(form.standardized((bytes_ / 255).astype(np.float32)))[None])[0].softmax(-1)
    visit.settled()
    best = page.locator("#patches .next").first.inner_text().split("\n")
    assert best[0] == str(int(probabilities.argmax()))
    assert number(best[-1]) / 100 == pytest.approx(float(probabilities.max()), abs=6e-3)
    before, link = weights(visit), page.url
    page.goto("about:blank")
    page.goto(link)
    visit.settled()
    assert (weights(visit) == before).all()
    page.locator("#patches button", has_text="Back to the held-out").click()
    visit.settled()
    assert "pixels" not in visit.state()


SLOW = """() => {
  const decode = createImageBitmap;
  const later = (file) => new Promise((done) => setTimeout(() => done(decode(file)), 600));
  window.createImageBitmap = (file) => (file.name === "slow.png" ? later(file) : decode(file));
}"""


def test_a_picture_that_is_read_late_replaces_no_later_choice(visit: Visit, digits: Path, tmp_path: Path) -> None:
    for name, row in (("slow.png", 3), ("own.png", 5)):
        imsave(tmp_path / name, held_out(digits, row)[2][0] / 16, cmap="gray", vmin=0, vmax=1)
    page = visit.open("")
    page.evaluate(SLOW)
    choose = page.locator("#patches input[type=file]").set_input_files
    choose(tmp_path / "own.png")
    visit.settled()
    own = visit.state()["pixels"]
    choose(tmp_path / "slow.png")
    choose(tmp_path / "own.png")
    page.wait_for_timeout(900)
    assert visit.state()["pixels"] == own
    choose(tmp_path / "slow.png")
    page.get_by_label("Next image").click()
    page.wait_for_timeout(900)
    assert "pixels" not in visit.state()


def test_without_held_out_images_there_is_no_next_one(browser: Browser, digits: Path, tmp_path: Path) -> None:
    shutil.copytree(digits, tmp_path / "digits", ignore=shutil.ignore_patterns("prepared"))
    with serving(tmp_path / "digits") as served, visiting(browser, served) as visit:
        page = visit.open("")
        page.get_by_label("Next image").click()
        visit.settled()
        expect(page.locator("#patches .notice")).to_contain_text("prepared: expected")
        assert "image" not in visit.state()
        visit.refused()


def test_what_was_lost_isnt_asked_for_once_another_run_is_chosen(
    browser: Browser, digits: Path, tmp_path: Path
) -> None:
    translator = make_run(tmp_path / "translator")
    with serving(digits, translator) as served, visiting(browser, served) as visit:
        page = visit.open("")
        page.route("**/api/patches", lambda route: route.abort())
        page.get_by_label("Next image").click()
        expect(page.locator("#patches .notice")).to_contain_text("can’t be reached")
        held: list[Route] = []

        def hold(route: Route) -> None:
            held.append(route)

        page.route("**/api/runs", hold)
        page.wait_for_timeout(2500)
        page.locator("#run").select_option("translator")
        visit.settled()
        page.unroute("**/api/patches")
        held[0].continue_()
        page.wait_for_timeout(500)
        visit.settled()
        expect(page.locator("#architecture .notice")).to_be_empty()
        visit.refused()


@torch.no_grad()
def test_words_of_a_caption_meet_patches(visit: Visit, pairs: Path) -> None:
    config, words = Config.load(pairs / "config.yaml"), CaptionWords()
    model = load_image_text(pairs, config, device="cpu")
    shown = make_gallery(
        PreparedImages.open(pairs / "prepared").test,
        ImageFormat.load(pairs),
        config,
        TEST_SEED,
        held_out=None,
    )[2]
    caption = "a bold bright seven at the top left"
    ids = torch.tensor(words.encode(caption))
    image = torch.from_numpy(shown.picture)[None, None] * 2 - 1
    cosine = float(model(image, ids[None], torch.ones(1, len(ids), dtype=torch.bool)) / model.scale)

    page = visit.open("run=pairs&image=2")
    expect(page.locator("#patches input[type=text]")).to_have_attribute("placeholder", shown.facts.caption(0))
    page.locator("#patches input[type=text]").fill(caption)
    visit.settled()
    assert number(page.locator("#patches .answer strong").inner_text()) == pytest.approx(cosine, abs=6e-4)
    page.locator("#patches .unit").first.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(page.locator("#patches .where")).to_have_text("What each patch adds to “seven”")
    page.keyboard.press("Enter")
    assert visit.state()["word"] == "w3"
    rows = visit.table("patches")[1:]
    assert [row[0] for row in rows] == [*caption.split(), "</s>"]
    shares = np.array([[number(cell) for cell in row[1:]] for row in rows])
    assert shares.sum() == pytest.approx(cosine, abs=SHOWN * shares.size)
    page.keyboard.press("Escape")
    expect(page.locator("#patches .where")).to_contain_text("What all patches on average looked at")
    page.locator("#patches input[type=text]").fill("a purple seven")
    expect(page.locator("#patches .notice")).to_contain_text(
        "caption: expected words that captions have, found 'purple'"
    )
    visit.refused()


@pytest.mark.parametrize("run", ["digits", "pairs"])
def test_axe_finds_nothing_and_nothing_is_cut_off(browser: Browser, served: Served, run: str) -> None:
    with visiting(browser, served, color_scheme="dark") as visit:
        page = visit.open(f"run={run}&query=3")
        violations = visit.axe()
        visit.chart("patches")
        violations += visit.axe()
        visit.chart("patches")
        page.set_viewport_size({"width": 320, "height": 700})
        assert page.evaluate("document.documentElement.scrollWidth") <= 320
    assert violations == ""


@torch.no_grad()
def test_a_head_is_silenced_and_the_classes_change(visit: Visit, digits: Path) -> None:
    model, image, _, _ = held_out(digits, 2)
    before = model(image[None])[0].softmax(-1)
    model.vision.encoder.layers[1].self_attention.output.weight[:, 8:] = 0  # pyright: ignore[reportAttributeAccessIssue, reportIndexIssue]
    after = model(image[None])[0].softmax(-1)
    page = visit.open("image=2&over=head&layer=1&head=1")
    assert page.locator("#heads .head canvas").count() == 4
    page.locator("#heads [data-key=head-1-1]").focus()
    page.keyboard.press("x")
    visit.settled()
    assert visit.state()["changes"] == "silence:encoder.2.2"
    expect(page.locator("#interventions .result caption")).to_have_text("Class probabilities")
    for row in page.locator("#interventions .result tbody tr").all():
        name, old, now, delta = row.locator("th, td").all_inner_texts()
        assert number(old) == pytest.approx(float(before[int(name)]), abs=SHOWN)
        assert number(now) == pytest.approx(float(after[int(name)]), abs=SHOWN)
        assert number(delta) == pytest.approx(float((after / before).log()[int(name)]), abs=2e-4)
    assert visit.axe() == ""
    page.keyboard.press("u")
    visit.settled()
    assert "changes" not in visit.state()
