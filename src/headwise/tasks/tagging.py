"""Tagging: a label for each word, from the hidden state of its first piece (Devlin et al. 2019, section 5.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from headwise.config import Config
from headwise.evaluation.classification import accuracy, by_class, class_table
from headwise.evaluation.spans import score_spans, spans
from headwise.models.output_heads import HeadedEncoder, TaggingHead
from headwise.tasks.base import Prediction
from headwise.tasks.encoder import EncoderKind, Tools
from headwise.text.batches.examples import RowBatch
from headwise.text.datasets.examples import Encoded
from headwise.text.datasets.tagging import TaggedSentence, TaggedSentences


class Tagging(EncoderKind[TaggedSentence]):
    """Give each word of a sentence a tag; with `tagging.spans`, tags name spans (IOB2)."""

    name = "tagging"
    scores = ("accuracy", "f1")
    after = "try `headwise evaluate {run}` and `headwise predict {run}`"

    def format(self, config: Config) -> TaggedSentences:  # noqa: D102
        return TaggedSentences(config.tagging, config.data.dev_share)

    def head(self, config: Config, labels: int) -> nn.Module:  # noqa: D102
        return TaggingHead(config.model, labels)

    def token_dropout(self, config: Config) -> float:  # noqa: D102
        return config.tagging.token_dropout

    def logits(self, model: HeadedEncoder, batch: RowBatch) -> Tensor:
        """Of every tag at every token, (batch, time, tags)."""
        return model.head(model(batch.ids, batch.mask))

    def choices(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Each first piece of a word is one."""
        return logits[targets >= 0], targets[targets >= 0]

    def conclude(
        self, tools: Tools, examples: Sequence[TaggedSentence], encoded: Encoded, logits: list[Tensor]
    ) -> list[list[str]]:
        """The likeliest tag of every word; of spans, the likeliest tags that are IOB2 together."""
        words: list[list[Tensor]] = [[] for _ in examples]
        for owner, targets, one in zip(encoded.owners, encoded.targets, logits, strict=True):
            words[owner] += [one[place] for place, target in enumerate(targets) if target != -1]
        found = []
        for rows in words:
            scores = torch.stack(rows)  # (words, tags)
            chosen = (
                best_iob2(scores, tools.labels)
                if tools.config.tagging.spans
                else scores.argmax(dim=-1).tolist()
            )
            found.append([tools.labels[tag] for tag in chosen])
        return found

    def score(
        self,
        config: Config,
        labels: Sequence[str],
        examples: Sequence[TaggedSentence],
        predicted: list[list[str]],
    ) -> dict[str, Any]:
        """Accuracy (words) and the scores of each tag; F1 is that of spans, or the mean of all tags'. In percent."""
        gold = [example.tags for example in examples]
        said, there = [t for s in predicted for t in s], [t for s in gold for t in s]
        found = {"accuracy": accuracy(said, there), "words": len(there)}
        if config.tagging.spans:
            return found | score_spans(predicted, gold)
        classes = by_class(said, there, sorted({*labels, *there}))
        return found | {"f1": sum(c["f1"] for c in classes.values()) / len(classes), "types": classes}

    def describe(self, record: dict[str, Any]) -> list[str]:  # noqa: D102
        lines = [f"accuracy   {record['accuracy']:6.2f}  of {record['words']:,} words"]
        if "precision" in record:
            lines.append(f"span F1    {record['f1']:6.2f}  IOB2, strict, by seqeval")
            lines.append(f"precision  {record['precision']:6.2f}")
            lines.append(f"recall     {record['recall']:6.2f}")
        else:
            lines.append(f"macro F1   {record['f1']:6.2f}")
        return [*lines, *class_table(record["types"])]

    def question(self, line: str, place: str) -> TaggedSentence:
        """A line is a sentence, its words separated by white space."""
        return TaggedSentence(line.split(), [])

    def answer(self, tools: Tools, example: TaggedSentence, predicted: list[str]) -> Prediction:
        """The tags, separated by spaces."""
        record: dict[str, Any] = {"words": example.words, "tags": predicted}
        if tools.config.tagging.spans:
            record["spans"] = [
                {"type": kind, "start": start, "end": end, "text": " ".join(example.words[start:end])}
                for kind, start, end in spans(predicted)
            ]
        return Prediction(" ".join(predicted), record)


def best_iob2(logits: Tensor, labels: Sequence[str]) -> list[int]:
    """Find the likeliest sequence of tags in which I-TYPE follows B-TYPE or I-TYPE (Viterbi 1967).

    logits (words, tags), of at least one word; each word's tags are taken as independent but for that.
    """
    before = torch.tensor([[_may_follow(old, new) for new in labels] for old in ["O", *labels]])  # (old, new)
    forbidden = torch.zeros(before.shape).masked_fill(~before, -torch.inf)
    log_p = logits.log_softmax(dim=-1)
    best, came = log_p[0] + forbidden[0], []
    for word in log_p[1:]:
        total, origin = (best[:, None] + forbidden[1:]).max(dim=0)
        best = total + word
        came.append(origin)
    tags = [int(best.argmax())]
    for origin in reversed(came):
        tags.append(int(origin[tags[-1]]))
    return tags[::-1]


def _may_follow(old: str, new: str) -> bool:
    return not new.startswith("I-") or old in (f"B-{new[2:]}", new)
