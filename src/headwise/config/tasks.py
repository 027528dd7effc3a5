"""Task options: sections of the configuration, each with the name of its task."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from headwise import bounds
from headwise.config.base import Length, Pixels, Positive, Probability, Section, Seed, Width


class TaskSection(Section):
    """Options of one task; a configuration of another task may not set them."""


class LanguageModelConfig(TaskSection):
    """How text becomes windows, and how much of it each prediction sees when a text is scored."""

    lines_are_documents: bool = False  # each line is a text of its own, and ends with EOS
    window: Length | None = None  # tokens predicted at a time in training; model.max_length unless given
    stride: Length | None = None  # when scoring, windows move on by so much; by `window` unless given


class MaskedLanguageModelConfig(TaskSection):
    """What is hidden, and how (Devlin et al. 2019, section 3.1)."""

    lines_are_documents: bool = False  # each line is a text of its own; long ones are cut
    window: Length | None = (
        None  # tokens of a text read at a time; all that fit in model.max_length unless given
    )
    share: Annotated[float, Field(gt=0.0, le=1.0)] = 0.15  # of the tokens that are to be predicted
    masked: Probability = 0.8  # of those: read <mask> …
    random: Probability = 0.1  # … or any other token; the rest stays as it is

    @model_validator(mode="after")
    def _shares_fit(self) -> MaskedLanguageModelConfig:
        if self.masked + self.random > 1:
            raise ValueError(
                f"masked and random must be at most 1 together, found {self.masked:g} and {self.random:g}"
            )
        return self


class ClassificationConfig(TaskSection):
    """Where texts and their labels stand, how they are split, and what the label is read off."""

    # Of each plain-text file in `data.text`, in order; of .tsv, .csv and .jsonl files, all that there may be.
    labels: list[str] = Field(default_factory=list)
    text_field: str = "text"
    label_field: str = "label"
    pooling: Literal["first", "mean", "max"] = "first"  # of hidden states: the first token's, or over all
    folds: Annotated[int, Field(ge=2, le=bounds.COUNT)] | None = (
        None  # parts of the training data, one of which is held out
    )
    fold: Positive = 1  # which one
    split_seed: Seed = 1  # of what is held out (`folds`, or `data.dev_share`), whatever `training.seed`
    token_dropout: Probability = 0.0  # tokens that read <mask>, or else <unk>, in training

    @model_validator(mode="after")
    def _fold_is_one_of_them(self) -> ClassificationConfig:
        if self.fold > (self.folds or 1):
            raise ValueError(f"fold must be at most folds={self.folds or 1}, found {self.fold}")
        return self


class TaggingConfig(TaskSection):
    """Which tags are learned."""

    column: Literal["upos", "xpos"] = (
        "upos"  # of .conllu files; other files have the tag in their last column
    )
    spans: bool = False  # tags are IOB2 (B-PER, I-PER, O) and are scored as spans
    token_dropout: Probability = 0.0  # tokens that read <mask>, or else <unk>, in training


class QuestionAnsweringConfig(TaskSection):
    """How a long text is read, and how long an answer may be."""

    stride: Length = 64  # windows of a text too long for model.max_length overlap by so many tokens
    longest_answer: Length = 30  # tokens
    longest_question: Length = 64  # tokens; the rest is cut off


class ImageConfig(TaskSection):
    """Which images, how they are split, and how an image becomes a sequence of patches."""

    source: str = (
        "digits"  # scikit-learn's digits, or a folder that `headwise data get` filled with a set of images
    )
    split: Literal["shuffled", "last"] = "shuffled"  # which images are held out: any, or the last of the set
    split_seed: Seed = 1  # of the shuffling, whatever `training.seed`
    test_share: Annotated[float, Field(gt=0.0, lt=1.0)] = 1 / 3  # of a set that has no test images of its own
    dev_share: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.1  # of the images left for training
    patch: Pixels = 4  # pixels of a patch's edge


class ImageClassificationConfig(ImageConfig):
    """How images are read off and varied in training."""

    pooling: Literal["class", "mean"] = "class"  # a class token's state, or the mean of the patches'
    shift: Annotated[int, Field(ge=0, le=bounds.PIXELS)] = (
        0  # pixels that a training image is moved, at most, either way
    )
    flip: bool = False  # mirror half of the training images


class ImageTextConfig(ImageConfig):
    """What pictures are drawn, how many are told apart at a time, and the space that they and their captions share."""

    canvas: Pixels = 12  # pixels of a picture's edge, on which a digit of 8 x 8 has its place
    pairs: Annotated[int, Field(ge=2, le=bounds.COUNT)] = 64  # of a batch
    width: Width = 64  # of the common space


class DenoisingConfig(TaskSection):
    """How text is damaged: as T5 does (Raffel et al. 2020, section 3.1.4), or BART (Lewis et al. 2020: 0.3 of it)."""

    corruption: Literal["spans", "infilling"] = (
        "spans"  # T5's sentinels, or BART's single mask and the whole text
    )
    share: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.15  # of the tokens
    mean_span: Annotated[float, Field(ge=1.0, le=bounds.LENGTH)] = 3.0  # tokens
    window: Length | None = None  # tokens damaged at a time; all that fit in model.max_length unless given
