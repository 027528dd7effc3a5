"""Run directories of character-level models of one text, with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from headwise.config import Config
from headwise.models.build import build_decoder_only, build_encoder_only
from headwise.models.output_heads import HeadedEncoder, MaskedTokenHead
from headwise.text.tokens.loading import learn_vocabulary
from headwise.text.tokens.vocabulary import MASK


def make_language_model_run(directory: Path, **changes: Any) -> Path:
    """Write the files that text generation needs: config.yaml, characters.json and model.safetensors.

    `changes` are keys of the model's configuration.
    """
    directory.mkdir(parents=True)
    model = {"decoder_layers": 1, "d_model": 16, "d_ff": 32, "heads": 2, "max_length": 64, **changes}
    tree = {"task": "language_model", "model": model, "subwords": {"kind": "characters"}}
    config = Config.from_tree({**tree, "data": {"text": ["text.txt"]}})
    vocabulary = learn_vocabulary(["the cat sat on the mat.\n", "Ein Hund saß.\n"], config.subwords)
    vocabulary.save(directory)
    torch.manual_seed(2)
    network = build_decoder_only(config.model, vocabulary.size)
    save_file(dict(network.named_parameters()), directory / "model.safetensors")
    (directory / "config.yaml").write_text(config.to_yaml(), encoding="utf-8")
    return directory


def make_masked_model_run(directory: Path, **changes: Any) -> Path:
    """Write the files of a run of the task masked_language_model, with random weights; `changes` as above."""
    directory.mkdir(parents=True)
    model = {"encoder_layers": 2, "d_model": 16, "d_ff": 32, "heads": 2, "max_length": 64, **changes}
    tree = {"task": "masked_language_model", "model": model, "subwords": {"kind": "characters"}}
    config = Config.from_tree({**tree, "data": {"text": ["text.txt"]}})
    vocabulary = learn_vocabulary(["the cat sat on the mat.\n"], config.subwords, [MASK])
    vocabulary.save(directory)
    torch.manual_seed(2)
    network = HeadedEncoder(
        build_encoder_only(config.model, vocabulary.size), MaskedTokenHead(config.model, vocabulary.size)
    )
    save_file(dict(network.named_parameters()), directory / "model.safetensors")
    (directory / "config.yaml").write_text(config.to_yaml(), encoding="utf-8")
    return directory
