"""Heads for classification, tagging and question answering against Hugging Face's BERT, with copied random weights.

The encoder is compared in `test_huggingface_single.py`.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from headwise.config import ModelConfig
from headwise.models.output_heads import ClassificationHead, SpanHead, TaggingHead

transformers = pytest.importorskip("transformers", reason="needs the extra 'huggingface'")

WIDTH, LABELS = 24, 5
TOLERANCE = {"rtol": 1e-4, "atol": 1e-4}
CONFIG = ModelConfig(d_model=WIDTH, heads=4, dropout=0.0)
REAL = torch.arange(13) < torch.tensor([13, 5, 1, 9])[:, None]


def theirs(name: str) -> Any:
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=61, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40,
        max_position_embeddings=48, num_labels=LABELS, initializer_range=0.3,
    )  # fmt: skip
    return getattr(transformers, name)(config).eval()


def pour(model: nn.Module, *parts: tuple[str, Any]) -> None:
    """Copy weights into a head; `parts` must name all its layers."""
    assert {name for name, _ in model.named_children()} == {name.split(".")[0] for name, _ in parts}
    with torch.no_grad():
        for name, linear in parts:
            ours = model.get_submodule(name)
            ours.weight.copy_(linear.weight)
            ours.bias.copy_(linear.bias)


@pytest.fixture
def tokens() -> Tensor:
    return torch.randint(4, 61, (4, 13), generator=torch.Generator().manual_seed(1))


def hidden(model: Any, tokens: Tensor) -> Tensor:
    return model.bert(input_ids=tokens, attention_mask=REAL.long()).last_hidden_state


@torch.no_grad()
def test_classification(tokens: Tensor) -> None:
    model = theirs("BertForSequenceClassification")
    head = ClassificationHead(CONFIG, LABELS).eval()
    pour(head, ("pooler.dense", model.bert.pooler.dense), ("output", model.classifier))
    expected = model(input_ids=tokens, attention_mask=REAL.long()).logits
    assert_close(head(hidden(model, tokens), REAL), expected, **TOLERANCE)


@torch.no_grad()
def test_tagging(tokens: Tensor) -> None:
    model = theirs("BertForTokenClassification")
    head = TaggingHead(CONFIG, LABELS).eval()
    pour(head, ("output", model.classifier))
    expected = model(input_ids=tokens, attention_mask=REAL.long()).logits
    assert_close(head(hidden(model, tokens))[REAL], expected[REAL], **TOLERANCE)


@torch.no_grad()
def test_answers(tokens: Tensor) -> None:
    model = theirs("BertForQuestionAnswering")
    # transformers uses num_labels outputs here, which have to be two
    model.qa_outputs = nn.Linear(WIDTH, 2)
    model.num_labels = 2
    head = SpanHead(CONFIG).eval()
    pour(head, ("output", model.qa_outputs))
    expected = model(input_ids=tokens, attention_mask=REAL.long())
    start, end = head(hidden(model, tokens), REAL)
    assert_close(start[REAL], expected.start_logits[REAL], **TOLERANCE)
    assert_close(end[REAL], expected.end_logits[REAL], **TOLERANCE)
    assert (start.softmax(-1)[~REAL] == 0).all()
