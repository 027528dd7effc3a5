"""How well a model's token probabilities are calibrated, when it is told the reference and when it runs free."""

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
    """Ask for the next token after each prefix of the references: is the likeliest right as often as it is likely?"""
    model = translator.model
    confidences: list[float] = []
    right: list[bool] = []
    pairs = Pairs.encode(translator, sources, references)
    for source, mask, inputs, outputs, real in pairs.batches(next(model.parameters()).device):
        hidden = model(source, mask, inputs)[real]  # (target tokens, d_model)
        for part, wanted in zip(hidden.split(2048), outputs[real].split(2048), strict=True):
            best = model.project(part).float().softmax(-1).max(-1)
            confidences += best.values.tolist()
            right += (best.indices == wanted).tolist()
    return calibration([min(p, 1.0) for p in confidences], right, bins)


def free_running(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    bins: int = 10,
    *,
    beam: int | None = None,
) -> Calibration:
    """Translate: is a token of the output in the reference as often as it is likely?"""
    options = translator.options if beam is None else translator.options_with(beam=beam)
    subwords = translator.subwords
    confidences: list[float] = []
    right: list[bool] = []
    for translation, reference in zip(translator.translate(sources, options), references, strict=True):
        best = translation.outputs[0]
        if not best.token_log_probabilities:
            continue
        confidences += [min(math.exp(gain), 1.0) for gain in best.token_log_probabilities]
        right += kept_tokens([*best.tokens, EOS], [*subwords.encode_target(reference), EOS])
    return calibration(confidences, right, bins)
