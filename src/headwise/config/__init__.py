"""The configuration: every choice a run can make, with the paper's values as defaults.

Unknown keys fail, and all problems of a file are reported together, each with its dotted key and the nearest known
one. `Config.load` reads YAML and applies `key.sub=value` overrides; `Config.to_yaml` gives the fully resolved
configuration that a run directory keeps.
"""

from headwise.config.base import Section
from headwise.config.data import CleaningConfig, DataConfig, SubwordConfig
from headwise.config.loading import apply_overrides
from headwise.config.model import (
    AttentionOptions,
    ConvolutionalConfig,
    ModelConfig,
    PositionOptions,
    RecurrentConfig,
)
from headwise.config.run import Config
from headwise.config.tasks import (
    ClassificationConfig,
    DenoisingConfig,
    ImageClassificationConfig,
    ImageConfig,
    ImageTextConfig,
    LanguageModelConfig,
    MaskedLanguageModelConfig,
    QuestionAnsweringConfig,
    TaggingConfig,
    TaskSection,
)
from headwise.config.training import (
    BatchConfig,
    DecodingConfig,
    OptimizerConfig,
    ScheduleConfig,
    TrainingConfig,
)

__all__ = [
    "AttentionOptions",
    "BatchConfig",
    "ClassificationConfig",
    "CleaningConfig",
    "Config",
    "ConvolutionalConfig",
    "DataConfig",
    "DecodingConfig",
    "DenoisingConfig",
    "ImageClassificationConfig",
    "ImageConfig",
    "ImageTextConfig",
    "LanguageModelConfig",
    "MaskedLanguageModelConfig",
    "ModelConfig",
    "OptimizerConfig",
    "PositionOptions",
    "QuestionAnsweringConfig",
    "RecurrentConfig",
    "ScheduleConfig",
    "Section",
    "SubwordConfig",
    "TaggingConfig",
    "TaskSection",
    "TrainingConfig",
    "apply_overrides",
]
