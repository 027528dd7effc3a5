"""Registry of tasks by name; a task's module is imported only when it is looked up."""

from __future__ import annotations

import importlib

from headwise.errors import ConfigError, suggestion
from headwise.tasks.base import TaskKind

# A new task is one line here: its name and its `TaskKind` subclass.
TASKS = {
    "translation": "headwise.tasks.translation:Translation",
    "language_model": "headwise.tasks.language_model:LanguageModeling",
    "masked_language_model": "headwise.tasks.masked_language_model:MaskedLanguageModeling",
    "classification": "headwise.tasks.classification:Classification",
    "tagging": "headwise.tasks.tagging:Tagging",
    "question_answering": "headwise.tasks.question_answering:QuestionAnswering",
    "denoising": "headwise.tasks.denoising:Denoising",
    "image_classification": "headwise.tasks.image_classification:ImageClassification",
    "image_text": "headwise.tasks.image_text:ImageTextLearning",
}


def find_task(name: str) -> TaskKind:
    """Return the task `name`; raises `ConfigError` that lists all tasks and suggests the most similar one."""
    if name not in TASKS:
        raise ConfigError(f"task: expected a known task, found {name!r} {suggestion(name, TASKS)}")
    module, _, kind = TASKS[name].partition(":")
    task = getattr(importlib.import_module(module), kind)()
    assert isinstance(task, TaskKind)
    assert task.name == name, f"{module}.{kind} calls itself {task.name}"
    return task
