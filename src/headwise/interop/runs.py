"""From an imported model to a run directory, and from a run directory to an exported model."""

from __future__ import annotations

import json
import math
import os
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from headwise.config import Config
from headwise.config.languages import is_code
from headwise.engine.native.shapes import parameter_shapes
from headwise.errors import CheckpointError, ConfigError
from headwise.extras import optional_module
from headwise.files import atomic_directory, atomic_file, check_new, disk_errors, write_bytes, write_text
from headwise.interop.base import Exporter, Imported, Trained
from headwise.text.tokens.subwords import Subwords
from headwise.weights import Weights, check_finite, model_file, quantized, read_recipe, saved

_NAMED = 8  # language codes in a note


def write_run(imported: Imported, run: Path, source: str) -> int:
    """Write an imported model as a run directory; return the number of parameters.

    Raises `CheckpointError` if the tensors don't fit the configuration or aren't finite, or if `run` exists.
    """
    check_new(run)
    shapes = imported.shapes()
    tensors: dict[str, NDArray[Any]] = {}
    for name, shape in shapes.items():
        if name not in imported.tensors:
            raise CheckpointError(f"{source}: expected a tensor for {name}, found none")
        tensor = imported.tensors[name]()
        if tensor.shape != shape:
            raise CheckpointError(f"{source}: expected {name} of shape {shape}, found {tensor.shape}")
        check_finite(f"{source}: {name}", tensor)
        tensors |= quantized(name, tensor, "int8" if name in imported.quantized else "float32")
    if extra := sorted(imported.tensors.keys() - shapes.keys()):
        raise CheckpointError(f"{source}: found {extra[0]}, which the model has no place for")
    recipe = {"configuration": imported.config.digest(), "imported": source, "steps": []}
    if imported.text is not None:
        name = "subwords" if imported.config.task == "translation" else "vocabulary"
        recipe[name] = imported.text.digest()
    with atomic_directory(run) as folder:
        if imported.text is not None:
            imported.text.save(folder)
        for name, content in imported.files.items():
            write_bytes(folder / name, content)
        write_text(folder / "config.yaml", imported.config.to_yaml())
        content = saved(tensors, {"headwise": json.dumps(recipe, sort_keys=True)})
        write_bytes(folder / "model.safetensors", content)
    return sum(map(math.prod, shapes.values()))


def with_language(imported: Imported, language: str | None) -> Imported:
    """Return a model whose translations are in a language, if one is given, and a note on the languages of the model.

    `language` is a language code of the vocabulary, such as `deu` for `>>deu<<`. Raises `ConfigError` if there is none.
    """
    text = imported.text
    if language is not None:
        if not isinstance(text, Subwords):
            raise ConfigError(
                f"--target-language: expected a translation model with language codes, found none for {language!r}"
            )
        text = text.with_language(language)
    if not isinstance(text, Subwords) or text.vocabulary is None or not text.vocabulary.languages:
        return imported
    vocabulary = text.vocabulary
    others = [code for code in vocabulary.languages if code != vocabulary.language]
    named = ", ".join(others[:_NAMED]) + (f" and {len(others) - _NAMED} more" if len(others) > _NAMED else "")
    if vocabulary.language:
        where = "each source text" if vocabulary.tagged == "source" else "each translation"
        note = f"{vocabulary.language} is put before {where}"
        note += f"; --target-language chooses another: {named}" if others else ""
    else:
        note = "a source text begins with the code of its translation's language, or --target-language adds it: "
        note += named
    return replace(imported, text=text, notes=[*imported.notes, note])


def open_trained(run: Path) -> Trained:
    """Open a translation run for an export; raises `CheckpointError` and `ConfigError` if it is damaged."""
    config = Config.of_run(run, "translation")
    file = model_file(run)
    subwords = Subwords.load(run, config.subwords, read_recipe(file).get("subwords"))
    sizes = subwords.source_size, subwords.target_size
    config.model.check_vocabularies(*sizes)
    weights = Weights(file)
    weights.check(parameter_shapes(config.model, *sizes))
    return Trained(run, config, weights, subwords)


def export_run(
    run: Path,
    exporter: Exporter,
    name: str,
    out: Path,
    precision: str | None = None,
    languages: tuple[str | None, str | None] = (None, None),
) -> list[str]:
    """Write a run in a format, in one of its precisions, the first unless given; return notes for the user.

    `languages` are the codes of source and target; without them, those in the names of the training files. Raises
    `ConfigError` if the format can't express the model or the precision, and `CheckpointError` if `out` exists.
    """
    precision = precision or exporter.precisions[0]
    if precision not in exporter.precisions:
        raise ConfigError(
            f"--precision: expected {' or '.join(exporter.precisions)} for --to {name}, found {precision!r}"
        )
    if exporter.suffix is not None and not out.name.endswith(exporter.suffix):
        raise ConfigError(f"--out: expected a name that ends with {exporter.suffix}, found {str(out)!r}")
    check_new(out, "directory" if exporter.suffix is None else "file")
    config = Config.of_run(run, *exporter.tasks)
    _check_languages(languages, config, exporter, name)
    if reason := exporter.refuses(config):
        raise ConfigError(f"--to {name}: {exporter.library} can't express {run}: {reason}")
    if config.task == "translation":
        known = config.data.languages
        trained = replace(open_trained(run), languages=(languages[0] or known[0], languages[1] or known[1]))
    else:
        single = optional_module("headwise.interop.single", f"--to {name} of a run with task {config.task}")
        trained = single.open_single(run, config)
    with atomic_directory(out) if exporter.suffix is None else _packed(out) as written:
        return exporter.write(trained, written, precision)


def _check_languages(languages: tuple[str | None, str | None], config: Config, exporter: Exporter, name: str) -> None:
    """Raise `ConfigError` for what is no language code, and for one that would have no effect."""
    for option, code in zip(("--from-language", "--to-language"), languages, strict=True):
        if code is None:
            continue
        if not exporter.names_languages or config.task != "translation":
            raise ConfigError(
                f"{option}: expected it with a translator for a format that names its languages, found --to {name}"
                f" of a run with task {config.task}"
            )
        if not is_code(code):
            raise ConfigError(f"{option}: expected a language code such as en or de, found {code[:40]!r}")


@contextmanager
def _packed(file: Path) -> Iterator[Path]:
    """Yield an empty directory that is packed as a zip file when the block ends without an exception."""
    with tempfile.TemporaryDirectory() as scratch:
        with disk_errors(Path(scratch)):
            yield Path(scratch)
        with atomic_file(file) as packed, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for folder, _, names in sorted(os.walk(scratch)):
                for name in sorted(names):
                    path = Path(folder, name)
                    archive.write(path, path.relative_to(scratch))
