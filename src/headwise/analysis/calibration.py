"""Calibration of a model's token probabilities, teacher-forced and free-running, and reliability diagrams."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from headwise.analysis.heads.importance import Pairs
from headwise.decoding.translator_model import pytorch_model
from headwise.engine.translator import Translator
from headwise.evaluation.calibration import Calibration, calibration, kept_tokens
from headwise.text.tokens.subwords import EOS


@torch.inference_mode()
def teacher_forced(
    translator: Translator, sources: Sequence[str], references: Sequence[str], bins: int = 10
) -> Calibration:
    """Return the calibration of the likeliest next token after each prefix of the references (teacher forcing)."""
    model = pytorch_model(translator)
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


def draw_reliability(diagrams: Mapping[str, Mapping[str, Calibration]], file: Path) -> None:
    """Draw reliability diagrams as PNG, a row per run and a column per setting: accuracy and share of tokens by bin."""
    from matplotlib.figure import Figure

    from headwise.analysis.picture import save

    rows, columns = len(diagrams), max(map(len, diagrams.values()))
    figure = Figure(figsize=(3.6 * columns, 3.7 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for axes_of_run, (run, settings) in zip(axes, diagrams.items(), strict=True):
        for axis, (setting, measured) in zip(axes_of_run, settings.items(), strict=True):
            width = measured.bins[0].high - measured.bins[0].low
            filled = [one for one in measured.bins if one.n]
            middles = [one.low + width / 2 for one in filled]
            shares = [one.n / measured.n for one in filled]
            axis.bar(middles, shares, width=width * 0.95, color="#d5dbe3", label="share of tokens")
            axis.plot([0, 1], [0, 1], color="#9aa3ad", linewidth=1, linestyle="--", label="perfect")
            axis.plot(
                [one.confidence for one in filled],
                [one.accuracy for one in filled],
                color="#1f5fbf",
                marker="o",
                markersize=3.5,
                label="accuracy",
            )
            axis.set_title(f"{run}\n{setting}: ECE {measured.error:.3f}, n {measured.n:,}", fontsize=8)
            axis.set_xlabel("probability", fontsize=8)
            axis.tick_params(labelsize=7)
            axis.set(xlim=(0, 1), ylim=(0, 1))
            axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].legend(fontsize=7, frameon=False, loc="upper left")
    save(figure, file)
