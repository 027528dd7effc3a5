"""Image data: formats against hand-made bytes, batches and patches against plain loops."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.image import imsave

from headwise.config import ModelConfig
from headwise.config.tasks import ImageConfig
from headwise.data.stream import PlannedStream
from headwise.errors import CheckpointError, ConfigError, DataError
from headwise.images.batches import augment, draws
from headwise.images.prepared import ImageFormat, PreparedImages, prepare_images, split_rows
from headwise.images.sets import ImageSet, Labeled, Source, find_source, read_image
from headwise.models.vision import VisionTransformer, patches

RANDOM = np.random.default_rng(5)


def images(count: int, monkeypatch: pytest.MonkeyPatch, folder: Path) -> Labeled:
    """Let `digits` be random images of 28 x 28 pixels."""
    pixels = RANDOM.integers(0, 256, (count, 1, 28, 28)).astype(np.uint8)
    made = Labeled(pixels, np.arange(count) % 10)
    (folder / "file").write_bytes(pixels.tobytes())
    source = Source((folder / "file",), lambda: ImageSet(tuple("0123456789"), 255, made))
    monkeypatch.setattr("headwise.images.prepared.find_source", lambda name: source)
    return made


def test_another_set_is_refused() -> None:
    with pytest.raises(ConfigError, match="source: expected digits, the only set of images, found data/cifar-10"):
        find_source("data/cifar-10")


def test_without_scikit_learn_the_digits_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ConfigError, match=r"^digits: needs the package sklearn.*`pip install 'headwise\[digits\]'`$"):
        find_source("digits")


def test_an_image_file_must_have_the_right_size(tmp_path: Path) -> None:
    pixels = RANDOM.random((6, 4)).astype(np.float32)
    imsave(tmp_path / "i.png", pixels, cmap="gray", vmin=0, vmax=1)
    found = read_image(tmp_path / "i.png", (1, 6, 4))
    np.testing.assert_allclose(found[0], pixels, atol=0.01)
    assert read_image(tmp_path / "i.png", (3, 6, 4)).shape == (3, 6, 4)
    with pytest.raises(DataError, match="expected an image of 8 x 8 pixels, found 4 x 6"):
        read_image(tmp_path / "i.png", (1, 8, 8))
    (tmp_path / "t.png").write_text("no picture")
    with pytest.raises(DataError, match=r"t.png: expected a PNG image, found"):
        read_image(tmp_path / "t.png", (1, 8, 8))
    with pytest.raises(DataError, match="there is no such file"):
        read_image(tmp_path / "none.png", (1, 8, 8))


@given(st.integers(10, 400), st.sampled_from(["shuffled", "last"]), st.floats(0.1, 0.6), st.floats(0.0, 0.4))
def test_every_image_is_for_one_purpose(count: int, split: str, test: float, dev: float) -> None:
    config = ImageConfig.model_validate({"split": split, "test_share": test, "dev_share": dev})
    rows = split_rows(count, config)
    assert sorted(np.concatenate([*rows.values()]).tolist()) == list(range(count))
    assert len(rows["test"]) >= count * test
    assert split_rows(count, config)["test"].tolist() == rows["test"].tolist()
    if split == "last":
        assert rows["test"].tolist() == list(range(count - len(rows["test"]), count))


def test_images_are_prepared_once_and_normalized(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_up = images(30, monkeypatch, tmp_path)
    config = ImageConfig(split="last", test_share=0.2, dev_share=0.2)
    made = prepare_images(config, tmp_path / "p")
    again = prepare_images(config, tmp_path / "p")
    assert (made.reused, again.reused) == (False, True)
    assert [len(part) for part in (again.train, again.dev, again.test)] == [19, 5, 6]
    pixels = again.format.normalized(again.train.images)
    assert pixels.mean() == pytest.approx(0.0, abs=1e-5)
    assert pixels.std() == pytest.approx(1.0, abs=1e-5)
    np.testing.assert_array_equal(again.test.images, made_up.images[24:])
    with pytest.raises(CheckpointError, match="was begun with other text"):
        prepare_images(config.model_copy(update={"dev_share": 0.3}), tmp_path / "p", expected="0" * 12)
    (tmp_path / "p" / "train.labels").write_bytes(b"12345678")
    with pytest.raises(CheckpointError, match="expected as many labels as images"):
        PreparedImages.open(tmp_path / "p")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"full": None}, "full: expected a valid integer, found 'None'"),
        ({"full": 0}, "full: expected greater than 0, found '0'"),
        ({"shape": [2, 8, 8]}, "shape.0: expected 1 or 3, found '2'"),
        ({"shape": [1, 8, 10**9]}, "shape.2: expected less than or equal to 16384"),
        ({"mean": ["dark"]}, "mean.0: expected a valid number"),
        ({"mean": [0.1, 0.2]}, "expected a mean and a deviation for each of 1 channels, found 2 and 1"),
        ({"deviation": [0.0]}, "deviation.0: expected greater than or equal to 0.000"),
        ({"classes": [1]}, "classes.0: expected a valid string"),
    ],
)
def test_a_damaged_format_is_refused(tmp_path: Path, change: dict, problem: str) -> None:
    form = {"shape": [1, 8, 8], "full": 16, "mean": [0.3], "deviation": [0.4], "classes": ["0", "1"]}
    file = tmp_path / "images.json"
    file.write_text(json.dumps(form))
    assert asdict(ImageFormat.load(tmp_path)) == {k: tuple(v) if k != "full" else v for k, v in form.items()}
    file.write_text(json.dumps(form | change))
    with pytest.raises(CheckpointError, match=f"^{re.escape(f'{file}: {problem}')}"):
        ImageFormat.load(tmp_path)


@given(st.integers(0, 3), st.booleans(), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_augmentation_is_a_move_and_a_mirror(shift: int, flip: bool, channels: int, seed: int) -> None:
    images = np.random.default_rng(1).integers(1, 256, (5, channels, 6, 7)).astype(np.uint8)
    found = augment(images, shift, flip, np.random.default_rng(seed))
    for before, after in zip(images, found, strict=True):
        candidates = []
        for down in range(-shift, shift + 1):
            for right in range(-shift, shift + 1):
                moved = np.zeros_like(before)
                for y in range(6):
                    for x in range(7):
                        if 0 <= y - down < 6 and 0 <= x - right < 7:
                            moved[:, y, x] = before[:, y - down, x - right]
                candidates += [moved, moved[:, :, ::-1]] if flip else [moved]
        assert any(np.array_equal(after, candidate) for candidate in candidates)


def test_moves_and_mirrors_of_all_kinds_are_drawn() -> None:
    """A single bright pixel in the middle of 7 x 7 shows where it went."""
    images = np.zeros((4000, 1, 7, 7), np.uint8)
    images[:, 0, 3, 2] = 1
    rows, columns = np.nonzero(augment(images, 1, True, np.random.default_rng(0)))[2:]
    places = dict.fromkeys(((y, x) for y in (2, 3, 4) for x in range(1, 6)), 0)
    for place in zip(rows.tolist(), columns.tolist(), strict=True):
        places[place] += 1  # from 1, 2, 3, or mirrored from 3, 4, 5
    for (_, x), count in places.items():
        assert count == pytest.approx(4000 / 3 * (2 if x == 3 else 1) / 6, rel=0.2)


def drawn() -> PlannedStream[tuple[list[int], float]]:
    def make(rows: np.ndarray, random: np.random.Generator) -> tuple[list[int], float]:
        return rows.tolist(), random.random()

    return draws(23, 4, make, seed=3, identity={})


def test_a_stream_goes_on_where_it_was_left() -> None:
    whole = drawn()
    expected = [next(whole) for _ in range(20)]
    assert sorted(row for rows, _ in expected[:6] for row in rows) == list(range(23))
    for stop in (1, 6, 13):
        first, second = drawn(), drawn()
        assert [next(first) for _ in range(stop)] == expected[:stop]
        second.load_state(first.state())
        assert [next(second) for _ in range(stop, 20)] == expected[stop:]


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(1, 4))
def test_patches_are_those_of_unfold_and_of_a_loop(channels: int, side: int, down: int, across: int) -> None:
    images = torch.randn(2, channels, side * down, side * across)
    found = patches(images, side)
    unfolded = torch.nn.functional.unfold(images, side, stride=side).transpose(1, 2)
    assert torch.equal(found, unfolded)
    for y in range(down):
        for x in range(across):
            cut = images[1, :, side * y : side * (y + 1), side * x : side * (x + 1)]
            assert torch.equal(found[1, across * y + x], cut.flatten())


def test_patches_that_do_not_fit_get_a_sentence() -> None:
    config = ModelConfig(encoder_layers=1, d_model=8, d_ff=8, heads=2, max_length=4)
    with pytest.raises(ConfigError, match="expected a number that divides the images' 8 x 6 pixels, found 4"):
        VisionTransformer(config, (1, 6, 8), 4)
    with pytest.raises(ConfigError, match=r"expected at least 5, for 4 patches and the class token, found 4"):
        VisionTransformer(config, (1, 8, 8), 4)
    assert VisionTransformer(config, (1, 8, 8), 4, class_token=False)(torch.zeros(3, 1, 8, 8)).shape == (
        3,
        4,
        8,
    )
