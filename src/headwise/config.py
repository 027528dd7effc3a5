"""The configuration: every choice a run can make, with the paper's values as defaults.

Unknown keys fail, and all problems of a file are reported together, each with its dotted key and the
nearest known one. `Config.load` reads YAML and applies `key.sub=value` overrides; `Config.dump` writes the
fully resolved configuration that a run directory keeps.
"""

from __future__ import annotations

import copy
import difflib
import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, ValidationError, model_validator

from headwise import bounds
from headwise.errors import CheckpointError, ConfigError
from headwise.options import (
    AttentionOptions,
    ConvolutionalConfig,
    Epsilon,
    Heads,
    Layers,
    Length,
    Natural,
    PositionOptions,
    Positive,
    Probability,
    Processes,
    RecurrentConfig,
    Section,
    Width,
)
from headwise.parsing.bounds import Malformed
from headwise.parsing.yaml_text import read_yaml, yaml_value
from headwise.task_options import (
    ClassificationConfig,
    DenoisingConfig,
    ImageClassificationConfig,
    ImageTextConfig,
    LanguageModelConfig,
    MaskedLanguageModelConfig,
    QuestionAnsweringConfig,
    TaggingConfig,
    TaskSection,
)
from headwise.training_options import (
    BatchConfig,
    DecodingConfig,
    OptimizerConfig,
    ScheduleConfig,
    TrainingConfig,
)

_WIDEST = 2**20  # heads times d_k or d_v
_LARGEST_TABLE = 2**28  # elements of a table of positions: a gigabyte in float32


class ModelConfig(Section):
    """Shape of the network, in the paper's symbols (Vaswani et al. 2017, sections 3 and 6.2)."""

    architecture: str = "transformer"
    encoder_layers: Layers = 6  # N
    decoder_layers: Layers = 6  # N
    d_model: Width = 512
    d_ff: Width = 2048
    heads: Heads = 8  # h
    d_k: Width | None = None  # d_model / h unless given (Table 3, rows B)
    d_v: Width | None = None  # d_model / h unless given
    norm: Literal["post", "pre"] = "post"
    final_norm: bool | None = None  # after the last layer; where norm=pre unless given
    normalization: Literal["layer", "rms"] = "layer"  # Ba et al. 2016, or Zhang & Sennrich 2019
    norm_epsilon: Epsilon = 1e-5  # ε in √(σ² + ε)
    activation: Literal["relu", "gelu", "gelu_tanh", "silu"] = "relu"  # gelu_tanh: gelu approximated (GPT-2)
    gated: bool = False  # feed-forward (f(xW₁) · xV) W₂ (Shazeer 2020); with silu it is SwiGLU
    feed_forward_bias: bool = True
    positions: str = "sinusoidal"  # an encoding registered in headwise.nn.positions
    position_options: PositionOptions = PositionOptions()
    attention: str = "fused"  # a kind registered in headwise.nn.attention
    cross_attention: str | None = None  # the kind that attends to the source; `attention` unless given
    attention_options: AttentionOptions = AttentionOptions()
    key_value_heads: Heads | None = (
        None  # fewer than heads: grouped queries (Ainslie et al. 2023); 1: multi-query
    )
    attention_bias: bool = False  # the paper's projections have none; Marian's and torch's have
    max_length: Length = 512  # longest sequence, in subwords, special symbols included
    share_embeddings: Literal["all", "target", "none"] = "all"  # section 3.4 shares all three
    scale_embeddings: bool = True  # by √d_model (section 3.4)
    embedding_norm: bool = False  # normalize embeddings + positions (BERT)
    segments: Annotated[int, Field(ge=0, le=bounds.LENGTH)] = (
        0  # kinds of segments with embeddings of their own (BERT: 2); encoder-only
    )
    prefix: bool = (
        False  # decoder-only: a prefix is seen in both directions (Raffel et al. 2020, section 3.2.1)
    )
    dropout: Probability = 0.1  # P_drop: sub-layer outputs and embeddings + positions (section 5.4)
    attention_dropout: Probability = 0.0
    activation_dropout: Probability = 0.0
    recurrent: RecurrentConfig = RecurrentConfig()
    convolutional: ConvolutionalConfig = ConvolutionalConfig()

    @model_validator(mode="after")
    def _heads_divide(self) -> ModelConfig:
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
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise ValueError(f"sinusoidal positions need an even d_model, found {self.d_model}")
        return self

    @model_validator(mode="after")
    def _fits_in_memory(self) -> ModelConfig:
        """Bound what is computed from several keys: the heads side by side, and the table of positions."""
        for name, size in (("d_k", self.key_size), ("d_v", self.value_size)):
            if self.heads * size > _WIDEST:
                raise ValueError(f"heads times {name} must be at most {_WIDEST}, found {self.heads * size}")
        if self.max_length * self.d_model > _LARGEST_TABLE:
            raise ValueError(
                f"max_length times d_model must be at most {_LARGEST_TABLE}, "
                f"found max_length={self.max_length} and d_model={self.d_model}"
            )
        return self

    @property
    def key_size(self) -> int:
        """d_k: the width of one head's queries and keys."""
        return self.d_k or self.d_model // self.heads

    @property
    def value_size(self) -> int:
        """d_v: the width of one head's values."""
        return self.d_v or self.d_model // self.heads


class CleaningConfig(Section):
    """Which pairs are left out; each rule reports how many it removed."""

    max_words: Positive = 250
    max_ratio: Annotated[float, Field(ge=1.0, le=bounds.RATIO)] = (
        9.0  # longer side / shorter side, in characters
    )
    drop_duplicates: bool = False


class DataConfig(Section):
    """Training, development and test text."""

    source: list[str] = Field(
        default_factory=list
    )  # paths: text or .gz; or .tsv / .jsonl files that hold both sides
    target: list[str] = Field(default_factory=list)  # empty where `source` lists .tsv or .jsonl files
    weights: list[Annotated[float, Field(ge=0.0, le=bounds.WEIGHT)]] = Field(
        default_factory=list
    )  # mixing weight of each file (pair); empty: as they are
    dev_source: str | None = None
    dev_target: str | None = None
    dev_pairs: Natural = 1000  # split off the training data where no dev files are given
    text: list[str] = Field(default_factory=list)  # tasks on single texts: paths of plain text or .gz
    dev_text: str | None = None
    dev_share: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.1  # of `text`, from its end, without dev_text
    source_field: str = "source"  # field of a .jsonl line
    target_field: str = "target"
    cleaning: CleaningConfig = CleaningConfig()
    workers: Processes = 0  # processes that encode text; 0: one per core


class SubwordConfig(Section):
    """SentencePiece BPE (the paper's section 5.1 uses byte-pair encoding, shared by both languages)."""

    kind: Literal["bpe", "characters"] = "bpe"  # characters: of single texts only
    size: Annotated[int, Field(ge=8, le=bounds.VOCABULARY)] = 37000
    joint: bool = True
    dropout: Probability = 0.0  # BPE-dropout (Provilkov et al. 2020), on training text only
    character_coverage: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    lowercase: bool = False


class Config(Section):
    """Everything that a run is made from."""

    task: str = "translation"
    model: ModelConfig = ModelConfig()
    data: DataConfig = DataConfig()
    subwords: SubwordConfig = SubwordConfig()
    batch: BatchConfig = BatchConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    training: TrainingConfig = TrainingConfig()
    decoding: DecodingConfig = DecodingConfig()
    language_model: LanguageModelConfig = LanguageModelConfig()
    masked_language_model: MaskedLanguageModelConfig = MaskedLanguageModelConfig()
    classification: ClassificationConfig = ClassificationConfig()
    tagging: TaggingConfig = TaggingConfig()
    question_answering: QuestionAnsweringConfig = QuestionAnsweringConfig()
    denoising: DenoisingConfig = DenoisingConfig()
    image_classification: ImageClassificationConfig = ImageClassificationConfig()
    image_text: ImageTextConfig = ImageTextConfig()

    @model_validator(mode="after")
    def _task_options_fit(self) -> Config:
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if isinstance(value, TaskSection) and name != self.task and value != field.default:
                raise ValueError(
                    f"{name}: expected nothing here, as task {self.task} has no use for it, found values"
                )
        return self

    @model_validator(mode="after")
    def _shared_is_joint(self) -> Config:
        if self.model.share_embeddings == "all" and not self.subwords.joint:
            raise ValueError(
                "model.share_embeddings=all needs one vocabulary for both languages, found subwords.joint=false "
                "(target shares without the source)"
            )
        return self

    @classmethod
    def load(cls, path: str | Path, overrides: Iterable[str] = ()) -> Config:
        """Read a YAML file and apply `key.sub=value` overrides.

        `configs/NAME.yaml` is the configuration of that name that Headwise ships, where there is no such file.
        Raises `ConfigError` naming the file and every unknown key or bad value in it.
        """
        path = _find(Path(path))
        if not path.exists():
            raise ConfigError(f"{path}: there is no such configuration file")
        tree = read_yaml(path)
        if tree is None:
            tree = {}
        if not isinstance(tree, dict):
            raise ConfigError(f"{path}: expected keys and values, found {type(tree).__name__}")
        return cls.from_tree(apply_overrides(tree, overrides), origin=str(path))

    @classmethod
    def from_tree(cls, tree: dict[str, Any], origin: str = "configuration") -> Config:
        """Check a nested dictionary; raises `ConfigError` with all its problems in one message."""
        try:
            return cls.model_validate(tree)
        except ValidationError as error:
            problems = "; ".join(_sentence(problem, cls) for problem in error.errors())
            raise ConfigError(f"{origin}: {problems}") from None

    @classmethod
    def of_run(cls, run: Path, *tasks: str) -> Config:
        """Read the configuration that a run directory keeps, and check that its task is one of `tasks`, if given.

        Raises `CheckpointError` where there is no such folder or it holds a run of another task, and `ConfigError`
        as `load` does.
        """
        if not run.is_dir():
            raise CheckpointError(f"{run}: expected a run directory, found none")
        config = cls.load(run / "config.yaml")
        if tasks and config.task not in tasks:
            raise CheckpointError(
                f"{run}: expected a run of task {' or '.join(tasks)}, found one of {config.task}"
            )
        return config

    def with_overrides(self, overrides: Iterable[str]) -> Config:
        """Return a copy with `key.sub=value` overrides applied."""
        return type(self).from_tree(apply_overrides(self.model_dump(), overrides), origin="command line")

    def to_yaml(self) -> str:
        """Return the fully resolved configuration as YAML."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)

    def digest(self) -> str:
        """Return 12 hexadecimal digits that identify this configuration (contract 10)."""
        canonical = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def _find(path: Path) -> Path:
    """Return the path of a configuration: as given, or in the package for one that is shipped."""
    shipped = Path(__file__).parent / path
    return shipped if path.parts[:1] == ("configs",) and shipped.exists() and not path.exists() else path


def apply_overrides(tree: dict[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """Return a copy of `tree` with each `key.sub=value` set; values are read as YAML.

    Raises `ConfigError` for an override that has no `=`, whose value isn't YAML, or that looks inside a value.
    """
    result = copy.deepcopy(tree)
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals or not key:
            raise ConfigError(f"command line: expected key.sub=value, found {override!r}")
        try:
            value = yaml_value(text)
        except Malformed as problem:
            problem.line = None
            if problem.kind == "grammar":
                problem.reason = repr(text[:60])
            raise ConfigError(problem.sentence(f"command line: {key}", "a YAML value")) from None
        node = result
        *parents, last = key.split(".")
        for parent in parents:
            node = node.setdefault(parent, {})
            if not isinstance(node, dict):
                raise ConfigError(f"command line: {key}: {parent} is a value and has no keys inside")
        node[last] = value
    return result


def _sentence(problem: Any, root: type[Section]) -> str:
    """Say one pydantic problem in a sentence: key, what was expected, what was found, nearest key."""
    location: Sequence[str | int] = problem["loc"]
    key = ".".join(str(part) for part in location)
    if problem["type"] == "extra_forbidden":
        return f"{key}: unknown key ({_nearest(root, location)})"
    message = problem["msg"].removeprefix("Value error, ")
    message = message[0].lower() + message[1:]
    if "found" in message:
        return f"{key}: {message}" if key else message
    return f"{key}: {message}, found {problem['input']!r}"


def _nearest(root: type[Section], location: Sequence[str | int]) -> str:
    """Hint at the key meant: the same name in another section, a similar one here, a similar one elsewhere."""
    wrong = str(location[-1])
    here = _known_keys(root, location[:-1])
    everywhere: dict[str, str] = {}  # last part of a key -> the first whole key that ends so
    for known in _all_keys(root):
        everywhere.setdefault(known.rsplit(".", 1)[-1], known)
    if wrong in everywhere:
        return f"did you mean {everywhere[wrong]}?"
    if near := difflib.get_close_matches(wrong, here, n=1, cutoff=0.5):
        return f"did you mean {'.'.join([*map(str, location[:-1]), near[0]])}?"
    if near := difflib.get_close_matches(wrong, everywhere, n=1, cutoff=0.7):
        return f"did you mean {everywhere[near[0]]}?"
    return f"known keys here: {', '.join(here)}"


def _known_keys(root: type[Section], location: Sequence[str | int]) -> list[str]:
    section: Any = root
    for part in location:
        section = section.model_fields[str(part)].annotation
    return list(section.model_fields)


def _all_keys(section: type[Section], prefix: str = "") -> list[str]:
    keys = []
    for name, field in section.model_fields.items():
        keys.append(prefix + name)
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            keys += _all_keys(field.annotation, f"{prefix}{name}.")
    return keys
