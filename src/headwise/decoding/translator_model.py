"""The PyTorch model of a translator, by which analysis reads what its engine computes, or translates with another."""

from __future__ import annotations

import copy

from headwise.decoding.engine import PyTorchEngine, pytorch_engine
from headwise.decoding.ensemble import Ensemble
from headwise.engine.native.engine import NativeEngine
from headwise.engine.translator import Translator
from headwise.models.base import Seq2Seq


def pytorch_model(translator: Translator) -> Seq2Seq:
    """Return the PyTorch model of a translator, which is loaded if another engine translates.

    The parameters are shared with the PyTorch engine's; the native engine has its own.
    """
    return pytorch_engine(translator.engine).model


def is_ensemble(translator: Translator) -> bool:
    """Whether a translator has several models; loads none."""
    engine = translator.engine
    if isinstance(engine, NativeEngine):
        return len(engine.models) > 1
    return isinstance(pytorch_model(translator), Ensemble)


def with_model(translator: Translator, model: Seq2Seq) -> Translator:
    """Return a translator that is the same except that it translates with another PyTorch model."""
    other = copy.copy(translator)
    other.engine = PyTorchEngine(model)
    return other
