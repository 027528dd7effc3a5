"""The manifest of a file's translation: what it depends on, and how many lines are complete."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from headwise.errors import CheckpointError, DataError
from headwise.files import read_errors, write_text
from headwise.parsing import read_json

_BLOCK = 1 << 20  # bytes

_Count = Annotated[int, Field(ge=0, le=1 << 62)]


class Manifest(BaseModel):
    """What the translations depend on (`request`), those that are complete, and how many of their lines are bad."""

    model_config = ConfigDict(extra="forbid", strict=True)

    request: dict[str, str | int | float | bool | None]
    engine: str  # engine and precision, of every process
    total: _Count  # lines of the source
    lines: _Count = 0  # of the source, which are translated
    bytes: _Count = 0
    sha256: str = hashlib.sha256().hexdigest()
    not_utf8: _Count = 0
    too_long: _Count = 0
    malformed: _Count = 0  # records without the field

    def check(self, request: dict[str, Any], place: Path) -> None:
        """Raise `CheckpointError` if the translations in `place` depend on something else than `request`."""
        changed = [
            f"{key}={self.request.get(key)}, found {key}={request.get(key)} now"
            for key in dict.fromkeys([*self.request, *request])
            if self.request.get(key) != request.get(key)
        ]
        if changed:
            raise _begun(place, "; with ".join(changed))

    def check_engine(self, engine: str, place: Path) -> None:
        """Raise `CheckpointError` if the remaining translations would be computed by another engine."""
        if self.engine != engine:
            raise _begun(place, f"{self.engine}, found {engine} now")

    def check_output(self, output: Path, path: Path) -> None:
        """Raise `CheckpointError` if the complete lines of a file aren't the recorded ones; more may follow them."""
        if digest_of(output, self.bytes).hexdigest() != self.sha256:
            raise CheckpointError(
                f"{output}: expected the {self.lines:,} translations that {path.name} records, found a changed file; "
                "--restart translates anew"
            )

    def save(self, path: Path) -> None:
        """Replace the manifest at `path`; raises `TrainingError`."""
        write_text(path, self.model_dump_json(indent=1))

    @classmethod
    def load(cls, path: Path) -> Manifest:
        """Read a manifest; raises `CheckpointError` if it isn't one."""
        try:
            return cls.model_validate(read_json(path))
        except (DataError, ValidationError):
            raise CheckpointError(
                f"{path}: expected what of a translation is complete, found something else; --restart begins anew"
            ) from None


def digest_of(path: Path, size: int) -> hashlib._Hash:
    """Return the SHA-256 of the first `size` bytes of a file, which may be shorter or missing."""
    digest = hashlib.sha256()
    if path.exists():
        with read_errors(path), open(path, "rb") as file:
            while block := file.read(min(size, _BLOCK)):
                digest.update(block)
                size -= len(block)
    return digest


def _begun(place: Path, difference: str) -> CheckpointError:
    return CheckpointError(
        f"{place}: was begun with {difference}; keep what it was begun with to go on, use another output file, or "
        "--restart to begin anew"
    )
