"""Tensors that FSDP2 divides over the ranks, whole ones alike, and files of divided ones.

`DTensor` is recognized by its methods, because its module imports PyTorch's compiler, which takes a second.

Files are written by `torch.distributed.checkpoint`: each rank writes its part of every tensor as a safetensors file,
and the first rank joins them into one file for each name, as a single process would have written it. The engine's own
format isn't used, because its metadata is a pickle.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from torch import Tensor, distributed

from headwise.errors import TrainingError
from headwise.files import disk_errors
from headwise.training.parallel.world import CONNECTION_TIMEOUT

_JOINED = "model-00001-of-00001.safetensors"  # the engine's name of a joined file
Files = Mapping[str, Mapping[str, Tensor]]  # tensors by file and name


def is_sharded(tensor: Tensor) -> bool:
    """Return whether a tensor is divided over the ranks."""
    return hasattr(tensor, "full_tensor")


def gathered(tensor: Tensor) -> Tensor:
    """Return the whole tensor; if it is sharded, every rank calls this.

    Parts that were offloaded to the memory of the machine are moved to the GPU for it.
    """
    if not is_sharded(tensor):
        return tensor
    sharded = cast("Any", tensor)
    return sharded.to(sharded.device_mesh.device_type).full_tensor()


def local(tensor: Tensor) -> Tensor:
    """Return what this rank has of a tensor."""
    return cast("Any", tensor).to_local() if is_sharded(tensor) else tensor


def sharded_like(model: Tensor, whole: Tensor) -> Tensor:
    """Return a whole tensor, which every rank has, divided and placed as `model` is; without communication."""
    if not is_sharded(model):
        return whole
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(model, DTensor)
    divided = distribute_tensor(whole, model.device_mesh, model.placements, src_data_rank=None)
    return divided.to(model.device)


class ShardWriter:
    """Writes files of divided tensors; every rank makes one, and calls it for the same files in the same order."""

    def __init__(self) -> None:
        # A group of its own, so that a thread can write while training communicates.
        self._group: Any = distributed.new_group(backend="gloo", timeout=CONNECTION_TIMEOUT)

    def writing(self, files: Files, parts: Path, *, copy: bool) -> Callable[[Path | None], None]:
        """Return the function that writes the files, for every rank to call.

        The ranks write below `parts`, a folder that all of them see, and the first one, which calls the function with
        another folder of that file system, moves the joined files there. With `copy`, the tensors may be changed
        before the function has returned. It raises `TrainingError` on every rank if one of them can't write.
        """
        from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter

        staged: list[tuple[str, HuggingFaceStorageWriter, dict[str, Any]]] = []
        for name, tensors in files.items():
            writer = HuggingFaceStorageWriter(str(parts / name), save_distributed=True, enable_consolidation=True)
            # torch 2.13 loses the value of a tensor without dimensions when it joins the parts.
            rows = {key: value if value.dim() else value.reshape(1) for key, value in tensors.items()}
            staged.append((name, writer, writer.stage(rows) if copy else rows))

        def write(folder: Path | None) -> None:
            for name, writer, tensors in staged:
                self._save(tensors, writer, parts / name)
                if folder is not None:
                    os.replace(parts / name / _JOINED, folder / name)

        return write

    def _save(self, tensors: dict[str, Any], writer: Any, path: Path) -> None:
        from torch.distributed.checkpoint.api import CheckpointException
        from torch.distributed.checkpoint.state_dict_saver import save

        try:
            save(tensors, storage_writer=writer, process_group=self._group)
        except CheckpointException as error:
            rank, (cause, _) = min(error.failures.items())
            with disk_errors(path):
                if isinstance(cause, OSError):
                    raise cause from error
            raise TrainingError(f"{path}: rank {rank}: {cause}") from error
