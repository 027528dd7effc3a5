"""Export to GPT-2 of `transformers`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from headwise.config import Config
from headwise.decoding.generation import first_token
from headwise.errors import ConfigError
from headwise.files import write_bytes, write_text
from headwise.interop import base
from headwise.interop.base import TrainedSingle
from headwise.interop.huggingface.card import model_card
from headwise.interop.huggingface.exports.bert import needed, position_table
from headwise.interop.huggingface.exports.tokenizer import ExportedTokenizer, as_json
from headwise.interop.huggingface.imports.gpt2 import JOINED, MATRICES, NORMS, PARTS
from headwise.interop.huggingface.names import THEIR_ACTIVATIONS
from headwise.models.limits import inexpressible
from headwise.text.tokens.subwords import BOS, EOS, PAD, UNK

_EXPRESSIBLE = (
    *("decoder_layers", "d_model", "d_ff", "heads", "norm_epsilon", "activation", "positions", "max_length"),
    *("attention_bias", "logit_bias"),
)
_NEEDED = {"norm": "pre", "scale_embeddings": False}


class Exporter(base.Exporter):
    """Writer of GPT-2 directories."""

    library = "transformers"
    tasks = ("language_model",)

    def refuses(self, config: Config) -> str | None:  # noqa: D102
        model = config.model
        problems = inexpressible(model, (*_EXPRESSIBLE, *_NEEDED)) + needed(model, _NEEDED)
        if model.positions not in ("learned", "sinusoidal"):
            problems.append(f"model.positions={model.positions}")
        return f"GPT-2 has no {', '.join(problems)}" if problems else None

    def write(self, trained: TrainedSingle, folder: Path, precision: str) -> list[str]:  # noqa: D102
        assert trained.vocabulary is not None
        config, vocabulary = trained.config, trained.vocabulary
        tokenizer = ExportedTokenizer.of(vocabulary)
        _check_bias(trained, tokenizer)
        first = first_token(config, vocabulary)
        symbols = {
            "bos_token_id": tokenizer.number(first),
            "eos_token_id": tokenizer.number(EOS),
            "pad_token_id": tokenizer.number(PAD),
        }
        content = _configuration(trained, len(tokenizer.kept)) | symbols
        write_text(folder / "config.json", as_json(content))
        write_text(folder / "generation_config.json", as_json(symbols))
        write_bytes(folder / "model.safetensors", save(_tensors(trained, tokenizer), {"format": "pt"}))
        begin = BOS if tokenizer.number(BOS) is not None else EOS
        names = {"pad": PAD, "unk": UNK, "bos": begin, "eos": EOS}
        before = [first] if vocabulary.opens else []
        tokenizer.write(folder, (before, []), names, model_max_length=config.model.max_length)
        write_text(folder / "README.md", model_card(trained, "GPT2LMHeadModel"))
        return [
            "GPT2LMHeadModel and PreTrainedTokenizerFast: AutoModelForCausalLM and AutoTokenizer load them"
        ]


def _check_bias(trained: TrainedSingle, tokenizer: ExportedTokenizer) -> None:
    """Raise `ConfigError` for a bias of the logits of ids that are exported."""
    if trained.config.model.logit_bias and bool(tokenizer.rows(trained.tensor("logit_bias")).any()):
        raise ConfigError(f"{trained.run}: expected model.logit_bias=false, as GPT-2 has none, found a bias")


def _configuration(trained: TrainedSingle, size: int) -> dict[str, Any]:
    model = trained.config.model
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": size,
        "n_embd": model.d_model,
        "n_layer": model.decoder_layers,
        "n_head": model.heads,
        "n_inner": model.d_ff,
        "n_positions": model.max_length,
        "activation_function": THEIR_ACTIVATIONS[model.activation],
        "layer_norm_epsilon": model.norm_epsilon,
        "resid_pdrop": model.dropout,
        "embd_pdrop": model.dropout,
        "attn_pdrop": model.attention_dropout,
        "tie_word_embeddings": True,
        "dtype": "float32",
    }


def _tensors(trained: TrainedSingle, tokenizer: ExportedTokenizer) -> dict[str, Tensor]:
    """Return the parameters by their names in `transformers`; its matrices are transposed."""
    model = trained.config.model
    tensors = {
        "transformer.wte.weight": tokenizer.rows(trained.tensor("embedding.weight")),
        "transformer.wpe.weight": position_table(trained, "positions.table"),
    }

    def get(name: str) -> Tensor:
        if not model.attention_bias and ".self_attention." in name and name.endswith(".bias"):
            return torch.zeros(model.d_model)
        tensor = trained.tensor(name)
        return tensor.T if tensor.dim() == 2 else tensor

    for kind in ("weight", "bias"):
        tensors[f"transformer.ln_f.{kind}"] = get(f"norm.{kind}")
        for number in range(model.decoder_layers):
            ours, theirs = f"layers.{number}", f"transformer.h.{number}"
            parts = [get(f"{ours}.self_attention.{part}.{kind}") for part in PARTS]
            tensors[f"{theirs}.{JOINED}.{kind}"] = torch.cat(parts, dim=-1)
            for name, our_name in (MATRICES | NORMS).items():
                tensors[f"{theirs}.{name}.{kind}"] = get(f"{ours}.{our_name}.{kind}")
    return {name: tensor.contiguous() for name, tensor in tensors.items()}
