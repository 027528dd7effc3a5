"""What attention kinds, positions and other architectures can be told: sections of the configuration's `model`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from headwise import bounds
from headwise.characters import unwritable

Probability = Annotated[float, Field(ge=0.0, lt=1.0)]
# Whole numbers; the upper bounds have their reasons in `headwise.bounds`.
Positive = Annotated[int, Field(gt=0, le=bounds.COUNT)]  # a count
Natural = Annotated[int, Field(ge=0, le=bounds.COUNT)]
Width = Annotated[int, Field(gt=0, le=bounds.WIDTH)]
Layers = Annotated[int, Field(gt=0, le=bounds.LAYERS)]
Heads = Annotated[int, Field(gt=0, le=bounds.HEADS)]
Length = Annotated[int, Field(gt=0, le=bounds.LENGTH)]
Pixels = Annotated[int, Field(gt=0, le=bounds.PIXELS)]
Processes = Annotated[int, Field(ge=0, le=bounds.PROCESSES)]  # or threads; 0: as many as fit the machine
Seed = Annotated[int, Field(ge=0, le=bounds.SEED)]
Rate = Annotated[float, Field(gt=0.0, le=bounds.RATE)]
Penalty = Annotated[float, Field(ge=0.0, le=bounds.RATE)]
Epsilon = Annotated[float, Field(ge=bounds.SMALLEST, le=1.0)]


class Section(BaseModel):
    """A part of the configuration: unknown keys are errors and values are checked on assignment."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _text_can_be_written(cls, value: Any) -> Any:
        """Refuse text that config.yaml can't hold, or no file can be named by."""
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and (unwritable(text) or "\0" in text):
                raise ValueError(f"expected a name in UTF-8, found {text!r}")
        return value


class MemoryEfficientConfig(Section):
    """Tile of the chunked softmax: it holds chunk x chunk scores a head at a time."""

    chunk: Length = 256


class WindowConfig(Section):
    """Query i sees key j where |i - j| < size; the first `globals` positions see, and are seen by, all."""

    size: Length = 128
    globals: Annotated[int, Field(ge=0, le=bounds.LENGTH)] = 0


class BlockSparseConfig(Section):
    """Query i sees key j where |i - j| < local, or where i - j is a multiple of stride (Child et al. 2019)."""

    local: Length = 64
    stride: Length = 64


class LinearConfig(Section):
    """Positions that are summed up at once in the causal form; it changes speed, not results."""

    chunk: Length = 64


class StateSpaceConfig(Section):
    """Gu et al. 2022 (S4D): the state of each channel, and where its learning begins (sections 4 and 5)."""

    size: Annotated[int, Field(ge=2, le=bounds.WIDTH, multiple_of=2)] = (
        64  # N: half as many complex numbers and their conjugates
    )
    start: Literal["linear", "inverse"] = "linear"  # S4D-Lin or S4D-Inv
    shortest: Rate = 0.001  # steps begin between the two, on a logarithmic scale
    longest: Rate = 0.1
    chunk: Length = 64  # positions that are one matrix product; it changes speed, not results

    @model_validator(mode="after")
    def _steps_are_a_range(self) -> StateSpaceConfig:
        if self.shortest > self.longest:
            raise ValueError(f"shortest must not exceed longest, found {self.shortest} and {self.longest}")
        return self


class AttentionOptions(Section):
    """What the attention kinds can be told, each in a section of its name."""

    memory_efficient: MemoryEfficientConfig = MemoryEfficientConfig()
    window: WindowConfig = WindowConfig()
    block_sparse: BlockSparseConfig = BlockSparseConfig()
    linear: LinearConfig = LinearConfig()
    state_space: StateSpaceConfig = StateSpaceConfig()


class RelativeConfig(Section):
    """Shaw et al. 2018: a vector per clipped distance, added to the keys and, if asked, to the values."""

    reach: Length = 16  # k, the distance beyond which all are one
    values: bool = False
    per_head: bool = False  # vectors of their own for each head


class T5Config(Section):
    """Raffel et al. 2020, section 2.1: buckets of distances that widen logarithmically up to `reach`."""

    buckets: Annotated[int, Field(ge=4, le=bounds.LENGTH, multiple_of=4)] = 32
    reach: Length = 128

    @model_validator(mode="after")
    def _buckets_widen(self) -> T5Config:
        if self.reach <= self.buckets // 2:
            raise ValueError(f"reach must exceed half of the buckets, found {self.reach} and {self.buckets}")
        return self


class RotaryConfig(Section):
    """Su et al. 2021, equation 15: pair i turns by base^(-2i / d_k) a position."""

    base: Annotated[float, Field(gt=1.0, le=bounds.ROTARY_BASE)] = 10000.0
    pairs: Literal["adjacent", "halves"] = (
        "adjacent"  # (x0, x1) as in the paper, or (x0, x_{d/2}) as in Llama
    )


class PositionOptions(Section):
    """What the position encodings can be told, each in a section of its name."""

    relative: RelativeConfig = RelativeConfig()
    t5: T5Config = T5Config()
    rotary: RotaryConfig = RotaryConfig()


class RecurrentConfig(Section):
    """What only `architecture: recurrent` has; the defaults are Bahdanau et al. 2015 (appendix A).

    Luong et al. 2015: lstm, multiplicative, query=current, readout=tanh, input_feeding. GNMT (Wu et al. 2016): lstm,
    reading=both-first, residual, readout=state. Sutskever et al. 2014: lstm, reading=backward, attention=none,
    readout=state.
    """

    cell: Literal["gru", "lstm"] = "gru"
    size: Width | None = None  # width of a state; d_model unless given
    # How the encoder's layers read: all both ways, only the first both ways (GNMT), or all one way.
    reading: Literal["both", "both-first", "forward", "backward"] = "both"
    residual: bool = False  # around every layer from the third on (GNMT, section 3.1)
    attention: Literal["additive", "multiplicative", "none"] = "additive"  # none: the final state alone
    query: Literal["previous", "current"] = (
        "previous"  # the bottom layer's last state, or the top layer's new one
    )
    readout: Literal["maxout", "tanh", "state"] = "maxout"  # from the top layer's state to d_model
    input_feeding: bool = False  # the readout joins the next step's input (Luong, section 3.3)

    @model_validator(mode="after")
    def _parts_fit(self) -> RecurrentConfig:
        if self.attention == "none" and (self.input_feeding or self.readout == "tanh"):
            raise ValueError(
                "input_feeding and readout=tanh hand on what attention found, found attention=none "
                f"with input_feeding={str(self.input_feeding).lower()} and readout={self.readout}"
            )
        if self.attention == "none" and self.reading.startswith("both"):
            raise ValueError(
                "attention=none hands on one direction's final state alone, expected reading=forward or backward, "
                f"found reading={self.reading}"
            )
        if self.input_feeding and self.query == "previous":
            raise ValueError(
                "input_feeding needs query=current (with query=previous the context itself is an input), "
                "found query=previous"
            )
        return self


class ConvolutionalConfig(Section):
    """What only `architecture: convolutional` has (Gehring et al. 2017, section 3)."""

    channels: Width | None = None  # width of the convolution blocks; d_model unless given
    kernel: Annotated[int, Field(gt=1, le=bounds.KERNEL)] = (
        3  # inputs that one output sees; odd, so that the encoder's are centered
    )

    @model_validator(mode="after")
    def _kernel_is_odd(self) -> ConvolutionalConfig:
        if self.kernel % 2 == 0:
            raise ValueError(f"kernel must be odd, found {self.kernel}")
        return self
