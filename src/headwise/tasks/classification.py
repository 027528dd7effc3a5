"""Text classification: one label per text, from its pooled hidden states (Devlin et al. 2019, section 4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from headwise.config import Config
from headwise.errors import ConfigError
from headwise.evaluation.labels import accuracy, by_class, class_table, macro_f1
from headwise.models.output_heads import ClassificationHead, HeadedEncoder
from headwise.tasks.base import Prediction
from headwise.tasks.batches.examples import RowBatch
from headwise.tasks.encoder import EncoderKind, Tools
from headwise.text.preparation.labelled.classification import LabelledText, LabelledTexts
from headwise.text.preparation.labelled.examples import Encoded


class Classification(EncoderKind[LabelledText]):
    """Task description of text classification."""

    name = "classification"
    scores = ("accuracy", "macro_f1")
    after = "try `headwise evaluate {run}` and `headwise predict {run}`"

    def check(self, config: Config) -> None:  # noqa: D102
        super().check(config)
        if config.classification.folds and config.data.dev_text is not None:
            raise ConfigError(
                f"classification.folds: expected none beside data.dev_text, found {config.classification.folds}"
            )

    def format(self, config: Config) -> LabelledTexts:  # noqa: D102
        return LabelledTexts(config.classification, config.data.dev_share)

    def head(self, config: Config, labels: int) -> nn.Module:  # noqa: D102
        return ClassificationHead(config.model, labels, config.classification.pooling)

    def token_dropout(self, config: Config) -> float:  # noqa: D102
        return config.classification.token_dropout

    def logits(self, model: HeadedEncoder, batch: RowBatch) -> Tensor:
        """Return the logits of the labels, (batch, labels)."""
        return model.head(model(batch.ids, batch.mask), batch.mask)

    def choices(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Select the texts whose gold label is known."""
        known = targets[:, 0] >= 0
        return logits[known], targets[known, 0]

    def conclude(
        self, tools: Tools, examples: Sequence[LabelledText], encoded: Encoded, logits: list[Tensor]
    ) -> list[list[float]]:
        """Return the probability of every label, for each example."""
        return [text_logits.softmax(dim=-1).tolist() for text_logits in logits]

    def score(
        self,
        config: Config,
        labels: Sequence[str],
        examples: Sequence[LabelledText],
        predicted: list[list[float]],
    ) -> dict[str, Any]:
        """Return the accuracy, macro F1 and the scores of each class, in percent."""
        predicted_labels = [labels[_best(p)] for p in predicted]
        gold = [example.label for example in examples]
        unseen = sorted({*gold} - {*labels})
        classes = by_class(predicted_labels, gold, [*labels, *unseen])
        return {
            "accuracy": accuracy(predicted_labels, gold),
            "macro_f1": macro_f1(predicted_labels, gold),
            "classes": classes,
        }

    def describe(self, record: dict[str, Any]) -> list[str]:  # noqa: D102
        return [
            f"accuracy  {record['accuracy']:6.2f}",
            f"macro F1  {record['macro_f1']:6.2f}",
            *class_table(record["classes"]),
        ]

    def question(self, line: str, place: str) -> LabelledText:
        """Read a line as a text."""
        return LabelledText(line.strip())

    def answer(self, tools: Tools, example: LabelledText, predicted: list[float]) -> Prediction:
        """Return the most probable label, a tab and its probability; the record has all probabilities."""
        best = _best(predicted)
        label = tools.labels[best]
        record = {
            "text": example.text,
            "label": label,
            "probabilities": dict(zip(tools.labels, predicted, strict=True)),
        }
        return Prediction(f"{label}\t{predicted[best]:.3f}", record)


def _best(probabilities: Sequence[float]) -> int:
    return max(range(len(probabilities)), key=probabilities.__getitem__)
