"""Packages that only some features need, and the sentence that says how to install one.

Everything that translating needs is always installed; `pyproject.toml` lists the rest in extras. An optional package
is imported where it is used. The command line turns a missing one into the sentence of `not_installed`; a feature that
knows which option or file needs it imports it within `needed_by`.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from headwise.errors import ConfigError

# Package, as it is imported -> what pip installs.
OPTIONAL = {
    "torch": "headwise[train]",
    "matplotlib": "headwise[train]",
    "sacrebleu": "sacrebleu",  # for scores alone; the extra `train` would bring PyTorch along
    "MeCab": "sacrebleu[ja]",
    "mecab_ko": "sacrebleu[ko]",
    "tensorboard": "headwise[tensorboard]",
    "huggingface_hub": "headwise[huggingface]",
    "tokenizers": "headwise[tokenizers]",
    "ctranslate2": "headwise[ctranslate2]",
    "onnx": "headwise[onnx]",
    "onnxruntime": "headwise[onnx]",
    "starlette": "headwise[serve]",
    "uvicorn": "headwise[serve]",
    "uvloop": "headwise[serve]",
    "httptools": "headwise[serve]",
    "python_multipart": "headwise[serve]",
    "prometheus_client": "headwise[serve]",
    "markdown_it": "headwise[documents]",
    "pygments": "headwise[serve]",
    "sentencex": "headwise[documents]",
    "py3langid": "headwise[languages]",
    "zstandard": "headwise[zstd]",
    "pyarrow": "headwise[parquet]",
    "s3fs": "headwise[s3]",
    "gcsfs": "headwise[gs]",
    "ray": "headwise[ray]",
    "sklearn": "headwise[digits]",
}


def not_installed(user: object, package: str) -> ConfigError:
    """Return the error of a command, option or file that needs a package of `OPTIONAL`."""
    return ConfigError(f"{user}: needs the package {package}, found none; run `pip install '{OPTIONAL[package]}'`")


def missing_package(error: ImportError) -> str | None:
    """Return the package of `OPTIONAL` whose absence an error of an import means, None for another error."""
    package = (error.name or "").partition(".")[0]
    return package if isinstance(error, ModuleNotFoundError) and package in OPTIONAL else None


def installed(package: str) -> bool:
    """Whether a package of `OPTIONAL` is installed, without importing it."""
    return importlib.util.find_spec(package) is not None


@contextmanager
def needed_by(user: object) -> Iterator[None]:
    """Turn the import of a missing package into a `ConfigError` that names its user and what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (package := missing_package(error)) is None:
            raise
        raise not_installed(user, package) from None


def optional_module(name: str, user: object) -> Any:
    """Import a module of a package of `OPTIONAL`; raises `ConfigError` as `needed_by` does."""
    with needed_by(user):
        return importlib.import_module(name)
