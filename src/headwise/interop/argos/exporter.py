"""Export to Argos Translate and LibreTranslate: an `.argosmodel` that they install."""

from __future__ import annotations

import json
from pathlib import Path

from headwise.config import Config
from headwise.config.languages import is_code, language_name
from headwise.errors import ConfigError
from headwise.files import write_bytes, write_text
from headwise.interop import base
from headwise.interop.argos.package import METADATA, MODEL, SUBWORDS, SUFFIX
from headwise.interop.base import Trained
from headwise.interop.ctranslate2.conversion import PRECISIONS
from headwise.interop.ctranslate2.exporter import write_model
from headwise.interop.ctranslate2.layout import unsupported
from headwise.interop.pieces import source_code_notes

_VERSION = "1.0"  # of the package
_ARGOS = "1.9"  # the version of Argos Translate whose layout of packages this is


class Exporter(base.Exporter):
    """Writer of Argos packages."""

    library = "Argos Translate"
    precisions = PRECISIONS
    suffix = SUFFIX

    def refuses(self, config: Config) -> str | None:  # noqa: D102
        if not config.subwords.joint:
            return "it has one SentencePiece model for both languages, found subwords.joint=false"
        return unsupported(config.model)

    def write(self, trained: Trained, folder: Path, precision: str) -> list[str]:  # noqa: D102
        source, target = _languages(trained)
        source_model, target_model = trained.sentencepiece()
        if source_model != target_model:
            raise ConfigError(
                f"--to argos: expected one SentencePiece model for both languages, found two in {trained.run}"
            )
        package = folder / f"translate-{source}_{target}-{_VERSION.replace('.', '_')}"
        (package / MODEL).mkdir(parents=True)
        write_model(trained, package / MODEL, precision, "--to argos")
        write_bytes(package / SUBWORDS, source_model)
        metadata = {
            "package_version": _VERSION,
            "argos_version": _ARGOS,
            "from_code": source,
            "from_name": language_name(source),
            "to_code": target,
            "to_name": language_name(target),
        }
        if given := trained.subwords.given:
            (metadata["target_prefix"],) = trained.subwords.target_pieces(given[:1])
        write_text(package / METADATA, json.dumps(metadata, ensure_ascii=False, indent=2) + "\n")
        return [
            *source_code_notes(trained.subwords),
            f"translates from {metadata['from_name']} to {metadata['to_name']}; argospm install takes the file, "
            "and its sentence splitter downloads a model at the first translation",
        ]


def _languages(trained: Trained) -> tuple[str, str]:
    """Return the language codes; raises `ConfigError` where they aren't known."""
    codes = []
    for option, code in zip(("--from-language", "--to-language"), trained.languages, strict=True):
        if code is None:
            raise ConfigError(
                f"--to argos: expected {option}, a code such as en or de, as the training files don't tell it"
            )
        if not is_code(code):
            raise ConfigError(f"{option}: expected a language code such as en or de, found {code[:40]!r}")
        codes.append(code)
    if codes[0] == codes[1]:
        raise ConfigError(f"--to argos: expected two languages, found {codes[0]} twice")
    return codes[0], codes[1]
