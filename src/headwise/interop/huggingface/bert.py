"""BERT of `transformers` (Devlin et al. 2019), in and out: the encoder with each of its heads, which are our tasks.

BERT normalizes after each sub-layer, as the paper does, with learned positions, segments, biases in the attention, and
a normalization of the embeddings.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from headwise import bounds
from headwise.config import Config, ModelConfig
from headwise.config.base import Epsilon, Heads, Layers, Length, Probability, Width
from headwise.errors import CheckpointError
from headwise.interop.base import Imported, TrainedSingle, make_config
from headwise.interop.huggingface.card import write_model
from headwise.interop.huggingface.keys import (
    ONE_LABEL,
    TABLES,
    Keys,
    VocabularySize,
    check_architecture,
    check_one_label,
    label_keys,
    model_config,
    read_keys,
    read_labels,
    supported,
    their_keys,
    unexpected,
)
from headwise.interop.huggingface.tensors import folder_tensors
from headwise.interop.huggingface.tokenizer import (
    ExportedTokenizer,
    Original,
    read_original,
    subword_config,
    take_over,
)
from headwise.interop.single import LABELLED, encoder_builder, shapes_of
from headwise.interop.table import Changes, Left, Row, both, their_tensors
from headwise.text.preparation.labelled.examples import LABELS_FILE
from headwise.text.tokens.imported import ImportedVocabulary
from headwise.text.tokens.subwords import BOS, EOS, PAD, UNK

# Our names of an encoder layer's parts, and theirs.
_LAYER = {
    "self_attention.query": "attention.self.query",
    "self_attention.key": "attention.self.key",
    "self_attention.value": "attention.self.value",
    "self_attention.output": "attention.output.dense",
    "around_attention.norm": "attention.output.LayerNorm",
    "feed_forward.w1": "intermediate.dense",
    "feed_forward.w2": "output.dense",
    "around_feed_forward.norm": "output.LayerNorm",
}
_EMBEDDINGS, _PREDICTIONS = "bert.embeddings", "cls.predictions"
_WORDS = f"{_EMBEDDINGS}.word_embeddings.weight"
_TASKS = {
    "BertForMaskedLM": "masked_language_model",
    "BertForPreTraining": "masked_language_model",
    "BertForSequenceClassification": "classification",
    "BertForTokenClassification": "tagging",
    "BertForQuestionAnswering": "question_answering",
}
# The parts of each task's head.
_HEADS = {
    "masked_language_model": {
        "head.dense": f"{_PREDICTIONS}.transform.dense",
        "head.norm": f"{_PREDICTIONS}.transform.LayerNorm",
    },
    "classification": {"head.pooler.dense": "bert.pooler.dense", "head.output": "classifier"},
    "tagging": {"head.output": "classifier"},
    "question_answering": {"head.output": "qa_outputs"},
}
# Their keys and ours, and the keys of ours that have one value there.
_KEYS = {
    "hidden_size": "d_model",
    "num_hidden_layers": "encoder_layers",
    "num_attention_heads": "heads",
    "intermediate_size": "d_ff",
    "hidden_act": "activation",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
    "max_position_embeddings": "max_length",
    "layer_norm_eps": "norm_epsilon",
}
_ALWAYS = {"norm": "post", "scale_embeddings": False, "embedding_norm": True}
# The pieces with a role, by our ids.
_ROLES = {PAD: ("pad", "[PAD]"), UNK: ("unk", "[UNK]"), BOS: ("cls", "[CLS]"), EOS: ("sep", "[SEP]")}


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
    problem_type: str = ONE_LABEL
    id2label: dict[str, str] = Field(default_factory=dict)


def _table(model: ModelConfig, task: str, words: Changes) -> list[Row]:
    """Return our parameters and theirs; `words` reorders what has a row for each word."""
    masked, zeros = task == "masked_language_model", (model.d_model,)
    rows = both({"encoder.positions.norm": f"{_EMBEDDINGS}.LayerNorm", **_HEADS[task]})
    for number in range(model.encoder_layers):
        ours, theirs = f"encoder.encoder.layers.{number}", f"bert.encoder.layer.{number}"
        rows += both({f"{ours}.{own}": f"{theirs}.{name}" for own, name in _LAYER.items()}, zeros=zeros)
    segments = f"{_EMBEDDINGS}.token_type_embeddings.weight"
    output = (f"{_PREDICTIONS}.decoder.weight",) if masked else ()
    rows += [
        Row("encoder.positions.table", f"{_EMBEDDINGS}.position_embeddings.weight"),
        Row("encoder.positions.segments.weight", segments, zeros=(1, model.d_model)),
        Row("encoder.embedding.weight", _WORDS, words(_WORDS), copies=output),
    ]
    if masked:
        bias = f"{_PREDICTIONS}.bias"
        rows.append(Row("head.bias", bias, words(bias), copies=(f"{_PREDICTIONS}.decoder.bias",)))
    return rows


def read(source: Path) -> Imported:
    """Read a BERT directory; raises `CheckpointError` for what Headwise can't express."""
    fields = read_keys(source, Fields)
    task = _task(fields, source)
    more = {"positions": "learned", "attention_bias": True, "segments": fields.type_vocab_size}
    model = model_config(source, fields, _KEYS, **_ALWAYS, **more)
    original = read_original(source, fields.vocab_size)
    special = _special(original)
    mask = original.named("mask_token", "[MASK]")
    if mask is None and task == "masked_language_model":
        raise CheckpointError(f"{original.file}: expected a piece for mask_token, found none")
    text, rows = take_over(original, special, mask)
    labels = read_labels(source, fields.id2label) if task in ("classification", "tagging") else []
    left = Left(source, {_current_name(name): read for name, read in folder_tensors(source).items()})
    found = left.take_rows(_table(model, task, rows.into(source)))
    left.drop(f"{_EMBEDDINGS}.position_ids", "cls.seq_relationship.", "bert.pooler.")
    left.finish()
    notes = [f"task {task}, from {fields.architectures[0]}"]
    content = (json.dumps(labels, ensure_ascii=False) + "\n").encode()
    files = {LABELS_FILE: content} if task in LABELLED else {}
    config = _config(source, task, model, text, labels, notes)
    return Imported(config, shapes_of(encoder_builder(config, text.size, len(labels))), found, text, notes, files)


def _task(fields: Fields, source: Path) -> str:
    name = check_architecture(source, fields.architectures, _TASKS)
    if fields.position_embedding_type != "absolute":
        raise unexpected(source, "position_embedding_type", "absolute", fields.position_embedding_type)
    if fields.is_decoder:
        raise unexpected(source, "is_decoder", "false", fields.is_decoder)
    task = _TASKS[name]
    if task == "classification":
        check_one_label(source, fields.problem_type)
    if task == "question_answering" and fields.type_vocab_size < 2:
        raise unexpected(source, "type_vocab_size", "at least 2 for question answering", fields.type_vocab_size)
    return task


def _special(original: Original) -> list[str]:
    """Return the pieces of padding, unknown, begin and end; raises `CheckpointError` unless they are four."""
    found = {role: original.named(f"{role}_token", default) for role, default in _ROLES.values()}
    pieces = [piece for piece in found.values() if piece is not None]
    for role, piece in found.items():
        if piece is None or pieces.count(piece) > 1:
            raise CheckpointError(f"{original.file}: expected a piece of its own for {role}_token, found none")
    return pieces


def _config(
    source: Path, task: str, model: ModelConfig, text: ImportedVocabulary, labels: list[str], notes: list[str]
) -> Config:
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
    subwords = subword_config(text)
    return make_config(source / "config.json", Config, task=task, model=model, subwords=subwords, **{task: options})


def _are_spans(labels: list[str]) -> bool:
    kinds = {label[2:] for label in labels if label.startswith("B-")}
    return bool(kinds) and all(
        label == "O" or (label[:2] in ("B-", "I-") and label[2:] in kinds and label[2:]) for label in labels
    )


def _current_name(name: str) -> str:
    """Return a parameter's name; files of before 2020 have TensorFlow's names of the normalizations."""
    for old, new in ((".gamma", ".weight"), (".beta", ".bias")):
        if name.endswith(f"LayerNorm{old}"):
            return name.removesuffix(old) + new
    return name


SUPPORTED = supported(_KEYS, "attention_bias", "segments", always=_ALWAYS, positions=TABLES)


def refuses(config: Config) -> str | None:
    """Return why a model isn't BERT's, naming the keys; None where it is."""
    found = SUPPORTED.problems(config.model)
    if config.task == "classification" and config.classification.pooling != "first":
        found.append(f"classification.pooling={config.classification.pooling}")
    return f"BERT has no {', '.join(found)}" if found else None


def write(trained: TrainedSingle, folder: Path) -> list[str]:
    """Write a BERT directory; return notes."""
    assert trained.vocabulary is not None
    model, task, vocabulary = trained.config.model, trained.config.task, trained.vocabulary
    tokenizer = ExportedTokenizer.of(vocabulary)
    architecture = next(name for name, known in _TASKS.items() if known == task)
    content = {
        "architectures": [architecture],
        "model_type": "bert",
        "vocab_size": len(tokenizer.kept),
        **their_keys(model, _KEYS),
        "type_vocab_size": max(1, model.segments),
        "position_embedding_type": "absolute",
        "pad_token_id": tokenizer.number(PAD),
        "tie_word_embeddings": True,
        "dtype": "float32",
        **label_keys(trained.labels),
    }
    tensors = their_tensors(_table(model, task, tokenizer.changes), trained.parameter)
    write_model(trained, folder, content, tensors)
    roles = {role: number for number, (role, _) in _ROLES.items()}
    mask = {"mask": vocabulary.symbol(vocabulary.symbols[0])} if vocabulary.symbols else {}
    tokenizer.write(
        folder,
        ([BOS], [EOS]),
        roles | mask,
        model_max_length=model.max_length,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )
    return [f"{architecture} and PreTrainedTokenizerFast: AutoTokenizer loads it"]
