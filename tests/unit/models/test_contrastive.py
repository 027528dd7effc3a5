"""CLIP's loss against its formula, similarities against their parts, captions against their pictures."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from headwise.analysis.patches import rollout
from headwise.config import ModelConfig
from headwise.evaluation.labels import accuracy_at
from headwise.images.captions import LEAST_CANVAS, PHRASINGS, PLACES, CaptionWords, Facts, draw_picture, paint
from headwise.models.contrastive import ImageText, contrastive_loss
from headwise.text.tokens.subwords import EOS, UNK

SHAPE = {
    "encoder_layers": 2, "d_model": 16, "d_ff": 24, "heads": 2, "max_length": 24, "norm": "pre", "dropout": 0.0,
    "positions": "learned", "scale_embeddings": False,
}  # fmt: skip


def model() -> ImageText:
    torch.manual_seed(0)
    return ImageText(ModelConfig.model_validate(SHAPE), (1, 8, 8), 2, 30, 12).double().eval()


@given(st.integers(2, 12), st.integers(0, 2**32 - 1))
def test_the_loss_is_clips(pairs: int, seed: int) -> None:
    """Both directions in float64, as in figure 3 of the paper; summed over pairs."""
    logits = np.random.default_rng(seed).normal(size=(pairs, pairs)) * 5
    expected = 0.0
    for i in range(pairs):
        by_image = np.exp(logits[i, i]) / np.exp(logits[i, :]).sum()
        by_text = np.exp(logits[i, i]) / np.exp(logits[:, i]).sum()
        expected -= (np.log(by_image) + np.log(by_text)) / 2
    assert contrastive_loss(torch.from_numpy(logits)).item() == pytest.approx(expected, rel=1e-9)


@torch.no_grad()
def test_similarities_are_cosines_times_the_learned_scale() -> None:
    ours = model()
    ours.vision.compute_dtype = ours.text.compute_dtype = torch.float64
    images = torch.randn(3, 1, 8, 8, dtype=torch.float64)
    tokens = torch.tensor([[5, 6, 7, 3], [8, 3, 0, 0], [9, 10, 3, 0]])
    logits = ours(images, tokens, tokens != 0)
    assert ours.scale.item() == pytest.approx(1 / 0.07, rel=1e-6)
    for i in range(3):
        for t in range(3):
            real = tokens[t][tokens[t] != 0]
            shares = ours.shares(images[i], real)
            assert shares.shape == (len(real), 16)
            assert (ours.scale * shares.sum()).item() == pytest.approx(logits[i, t].item(), rel=1e-4)
    ours.log_scale.fill_(9.0)
    assert ours.scale.item() == pytest.approx(100.0, rel=1e-5)


def test_a_scale_beyond_its_bound_comes_back() -> None:
    ours = model()
    with torch.no_grad():
        ours.log_scale.fill_(4.7)
    ours.scale.backward()
    assert ours.scale.item() == pytest.approx(100.0, rel=1e-5)
    assert ours.log_scale.grad is not None
    assert ours.log_scale.grad.item() == pytest.approx(100.0, rel=1e-5)


def test_retrieval_counts_the_own_item_among_the_most_similar() -> None:
    similarities = np.array([[3.0, 1, 2], [5, 4, 6], [0, 0, 0]])
    assert accuracy_at(similarities, 1) == pytest.approx(100 / 3)
    assert accuracy_at(similarities, 2) == pytest.approx(100 / 3)
    assert accuracy_at(similarities, 3) == 100.0


def test_rollout_is_the_product_of_layers_with_half_of_their_input() -> None:
    layers = torch.rand(3, 2, 5, 5).softmax(dim=-1)
    expected = torch.eye(5)
    for layer in layers:
        expected = (0.5 * layer.mean(0) + 0.5 * torch.eye(5)) @ expected
    assert_close(rollout(layers), expected)
    assert_close(rollout(layers).sum(dim=-1), torch.ones(5))


@pytest.mark.parametrize("faint", [False, True])
def test_facts_are_measured_on_the_picture(faint: bool) -> None:
    digit = np.zeros((8, 8), np.float32)
    digit[:, 3:5] = 1.0  # a quarter of the square: thin
    for row, top in enumerate((0, 3, 6)):
        for column, left in enumerate((0, 3, 6)):
            facts = Facts.of(paint(digit, 14, top=top, left=left, faint=faint), 1, 8)
            assert PLACES[facts.place].split() == [
                ("top", "middle", "bottom")[row],
                ("left", "center", "right")[column],
            ]
            assert (facts.stroke, facts.light) == ("thin", "faint" if faint else "bright")
    digit[:, 2:6] = 1.0
    assert Facts.of(paint(digit, 14, top=0, left=0, faint=faint), 1, 8).stroke == "bold"


def test_what_is_kept_for_testing_is_never_drawn_for_training() -> None:
    random, digit = np.random.default_rng(0), np.zeros((8, 8), np.float32)
    digit[:, 1:7] = 0.9
    for label in range(10):
        seen = {draw_picture(digit, label, 12, random, held_out=False)[1].place for _ in range(150)}
        kept = {draw_picture(digit, label, 12, random, held_out=True)[1].place for _ in range(20)}
        assert len(seen) == 8
        assert kept == set(range(9)) - seen
    every = {Facts(d, p, "thin", "faint").held_out for d in range(10) for p in range(9)}
    assert every == {True, False}


def test_on_the_smallest_canvas_every_digit_can_be_at_every_place() -> None:
    digits = pytest.importorskip("sklearn.datasets", reason="needs the extra 'digits'").load_digits().images
    for digit in digits[:: len(digits) // 599].astype(np.float32):
        drawn = (paint(digit, LEAST_CANVAS, top=n, left=n, faint=False) for n in range(LEAST_CANVAS - 7))
        places = [Facts.of(picture, 0, 8).place for picture in drawn]
        assert {place // 3 for place in places} == {place % 3 for place in places} == {0, 1, 2}


def test_captions_say_every_fact_in_words_that_are_known() -> None:
    words = CaptionWords()
    assert words.words == sorted(set(words.words))
    for phrasing in PHRASINGS:
        captions = set()
        for digit in range(10):
            for place in range(9):
                for stroke in ("thin", "medium", "bold"):
                    for light in ("faint", "bright"):
                        caption = Facts(digit, place, stroke, light).caption(phrasing)
                        ids = words.encode(caption)
                        assert UNK not in ids
                        assert ids[-1] == EOS
                        assert len(ids) <= words.longest
                        assert " ".join(words.name(i) for i in ids[:-1]) == caption
                        captions.add(caption)
        assert len(captions) == 10 * 9 * 3 * 2  # no two sets of facts read the same
    assert words.encode("A seven, odd: purple")[-2] == UNK
    assert words.unknown("A seven, odd: purple") == ["purple"]
