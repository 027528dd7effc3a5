"""Where a model to import lies: a path, or a repository of the Hugging Face Hub, which is downloaded to its cache."""

from __future__ import annotations

import os
import re
from pathlib import Path

from headwise.errors import CheckpointError, ConfigError
from headwise.extras import needed_by

_HUB = "hf:"
_REPOSITORY = re.compile(r"(?P<name>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?", re.ASCII)
# Files that an importer may read; weights of other frameworks aren't downloaded.
_WANTED = ("*.json", "*.safetensors", "*.bin", "*.spm", "*.model", "*.txt", "*.yml", "*.npz", "*.argosmodel")


def locate(source: str) -> Path:
    """Return the path of a source.

    Raises `CheckpointError` if there is none or it holds links to other places, and `ConfigError` for a malformed name.
    """
    if source.startswith(_HUB):
        return _download(source.removeprefix(_HUB))
    path = Path(source)
    if not path.exists():
        raise CheckpointError(f"{source}: expected a model's directory or file, found none")
    _check_links(path)
    return path


def _check_links(source: Path) -> None:
    """Raise `CheckpointError` for a link out of a directory; in the Hub's cache, files are links to its blobs."""
    inside = source.resolve()
    blobs = inside.parent.parent / "blobs" if inside.parent.name == "snapshots" else inside
    for pattern in ("*", "*/*"):
        for file in source.glob(pattern):
            target = Path(os.path.realpath(file))  # resolve() raises for a link to itself before Python 3.13
            if not target.is_relative_to(inside) and not target.is_relative_to(blobs):
                raise CheckpointError(f"{file}: expected a file inside {source}, found a link to {target}")


def _download(name: str) -> Path:
    """Return the directory of a Hub repository in the local cache; `HF_HUB_OFFLINE=1` uses what is there already."""
    match = _REPOSITORY.fullmatch(name)
    malformed = ConfigError(f"hf:{name}: expected hf:OWNER/NAME or hf:OWNER/NAME@REVISION")
    if match is None:
        raise malformed
    with needed_by(f"hf:{name}"):
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import (
            GatedRepoError,
            HFValidationError,
            HTTPError,  # type: ignore[attr-defined] - that of the library that connects
            LocalEntryNotFoundError,
            RepositoryNotFoundError,
            RevisionNotFoundError,
        )
    try:
        folder = snapshot_download(match["name"], revision=match["revision"], allow_patterns=list(_WANTED))
    except HFValidationError:
        raise malformed from None
    except GatedRepoError:
        raise CheckpointError(
            f"hf:{name}: expected a public model, found one that needs a login (hf auth login)"
        ) from None
    except RevisionNotFoundError:
        raise CheckpointError(f"hf:{name}: the Hub has no revision {match['revision']}") from None
    except RepositoryNotFoundError:
        raise CheckpointError(f"hf:{name}: the Hub has no model of this name") from None
    except LocalEntryNotFoundError:
        raise CheckpointError(
            f"hf:{name}: expected a connection to the Hub or a copy in the local cache, found neither"
        ) from None
    except (HTTPError, OSError) as error:  # a proxy's, too
        raise CheckpointError(f"hf:{name}: can't be downloaded ({' '.join(str(error).split())[:200]})") from None
    return Path(folder)
