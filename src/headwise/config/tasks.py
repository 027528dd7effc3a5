"""Sections of task options, each with the name of its task."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from headwise import bounds
from headwise.config.base import Length, Pixels, Positive, Probability, Section, Seed, Width, Writable
from headwise.config.keys import MAY_CHANGE


class TaskSection(Section):
    """Options of one task; they are errors in a configuration of another task."""


class LanguageModelConfig(TaskSection):
    """Splitting of text into windows, in training and in scoring."""

    lines_are_documents: bool = False  # each line is a document and ends with EOS
    window: Length | None = None  # tokens predicted per training window; model.max_length unless given
    # tokens between the starts of windows in scoring; `window` unless given
    stride: Annotated[Length | None, MAY_CHANGE] = None


class MaskedLanguageModelConfig(TaskSection):
    """Masking of tokens (Devlin et al. 2019, section 3.1)."""

    lines_are_documents: bool = False  # each line is a document; long ones are cut evenly
    window: Length | None = None  # tokens per window; as many as fit in model.max_length unless given
    share: Annotated[float, Field(gt=0.0, le=1.0)] = 0.15  # share of the tokens that are predicted
    masked: Probability = 0.8  # share of these that are replaced by <mask>
    random: Probability = 0.1  # share of these that are replaced by a random token; the rest is unchanged

    @model_validator(mode="after")
    def _shares_fit(self) -> MaskedLanguageModelConfig:
        if self.masked + self.random > 1:
            raise ValueError(f"masked and random must be at most 1 together, found {self.masked:g} and {self.random:g}")
        return self


class ClassificationConfig(TaskSection):
    """Labels of texts, the development split, and pooling of hidden states."""

    # For plain text: the label of each file in `data.text`, in order; for .tsv, .csv and .jsonl: all allowed labels.
    labels: Annotated[list[str], Writable] = Field(default_factory=list)
    text_field: Annotated[str, Writable] = "text"
    label_field: Annotated[str, Writable] = "label"
    pooling: Literal["first", "mean", "max"] = "first"  # of hidden states: first token, mean, maximum
    # folds of the training data, one of which is held out
    folds: Annotated[int, Field(ge=2, le=bounds.COUNT)] | None = None
    fold: Positive = 1  # the fold that is held out, from 1
    split_seed: Seed = 1  # of the held-out split, independent of `training.seed`
    token_dropout: Probability = 0.0  # share of training tokens replaced by <mask>, or <unk> without one

    @model_validator(mode="after")
    def _fold_is_one_of_them(self) -> ClassificationConfig:
        if self.fold > (self.folds or 1):
            raise ValueError(f"fold must be at most folds={self.folds or 1}, found {self.fold}")
        return self


class TaggingConfig(TaskSection):
    """Tags and their format."""

    column: Literal["upos", "xpos"] = "upos"  # of .conllu files; other files have the tag in the last column
    spans: bool = False  # tags are IOB2 (B-PER, I-PER, O) and are scored as spans
    token_dropout: Probability = 0.0  # share of training tokens replaced by <mask>, or <unk> without one


class QuestionAnsweringConfig(TaskSection):
    """Windows of long contexts, and maximum lengths of questions and answers."""

    stride: Length = 64  # overlap in tokens of the windows of a context that exceeds model.max_length
    longest_answer: Length = 30  # maximum tokens
    longest_question: Length = 64  # maximum tokens; longer questions are truncated


class ImageConfig(TaskSection):
    """Image data set, its splits, and the patch size."""

    source: Annotated[str, Writable, MAY_CHANGE] = "digits"  # scikit-learn's digits
    split: Literal["shuffled", "last"] = "shuffled"  # held-out images: random, or the last of the data set
    split_seed: Seed = 1  # of the shuffle, independent of `training.seed`
    test_share: Annotated[float, Field(gt=0.0, lt=1.0)] = 1 / 3  # share of the images
    dev_share: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.1  # share of the remaining images
    patch: Pixels = 4  # edge length of a patch in pixels


class ImageClassificationConfig(ImageConfig):
    """Pooling of hidden states, and image augmentation in training."""

    pooling: Literal["class", "mean"] = "class"  # the class token's state, or the mean over the patches
    # maximum shift of training images in pixels, in each direction
    shift: Annotated[int, Field(ge=0, le=bounds.PIXELS)] = 0
    flip: bool = False  # flip half of the training images horizontally


class ImageTextConfig(ImageConfig):
    """Canvas size, batch size of the contrastive loss, and width of the joint embedding space."""

    canvas: Pixels = 12  # edge length of a picture in pixels, in which a digit of 8 x 8 is placed
    pairs: Annotated[int, Field(ge=2, le=bounds.COUNT)] = 64  # image-caption pairs per batch
    width: Width = 64  # of the joint embedding space


class DenoisingConfig(TaskSection):
    """Corruption of text: as in T5 (Raffel et al. 2020, section 3.1.4) or BART (Lewis et al. 2020, share 0.3)."""

    # T5's sentinels; or BART's single masks, with the whole text as target
    corruption: Literal["spans", "infilling"] = "spans"
    share: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.15  # share of the tokens that are corrupted
    mean_span: Annotated[float, Field(ge=1.0, le=bounds.LENGTH)] = 3.0  # mean span length in tokens
    window: Length | None = None  # tokens per window; as many as fit in model.max_length unless given
