"""Tiny valid run directories for fuzzing, over all precisions, embedding sharing, vocabularies and positions."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from safetensors.torch import save_file

from headwise.config import Config
from headwise.engine.shortlist import FILE as SHORTLIST
from headwise.engine.shortlist import Shortlist
from headwise.models.build import build_model
from headwise.text.tokens.subwords import EOS, UNK, Subwords
from headwise.weights import write_quantized
from seq2seq import randomized
from translator_run import ENGLISH, GERMAN

SHAPE = {"encoder_layers": 1, "decoder_layers": 2, "d_model": 16, "d_ff": 32, "heads": 2, "max_length": 40}


@dataclass(frozen=True)
class Base:
    """Specification of a run: model and subword keys, precision of the weights, and optional files."""

    model: dict[str, Any] = field(default_factory=dict)
    subwords: dict[str, Any] = field(default_factory=dict)
    precision: str = "float32"
    shortlist: bool = False
    recipe: bool = True  # whether model.safetensors records the digest of the subwords


BASES = {
    "plain": Base(),
    "pre-norm": Base({"norm": "pre", "positions": "learned", "activation": "gelu", "attention_bias": True}),
    "separate": Base({"share_embeddings": "target", "d_k": 5, "d_v": 9}, {"joint": False, "size": 90}),
    "shared": Base({"share_embeddings": "all", "positions": "none"}, recipe=False),
    "lowercase": Base({"norm": "pre"}, {"lowercase": True}, recipe=False),
    "int8": Base({"positions": "learned"}, precision="int8"),
    "int8 grouped": Base({"key_value_heads": 1, "activation": "silu", "norm": "pre"}, precision="int8", recipe=False),
    "bfloat16": Base({"attention_bias": True}, precision="bfloat16"),
    "shortlist": Base(shortlist=True),
    "int8 shortlist": Base({"d_model": 20, "heads": 4}, {"joint": False}, "int8", shortlist=True),
    "rotary": Base({"positions": "rotary"}),
    "alibi": Base({"positions": "alibi", "norm": "pre"}, precision="int8"),
}


def write_base(base: Base, folder: Path, seed: int = 0) -> None:
    """Write a run with random parameters, some of whose outputs end before the maximum length."""
    folder.mkdir(parents=True)
    model = SHAPE | {"share_embeddings": "none"} | base.model
    decoding = {"beam": 3, "extra_length": 4}
    tree = {"model": model, "subwords": {"size": 120} | base.subwords, "decoding": decoding}
    config = Config.from_tree(tree)
    subwords = Subwords.train(ENGLISH, GERMAN, config.subwords, folder)
    torch.manual_seed(seed)
    network = randomized(build_model(config.model, subwords.source_size, subwords.target_size))
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "embedding" in name or "positions" in name:
                parameter *= 2
        network.output_weight[EOS] *= 2
    recipe = {"headwise": json.dumps({"subwords": subwords.digest()})} if base.recipe else None
    file = folder / "model.safetensors"
    save_file(dict(network.named_parameters()), file, recipe)
    if base.precision != "float32":
        write_quantized(file, file, base.precision)
    (folder / "config.yaml").write_text(yaml.safe_dump(tree), encoding="utf-8")
    if base.shortlist:
        numbers = np.random.default_rng(seed)
        candidates = numbers.integers(4, subwords.target_size, (subwords.source_size, 6), dtype=np.int32)
        Shortlist(candidates, np.array([UNK, EOS, 7, 11], np.int32), subwords.target_size).save(
            folder / SHORTLIST, subwords.digest()
        )
