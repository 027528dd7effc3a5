"""The section `model`: network shape, and options of attention kinds, position encodings and architectures."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from headwise import bounds
from headwise.config.base import Epsilon, Heads, Layers, Length, Probability, Rate, Section, Width, Writable
from headwise.config.keys import ENCODERS, PAIRS, TRANSFORMERS, Models, Tasks, unused_keys
from headwise.errors import ConfigError

# Architectures without Transformer layers, and so without heads, pre-norm, and matrices for Muon.
WITHOUT_LAYERS = ("recurrent", "convolutional")
_WIDEST = 2**20  # heads times d_k or d_v
Shared = Literal["all", "target", "none"]
Segments = Annotated[int, Field(ge=0, le=bounds.LENGTH)]
_TRANSFORMERS = Models(*TRANSFORMERS)
_ENCODER_DECODER = Models("transformer")
LARGEST_TABLE = 2**28  # elements of a position table: a gigabyte in float32


class MemoryEfficientConfig(Section):
    """Tile size of the chunked softmax: chunk x chunk attention scores of each head are in memory at once."""

    chunk: Length = 256


class WindowConfig(Section):
    """Query i attends to key j where |i - j| < size, or where i < globals or j < globals."""

    size: Length = 128
    globals: Annotated[int, Field(ge=0, le=bounds.LENGTH)] = 0


class BlockSparseConfig(Section):
    """Query i attends to key j where |i - j| < local or i - j is a multiple of stride (Child et al. 2019)."""

    local: Length = 64
    stride: Length = 64


class LinearConfig(Section):
    """Number of positions summed at once in the causal form; affects speed, not results."""

    chunk: Length = 64


class StateSpaceConfig(Section):
    """Gu et al. 2022 (S4D): state size of each channel and initialization (sections 4 and 5)."""

    # N: N / 2 complex numbers and their conjugates
    size: Annotated[int, Field(ge=2, le=bounds.WIDTH, multiple_of=2)] = 64
    start: Literal["linear", "inverse"] = "linear"  # S4D-Lin or S4D-Inv
    shortest: Rate = 0.001  # initial step sizes are log-uniform between the two
    longest: Rate = 0.1
    chunk: Length = 64  # positions per matrix product; affects speed, not results

    @model_validator(mode="after")
    def _steps_are_a_range(self) -> StateSpaceConfig:
        if self.shortest > self.longest:
            raise ValueError(f"shortest must not exceed longest, found {self.shortest} and {self.longest}")
        return self


class AttentionOptions(Section):
    """Options of the attention kinds, each in the section of its name."""

    memory_efficient: MemoryEfficientConfig = MemoryEfficientConfig()
    window: WindowConfig = WindowConfig()
    block_sparse: BlockSparseConfig = BlockSparseConfig()
    linear: LinearConfig = LinearConfig()
    state_space: StateSpaceConfig = StateSpaceConfig()


class RelativeConfig(Section):
    """Shaw et al. 2018: one vector per clipped distance, added to the keys and optionally to the values."""

    reach: Length = 16  # k, the maximum distance, at which longer ones are clipped
    values: bool = False
    per_head: bool = False  # separate vectors for each head


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
    """Su et al. 2021, equation 15: pair i is rotated by the angle base^(-2i / d_k) per position."""

    base: Annotated[float, Field(gt=1.0, le=bounds.ROTARY_BASE)] = 10000.0
    # (x0, x1) as in the paper, or (x0, x_{d/2}) as in Llama
    pairs: Literal["adjacent", "halves"] = "adjacent"


class PositionOptions(Section):
    """Options of the position encodings, each in the section of its name."""

    relative: RelativeConfig = RelativeConfig()
    t5: T5Config = T5Config()
    rotary: RotaryConfig = RotaryConfig()


class RecurrentConfig(Section):
    """Options of `architecture: recurrent`; the defaults are Bahdanau et al. 2015 (appendix A).

    Luong et al. 2015: lstm, multiplicative, query=current, readout=tanh, input_feeding. GNMT (Wu et al. 2016): lstm,
    reading=both-first, residual, readout=state. Sutskever et al. 2014: lstm, reading=backward, attention=none,
    readout=state.
    """

    cell: Literal["gru", "lstm"] = "gru"
    size: Width | None = None  # width of a state; d_model unless given
    # Direction of the encoder: all layers bidirectional, only the first one (GNMT), or all unidirectional.
    reading: Literal["both", "both-first", "forward", "backward"] = "both"
    residual: bool = False  # around every layer from the third on (GNMT, section 3.1)
    attention: Literal["additive", "multiplicative", "none"] = "additive"  # none: only the final state
    # previous state of the bottom layer, or new state of the top layer
    query: Literal["previous", "current"] = "previous"
    readout: Literal["maxout", "tanh", "state"] = "maxout"  # from the top layer's state to d_model
    input_feeding: bool = False  # the readout is part of the next step's input (Luong, section 3.3)

    @model_validator(mode="after")
    def _parts_fit(self) -> RecurrentConfig:
        if self.attention == "none" and (self.input_feeding or self.readout == "tanh"):
            raise ValueError(
                "input_feeding and readout=tanh hand on what attention found, found attention=none "
                f"with input_feeding={str(self.input_feeding).lower()} and readout={self.readout}"
            )
        if self.attention != "none" and self.query == "current" and self.readout == "state":
            raise ValueError(
                "readout=state hands on the top layer's state, which with query=current hasn't what attention found: "
                "expected readout=maxout or tanh, query=previous, or attention=none, "
                f"found attention={self.attention}"
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
    """Options of `architecture: convolutional` (Gehring et al. 2017, section 3)."""

    channels: Width | None = None  # width of the convolution blocks; d_model unless given
    # inputs of one output; odd, so that the encoder's kernels are centered
    kernel: Annotated[int, Field(gt=1, le=bounds.KERNEL)] = 3

    @model_validator(mode="after")
    def _kernel_is_odd(self) -> ConvolutionalConfig:
        if self.kernel % 2 == 0:
            raise ValueError(f"kernel must be odd, found {self.kernel}")
        return self


class ModelConfig(Section):
    """Hyperparameters of the network, in the paper's notation (Vaswani et al. 2017, sections 3 and 6.2)."""

    architecture: Annotated[str, Writable] = "transformer"
    encoder_layers: Annotated[Layers, Models.all_but("decoder-only")] = 6  # N
    decoder_layers: Annotated[Layers, Models.all_but("encoder-only", "images")] = 6  # N
    d_model: Width = 512
    d_ff: Width = 2048
    heads: Heads = 8  # h
    d_k: Annotated[Width | None, _TRANSFORMERS] = None  # d_model / h unless given (Table 3, rows B)
    d_v: Annotated[Width | None, _TRANSFORMERS] = None  # d_model / h unless given
    norm: Annotated[Literal["post", "pre"], _TRANSFORMERS] = "post"
    # normalization after the last layer; unless given, only with norm=pre
    final_norm: Annotated[bool | None, _TRANSFORMERS] = None
    residual: Annotated[bool, _TRANSFORMERS] = True  # x + Sublayer(x); False: Sublayer(x), for an ablation
    # Ba et al. 2016, or Zhang & Sennrich 2019
    normalization: Annotated[Literal["layer", "rms"], _TRANSFORMERS] = "layer"
    norm_epsilon: Annotated[Epsilon, _TRANSFORMERS] = 1e-5  # ε in √(σ² + ε)
    # gelu_tanh: gelu approximated (GPT-2)
    activation: Annotated[Literal["relu", "gelu", "gelu_tanh", "silu"], _TRANSFORMERS] = "relu"
    # feed-forward (f(xW₁) · xV) W₂ (Shazeer 2020); with silu it is SwiGLU
    gated: Annotated[bool, _TRANSFORMERS] = False
    feed_forward_bias: Annotated[bool, _TRANSFORMERS] = True
    positions: Annotated[str, Writable, _TRANSFORMERS] = "sinusoidal"  # an encoding registered in headwise.nn.positions
    position_options: Annotated[PositionOptions, _TRANSFORMERS] = PositionOptions()
    # an attention kind registered in headwise.nn.attention
    attention: Annotated[str, Writable, _TRANSFORMERS] = "fused"
    # attention kind of the cross-attention; `attention` unless given
    cross_attention: Annotated[str | None, Writable, _ENCODER_DECODER] = None
    attention_options: Annotated[AttentionOptions, _TRANSFORMERS] = AttentionOptions()
    # fewer than heads: grouped-query attention (Ainslie et al. 2023); 1: multi-query attention
    key_value_heads: Annotated[Heads | None, _TRANSFORMERS] = None
    # none in the paper's projections; Marian and torch.nn have them
    attention_bias: Annotated[bool, _TRANSFORMERS] = False
    max_length: Length = 512  # maximum sequence length in subwords, special symbols included
    # section 3.4 shares all three matrices
    share_embeddings: Annotated[Shared, Models.all_but("images"), Tasks.all_but(*ENCODERS)] = "all"
    # a bias added to the logits (Marian); not for encoder-only models
    logit_bias: Annotated[bool, Models.all_but("encoder-only", "images")] = False
    # the encoder reads the end symbol of the source (OpenNMT-py's doesn't)
    source_end: Annotated[bool, _ENCODER_DECODER] = True
    scale_embeddings: Annotated[bool, _TRANSFORMERS] = True  # multiply embeddings by √d_model (section 3.4)
    # normalize embeddings + positions (BERT)
    embedding_norm: Annotated[bool, Models("decoder-only", "encoder-only", "images")] = False
    # number of segment embeddings (BERT: 2); encoder-only
    segments: Annotated[Segments, Models("encoder-only"), Tasks.all_but(*PAIRS, "denoising")] = 0
    # decoder-only: bidirectional attention within a prefix (Raffel et al. 2020, section 3.2.1)
    prefix: Annotated[bool, Models("decoder-only"), Tasks.all_but(*PAIRS, "denoising")] = False
    dropout: Probability = 0.1  # P_drop: on sub-layer outputs and embeddings + positions (section 5.4)
    attention_dropout: Probability = 0.0
    activation_dropout: Annotated[Probability, _TRANSFORMERS] = 0.0
    recurrent: Annotated[RecurrentConfig, Models("recurrent")] = RecurrentConfig()
    convolutional: Annotated[ConvolutionalConfig, Models("convolutional")] = ConvolutionalConfig()

    @model_validator(mode="after")
    def _heads_and_positions_divide(self) -> ModelConfig:
        if self.architecture in WITHOUT_LAYERS:
            return self  # has neither heads nor these positions
        if (self.d_k is None or self.d_v is None) and self.d_model % self.heads:
            raise ValueError(
                f"d_model must be a multiple of heads unless d_k and d_v are given, "
                f"found d_model={self.d_model} and heads={self.heads}"
            )
        if self.key_value_heads is not None and self.heads % self.key_value_heads:
            raise ValueError(
                f"heads must be a multiple of key_value_heads, "
                f"found heads={self.heads} and key_value_heads={self.key_value_heads}"
            )
        if self.positions in ("sinusoidal", "tensor2tensor", "fairseq") and self.d_model % 2:
            raise ValueError(f"{self.positions} positions need an even d_model, found {self.d_model}")
        if self.positions in ("tensor2tensor", "fairseq") and self.d_model < 4:
            raise ValueError(f"{self.positions} positions need a d_model of at least 4, found {self.d_model}")
        return self

    @model_validator(mode="after")
    def _fits_in_memory(self) -> ModelConfig:
        """Bound sizes that depend on several keys: the width of all heads and the position table."""
        for name, size in (("d_k", self.key_size), ("d_v", self.value_size)):
            if self.heads * size > _WIDEST:
                raise ValueError(f"heads times {name} must be at most {_WIDEST}, found {self.heads * size}")
        if self.max_length * self.d_model > LARGEST_TABLE:
            raise ValueError(
                f"max_length times d_model must be at most {LARGEST_TABLE}, "
                f"found max_length={self.max_length} and d_model={self.d_model}"
            )
        return self

    def check_keys(self, kind: str, what: str) -> None:
        """Raise `ConfigError` if a key is set that has no effect on a kind of model, described for the message."""
        for key, value in unused_keys(self, Models, kind, "model."):
            raise ConfigError(f"{key}: expected nothing here, as {what} has no use for it, found {value!r}")

    def check_vocabularies(self, source_size: int, target_size: int) -> None:
        """Raise `ConfigError` if vocabularies of these sizes can't share their embeddings as configured."""
        if self.share_embeddings == "all" and source_size != target_size:
            raise ConfigError(
                "model.share_embeddings: sharing all embeddings needs one joint vocabulary, "
                f"found {source_size} source and {target_size} target subwords"
            )

    @property
    def key_size(self) -> int:
        """d_k, the width of one head's queries and keys."""
        return self.d_k or self.d_model // self.heads

    @property
    def value_size(self) -> int:
        """d_v, the width of one head's values."""
        return self.d_v or self.d_model // self.heads

    @property
    def groups(self) -> int:
        """Number of heads of keys and values, each of which a group of query heads shares."""
        return self.key_value_heads or self.heads

    @property
    def ends_normalized(self) -> bool:
        """Whether the output of a stack is normalized: by default with pre-norm only."""
        return self.norm == "pre" if self.final_norm is None else self.final_norm
