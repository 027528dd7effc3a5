"""Calibration of a model's token probabilities, teacher-forced and free-running."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from headwise.analysis.heads.importance import Pairs
from headwise.decoding.translator import Translator
from headwise.evaluation.calibration import Calibration, calibration, kept_tokens
from headwise.text.tokens.subwords import EOS


@torch.inference_mode()
def teacher_forced(
    translator: Translator, sources: Sequence[str], references: Sequence[str], bins: int = 10
) -> Calibration:
    """Return the calibration of the likeliest next token after each prefix of the references (teacher forcing)."""
    model = translator.model
    confidences: list[float] = []
    correct: list[bool] = []
    pairs = Pairs.encode(translator, sources, references)
    for source, mask, inputs, outputs, real in pairs.batches(next(model.parameters()).device):
        hidden = model(source, mask, inputs)[real]  # (target tokens, d_model)
        for chunk, gold in zip(hidden.split(2048), outputs[real].split(2048), strict=True):
            best = model.project(chunk).float().softmax(-1).max(-1)
            confidences += best.values.tolist()
            correct += (best.indices == gold).tolist()
    return calibration([min(p, 1.0) for p in confidences], correct, bins)


def free_running(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    bins: int = 10,
    *,
    beam: int | None = None,
) -> Calibration:
    """Return the calibration of the tokens of the model's own translations.

    A token is correct if the best edit from the output to the reference keeps it (`kept_tokens`).
    """
    options = translator.options if beam is None else translator.options_with(beam=beam)
    subwords = translator.subwords
    confidences: list[float] = []
    correct: list[bool] = []
    for translation, reference in zip(translator.translate(sources, options), references, strict=True):
        best = translation.outputs[0]
        if not best.token_log_probabilities:
            continue
        confidences += [min(math.exp(log_prob), 1.0) for log_prob in best.token_log_probabilities]
        correct += kept_tokens([*best.tokens, EOS], [*subwords.encode_target(reference), EOS])
    return calibration(confidences, correct, bins)
