"""The configuration: all options of a run, with the paper's values as defaults.

Unknown keys are errors, and all errors of a file are reported together, each with its dotted key and the nearest known
key. `Config.load` reads YAML and applies `key.sub=value` overrides; `Config.to_yaml` returns the fully resolved
configuration that is stored in the run directory.
"""

from headwise.config.base import Section
from headwise.config.data import AugmentConfig, CleaningConfig, DataConfig, SubwordConfig
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
    "AugmentConfig",
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
