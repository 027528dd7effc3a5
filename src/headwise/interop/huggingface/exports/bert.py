"""Export to BERT of `transformers`, with the head of the run's task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from headwise.config import Config, ModelConfig
from headwise.files import write_bytes, write_text
from headwise.interop import base
from headwise.interop.base import TrainedSingle
from headwise.interop.huggingface.card import model_card
from headwise.interop.huggingface.exports.tokenizer import ExportedTokenizer, as_json
from headwise.interop.huggingface.imports.bert import PREDICTIONS, TASKS, WORDS, parameter_names
from headwise.interop.huggingface.names import THEIR_ACTIVATIONS
from headwise.interop.single import ENCODER_TASKS
from headwise.models.limits import inexpressible
from headwise.nn.positions import sinusoids
from headwise.text.tokens.subwords import BOS, EOS, PAD, UNK

_EXPRESSIBLE = (
    *("encoder_layers", "d_model", "d_ff", "heads", "norm_epsilon", "activation", "positions", "max_length"),
    *("attention_bias", "segments"),
)
_NEEDED = {"norm": "post", "scale_embeddings": False, "embedding_norm": True}
ROLES = {"pad": PAD, "unk": UNK, "cls": BOS, "sep": EOS}


class Exporter(base.Exporter):
    """Writer of BERT directories."""

    library = "transformers"
    tasks = ENCODER_TASKS

    def refuses(self, config: Config) -> str | None:  # noqa: D102
        model = config.model
        problems = inexpressible(model, (*_EXPRESSIBLE, *_NEEDED))
        problems += needed(model, _NEEDED)
        if model.positions not in ("learned", "sinusoidal"):
            problems.append(f"model.positions={model.positions}")
        if config.task == "classification" and config.classification.pooling != "first":
            problems.append(f"classification.pooling={config.classification.pooling}")
        return f"BERT has no {', '.join(problems)}" if problems else None

    def write(self, trained: TrainedSingle, folder: Path, precision: str) -> list[str]:  # noqa: D102
        assert trained.vocabulary is not None
        task, vocabulary = trained.config.task, trained.vocabulary
        tokenizer = ExportedTokenizer.of(vocabulary)
        architecture = next(name for name, known in TASKS.items() if known == task)
        longest = trained.config.model.max_length
        write_text(folder / "config.json", as_json(_configuration(trained, tokenizer, architecture)))
        write_bytes(folder / "model.safetensors", save(_tensors(trained, tokenizer), {"format": "pt"}))
        tokenizer.write(
            folder,
            ([BOS], [EOS]),
            ROLES | ({"mask": vocabulary.symbol(vocabulary.symbols[0])} if vocabulary.symbols else {}),
            model_max_length=longest,
            model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        )
        write_text(folder / "README.md", model_card(trained, architecture))
        return [f"{architecture} and PreTrainedTokenizerFast: AutoTokenizer loads it"]


def needed(model: ModelConfig, values: dict[str, Any]) -> list[str]:
    """Return `model.KEY=VALUE` for each key that has another value than the one that a format has."""
    return [
        f"model.{key}={str(getattr(model, key)).lower()}"
        for key, value in values.items()
        if getattr(model, key) != value
    ]


def position_table(trained: TrainedSingle, name: str) -> Tensor:
    """Return the table of positions, learned or not."""
    model = trained.config.model
    return (
        trained.tensor(name) if model.positions == "learned" else sinusoids(model.max_length, model.d_model)
    )


def label_keys(labels: list[str]) -> dict[str, Any]:
    """Return id2label and label2id."""
    if not labels:
        return {}
    return {
        "id2label": {str(number): label for number, label in enumerate(labels)},
        "label2id": {label: number for number, label in enumerate(labels)},
    }


def _configuration(trained: TrainedSingle, tokenizer: ExportedTokenizer, architecture: str) -> dict[str, Any]:
    model = trained.config.model
    return {
        "architectures": [architecture],
        "model_type": "bert",
        "vocab_size": len(tokenizer.kept),
        "hidden_size": model.d_model,
        "num_hidden_layers": model.encoder_layers,
        "num_attention_heads": model.heads,
        "intermediate_size": model.d_ff,
        "hidden_act": THEIR_ACTIVATIONS[model.activation],
        "hidden_dropout_prob": model.dropout,
        "attention_probs_dropout_prob": model.attention_dropout,
        "max_position_embeddings": model.max_length,
        "type_vocab_size": max(1, model.segments),
        "layer_norm_eps": model.norm_epsilon,
        "position_embedding_type": "absolute",
        "pad_token_id": tokenizer.number(PAD),
        "tie_word_embeddings": True,
        "dtype": "float32",
        **label_keys(trained.labels),
    }


def _tensors(trained: TrainedSingle, tokenizer: ExportedTokenizer) -> dict[str, Tensor]:
    """Return the parameters by their names in `transformers`."""
    model, task = trained.config.model, trained.config.task
    tensors = {WORDS: tokenizer.rows(trained.tensor("encoder.embedding.weight"))}
    for ours, theirs in parameter_names(model, task).items():
        if ours == "encoder.positions.table":
            tensor = position_table(trained, ours)
        elif ours == "encoder.positions.segments.weight" and not model.segments:
            tensor = torch.zeros(1, model.d_model)
        elif not model.attention_bias and ".self_attention." in ours and ours.endswith(".bias"):
            tensor = torch.zeros(model.d_model)
        else:
            tensor = trained.tensor(ours)
        tensors[theirs] = tensor
    if task == "masked_language_model":
        tensors[f"{PREDICTIONS}.bias"] = tokenizer.rows(trained.tensor("head.bias"))
    return {name: tensor.contiguous() for name, tensor in tensors.items()}
