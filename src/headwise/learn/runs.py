"""A trained run for `headwise.learn.from_scratch`: its weights as NumPy arrays, and its subwords."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headwise.config import Config, ModelConfig
from headwise.config.support import FULL_ATTENTION
from headwise.errors import ConfigError
from headwise.learn.from_scratch import END, Transformer
from headwise.models.build import build_model, fitting
from headwise.shipped.runs import find_run
from headwise.text.tokens.subwords import Subwords
from headwise.weights import model_file

# What from_scratch computes: any value of these keys, and the default value of every other.
_SIZES = ("encoder_layers", "decoder_layers", "d_model", "d_ff", "heads", "d_k", "d_v", "max_length")
_VARIANTS = ("norm", "share_embeddings", "attention_bias", "logit_bias")
_UNUSED = ("dropout", "attention_dropout", "activation_dropout", "attention_options", "position_options")
_FREE = frozenset([*_SIZES, *_VARIANTS, *_UNUSED])


@dataclass(frozen=True)
class NumpyRun:
    """The model of a run in float64, and its subwords."""

    model: Transformer
    subwords: Subwords

    def source(self, sentence: str) -> list[int]:
        """Return the ids of a source sentence, with the end symbol."""
        return [*self.subwords.encode_source(sentence), END]

    def pieces(self, sentence: str) -> list[str]:
        """Return the subwords of a source sentence, with the end symbol and `▁` for a space."""
        return self.subwords.source_pieces(self.source(sentence))

    def translate(self, sentence: str) -> str:
        """Translate greedily."""
        return self.subwords.decode_target(self.model.greedy(self.source(sentence)))


def load(path: Path | str) -> NumpyRun:
    """Load a translation run, by its directory or name, whatever the precision of its file.

    Raises `CheckpointError` where the run is missing or damaged, and `ConfigError` for a model that differs from the
    paper's in more than its sizes, biases, sharing of embeddings and the place of its normalization.
    """
    path = find_run(path)
    config = Config.of_run(path, "translation")
    for key, default in ModelConfig():
        value = getattr(config.model, key)
        same = key in ("attention", "cross_attention") and value in FULL_ATTENTION
        if key not in _FREE and value != default and not same:
            raise ConfigError(
                f"{path / 'config.yaml'}: expected model.{key}={default}, as from_scratch.py is the paper's model, "
                f"found {value}"
            )
    subwords = Subwords.load(path, config.subwords)
    sizes = subwords.source_size, subwords.target_size
    stored = fitting(lambda: build_model(config.model, *sizes), model_file(path))
    weights = {}
    for name in sorted(stored.names):
        tensor = stored.get(name)
        assert tensor is not None, name
        weights[name] = tensor.astype(np.float64)
    shape = config.model
    model = Transformer(weights, shape.encoder_layers, shape.decoder_layers, shape.heads, shape.norm)
    return NumpyRun(model, subwords)
