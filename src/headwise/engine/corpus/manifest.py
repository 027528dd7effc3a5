"""The manifest of a corpus's translations: what they depend on, and how many lines of each file are complete."""

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


class FileState(BaseModel):
    """The complete lines of a file of translations, and how many of their sources were unusual, by reason."""

    model_config = ConfigDict(extra="forbid", strict=True)

    lines: _Count = 0  # of the source text
    bytes: _Count = 0
    sha256: str = hashlib.sha256().hexdigest()
    empty: _Count = 0
    not_utf8: _Count = 0
    too_long: _Count = 0
    malformed: _Count = 0  # a record without its field


class Manifest(BaseModel):
    """What the translations depend on (`request`), where they come from, and how many there are."""

    model_config = ConfigDict(extra="forbid", strict=True)

    request: dict[str, str | int | float | bool | None]
    teachers: list[str]
    sources: list[str]
    totals: list[_Count]  # lines of each source file
    engine: str  # engine and precision, of every process
    files: list[FileState]

    @property
    def lines(self) -> int:
        """Number of complete lines of all files."""
        return sum(state.lines for state in self.files)

    def count(self, name: str) -> int:
        """Return a count of all files, such as `empty`."""
        return sum(getattr(state, name) for state in self.files)

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

    def check_files(self, outputs: list[Path], path: Path) -> None:
        """Raise `CheckpointError` if the complete lines of a file aren't the recorded ones; more may follow them."""
        if not len(self.totals) == len(self.files) == len(outputs):
            raise CheckpointError(f"{path}: expected the state of {len(outputs)} files, found that of others")
        for output, state in zip(outputs, self.files, strict=True):
            if digest_of(output, state.bytes).hexdigest() != state.sha256:
                raise CheckpointError(
                    f"{output}: expected the {state.lines:,} translations that {path.name} records, found a changed "
                    "file; --restart translates anew"
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
                f"{path}: expected a manifest of translations, found something else"
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
