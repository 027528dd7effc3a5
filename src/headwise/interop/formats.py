"""Registry of the formats: a new one is one module and one line here.

An importer is a module with two functions: `recognizes` says whether a file or directory looks like its format, by the
names of files and short headers; `read` returns a model as an `Imported`, whose tensors are read when they are called,
and raises `CheckpointError` for a damaged or hostile file and for a model that Headwise can't express, naming the file
and the key or tensor. An exporter is a module with a class `Exporter`. Both are imported when needed.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path

from headwise.errors import CheckpointError, ConfigError, suggestion
from headwise.extras import needed_by
from headwise.interop.base import Exporter, Imported

# In the order in which a source is compared with them.
IMPORTERS = {
    "huggingface": "headwise.interop.huggingface.directory",
    "ctranslate2": "headwise.interop.ctranslate2.importer",
    "argos": "headwise.interop.argos",
    "marian": "headwise.interop.marian.importer",
}
EXPORTERS = {
    "huggingface": "headwise.interop.huggingface.directory",
    "ctranslate2": "headwise.interop.ctranslate2.exporter",
    "argos": "headwise.interop.argos",
    "onnx": "headwise.interop.onnx.export",
    "marian": "headwise.interop.marian.exporter",
}
# Formats that aren't read: the files by which a directory is known, and how a model gets here nevertheless.
_OTHERS = {
    "fairseq": (
        ("*.pt", "dict.*.txt"),
        "ct2-fairseq-converter, which comes with ctranslate2, converts it to a directory that headwise import reads",
    ),
    "joeynmt": (("*.ckpt", "config.yaml", "src_vocab.txt"), "there is no converter of its models"),
}


def find_importer(source: Path, name: str | None = None) -> tuple[str, Callable[[Path], Imported]]:
    """Return the format of this name or, without one, the first that recognizes the source, and what reads it.

    Raises `ConfigError` for an unknown name, and `CheckpointError` where no format is recognized.
    """
    if name is not None:
        if name in _OTHERS:
            raise _not_read(source, name)
        _check(name, IMPORTERS, "--format")
        return name, importlib.import_module(IMPORTERS[name]).read
    for known, path in IMPORTERS.items():
        module = importlib.import_module(path)
        if module.recognizes(source):
            return known, module.read
    folder = source.parent if source.is_file() else source
    for other, (patterns, _) in _OTHERS.items():
        if all(any(folder.glob(pattern)) for pattern in patterns):
            raise _not_read(source, other)
    raise CheckpointError(
        f"{source}: expected a model in one of the formats {', '.join(IMPORTERS)}, found none of them"
    )


def _not_read(source: Path, name: str) -> CheckpointError:
    return CheckpointError(
        f"{source}: expected a model in one of the formats {', '.join(IMPORTERS)}, "
        f"found one of {name}: {_OTHERS[name][1]}"
    )


def find_exporter(name: str, known: Mapping[str, str] = EXPORTERS) -> Exporter:
    """Return the exporter of this name; `known` are the modules of exporters by name.

    Raises `ConfigError` for an unknown name, and where a package that it needs isn't installed.
    """
    _check(name, known, "--to")
    with needed_by(f"--to {name}"):
        exporter: Exporter = importlib.import_module(known[name]).Exporter()
    return exporter


def _check(name: str, known: Mapping[str, str], option: str) -> None:
    if name not in known:
        raise ConfigError(f"{option}: expected the name of a format, found {name!r} {suggestion(name, known)}")
