"""What the tasks can be told: sections of the configuration, each with the name of its task."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from headwise.options import Natural, Positive, Section


class TaskSection(Section):
    """Options of one task; a configuration of another task may not set them."""


class LanguageModelConfig(TaskSection):
    """How text becomes windows, and how much of it each prediction sees when a text is scored."""

    lines_are_documents: bool = False  # each line is a text of its own, and ends with EOS
    window: Positive | None = None  # tokens predicted at a time in training; model.max_length unless given
    stride: Positive | None = None  # when scoring, windows move on by so much; by `window` unless given


class ImageConfig(TaskSection):
    """Which images, how they are split, and how an image becomes a sequence of patches."""

    source: str = "digits"  # scikit-learn's digits, or a folder that `headwise data get` filled with a set of images
    split: Literal["shuffled", "last"] = "shuffled"  # which images are held out: any, or the last of the set
    split_seed: Natural = 1  # of the shuffling, whatever `training.seed`
    test_share: Annotated[float, Field(gt=0.0, lt=1.0)] = 1 / 3  # of a set that has no test images of its own
    dev_share: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.1  # of the images left for training
    patch: Positive = 4  # pixels of a patch's edge


class ImageClassificationConfig(ImageConfig):
    """How images are read off and varied in training."""

    pooling: Literal["class", "mean"] = "class"  # a class token's state, or the mean of the patches'
    shift: Natural = 0  # pixels that a training image is moved, at most, either way
    flip: bool = False  # mirror half of the training images


class ImageTextConfig(ImageConfig):
    """What pictures are drawn, how many are told apart at a time, and the space that they and their captions share."""

    canvas: Positive = 12  # pixels of a picture's edge, on which a digit of 8 x 8 has its place
    pairs: Annotated[int, Field(ge=2)] = 64  # of a batch
    width: Positive = 64  # of the common space
