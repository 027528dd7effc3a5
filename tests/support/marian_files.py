"""Marian's own files, made from a `MarianMTModel` of transformers, which then computes as Marian does.

Marian's position table and its epsilon differ from those of transformers, and its decoder begins with a zero vector.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
import yaml

from marian_models import SHAPE, load_tokenizer, train, write_tokenizer

_SUBLAYERS = {
    "encoder": {"self": ("self_attn", "self_attn_layer_norm")},
    "decoder": {
        "self": ("self_attn", "self_attn_layer_norm"),
        "context": ("encoder_attn", "encoder_attn_layer_norm"),
    },
}


def write_files(folder: Path, *, tied: str = "all", steps: int = 5, **changes: Any) -> Any:
    """Write a directory as OPUS publishes it, of a model that transformers has trained for some steps; return it."""
    model = make_model(folder, tied, steps)
    vocabularies, sizes = write_vocabularies(folder, separate=tied != "all")
    arrays = {name: tensor.detach().numpy() for name, tensor in marian_arrays(model, tied, sizes).items()}
    options = model_options(model, tied, sizes) | changes
    text = yaml.safe_dump(options).encode() + b"\0"
    arrays["special:model.yml"] = np.frombuffer(text, np.int8)
    np.savez(folder / "model.npz", allow_pickle=False, **arrays)
    decoder = {"relative-paths": True, "models": ["model.npz"], "vocabs": vocabularies}
    decoder |= {"beam-size": 6, "normalize": 0.6}
    (folder / "decoder.yml").write_text(yaml.safe_dump(decoder))
    return model


def make_model(folder: Path, tied: str, steps: int) -> Any:
    """Return a trained model with Marian's positions and epsilon; the last row is the zero vector of the beginning."""
    sizes = write_tokenizer(folder, separate=tied != "all")
    begin = max(sizes) - 1
    config = transformers.MarianConfig(
        **SHAPE,
        vocab_size=max(sizes),
        decoder_vocab_size=max(sizes),
        activation_function="swish" if tied == "all" else "relu",
        share_encoder_decoder_embeddings=tied == "all",
        tie_word_embeddings=tied != "none",
        pad_token_id=begin,
        decoder_start_token_id=begin,
    )
    torch.manual_seed(0)
    model: Any = transformers.MarianMTModel(config)
    model.generation_config.update(bad_words_ids=[[begin], [1]])
    train(model, load_tokenizer(folder), steps)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.eps = 1e-6
        for side in (model.model.encoder, model.model.decoder):
            side.embed_positions.weight.copy_(positions(64, 24))
        model.model.get_decoder().embed_tokens.weight[-1] = 0
        model.final_logits_bias.normal_(std=0.3)
        model.final_logits_bias[0, sizes[1] - 1 :] = -1e4
    return model.eval()


def positions(length: int, width: int) -> torch.Tensor:
    """Return Marian's position table, number by number."""
    table = torch.empty(length, width)
    half = width // 2
    for position in range(length):
        for index in range(half):
            angle = position * 10000.0 ** (-index / (half - 1))
            table[position, index], table[position, half + index] = np.sin(angle), np.cos(angle)
    return table


def marian_arrays(model: Any, tied: str, sizes: list[int]) -> dict[str, torch.Tensor]:
    """Return the parameters by Marian's names; the row of the beginning isn't there."""
    state = model.state_dict()
    source, target = sizes
    arrays = {"decoder_ff_logit_out_b": state["final_logits_bias"][:, :target]}
    if tied == "all":
        arrays["Wemb"] = state["model.shared.weight"][:source]
    else:
        arrays["encoder_Wemb"] = state["model.encoder.embed_tokens.weight"][:source]
        arrays["decoder_Wemb"] = state["model.decoder.embed_tokens.weight"][:target]
    if tied == "none":
        arrays["decoder_ff_logit_out_Wt"] = state["lm_head.weight"][:target]
    for side, layers in (("encoder", 2), ("decoder", 1)):
        for number in range(layers):
            theirs, name = f"model.{side}.layers.{number}", f"{side}_l{number + 1}"
            for part, (attention, norm) in _SUBLAYERS[side].items():
                for letter, projection in {**{n: f"{n}_proj" for n in "qkv"}, "o": "out_proj"}.items():
                    own = f"{theirs}.{attention}.{projection}"
                    arrays[f"{name}_{part}_W{letter}"] = state[f"{own}.weight"].T
                    arrays[f"{name}_{part}_b{letter}"] = state[f"{own}.bias"][None]
                arrays[f"{name}_{part}_Wo_ln_scale"] = state[f"{theirs}.{norm}.weight"][None]
                arrays[f"{name}_{part}_Wo_ln_bias"] = state[f"{theirs}.{norm}.bias"][None]
            for index in (1, 2):
                arrays[f"{name}_ffn_W{index}"] = state[f"{theirs}.fc{index}.weight"].T
                arrays[f"{name}_ffn_b{index}"] = state[f"{theirs}.fc{index}.bias"][None]
            arrays[f"{name}_ffn_ffn_ln_scale"] = state[f"{theirs}.final_layer_norm.weight"][None]
            arrays[f"{name}_ffn_ffn_ln_bias"] = state[f"{theirs}.final_layer_norm.bias"][None]
    return {name: tensor.contiguous() for name, tensor in arrays.items()}


def model_options(model: Any, tied: str, sizes: list[int]) -> dict[str, Any]:
    """Return the options of special:model.yml that matter."""
    return {
        "type": "transformer",
        "version": "v1.9.0",
        "dim-emb": 24,
        "dim-vocabs": sizes,
        "enc-depth": 2,
        "dec-depth": 1,
        "transformer-heads": 4,
        "transformer-dim-ffn": 40,
        "transformer-ffn-depth": 2,
        "transformer-ffn-activation": model.config.activation_function,
        "transformer-preprocess": "",
        "transformer-postprocess": "dan",
        "transformer-postprocess-emb": "d",
        "transformer-decoder-autoreg": "self-attention",
        "transformer-no-projection": False,
        "transformer-tied-layers": [],
        "tied-embeddings": tied == "target",
        "tied-embeddings-all": tied == "all",
        "right-left": False,
    }


def write_vocabularies(folder: Path, *, separate: bool) -> tuple[list[str], list[int]]:
    """Write the vocabularies of the tokenizer as YAML, without the row of the beginning; return names and sizes."""
    names, sizes = [], []
    for name, file in (("vocab.yml", "vocab.json"), ("target.vocab.yml", "target_vocab.json")):
        if (folder / file).is_file():
            pieces = json.loads((folder / file).read_text())
            del pieces["<pad>"]
            text = yaml.safe_dump(pieces, allow_unicode=True, width=10**6, sort_keys=False)
            (folder / name).write_text(text, encoding="utf-8")
            names.append(name)
            sizes.append(len(pieces))
    return (names, sizes) if separate else (names * 2, sizes * 2)
