"""Examples of extractive question answering: the answer is a span of the context.

Files are SQuAD's `.json` (articles, paragraphs, questions), or `.jsonl` with a question, a context and its answers on
each line: `answers` as {"text": […], "answer_start": […]}, or one `answer`, with its `start` unless that is the first
occurrence in the context.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwise.config.tasks import QuestionAnsweringConfig
from headwise.errors import DataError
from headwise.text.preparation.labelled.examples import Encoded, Format
from headwise.text.reading.compression import suffix
from headwise.text.reading.records import json_object, read_lines_of, read_records, text_field
from headwise.text.tokens.subwords import BOS, EOS
from headwise.text.tokens.vocabulary import Vocabulary, encode_words

_WORD = re.compile(r"\w+|[^\w\s]")  # letters and digits, or another character
_NO_ANSWER = [0, 0]  # target of a window without the answer: BOS


@dataclass(frozen=True)
class Question:
    """A question about a context, and the gold answers (none where unknown)."""

    question: str
    context: str
    answers: list[str]
    starts: list[int]  # character offset of each answer
    name: str = ""
    file: int = 0
    line: int = 0  # in a .json file, the number of the question


@dataclass(frozen=True)
class Window:
    """A part of a context as model input: BOS, the question, EOS, subwords of the context, EOS."""

    ids: list[int]
    first: int  # index in `ids` of the first subword of the context
    words: list[tuple[int, int]]  # for each subword, the character offsets (start, end) of its word
    begins: list[bool]  # whether the subword is the first of its word
    ends: list[bool]  # whether it is the last of its word

    def place(self, start: int, end: int) -> list[int]:
        """Return the indices of the first and last subword of an answer, [0, 0] (BOS) if the window doesn't hold it."""
        inside = [i for i, (low, high) in enumerate(self.words) if low < end and start < high]
        whole = inside and self.begins[inside[0]] and self.ends[inside[-1]]
        if not whole or self.words[inside[0]][0] > start or self.words[inside[-1]][1] < end:
            return _NO_ANSWER
        return [self.first + inside[0], self.first + inside[-1]]


class Questions(Format[Question]):
    """Format of the examples of task `question_answering`."""

    example, content = Question, "questions"

    def __init__(self, options: QuestionAnsweringConfig, share: float) -> None:
        """Split contexts into windows as `options` says; hold out the last `share` of the questions."""
        self.options, self.share = options, share

    def request(self) -> dict[str, object]:  # noqa: D102
        return {"question_answering": self.options.model_dump(exclude={"longest_answer"})}

    def read_file(self, path: Path, index: int) -> Iterator[Question]:
        """Read a file; raises `DataError` naming a question whose answer isn't at its start."""
        return _squad(path, index) if suffix(path) == ".json" else _lines(path, index)

    def texts(self, example: Question) -> Iterable[str]:  # noqa: D102
        return [f" {example.question}", f" {example.context}"]

    def labels(self, examples: Sequence[Question]) -> list[str]:
        """Return an empty list: the task has no labels."""
        return []

    def encode(
        self, examples: Sequence[Question], vocabulary: Vocabulary, labels: Sequence[str], longest: int
    ) -> Encoded:
        """Encode each window as a row; the targets are the first and last index of the first answer's span."""
        encoded = Encoded()
        for owner, example in enumerate(examples):
            for window in self.windows(example, vocabulary, longest):
                target = [-1, -1]
                if example.answers:
                    start = example.starts[0]
                    target = window.place(start, start + len(example.answers[0]))
                encoded.add(window.ids, target, owner)
        return encoded

    def windows(self, example: Question, vocabulary: Vocabulary, longest: int) -> list[Window]:
        """Split a context into overlapping windows of at most `longest` ids."""
        question = [i for _, parts in _word_ids(example.question, vocabulary) for i in parts]
        question = question[: self.options.longest_question]
        ids, spans, begins, ends = [], [], [], []
        for span, parts in _word_ids(example.context, vocabulary):
            ids += parts
            spans += [span] * len(parts)
            begins += [True, *[False] * (len(parts) - 1)]
            ends += [*[False] * (len(parts) - 1), True]
        size, windows = longest - len(question) - 3, []
        step = size - self.options.stride
        for start in range(0, max(len(ids) - size, 0) + step, step):
            part = slice(start, start + size)
            row = [BOS, *question, EOS, *ids[part], EOS]
            windows.append(Window(row, len(question) + 2, spans[part], begins[part], ends[part]))
        return windows


def _word_ids(text: str, vocabulary: Vocabulary) -> Iterator[tuple[tuple[int, int], list[int]]]:
    """Yield the offsets of each word of a text, start and end, and its ids, with those of a space in front of it."""
    spans = [match.span() for match in _WORD.finditer(text)]
    spaced = [" " * (start == 0 or text[start - 1].isspace()) + text[start:end] for start, end in spans]
    return zip(spans, encode_words(vocabulary, spaced), strict=True)


def read_question(line: str, location: str) -> Question:
    """Parse a question without answers: question, tab, context; or a JSON object with these fields."""
    if line.lstrip().startswith("{"):
        fields = json_object(line, location)
        return Question(text_field(fields, "question", location), text_field(fields, "context", location), [], [])
    question, tab, context = line.partition("\t")
    if not tab or not question.strip() or not context.strip():
        raise DataError(
            f"{location}: expected a question, a tab and a text (or a JSON object with question and context), found "
            f"{line[:40]!r}"
        )
    return Question(question.strip(), context.strip(), [], [])


def _lines(path: Path, index: int) -> Iterator[Question]:
    for fields, line in read_records(path):
        location = f"{path} line {line}"
        context = text_field(fields, "context", location)
        if "answers" in fields:
            answers = fields["answers"]
            if not isinstance(answers, dict):
                raise DataError(f"{location}: expected answers with text and answer_start, found {answers!r}")
            texts, starts = answers.get("text"), answers.get("answer_start")
        else:
            answer = text_field(fields, "answer", location)
            texts, starts = [answer], [fields.get("start", context.find(answer))]
        yield _question(fields, context, texts, starts, index, line, location)


def _squad(path: Path, index: int) -> Iterator[Question]:
    dataset = json_object("\n".join(line for line, _ in read_lines_of(path)), str(path))
    number = 0
    for article in _objects(dataset, "data", str(path)):
        for paragraph in _objects(article, "paragraphs", f"{path} after question {number}"):
            for fields in _objects(paragraph, "qas", f"{path} after question {number}"):
                number += 1
                location = f"{path} question {fields.get('id', number)}"
                answers = _objects(fields, "answers", location)
                texts, starts = ([answer.get(key) for answer in answers] for key in ("text", "answer_start"))
                context = text_field(paragraph, "context", location)
                yield _question(fields, context, texts, starts, index, number, location)


def _objects(fields: dict[str, Any], name: str, location: str) -> list[dict[str, Any]]:
    """Return a list of objects of SQuAD's format; raises `DataError` where there is none."""
    found = fields.get(name)
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise DataError(
            f"{location}: expected SQuAD's data, paragraphs, qas and answers; found no list of objects as {name!r}"
        )
    return found


def _question(
    fields: dict[str, Any], context: str, texts: Any, starts: Any, index: int, line: int, location: str
) -> Question:
    if not (isinstance(texts, list) and isinstance(starts, list) and len(texts) == len(starts) > 0):
        raise DataError(f"{location}: expected answers, each with its start, found {texts!r} and {starts!r}")
    for answer, start in zip(texts, starts, strict=True):
        placed = isinstance(answer, str) and isinstance(start, int) and start >= 0
        actual = context[start : start + len(answer)] if placed else None
        if actual is None or not actual.strip() or actual != answer:
            raise DataError(
                f"{location}: expected the answer {answer!r} at character {start} of the context, found {actual!r}"
            )
    question = text_field(fields, "question", location)
    return Question(question, context, texts, starts, str(fields.get("id", "")), index, line)
