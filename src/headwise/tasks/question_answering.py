"""Extractive question answering: find the span of a text that answers a question (Devlin et al. 2019, section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headwise.config import Config
from headwise.errors import ConfigError
from headwise.evaluation.labels import exact_match, word_f1
from headwise.models.output_heads import HeadedEncoder, SpanHead
from headwise.tasks.base import Prediction
from headwise.tasks.batches.examples import RowBatch
from headwise.tasks.encoder import EncoderKind, Tools
from headwise.text.preparation.labelled.examples import Encoded
from headwise.text.preparation.labelled.question_answering import Question, Questions, Window, read_question
from headwise.text.tokens.subwords import EOS


@dataclass(frozen=True)
class Answer:
    """A predicted span of a context, characters `start` to `end`.

    `probability` is the product of the start's and the end's probability in the window.
    """

    text: str
    start: int
    end: int
    probability: float


class QuestionAnswering(EncoderKind[Question]):
    """Task description of extractive question answering; long contexts are split into overlapping windows."""

    name = "question_answering"
    scores = ("exact_match", "f1")
    after = "try `headwise evaluate {run}` and `headwise predict {run}`"

    def check(self, config: Config) -> None:  # noqa: D102
        super().check(config)
        options = config.question_answering
        least = options.longest_question + options.stride + 4
        if config.model.max_length < least:
            raise ConfigError(
                f"model.max_length: expected at least {least}, room for question_answering.longest_question="
                f"{options.longest_question}, its stride={options.stride} and 4 more tokens, found "
                f"{config.model.max_length}"
            )

    def format(self, config: Config) -> Questions:  # noqa: D102
        return Questions(config.question_answering, config.data.dev_share)

    def head(self, config: Config, labels: int) -> nn.Module:  # noqa: D102
        return SpanHead(config.model)

    def logits(self, model: HeadedEncoder, batch: RowBatch) -> Tensor:
        """Return the logits of being the answer's first and last token, (batch, time, 2).

        Possible positions are the context's tokens, and BOS for "the answer isn't in this window".
        """
        segments = batch.segments
        possible = batch.mask & (segments == 1) & (batch.ids != EOS)
        possible[:, 0] = True
        return torch.stack(model.head(model(batch.ids, batch.mask, segments), possible), dim=-1)

    def choices(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Select the rows with a known answer; each has two predictions, the start and the end."""
        known = targets[:, 0] >= 0
        return logits[known].transpose(1, 2).flatten(0, 1), targets[known].flatten()

    def conclude(
        self, tools: Tools, examples: Sequence[Question], encoded: Encoded, logits: list[Tensor]
    ) -> list[Answer]:
        """Return the most probable answer over all windows of each context."""
        form, window_logits = self.format(tools.config), iter(logits)
        best = []
        for example in examples:
            windows = form.windows(example, tools.vocabulary, tools.config.model.max_length)
            longest = tools.config.question_answering.longest_answer
            answers = [best_answer(example.context, window, next(window_logits), longest) for window in windows]
            best.append(max(answers, key=lambda answer: answer.probability))
        return best

    def score(
        self, config: Config, labels: Sequence[str], examples: Sequence[Question], predicted: list[Answer]
    ) -> dict[str, Any]:
        """Return exact match and F1, in percent."""
        pairs = [(p.text, example.answers) for p, example in zip(predicted, examples, strict=True)]
        return {
            "exact_match": sum(exact_match(text, gold) for text, gold in pairs) / len(pairs),
            "f1": sum(word_f1(text, gold) for text, gold in pairs) / len(pairs),
        }

    def describe(self, record: dict[str, Any]) -> list[str]:  # noqa: D102
        return [f"exact match  {record['exact_match']:6.2f}", f"F1           {record['f1']:6.2f}"]

    def question(self, line: str, place: str) -> Question:
        """Read a line as a question, a tab and a context, or as a JSON object."""
        return read_question(line, place)

    def answer(self, tools: Tools, example: Question, predicted: Answer) -> Prediction:
        """Return the answer's text; the record has its position and probability."""
        record = {
            "question": example.question,
            "answer": predicted.text,
            "start": predicted.start,
            "end": predicted.end,
            "probability": predicted.probability,
        }
        return Prediction(" ".join(predicted.text.split()), record)


def best_answer(context: str, window: Window, logits: Tensor, longest: int) -> Answer:
    """Return the most probable span of whole words in a window, of at most `longest` tokens; logits (time, 2)."""
    count = len(window.words)
    if not count:
        return Answer("", 0, 0, 0.0)
    inside = slice(window.first, window.first + count)
    start, end = logits.double().log_softmax(dim=0)[inside].unbind(dim=1)  # (pieces,) each
    start = start.masked_fill(~torch.tensor(window.begins), -torch.inf)
    end = end.masked_fill(~torch.tensor(window.ends), -torch.inf)
    both = start[:, None] + end  # (pieces, pieces)
    positions = torch.arange(count)
    distance = positions - positions[:, None]
    both = both.masked_fill((distance < 0) | (distance >= longest), -torch.inf)
    first, last = divmod(int(both.argmax()), count)
    low, high = window.words[first][0], window.words[last][1]
    probability = float(both[first, last].exp())
    return Answer(context[low:high] if probability else "", low, high, probability)
