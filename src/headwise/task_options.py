"""What the tasks can be told: sections of the configuration, each with the name of its task."""

from __future__ import annotations

from headwise.options import Positive, Section


class TaskSection(Section):
    """Options of one task; a configuration of another task may not set them."""


class LanguageModelConfig(TaskSection):
    """How text becomes windows, and how much of it each prediction sees when a text is scored."""

    lines_are_documents: bool = False  # each line is a text of its own, and ends with EOS
    window: Positive | None = None  # tokens predicted at a time in training; model.max_length unless given
    stride: Positive | None = None  # when scoring, windows move on by so much; by `window` unless given
