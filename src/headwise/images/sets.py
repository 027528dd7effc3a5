"""Labeled image data sets: scikit-learn's digits, which are part of that package. Images are uint8, (count, channels,
height, width).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headwise.errors import ConfigError, DataError
from headwise.extras import needed_by

DIGITS = "digits"


@dataclass(frozen=True)
class Labeled:
    """Images (count, channels, height, width) uint8 and their classes (count,) int64."""

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows: NDArray[np.int64] | slice) -> Labeled:
        """Return the images and labels of these rows, in this order."""
        return Labeled(self.images[rows], self.labels[rows])


@dataclass(frozen=True)
class ImageSet:
    """A published data set: class names, maximum pixel value, and images."""

    classes: tuple[str, ...]
    full: int
    images: Labeled


@dataclass(frozen=True)
class Source:
    """The files of a data set, and the function that reads them."""

    files: tuple[Path, ...]
    read: Callable[[], ImageSet]


def find_source(name: str) -> Source:
    """Return the source of a data set by its name, `digits`; nothing is read.

    Raises `ConfigError` for another name, and if scikit-learn, which has the digits, isn't installed.
    """
    if name != DIGITS:
        raise ConfigError(f"source: expected {DIGITS}, the only set of images, found {name}")
    with needed_by(DIGITS):
        from sklearn import datasets

    def read() -> ImageSet:
        pixels, labels = datasets.load_digits(return_X_y=True)
        images = np.asarray(pixels).astype(np.uint8).reshape(-1, 1, 8, 8)  # 0 to 16
        return ImageSet(tuple("0123456789"), 16, Labeled(images, np.asarray(labels).astype(np.int64)))

    return Source((Path(datasets.__file__).parent / "data" / "digits.csv.gz",), read)


def read_image(path: Path, shape: tuple[int, int, int]) -> NDArray[np.float32]:
    """Read a PNG image as (channels, height, width), from 0 (black) to 1.

    Raises `DataError` if it can't be read, or its size differs from `shape`, (channels, height, width).
    """
    from matplotlib.image import imread
    from PIL import Image

    channels, height, width = shape
    try:
        with Image.open(path, formats=("PNG",)) as image:  # only the header; no memory for its pixels yet
            size = image.size
        if size != (width, height):
            raise DataError(f"{path}: expected an image of {width} x {height} pixels, found {size[0]} x {size[1]}")
        pixels = np.asarray(imread(path, format="png"), np.float32)
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file") from None
    except DataError:
        raise
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(f"{path}: expected a PNG image, found {error}") from None
    color = pixels[:, :, :3] if pixels.ndim == 3 else pixels[:, :, None]
    if channels == 1:
        color = color.mean(axis=2, keepdims=True)
    return np.broadcast_to(color, (height, width, channels)).transpose(2, 0, 1).copy()
