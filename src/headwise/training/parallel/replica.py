"""The model as a rank trains it: whole in one process, replicated by DDP, or sharded by FSDP2.

DDP (Li et al. 2020) keeps every parameter on every rank and sums gradients in buckets, while the backward pass computes
the next ones. FSDP2 (`torch.distributed.fsdp.fully_shard`; Zhao et al. 2023) divides every parameter, its gradient and
its moments over the ranks, by rows, and gathers the parameters of a layer when it is computed. Both work by hooks of a
module's forward pass, so the module that they wrap computes the whole loss (`_Loss`). The losses that compute their
gradients in chunks (`headwise.training.loss`) return them to autograd, which accumulates each parameter's gradient once
per backward pass, also that of a parameter that is used several times; the hooks follow the accumulation.

Both divide the sum of gradients by the number of ranks, and `compute_gradients` multiplies the loss by that number: the
loss is divided once, by the target tokens of all ranks.
"""

from __future__ import annotations

import copy
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from headwise.config import TrainingConfig
from headwise.errors import ConfigError
from headwise.models.transformer import DecoderLayer, EncoderLayer
from headwise.training.parallel.sharding import ShardWriter, gathered, local, sharded_like
from headwise.training.parallel.world import World
from headwise.training.task import Task

_BUCKET_MEGABYTES = 25  # torch's default


class _Loss(nn.Module):
    """A task's loss as a module; the forward pass returns the loss and the negative log-likelihood of a batch."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.model, self.task = task.model, task

    def forward(self, batch: object) -> tuple[Tensor, Tensor]:
        loss = self.task.loss(batch)
        return loss.total, loss.nll


class Replica:
    """The model of a training in one process; subclasses are those of several ranks.

    Attributes:
        model: the model that is trained.
        parameters: those of its parameters that are trained, by name.
        loss: module that maps a batch to its loss, summed over target tokens, and its negative log-likelihood.
        shards: writer of tensors that are divided over the ranks; None if the first rank has them whole.
    """

    def __init__(self, task: Task, options: TrainingConfig) -> None:
        self.task = task
        self.model = task.model
        self.shards: ShardWriter | None = None
        self.loss: nn.Module = _Loss(task)
        if options.checkpoint_activations:
            _recompute_layers(self.model)

    @property
    def parameters(self) -> dict[str, nn.Parameter]:
        """The trained parameters by name."""
        return {name: p for name, p in self.model.named_parameters() if p.requires_grad}

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Accumulate gradients on this rank in the block's forward and backward passes, without a sum over ranks."""
        yield

    def collect_parameters(self) -> None:
        """Bring the parameters of the task's model up to date on the first rank; every rank calls this."""

    def restore(self, optimizer: torch.optim.Optimizer, moments: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Set the optimizer's state, from that of every parameter of the model by name and key."""
        optimizer.state.clear()
        for name, parameter in self.parameters.items():
            # `step` is moved, too, because fused Adam keeps it on the parameter's device.
            state = {key: value.to(parameter.device) for key, value in moments.get(name, {}).items()}
            if state:
                optimizer.state[parameter] = state

    def close(self) -> None:
        """Detach the model from its hooks, so that another replica can be made of it."""
        for layer in _transformer_layers(self.model):
            vars(layer).pop("forward", None)  # of `_recompute_layers`


class DDPReplica(Replica):
    """The model on every rank; gradients are summed in buckets while the backward pass goes on.

    The graph isn't declared as static: in the first step of such a graph, and so in the first one after resuming, DDP
    sums after every batch of an accumulation, which rounds differently.
    """

    def __init__(self, task: Task, options: TrainingConfig) -> None:
        super().__init__(task, options)
        with warnings.catch_warnings():
            # What is to replace `broadcast_buffers` in a later torch isn't there yet.
            warnings.filterwarnings("ignore", message="`broadcast_buffers` is deprecated")
            self._ddp = nn.parallel.DistributedDataParallel(
                self.loss,
                broadcast_buffers=False,
                init_sync=False,  # the parameters are the same on every rank already
                bucket_cap_mb=_BUCKET_MEGABYTES,
                gradient_as_bucket_view=True,
            )
        self.loss = self._ddp

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """See `Replica`."""
        with self._ddp.no_sync():
            yield

    def close(self) -> None:
        """See `Replica`; DDP removes its hooks with its last reference."""
        super().close()
        self.loss = self._ddp.module
        del self._ddp


class FSDPReplica(Replica):
    """A copy of the model that is sharded over the ranks; `task.model` is whole, and stays on the first rank only.

    Raises `ConfigError` for `training.fsdp.cpu_offload` without a GPU, and for a parameter that can't be divided.
    """

    def __init__(self, task: Task, world: World, options: TrainingConfig, device: torch.device) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import (
            CPUOffloadPolicy,
            MixedPrecisionPolicy,
            OffloadPolicy,
            fully_shard,
            register_fsdp_forward_method,
        )

        if options.fsdp.cpu_offload and device.type == "cpu":
            raise ConfigError("training.fsdp.cpu_offload: expected false on the CPU, found true")
        if whole := [name for name, p in task.model.named_parameters() if not p.dim()]:
            raise ConfigError(
                f"training.parallel: expected ddp, as {whole[0]} of this model is one number, which can't be divided, "
                "found fsdp"
            )
        # Nothing changes the keys and values of the source in place, of which this warns.
        warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view tensor")
        sharded = copy.deepcopy(task.model)
        super().__init__(task.with_model(sharded), options)
        self._whole, self._first = task.model, world.first
        mesh = init_device_mesh(device.type, (world.size,))
        gathered_dtype = torch.bfloat16 if options.fsdp.mixed_precision else None
        settings = {
            "mesh": mesh,
            "mp_policy": MixedPrecisionPolicy(
                param_dtype=gathered_dtype, reduce_dtype=torch.float32, cast_forward_inputs=False
            ),
            "offload_policy": CPUOffloadPolicy() if options.fsdp.cpu_offload else OffloadPolicy(),
        }
        for layer in _layers_of_their_own(sharded):
            if isinstance(layer, DecoderLayer):
                # Its keys and values of the source are computed before the layer's forward pass.
                fully_shard(layer.cross_attention, **settings)
                for method in ("project_memory", "cross_attend"):
                    register_fsdp_forward_method(layer.cross_attention, method)
            fully_shard(layer, **settings)
        self._fsdp = fully_shard(self.loss, **settings)
        self.shards = ShardWriter()

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """See `Replica`; the gradients of a rank are whole until they are summed."""
        self._fsdp.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            self._fsdp.set_requires_gradient_sync(True)

    def collect_parameters(self) -> None:
        """See `Replica`; tensors are gathered one by one, so no rank but the first has more than one whole."""
        whole = dict(self._whole.named_parameters())
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                value = gathered(parameter)
                if self._first:
                    whole[name].copy_(value)

    def restore(self, optimizer: torch.optim.Optimizer, moments: Mapping[str, Mapping[str, Tensor]]) -> None:
        """See `Replica`; each rank keeps its part, which is all that it reads of a memory-mapped checkpoint."""
        sharded = {
            name: {
                key: sharded_like(parameter, value.to(parameter.device)) if value.dim() else value
                for key, value in moments.get(name, {}).items()
            }
            for name, parameter in self.parameters.items()
        }
        super().restore(optimizer, sharded)


def replicate(task: Task, world: World, options: TrainingConfig, device: torch.device) -> Replica:
    """Return the model of this rank, as `training.parallel` says; the ranks must have the same parameters.

    Raises `ConfigError` for options that can't be used on the device.
    """
    if world.size == 1:
        return Replica(task, options)
    if options.parallel == "fsdp":
        return FSDPReplica(task, world, options, device)
    return DDPReplica(task, options)


def all_finite(parameters: Iterable[Tensor]) -> bool:
    """Return whether all numbers are finite, of those that are on this rank."""
    return all(bool(torch.isfinite(local(p)).all()) for p in parameters)


def optimizer_state(parameters: Mapping[str, nn.Parameter], optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the optimizer's tensors by `PARAMETER.KEY`; a parameter that never had a gradient has none."""
    return {
        f"{name}.{key}": value.detach()
        for name, parameter in parameters.items()
        for key, value in optimizer.state[parameter].items()
    }


def _transformer_layers(model: nn.Module) -> list[nn.Module]:
    return [module for module in model.modules() if isinstance(module, (EncoderLayer, DecoderLayer))]


def _layers_of_their_own(model: nn.Module) -> list[nn.Module]:
    """Return the Transformer layers that share no parameter with another one, as T5's table of positions."""
    layers = _transformer_layers(model)
    owners = Counter(id(parameter) for layer in layers for parameter in layer.parameters())
    return [layer for layer in layers if all(owners[id(p)] == 1 for p in layer.parameters())]


def _recompute_layers(model: nn.Module) -> None:
    """Let the backward pass compute the activations of each Transformer layer again, instead of keeping them.

    Chen et al. 2016. Dropout masks are the same, because the state of the random generator is restored for it.
    """
    for layer in _transformer_layers(model):
        layer.forward = partial(checkpoint, layer.forward, use_reentrant=False)
