"""Tagging: one label per word, from the hidden state of its first subword (Devlin et al. 2019, section 5.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from headwise.config import Config
from headwise.evaluation.labels import accuracy, by_class, class_table, macro_f1, score_spans, spans
from headwise.models.output_heads import HeadedEncoder, TaggingHead
from headwise.tasks.base import Prediction
from headwise.tasks.batches.examples import RowBatch
from headwise.tasks.encoder import EncoderKind, Tools
from headwise.text.preparation.labelled.examples import Encoded
from headwise.text.preparation.labelled.tagging import TaggedSentence, TaggedSentences


class Tagging(EncoderKind[TaggedSentence]):
    """Task description of tagging; with `tagging.spans`, the tags are IOB2 and are scored as spans."""

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
        """Return the logits of the tags at every token, (batch, time, tags)."""
        return model.head(model(batch.ids, batch.mask))

    def choices(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Select the first subword of each word."""
        return logits[targets >= 0], targets[targets >= 0]

    def conclude(
        self, tools: Tools, examples: Sequence[TaggedSentence], encoded: Encoded, logits: list[Tensor]
    ) -> list[list[str]]:
        """Return the most probable tag of every word; for spans, the most probable valid IOB2 sequence."""
        sentences: list[list[Tensor]] = [[] for _ in examples]
        for owner, targets, row_logits in zip(encoded.owners, encoded.targets, logits, strict=True):
            sentences[owner] += [row_logits[position] for position, target in enumerate(targets) if target != -1]
        predicted = []
        for words in sentences:
            if not words:
                predicted.append([])
                continue
            scores = torch.stack(words)  # (words, tags)
            best = best_iob2(scores, tools.labels) if tools.config.tagging.spans else scores.argmax(dim=-1).tolist()
            predicted.append([tools.labels[tag] for tag in best])
        return predicted

    def score(
        self,
        config: Config,
        labels: Sequence[str],
        examples: Sequence[TaggedSentence],
        predicted: list[list[str]],
    ) -> dict[str, Any]:
        """Return the accuracy per word, F1 and the scores of each tag or span type, in percent.

        F1 is that of spans with `tagging.spans`, else the mean over the tags that occur (macro F1).
        """
        gold = [example.tags for example in examples]
        predicted_tags, gold_tags = [t for s in predicted for t in s], [t for s in gold for t in s]
        scores = {"accuracy": accuracy(predicted_tags, gold_tags), "words": len(gold_tags)}
        if config.tagging.spans:
            return scores | score_spans(predicted, gold)
        classes = by_class(predicted_tags, gold_tags, sorted({*labels, *gold_tags}))
        return scores | {"f1": macro_f1(predicted_tags, gold_tags), "types": classes}

    def describe(self, record: dict[str, Any]) -> list[str]:  # noqa: D102
        lines = [f"accuracy   {record['accuracy']:6.2f}  of {record['words']:,} words"]
        if "precision" in record:
            lines.append(f"span F1    {record['f1']:6.2f}  IOB2, strict, as seqeval's")
            lines.append(f"precision  {record['precision']:6.2f}")
            lines.append(f"recall     {record['recall']:6.2f}")
        else:
            lines.append(f"macro F1   {record['f1']:6.2f}")
        return [*lines, *class_table(record["types"])]

    def question(self, line: str, place: str) -> TaggedSentence:
        """Read a line as a sentence of words separated by white space."""
        return TaggedSentence(line.split(), [])

    def answer(self, tools: Tools, example: TaggedSentence, predicted: list[str]) -> Prediction:
        """Return the tags, separated by spaces; the record has the words and the spans, too."""
        record: dict[str, Any] = {"words": example.words, "tags": predicted}
        if tools.config.tagging.spans:
            record["spans"] = [
                {"type": kind, "start": start, "end": end, "text": " ".join(example.words[start:end])}
                for kind, start, end in spans(predicted)
            ]
        return Prediction(" ".join(predicted), record)


def best_iob2(logits: Tensor, labels: Sequence[str]) -> list[int]:
    """Return the most probable tag ids in which I-TYPE only follows B-TYPE or I-TYPE (Viterbi 1967).

    logits (words, tags), of at least one word. Apart from that constraint, the tags of words are independent.
    """
    allowed = torch.tensor(  # (previous, next)
        [[_may_follow(previous, next_tag) for next_tag in labels] for previous in ["O", *labels]]
    )
    transitions = torch.zeros(allowed.shape).masked_fill(~allowed, -torch.inf)
    log_p = logits.log_softmax(dim=-1)
    best, backpointers = log_p[0] + transitions[0], []
    for word in log_p[1:]:
        total, origin = (best[:, None] + transitions[1:]).max(dim=0)
        best = total + word
        backpointers.append(origin)
    tags = [int(best.argmax())]
    for origin in reversed(backpointers):
        tags.append(int(origin[tags[-1]]))
    return tags[::-1]


def _may_follow(previous: str, next_tag: str) -> bool:
    return not next_tag.startswith("I-") or previous in (f"B-{next_tag[2:]}", next_tag)
