"""Interventions on image models, against changed weights."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch

from headwise.analysis.interventions import Copies, parse_interventions
from headwise.analysis.viewer import ClassifierViewer, open_viewer
from headwise.config import Config
from headwise.errors import ConfigError
from headwise.nn.multihead import MultiHeadAttention
from image_run import make_image_run

pytest.importorskip("sklearn", reason="the digits need pip install 'headwise[digits]'")


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> ClassifierViewer:
    run: Path = make_image_run(tmp_path_factory.mktemp("runs") / "digits", "image_classification", patch=2)
    viewer = open_viewer(run, Config.load(run / "config.yaml"), "cpu")
    assert isinstance(viewer, ClassifierViewer)
    return viewer


def test_a_silenced_head_equals_one_without_output(viewer: ClassifierViewer) -> None:
    pixels = viewer.held_out(3).pixels
    before = viewer.view(pixels).probabilities
    silent = viewer.view(pixels, "", parse_interventions(["silence:encoder.2.1"])).probabilities
    other = copy.copy(viewer)
    other.copies = Copies(copy.deepcopy(viewer.model))
    attentions = [m for m in other.vision.modules() if isinstance(m, MultiHeadAttention)]
    with torch.no_grad():
        attentions[1].output.weight[:, :8] = 0
    expected = other.view(pixels).probabilities
    assert before is not None
    assert silent is not None
    assert expected is not None
    assert np.allclose(silent, expected, atol=1e-6)
    assert not np.allclose(silent, before, atol=1e-6)
    again = viewer.view(pixels).probabilities
    assert again is not None
    assert np.array_equal(again, before)


def test_without_positions_the_order_of_patches_does_not_matter(viewer: ClassifierViewer) -> None:
    pixels = viewer.held_out(3).pixels  # (1, 8, 8), in patches of 2 x 2
    rows = pixels.reshape(1, 4, 2, 8)[:, ::-1].reshape(1, 8, 8).copy()  # the rows of patches upside down
    change = parse_interventions(["no-positions:*"])
    one, other = viewer.view(pixels, "", change), viewer.view(rows, "", change)
    assert one.probabilities is not None
    assert other.probabilities is not None
    assert np.allclose(one.probabilities, other.probabilities, atol=1e-5)
    with_positions = viewer.view(rows).probabilities
    assert with_positions is not None
    assert not np.allclose(with_positions, other.probabilities, atol=1e-5)


@pytest.mark.parametrize("change", ["prefix:a", "checkpoint:0", "silence:cross.1.1", "no-mask:decoder.1"])
def test_what_an_image_model_lacks_is_said(viewer: ClassifierViewer, change: str) -> None:
    with pytest.raises(ConfigError, match="intervention"):
        viewer.view(viewer.held_out(0).pixels, "", parse_interventions([change]))
