"""Prepared image data: split into training, development and test images once, then memory-mapped."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from headwise import bounds
from headwise.config.base import Pixels
from headwise.config.tasks import ImageConfig
from headwise.data.prepared import prepare_folder, read_manifest, stamp, write_manifest
from headwise.data.ragged import map_array, save_array
from headwise.errors import CheckpointError, DataError
from headwise.files import write_text
from headwise.images.sets import Labeled, Source, find_source
from headwise.parsing import checked, read_json

FORMAT_FILE = "images.json"
_PARTS = ("train", "dev", "test")
_FORMAT = 1

Channels = Literal[1, 3]
_Mean = Annotated[float, Field(ge=-1e6, le=1e6)]
_Deviation = Annotated[float, Field(ge=bounds.SMALLEST, le=1e6)]


@dataclass(frozen=True)
class ImageFormat:
    """Format and normalization of the images that a model was trained on.

    shape: (channels, height, width); full: the maximum pixel value; mean and deviation: mean and standard deviation of
    each channel of the training images, on the scale from 0 to 1.
    """

    shape: tuple[Channels, Pixels, Pixels]
    full: Annotated[int, Field(gt=0)]
    mean: tuple[_Mean, ...]
    deviation: tuple[_Deviation, ...]
    classes: tuple[str, ...]

    def normalized(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Normalize uint8 images (…, channels, height, width) to mean 0 and standard deviation 1 of each channel."""
        return self.standardized(images.astype(np.float32) / np.float32(self.full))

    def standardized(self, images: NDArray[np.float32]) -> NDArray[np.float32]:
        """Normalize images with pixels from 0 to 1 in the same way."""
        mean, deviation = (np.array(v, np.float32)[:, None, None] for v in (self.mean, self.deviation))
        return (images - mean) / deviation

    def save(self, directory: Path) -> None:
        """Write the format into a directory; raises `TrainingError`."""
        write_text(directory / FORMAT_FILE, json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, directory: Path) -> ImageFormat:
        """Read the format from a run directory or prepared folder; raises `CheckpointError` if missing or damaged."""
        file = directory / FORMAT_FILE
        form = checked(cls, read_json(file, expected="the format of images", error=CheckpointError), file)
        if not len(form.mean) == len(form.deviation) == form.shape[0]:
            raise CheckpointError(
                f"{file}: expected a mean and a deviation for each of {form.shape[0]} channels, found "
                f"{len(form.mean)} and {len(form.deviation)}"
            )
        return form


@dataclass(frozen=True)
class PreparedImages:
    """A prepared folder of images: format, training, development and test images."""

    directory: Path
    format: ImageFormat
    train: Labeled
    dev: Labeled  # may be empty, as may `test`
    test: Labeled
    report: list[str]  # sentences about the images and the split
    checksum: str  # checksum of the contents of the input files, 12 hexadecimal digits
    reused: bool  # whether an existing folder was used

    @classmethod
    def open(cls, directory: Path, *, reused: bool = True) -> PreparedImages:
        """Open a prepared folder; raises `CheckpointError` if it is missing or damaged."""
        manifest, form = read_manifest(directory), ImageFormat.load(directory)
        train, dev, test = (_open(directory, part, form.shape) for part in _PARTS)
        return cls(directory, form, train, dev, test, manifest["report"], manifest["checksum"], reused)

    def identity(self) -> dict[str, str]:
        """Return the identity of the data, the checksum of the images, for positions of streams."""
        return {"data": self.checksum}

    def save(self, run: Path) -> None:
        """Write the format into a run directory; raises `TrainingError`."""
        self.format.save(run)


def prepare_images(
    config: ImageConfig,
    directory: Path,
    *,
    expected: str | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> PreparedImages:
    """Make the prepared folder, or reuse it if nothing that it depends on has changed.

    Args:
        config: source and split of the images.
        directory: the prepared folder; an outdated one is replaced.
        expected: `checksum` of the images that a run was started with; the folder isn't replaced by other images.
        say: called with a progress message if the folder has to be made.

    Raises:
        CheckpointError: the images aren't the `expected` ones.
        ConfigError: a package is missing.
        DataError: a file can't be used, or `directory` holds something else.
        TrainingError: the folder can't be written.
    """
    source = find_source(config.source)
    request = {
        "format": _FORMAT,
        "task": "images",
        "inputs": [stamp(path) for path in source.files],
        "split": config.split,
        "split_seed": config.split_seed,
        "dev_share": config.dev_share,
        "test_share": config.test_share,
    }

    def build(folder: Path, request: dict[str, Any]) -> None:
        _build(folder, request, source, config, say)

    return prepare_folder(directory, request, PreparedImages.open, build, expected)


def _build(
    folder: Path, request: dict[str, Any], source: Source, config: ImageConfig, say: Callable[[str], None]
) -> None:
    say(f"reading the images of {config.source}")
    dataset = source.read()
    split = split_rows(len(dataset.images), config)
    parts = {part: dataset.images[indices] for part, indices in split.items()}
    images = parts["train"].images.astype(np.float64) / dataset.full
    deviation = np.maximum(images.std(axis=(0, 2, 3)), 1e-6)
    _, channels, height, width = images.shape
    form = ImageFormat(
        (channels, height, width),
        dataset.full,
        tuple(images.mean(axis=(0, 2, 3)).tolist()),
        tuple(deviation.tolist()),
        dataset.classes,
    )
    form.save(folder)
    for part, labeled in parts.items():
        save_array(folder / f"{part}.images", labeled.images.reshape(-1))
        save_array(folder / f"{part}.labels", labeled.labels)
    chosen = f"shuffled with seed {config.split_seed}" if config.split == "shuffled" else "the last of the set"
    report = [
        f"{sum(map(len, parts.values())):,} images of {width} x {height} pixels, {len(dataset.classes)} classes: "
        f"{len(parts['train']):,} for training, {len(parts['dev']):,} for development, {len(parts['test']):,} held out "
        f"for the test (a share of {config.test_share:.3g}, {chosen})"
    ]
    write_manifest(folder, request, report)


def split_rows(count: int, config: ImageConfig) -> dict[str, NDArray[np.int64]]:
    """Split the indices of `count` images into train, dev and test.

    The test images are taken first, then the development images, each share rounded up. Raises `DataError` if no image
    is left for training.
    """
    order = np.arange(count)[::-1]
    if config.split == "shuffled":
        order = np.random.default_rng(config.split_seed).permutation(count)
    test = math.ceil(count * config.test_share)
    dev = math.ceil((count - test) * config.dev_share)
    if test + dev >= count:
        raise DataError(f"{config.source}: expected images to be left for training, found {count:,} in all")
    parts = np.split(order, [test, test + dev])
    return {part: np.sort(indices) for part, indices in zip(("test", "dev", "train"), parts, strict=True)}


def _open(directory: Path, part: str, shape: tuple[int, int, int]) -> Labeled:
    try:
        images = map_array(directory / f"{part}.images", np.uint8).reshape(-1, *shape)
        labels = map_array(directory / f"{part}.labels", np.int64)
    except (OSError, ValueError):
        raise CheckpointError(f"{directory}: expected prepared images, found missing or damaged files") from None
    if len(images) != len(labels):
        raise CheckpointError(f"{directory}: expected as many labels as images, found files that don't fit")
    return Labeled(images, labels)
