"""Tensors that FSDP2 divides over the ranks, and whole ones alike.

`DTensor` is recognized by its methods, because its module imports PyTorch's compiler, which takes a second.
"""

from __future__ import annotations

from typing import Any, cast

from torch import Tensor


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
