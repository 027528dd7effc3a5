"""Image classification and image-text learning by their commands: training, resuming, evaluation and plots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from matplotlib.image import imread, imsave
from torch.testing import assert_close

from headwise.analysis.patches import classify
from headwise.cli.main import run as run_program
from headwise.config import Config
from headwise.images.prepared import ImageFormat, PreparedImages
from headwise.tasks.image_classification import load_classifier
from program import Call, assert_resumes, metrics

pytest.importorskip("sklearn", reason="needs the extra 'digits'")

SHAPE = {
    "encoder_layers": 2, "d_model": 32, "d_ff": 48, "heads": 2, "max_length": 40, "norm": "pre", "dropout": 0.1,
    "positions": "learned", "scale_embeddings": False,
}  # fmt: skip
TRAINING = {
    "max_steps": 12, "validate_every": 6, "checkpoint_every": 4, "average_last": 2, "log_every": 1, "threads": 1,
    "precision": "float32", "device": "cpu",
}  # fmt: skip


def write(folder: Path, task: str, **options: Any) -> Path:
    config = {
        "task": task,
        "model": SHAPE,
        task: options,
        "schedule": {"name": "linear", "peak": 0.004, "warmup": 20},
        "training": TRAINING,
    }
    if task == "image_classification":
        config["batch"] = {"tokens": 17 * 32, "accumulate": 2}
    file = folder / f"{task}.yaml"
    file.write_text(yaml.safe_dump(config))
    return file


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier of digits, trained for seconds; a third of the images is held out."""
    folder = tmp_path_factory.mktemp("digits")
    config = write(folder, "image_classification", patch=2)
    changes = ["model.dropout=0", "training.validate_every=75", "training.checkpoint_every=15"]
    assert run_program(["train", "-c", str(config), *changes, "--max-steps=150", "-o", str(folder / "run")]) == 0
    return folder / "run"


def test_digits_are_learned_and_scored_on_the_held_out_third(learned: Path, program: Call, tmp_path: Path) -> None:
    said = tmp_path / "said.txt"
    report = program("evaluate", learned, "--json", "-o", said).json
    assert report["images"] == 599
    assert report["accuracy"] > 75.0
    test = PreparedImages.open(learned / "prepared").test
    right = np.mean([line == str(label) for line, label in zip(said.read_text().split(), test.labels, strict=True)])
    assert report["accuracy"] == pytest.approx(100 * right)
    assert set(report["classes"]) == set("0123456789")
    out = program("evaluate", learned).out
    assert f"of 599 held-out images, {round(599 * (1 - right))} wrong" in out


@torch.no_grad()
def test_plotted_attention_is_that_of_a_plain_forward_pass(learned: Path, program: Call, tmp_path: Path) -> None:
    config = Config.load(learned / "config.yaml")
    model, form = load_classifier(learned, config, device="cpu"), ImageFormat.load(learned)
    test = PreparedImages.open(learned / "prepared").test
    image = torch.from_numpy(form.normalized(test.images[4]))
    looked = classify(model, image)
    assert looked.heads.shape == (2, 2, 4, 4)
    assert_close(torch.from_numpy(looked.probabilities), model(image[None])[0].softmax(-1))
    np.testing.assert_allclose(looked.heads.sum(axis=(2, 3)), 1.0, rtol=1e-5)
    # The class token's attention in the first layer, computed explicitly.
    x = model.vision.patch(torch.nn.functional.unfold(image[None], 2, stride=2).transpose(1, 2))
    assert model.vision.class_token is not None
    x = torch.cat([model.vision.class_token.expand(1, 1, -1), x], dim=1) + model.vision.positions.table[:17]
    layer = model.vision.encoder.layers[0]
    x = layer.around_attention.norm(x)  # pyright: ignore[reportCallIssue, reportAttributeAccessIssue]
    own = layer.self_attention  # pyright: ignore[reportAttributeAccessIssue]
    q, k = own.query(x[0]).view(17, 2, 16), own.key(x[0]).view(17, 2, 16)  # pyright: ignore[reportCallIssue, reportAttributeAccessIssue]
    weights = (torch.einsum("hd,khd->hk", q[0], k) / 4).softmax(-1)[:, 1:]
    expected = (weights / weights.sum(-1, keepdim=True)).view(2, 4, 4)
    assert_close(torch.from_numpy(looked.heads[0]), expected, rtol=1e-4, atol=1e-5)

    picture = tmp_path / "p.png"
    assert "(it is " in program("explain", learned, "--row", 5, "-o", picture).out
    assert imread(picture).shape[2] == 4
    imsave(tmp_path / "digit.png", test.images[4, 0] / 16, cmap="gray", vmin=0, vmax=1)
    out = program("explain", learned, "--image", tmp_path / "digit.png", "-o", picture).out
    assert f": {int(looked.probabilities.argmax())}, probability" in out


@pytest.mark.parametrize(
    ("task", "options"),
    [
        ("image_classification", {"patch": 2, "shift": 1, "flip": True}),
        ("image_text", {"patch": 4, "pairs": 48, "width": 16}),
    ],
)
def test_a_resumed_run_equals_an_uninterrupted_one(
    task: str, options: dict[str, Any], program: Call, tmp_path: Path
) -> None:
    config = write(tmp_path, task, **options)
    assert_resumes(program, tmp_path, "train", "schedule.name=constant", "-c", config, at=7)


@pytest.mark.slow
def test_captions_retrieve_their_images(program: Call, tmp_path: Path) -> None:
    run, picture = tmp_path / "run", tmp_path / "w.png"
    config = write(tmp_path, "image_text", patch=4, width=32)
    changes = ["model.dropout=0", "training.validate_every=80"]
    program("train", "-c", config, *changes, "--max-steps=160", "-o", run).ok()
    first, last = metrics(run, "dev")[0], metrics(run, "dev")[-1]
    assert last["loss"] < first["loss"]
    report = program("evaluate", run, "--json").json
    for gallery in ("seen", "held_out"):
        scores = report[gallery]
        for direction in ("text_to_image", "image_to_text"):
            assert scores[f"{direction}_at_5"] >= scores[f"{direction}_at_1"]
            assert scores[f"{direction}_at_5"] > 4 * 500 / scores["pictures"]  # four times chance
    out = program("explain", run, "--row", 2, "-o", picture).out
    assert "similarity" in out
    assert picture.exists()
    assert "never seen together" in program("evaluate", run).out
    error = program("explain", run, "--row", 2, "--text", "a purple seven", "-o", picture).error
    assert error == "caption: expected words that captions have, found 'purple'"
