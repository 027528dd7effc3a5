"""Vision Transformers, imported, against `transformers` itself; nothing is downloaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from headwise.analysis.viewer import open_viewer
from headwise.cli.main import run as headwise
from headwise.config import Config

transformers = pytest.importorskip("transformers", reason="needs the extra 'huggingface'")

from transformers_models import (  # noqa: E402 - needs transformers
    imported,
    shaken,
    trained,
)

TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}
LABELS = ["cat", "dog", "house"]
MEAN, DEVIATION = [0.4, 0.5, 0.6], [0.2, 0.3, 0.4]


def write_vit(folder: Path, *, steps: int = 0, processor: bool = True, **changes: Any) -> Path:
    """Write a ViT directory with random weights, or with weights that `transformers` has trained for some steps."""
    settings = {
        "hidden_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 40,
        "image_size": (8, 12),
        "patch_size": 4,
        "id2label": dict(enumerate(LABELS)),
        "label2id": {label: number for number, label in enumerate(LABELS)},
        **changes,
    }
    torch.manual_seed(0)
    model = transformers.ViTForImageClassification(transformers.ViTConfig(**settings))
    channels = model.config.num_channels
    if steps:
        pixels = torch.randn(6, channels, 8, 12)
        trained(model, lambda: {"pixel_values": pixels, "labels": torch.arange(6) % 3}, steps)
    else:
        shaken(model)
    model.save_pretrained(folder)
    if processor:
        options = {
            "image_processor_type": "ViTImageProcessor",
            "size": {"height": 8, "width": 12},
            "do_resize": True,
            "do_rescale": True,
            "rescale_factor": 1 / 255,
            "do_normalize": True,
            "image_mean": MEAN[:channels],
            "image_std": DEVIATION[:channels],
        }
        (folder / "preprocessor_config.json").write_text(json.dumps(options))
    return folder


KINDS: dict[str, dict[str, Any]] = {
    "random": {},
    "trained": {"steps": 20},
    "no biases": {"qkv_bias": False, "hidden_act": "gelu_new"},
    "grey": {"num_channels": 1, "layer_norm_eps": 1e-6},
}


@pytest.fixture(scope="module", params=KINDS)
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_vit(tmp_path_factory.mktemp("vit") / request.param.replace(" ", "-"), **KINDS[request.param])


def theirs(folder: Path) -> Any:
    return transformers.ViTForImageClassification.from_pretrained(folder).eval()


@torch.no_grad()
def test_the_logits_are_theirs(directory: Path, tmp_path: Path) -> None:
    ours, model = imported(directory, tmp_path / "run"), theirs(directory)
    pixels = torch.randn(3, model.config.num_channels, 8, 12, generator=torch.Generator().manual_seed(2))
    assert_close(ours(pixels), model(pixel_values=pixels).logits, **TOLERANCE)


def draw(file: Path, channels: int) -> Tensor:
    """Write a PNG image; return its pixels, (channels, height, width) from 0 to 255."""
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 256, (8, 12, channels), np.uint8)
    Image.fromarray(pixels if channels == 3 else pixels[:, :, 0]).save(file)
    return torch.from_numpy(pixels).permute(2, 0, 1)


@torch.no_grad()
def test_patches_classifies_a_file_as_they_do(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from PIL import Image

    imported(directory, tmp_path / "run")
    model = theirs(directory)
    channels = model.config.num_channels
    pixels = draw(tmp_path / "image.png", channels)
    if channels == 3:
        processor = transformers.ViTImageProcessorPil.from_pretrained(directory)
        values = processor(Image.open(tmp_path / "image.png"), return_tensors="pt")["pixel_values"]
    else:
        values = ((pixels / 255 - MEAN[0]) / DEVIATION[0])[None]
    probabilities = model(pixel_values=values).logits[0].softmax(-1)
    command = [
        "explain",
        str(tmp_path / "run"),
        "--image",
        str(tmp_path / "image.png"),
        "-o",
        str(tmp_path / "o.png"),
    ]
    capsys.readouterr()
    assert headwise(command) == 0
    best = int(probabilities.argmax())
    assert f"{LABELS[best]}, probability {float(probabilities[best]):.3f}" in capsys.readouterr().out
    viewer = open_viewer(tmp_path / "run", Config.of_run(tmp_path / "run"), "cpu")
    found = viewer.view((pixels / 255).numpy())
    assert found.seen.probabilities.tolist() == pytest.approx(probabilities.tolist(), abs=1e-5)
    assert len(viewer) == 0  # there are no held-out images


def test_without_a_processor_pixels_are_scaled_as_by_default(tmp_path: Path) -> None:
    imported(write_vit(tmp_path / "model", processor=False), tmp_path / "run")
    processor = transformers.ViTImageProcessorPil()
    form = json.loads((tmp_path / "run" / "images.json").read_text())
    assert (form["mean"], form["deviation"]) == (list(processor.image_mean), list(processor.image_std))
    assert form["classes"] == LABELS
