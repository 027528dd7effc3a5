"""Labeled image data sets, read from their published formats without unpickling.

scikit-learn's digits are part of that package; the others are in a folder filled by `headwise data get`. Images are
uint8, (count, channels, height, width).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headwise.corpora.archives import damage, open_tar
from headwise.errors import ConfigError, DataError
from headwise.parsing import read_bounded

DIGITS = "digits"
_FASHION = (
    "T-shirt/top",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)
_CIFAR = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_CIFAR_SIDE, _CIFAR_ARCHIVE = 32, "cifar-10-binary.tar"
_MOST_BATCH = 1 << 26  # bytes of a batch file in the archive; those of CIFAR-10 have 31 million
_MOST_IDX = 1 << 31  # bytes
_IDX_UINT8 = 8


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
    """A published data set: class names, maximum pixel value, training images, and test images if it has any."""

    classes: tuple[str, ...]
    full: int
    train: Labeled
    test: Labeled | None


@dataclass(frozen=True)
class Source:
    """The files of a data set, and the function that reads them."""

    files: tuple[Path, ...]
    read: Callable[[], ImageSet]


def find_source(name: str) -> Source:
    """Return the source of `digits`, or of the data set in a folder, recognized by its file names; nothing is read.

    Raises:
        ConfigError: scikit-learn, which has the digits, isn't installed.
        DataError: there is no such folder, or it holds no known data set.
    """
    if name == DIGITS:
        return _digits()
    folder = Path(name)
    if not folder.is_dir():
        raise DataError(f"{name}: expected {DIGITS}, or a folder with a set of images, found none")
    idx = [
        folder / f"{part}-{kind}"
        for part in ("train", "t10k")
        for kind in ("images-idx3-ubyte", "labels-idx1-ubyte")
    ]
    if all(path.is_file() for path in idx):
        return Source(tuple(idx), lambda: _idx_set(idx))
    if (folder / _CIFAR_ARCHIVE).is_file():
        return Source((folder / _CIFAR_ARCHIVE,), lambda: _cifar_archive(folder / _CIFAR_ARCHIVE))
    raise DataError(
        f"{folder}: expected {_CIFAR_ARCHIVE} (CIFAR-10's binary version), or {idx[0].name}, {idx[1].name}, "
        f"{idx[2].name} and {idx[3].name} (Fashion-MNIST), found neither; `headwise data get` brings them"
    )


def _digits() -> Source:
    try:
        from sklearn import datasets
    except ImportError:
        raise ConfigError(
            'digits: expected scikit-learn, which has these images, found none; pip install "headwise[digits]"'
        ) from None

    def read() -> ImageSet:
        pixels, labels = datasets.load_digits(return_X_y=True)
        images = np.asarray(pixels).astype(np.uint8).reshape(-1, 1, 8, 8)  # 0 to 16
        return ImageSet(tuple("0123456789"), 16, Labeled(images, np.asarray(labels).astype(np.int64)), None)

    return Source((Path(datasets.__file__).parent / "data" / "digits.csv.gz",), read)


def _idx_set(files: Sequence[Path]) -> ImageSet:
    parts = []
    for image_file, label_file in (files[:2], files[2:]):
        images, labels = read_idx(image_file), read_idx(label_file)
        if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
            raise DataError(
                f"{image_file}: expected as many images as {label_file.name} has labels, found the shapes "
                f"{images.shape} and {labels.shape}"
            )
        parts.append(_checked(images[:, None], labels, len(_FASHION), label_file))
    return ImageSet(_FASHION, 255, *parts)


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read a file in MNIST's IDX format: zeros, type, number of dimensions, sizes (big-endian), then the values.

    Raises `DataError` if it isn't one of unsigned bytes, or its size doesn't match its header.
    """
    content = read_bounded(path, _MOST_IDX, DataError, "an IDX file")
    if len(content) < 4 or content[:3] != bytes([0, 0, _IDX_UINT8]):
        raise DataError(
            f"{path}: expected an IDX file of unsigned bytes, found it to begin with {content[:4].hex(' ')}"
        )
    if not 1 <= content[3] <= 3:
        raise DataError(f"{path}: expected an IDX file of 1 to 3 dimensions, found {content[3]}")
    header_size = 4 + 4 * content[3]
    if len(content) < header_size:
        raise DataError(
            f"{path}: expected at least {header_size} bytes for its {content[3]} sizes, found {len(content)}"
        )
    shape = tuple(int(size) for size in np.frombuffer(content[4:header_size], ">u4"))
    file_size = header_size + math.prod(shape)
    if len(content) != file_size:
        raise DataError(
            f"{path}: expected {file_size:,} bytes for the shape {shape} that it names, found {len(content):,}"
        )
    return np.frombuffer(content, np.uint8, offset=header_size).reshape(shape)


def _cifar_archive(path: Path) -> ImageSet:
    """Read the batch files of the archive in memory, without unpacking it to the disk."""
    batches: dict[str, bytes] = {}
    with damage(path, "expected a tar archive, found a damaged one"), open_tar(path) as archive:
        for member in archive:
            name = Path(member.name).name
            if member.isfile() and name.endswith(".bin") and (file := archive.extractfile(member)):
                if member.size > _MOST_BATCH:
                    raise DataError(f"{path}: {name}: expected at most {_MOST_BATCH:,} bytes, found more")
                batches[name] = file.read()
    names = [f"data_batch_{number}.bin" for number in range(1, 6)]
    if missing := [name for name in [*names, "test_batch.bin"] if name not in batches]:
        raise DataError(f"{path}: expected {', '.join(missing)} in it, found nothing by that name")
    parts = [parse_cifar(batches[name], f"{path}: {name}") for name in [*names, "test_batch.bin"]]
    train = Labeled(
        np.concatenate([p.images for p in parts[:5]]), np.concatenate([p.labels for p in parts[:5]])
    )
    return ImageSet(_CIFAR, 255, train, parts[5])


def parse_cifar(content: bytes, origin: str) -> Labeled:
    """Parse a batch file of CIFAR-10's binary version: for each image a label byte, then red, green and blue by rows.

    Raises `DataError` if it isn't one.
    """
    size = 1 + 3 * _CIFAR_SIDE**2
    if not content or len(content) % size:
        raise DataError(f"{origin}: expected a multiple of {size:,} bytes, found {len(content):,}")
    table = np.frombuffer(content, np.uint8).reshape(-1, size)
    return _checked(table[:, 1:].reshape(-1, 3, _CIFAR_SIDE, _CIFAR_SIDE), table[:, 0], len(_CIFAR), origin)


def _checked(images: NDArray[np.uint8], labels: NDArray[np.uint8], classes: int, origin: object) -> Labeled:
    if len(labels) == 0 or labels.max() >= classes:
        highest = "none" if len(labels) == 0 else str(int(labels.max()))
        raise DataError(f"{origin}: expected labels from 0 to {classes - 1}, found {highest}")
    return Labeled(images, labels.astype(np.int64))


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
            raise DataError(
                f"{path}: expected an image of {width} x {height} pixels, found {size[0]} x {size[1]}"
            )
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
