"""BERT of `transformers` (Devlin et al. 2019): the encoder with each of its heads, which are Headwise's tasks.

BERT normalizes after each sub-layer, as the paper does, with learned positions, segments, biases in the attention, and
a normalization of the embeddings.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from headwise import bounds
from headwise.config import Config, ModelConfig, SubwordConfig
from headwise.config.base import Epsilon, Heads, Layers, Length, Probability, Width
from headwise.errors import CheckpointError
from headwise.interop.base import Imported
from headwise.interop.huggingface.fields import (
    Keys,
    VocabularySize,
    find_activation,
    make_config,
    read_keys,
    unexpected,
)
from headwise.interop.huggingface.labels import read_labels
from headwise.interop.huggingface.parameters import Parameters, changed
from headwise.interop.huggingface.tokenizer import read_original, take_over
from headwise.interop.pieces import Rows
from headwise.interop.single import LABELLED, encoder_builder
from headwise.text.datasets.examples import LABELS_FILE
from headwise.text.tokens.imported import ImportedVocabulary

# Their names of an encoder layer's parts, and ours.
LAYER = {
    "attention.self.query": "self_attention.query",
    "attention.self.key": "self_attention.key",
    "attention.self.value": "self_attention.value",
    "attention.output.dense": "self_attention.output",
    "attention.output.LayerNorm": "around_attention.norm",
    "intermediate.dense": "feed_forward.w1",
    "output.dense": "feed_forward.w2",
    "output.LayerNorm": "around_feed_forward.norm",
}
_EMBEDDINGS = "bert.embeddings"
WORDS = f"{_EMBEDDINGS}.word_embeddings.weight"
# The parts of each head, ours and theirs, by architecture.
TASKS = {
    "BertForMaskedLM": "masked_language_model",
    "BertForPreTraining": "masked_language_model",
    "BertForSequenceClassification": "classification",
    "BertForTokenClassification": "tagging",
    "BertForQuestionAnswering": "question_answering",
}
HEADS = {
    "masked_language_model": {
        "head.dense": "cls.predictions.transform.dense",
        "head.norm": "cls.predictions.transform.LayerNorm",
    },
    "classification": {"head.pooler.dense": "bert.pooler.dense", "head.output": "classifier"},
    "tagging": {"head.output": "classifier"},
    "question_answering": {"head.output": "qa_outputs"},
}
PREDICTIONS = "cls.predictions"  # whose bias is the logits'


class Fields(Keys):
    """What config.json must have."""

    architectures: list[str] = Field(default_factory=list)
    vocab_size: VocabularySize
    hidden_size: Width
    num_hidden_layers: Layers
    num_attention_heads: Heads
    intermediate_size: Width
    max_position_embeddings: Length = 512
    type_vocab_size: Annotated[int, Field(gt=0, le=bounds.LENGTH)] = 2
    hidden_act: str = "gelu"
    layer_norm_eps: Epsilon = 1e-12
    hidden_dropout_prob: Probability = 0.1
    attention_probs_dropout_prob: Probability = 0.1
    position_embedding_type: str = "absolute"
    is_decoder: bool = False
    problem_type: str = "single_label_classification"
    id2label: dict[str, str] = Field(default_factory=dict)


def read(source: Path) -> Imported:
    """Read a BERT directory; raises `CheckpointError` for what Headwise can't express."""
    fields = read_keys(source, Fields)
    task = _task(fields, source)
    model = _model(fields, source)
    original = read_original(source, fields.vocab_size)
    roles = (("pad_token", "[PAD]"), ("unk_token", "[UNK]"), ("cls_token", "[CLS]"), ("sep_token", "[SEP]"))
    special = [original.named(key, default) for key, default in roles]
    if None in special or len(set(special)) < len(special):
        lacking = next(
            key
            for (key, _), piece in zip(roles, special, strict=True)
            if special.count(piece) > 1 or piece is None
        )
        raise CheckpointError(f"{original.file}: expected a piece of its own for {lacking}, found none")
    mask = original.named("mask_token", "[MASK]")
    if mask is None and task == "masked_language_model":
        raise CheckpointError(f"{original.file}: expected a piece for mask_token, found none")
    text, rows = take_over(original, special, mask)
    labels = read_labels(source, fields.id2label) if task in ("classification", "tagging") else []
    parameters = _parameters(source, task, model, rows)
    notes = [f"task {task}, from {fields.architectures[0]}"]
    files = (
        {LABELS_FILE: (json.dumps(labels, ensure_ascii=False) + "\n").encode()} if task in LABELLED else {}
    )
    config = _config(source, task, model, text, labels, notes)
    return Imported(
        config,
        encoder_builder(config, text.size, len(labels)),
        parameters,
        text,
        notes,
        files,
    )


def _task(fields: Fields, source: Path) -> str:
    name = fields.architectures[0] if fields.architectures else ""
    if name not in TASKS:
        raise unexpected(source, "architectures", f"one of {', '.join(TASKS)}", name)
    if fields.position_embedding_type != "absolute":
        raise unexpected(source, "position_embedding_type", "absolute", fields.position_embedding_type)
    if fields.is_decoder:
        raise unexpected(source, "is_decoder", "false", fields.is_decoder)
    task = TASKS[name]
    if task == "classification" and fields.problem_type != "single_label_classification":
        raise unexpected(source, "problem_type", "single_label_classification", fields.problem_type)
    if task == "question_answering" and fields.type_vocab_size < 2:
        raise unexpected(
            source, "type_vocab_size", "at least 2 for question answering", fields.type_vocab_size
        )
    return task


def _model(fields: Fields, source: Path) -> ModelConfig:
    return make_config(
        source,
        ModelConfig,
        encoder_layers=fields.num_hidden_layers,
        d_model=fields.hidden_size,
        d_ff=fields.intermediate_size,
        heads=fields.num_attention_heads,
        norm="post",
        norm_epsilon=fields.layer_norm_eps,
        activation=find_activation(source, "hidden_act", fields.hidden_act),
        positions="learned",
        attention_bias=True,
        scale_embeddings=False,
        embedding_norm=True,
        segments=fields.type_vocab_size,
        max_length=fields.max_position_embeddings,
        dropout=fields.hidden_dropout_prob,
        attention_dropout=fields.attention_probs_dropout_prob,
    )


def _config(
    source: Path, task: str, model: ModelConfig, text: ImportedVocabulary, labels: list[str], notes: list[str]
) -> Config:
    subwords = SubwordConfig(kind="imported", size=max(text.size, 8), lowercase=text.lowercases)
    options: dict[str, Any] = {}
    if task == "masked_language_model":
        options = {"lines_are_documents": True}
    elif task == "classification":
        options = {"labels": labels}
    elif task == "tagging" and _are_spans(labels):
        options = {"spans": True}
        notes.append(
            "the labels are IOB2: the most probable valid sequence of tags is predicted; "
            "tagging.spans=false predicts each tag by itself"
        )
    elif task == "question_answering":
        room = model.max_length - 4  # of the question and the overlap of windows
        if room < 2:
            raise unexpected(source, "max_position_embeddings", "at least 6", model.max_length)
        options = {"longest_question": min(64, room // 2), "stride": min(64, room // 2)}
    return make_config(source, Config, task=task, model=model, subwords=subwords, **{task: options})


def _are_spans(labels: list[str]) -> bool:
    kinds = {label[2:] for label in labels if label.startswith("B-")}
    return bool(kinds) and all(
        label == "O" or (label[:2] in ("B-", "I-") and label[2:] in kinds and label[2:]) for label in labels
    )


def parameter_names(model: ModelConfig, task: str) -> dict[str, str]:
    """Return the name in `transformers` of each parameter but the embeddings of words and the logits' bias."""
    parts = {"encoder.positions.norm": f"{_EMBEDDINGS}.LayerNorm", **HEADS[task]}
    for number in range(model.encoder_layers):
        for theirs, ours in LAYER.items():
            parts[f"encoder.encoder.layers.{number}.{ours}"] = f"bert.encoder.layer.{number}.{theirs}"
    names = {
        f"{ours}.{kind}": f"{theirs}.{kind}" for ours, theirs in parts.items() for kind in ("weight", "bias")
    }
    names["encoder.positions.table"] = f"{_EMBEDDINGS}.position_embeddings.weight"
    names["encoder.positions.segments.weight"] = f"{_EMBEDDINGS}.token_type_embeddings.weight"
    return names


def _parameters(source: Path, task: str, model: ModelConfig, rows: Rows) -> dict[str, Any]:
    left = Parameters(source, _current_name)
    masked = task == "masked_language_model"
    if masked:
        left.drop_copy(f"{PREDICTIONS}.decoder.weight", WORDS)
        left.drop_copy(f"{PREDICTIONS}.decoder.bias", f"{PREDICTIONS}.bias")
    found = left.take_all(parameter_names(model, task))
    found["encoder.embedding.weight"] = changed(left.take(WORDS), rows.of, f"{source}: {WORDS}")
    if masked:
        name = f"{PREDICTIONS}.bias"
        found["head.bias"] = changed(left.take(name), rows.of, f"{source}: {name}")
    left.drop((f"{_EMBEDDINGS}.position_ids", "cls.seq_relationship.", "bert.pooler."))
    left.finish()
    return found


def _current_name(name: str) -> str:
    """Return a parameter's name; files of before 2020 have TensorFlow's names of the normalizations."""
    for old, new in ((".gamma", ".weight"), (".beta", ".bias")):
        if name.endswith(f"LayerNorm{old}"):
            return name.removesuffix(old) + new
    return name
