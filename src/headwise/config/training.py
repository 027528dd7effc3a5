"""Sections of training and search options, with the paper's values as defaults."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from headwise import bounds
from headwise.config.base import (
    Epsilon,
    Natural,
    Penalty,
    Positive,
    Probability,
    Processes,
    Rate,
    Section,
    Seed,
    WorkerProcesses,
    Writable,
)
from headwise.config.keys import ENCODERS, LABELED, MAY_CHANGE, PAIRS, YOUNGER, Tasks

_PAIRS = Tasks(*PAIRS)


class BatchConfig(Section):
    """Batch size: `tokens` bounds the source tokens and the target tokens of a batch, padding included."""

    tokens: Annotated[Positive, Tasks.all_but("image_text")] = 25000
    accumulate: Positive = 1  # gradient accumulation: batches per optimizer step


class OptimizerConfig(Section):
    """Adam as in the paper's section 5.3; weight decay is decoupled (AdamW) and off by default.

    With `muon`, the matrices of the Transformer layers are trained by Muon (Jordan et al. 2024) and the rest by Adam.
    `momentum` and `matrix_rate` are Muon's.
    """

    name: Literal["adam", "muon"] = "adam"
    beta1: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.9
    beta2: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.98
    epsilon: Epsilon = 1e-9
    weight_decay: Penalty = 0.0
    clip_norm: Rate | None = None
    momentum: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.95
    matrix_rate: Rate = 1.4  # learning rate of the matrices, as a multiple of the schedule's

    @model_validator(mode="after")
    def _used(self) -> OptimizerConfig:
        if self.name == "adam":
            for name in ("momentum", "matrix_rate"):
                found = getattr(self, name)
                if found != type(self).model_fields[name].default:
                    raise ValueError(f"{name}={found} is Muon's: expected name=muon beside it, found name=adam")
        return self

    def as_adam(self) -> OptimizerConfig:
        """Return Adam's options alone."""
        return OptimizerConfig(**self.model_dump(exclude={"name", "momentum", "matrix_rate"}))


class ScheduleConfig(Section):
    """Learning-rate schedule.

    `noam` is the paper's formula (section 5.3), times `scale`. `inverse_sqrt` warms up linearly to `peak` and
    then decays with the inverse square root; `linear` and `cosine` decay to zero at `max_steps`. `constant` stays at
    `peak`.
    """

    name: Literal["noam", "inverse_sqrt", "linear", "cosine", "constant"] = "noam"
    warmup: Natural = 4000
    scale: Rate = 1.0  # for noam
    peak: Rate | None = None  # maximum learning rate of the other schedules
    # share of the steps, at the end, in which a linear factor brings the rate to zero
    cooldown: Probability = 0.0

    @model_validator(mode="after")
    def _peak_given(self) -> ScheduleConfig:
        if self.name != "noam" and self.peak is None:
            raise ValueError(f"schedule {self.name} needs a peak learning rate, found none")
        if self.name != "noam" and self.scale != 1.0:
            raise ValueError(f"schedule {self.name} takes peak, not scale; found scale={self.scale:g}")
        if self.name == "noam" and self.peak is not None:
            raise ValueError(f"schedule noam takes scale, not peak; found peak={self.peak}")
        return self

    @model_validator(mode="after")
    def _decays_once(self) -> ScheduleConfig:
        if self.cooldown and self.name in ("linear", "cosine"):
            raise ValueError(f"schedule {self.name} decays to zero itself; found cooldown={self.cooldown:g}")
        return self


class FsdpConfig(Section):
    """Options of FSDP2 (`torch.distributed.fsdp.fully_shard`)."""

    mixed_precision: bool = False  # gather parameters in bfloat16; their shards and gradients stay in float32
    cpu_offload: bool = False  # keep shards and moments in the memory of the machine, on a GPU


class TrainingConfig(Section):
    """Training length, validation, checkpoints and regularization."""

    # a run whose weights and subwords are used: an encoder; translation or denoising for translation
    initialize_from: Annotated[str | None, Writable, Tasks(*PAIRS, *ENCODERS), MAY_CHANGE] = None
    # at most so many are learned from the new text and added to those of that run
    add_subwords: Annotated[int, Field(ge=0, le=bounds.VOCABULARY), _PAIRS] = 0
    max_steps: Annotated[Positive, MAY_CHANGE] = 100_000
    max_minutes: Annotated[Annotated[float, Field(gt=0.0, le=bounds.MINUTES)] | None, MAY_CHANGE] = None
    validate_every: Annotated[Positive, MAY_CHANGE] = 1000
    # of the time; 1: validations aren't made rarer
    validate_share: Annotated[float, Field(gt=0.0, le=1.0), MAY_CHANGE] = 0.05
    validate_bleu: Annotated[bool, _PAIRS, MAY_CHANGE] = True
    # early stopping after this many validations without a better score; 0: never
    patience: Annotated[Natural, MAY_CHANGE] = 0
    best_by: Annotated[str, Writable] = "loss"  # or a score of the task, as bleu for translation
    checkpoint_every: Annotated[Positive, MAY_CHANGE] = 1000
    # number of checkpoints averaged at the end (section 6.1: 5 base, 20 big)
    average_last: Annotated[int, Field(gt=0, le=bounds.CHECKPOINTS), MAY_CHANGE] = 5
    # those to average, the best and the latest; doubling: also checkpoint_every · 1, 2, 4, 8, …
    keep_checkpoints: Annotated[Literal["last", "doubling", "all"], MAY_CHANGE] = "last"
    label_smoothing: Annotated[Probability, Tasks.all_but("image_text")] = 0.1  # section 5.4
    # weight of the R-Drop KL divergence (Liang et al. 2021)
    r_drop: Annotated[Penalty, Tasks(*PAIRS, *LABELED)] = 0.0
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    device: Annotated[str, Writable, MAY_CHANGE] = "auto"
    # that share every batch; auto: as many as a trial finds fastest
    processes: Annotated[WorkerProcesses, MAY_CHANGE] = "auto"
    # with several processes: a model in each, or sharded over all
    parallel: Annotated[Literal["ddp", "fsdp"], MAY_CHANGE] = "ddp"
    fsdp: Annotated[FsdpConfig, MAY_CHANGE] = FsdpConfig()
    # recompute Transformer layers in the backward pass, for less memory
    checkpoint_activations: Annotated[bool, MAY_CHANGE] = False
    # seconds after which a rank that makes no progress in a step ends the training; 0: never
    rank_timeout: Annotated[float, Field(ge=0.0, le=bounds.MINUTES), MAY_CHANGE] = 600.0
    # what multiplies float32 matrices on a CPU: torch, the native library, or the faster one in a trial
    products: Annotated[Literal["auto", "torch", "native"], MAY_CHANGE] = "auto"
    # CPU threads, divided among the processes; 0: PyTorch's default
    threads: Annotated[Processes, MAY_CHANGE] = 0
    seed: Seed = 1
    log_every: Annotated[Positive, MAY_CHANGE] = 50
    tensorboard: Annotated[bool, MAY_CHANGE] = False

    @model_validator(mode="after")
    def _best_is_measured(self) -> TrainingConfig:
        if self.best_by == "bleu" and not self.validate_bleu:
            raise ValueError("best_by=bleu needs validate_bleu=true, found false")
        return self

    @model_validator(mode="after")
    def _start_is_given(self) -> TrainingConfig:
        if self.add_subwords and self.initialize_from is None:
            raise ValueError("add_subwords needs training.initialize_from, a run whose subwords it extends, found none")
        return self


class DecodingConfig(Section):
    """Search options, with the paper's values (section 6.1)."""

    beam: Annotated[int, Field(gt=0, le=bounds.BEAM)] = 4
    alpha: Annotated[float, Field(ge=0.0, le=bounds.ALPHA)] = 0.6
    extra_length: Annotated[int, Field(ge=0, le=bounds.LENGTH)] = 50  # |output| <= |input| + 50 subwords
    batch_tokens: Positive = 4096
    # capitals and titles are translated as ordinary text, and restored
    recase: Annotated[bool, YOUNGER] = False
    # but for sampling, what repeats itself, runs on, or has wrong numbers or open quotations is searched again
    guard: Annotated[bool, YOUNGER] = False

    @property
    def search(self) -> dict[str, Any]:
        """Return the options that a search takes from a run, by name."""
        return self.model_dump(exclude={"batch_tokens"})
