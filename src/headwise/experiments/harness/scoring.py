"""Scoring of a trained run: both kinds of BLEU, perplexity, calibration, decoding speed, and its training curve."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from headwise.decoding.batching import batches, padded
from headwise.decoding.translator_model import pytorch_model
from headwise.engine.base import BATCH_TOKENS
from headwise.engine.symbols import SYMBOLS
from headwise.engine.translator import Translator
from headwise.errors import CheckpointError
from headwise.evaluation.calibration import calibration
from headwise.evaluation.translation import count_words, perplexity
from headwise.experiments.harness.test_sets import TestSet
from headwise.metrics import read_metrics
from headwise.models.base import Seq2Seq
from headwise.text.tokens.subwords import BOS, EOS, PAD, Subwords
from headwise.weights import read_recipe

_BINS = 10  # confidence bins for calibration


def curve(run: Path, target_tokens: int) -> list[dict[str, float]]:
    """Return the validations of a run, each with the minutes of training before it, without time for validation.

    Minutes are computed from the logged speeds; after the last logged speed, that speed is assumed to the end of the
    run. Every step is assumed to have the mean number of tokens.
    """
    records = read_metrics(run / "metrics.jsonl")
    tokens = target_tokens / max((r["step"] for r in records), default=1)  # per step
    seconds, before, speed, points = 0.0, 0, 0.0, []
    for record in records:
        if record["kind"] == "train":
            speed = record["target_tokens_per_second"]
            seconds += tokens * (record["step"] - before) / speed
            before = record["step"]
        elif record["kind"] == "dev":
            scores = {key: record[key] for key in ("loss", "bleu") if key in record}
            seconds_since = tokens * (record["step"] - before) / speed if speed else record["seconds"]
            points.append({"step": record["step"], "minutes": (seconds + seconds_since) / 60, **scores})
    return points


def spent_until(points: Sequence[dict[str, float]], bleu: float, of: str) -> float | None:
    """Return the steps or minutes (`of`) until development BLEU first reaches `bleu`, interpolated linearly.

    None if no validation of the curve `points` reaches it.
    """
    previous = {of: 0.0, "bleu": 0.0}
    for point in points:
        if "bleu" not in point:
            continue
        if point["bleu"] >= bleu:
            rise = point["bleu"] - previous["bleu"]
            share = (bleu - previous["bleu"]) / rise if rise > 0 else 1.0
            return previous[of] + share * (point[of] - previous[of])
        previous = point
    return None


def score_run(run: Path, test: TestSet, *, threads: int = 0, device: str = "auto") -> dict[str, Any]:
    """Score a run on a test set (see `TestSet.scores`), with its calibration and decoding speed.

    Raises the errors of reading and translating.
    """
    if threads:
        torch.set_num_threads(threads)
    translator = Translator.load(run, device=device)
    sources, references = test.pairs()
    began = time.perf_counter()
    translations = translator.translate(sources)
    seconds = time.perf_counter() - began
    scored = translator.score(sources, references)
    total = sum(output.log_probability for output in scored)
    subwords = sum(len(output.pieces) for output in scored)
    tokens = sum(len(translation.outputs[0].pieces) for translation in translations)
    return {
        "test": {
            "sentences": len(sources),
            **test.scores([translation.text for translation in translations]),
            "perplexity": perplexity(total, subwords, count_words(references)).to_json(),
        },
        "calibration": measure_calibration(translator, sources, references),
        "decoding": {
            "sentences_per_second": len(sources) / seconds,
            "target_tokens_per_second": tokens / seconds,
            "beam": translator.options.beam,
            "threads": torch.get_num_threads(),
        },
        "checksums": read_recipe(run / "model.safetensors"),
    }


@torch.inference_mode()
def measure_calibration(translator: Translator, sources: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """Return the teacher-forced calibration on the references: accuracy of the likeliest subword by its probability."""
    model, subwords = pytorch_model(translator), translator.subwords
    pairs = _encoded(subwords, sources, references, model.max_length)
    confidences, is_correct = [], []
    for indices in batches([max(len(s), len(t)) for s, t in pairs], BATCH_TOKENS):
        confidence, correct = _predictions(model, [pairs[index] for index in indices])
        confidences += confidence.tolist()
        is_correct += correct.tolist()
    measured = calibration(confidences, is_correct, _BINS)
    return {
        "error": measured.error,
        "counts": [bin_.n for bin_ in measured.bins],
        "confidence": [bin_.confidence for bin_ in measured.bins],
        "accuracy": [bin_.accuracy for bin_ in measured.bins],
    }


def _encoded(
    subwords: Subwords, sources: Sequence[str], references: Sequence[str], longest: int
) -> list[tuple[list[int], list[int]]]:
    pairs = [
        ([*subwords.encode_source(source), EOS], [*subwords.encode_target(reference), EOS])
        for source, reference in zip(sources, references, strict=True)
    ]
    short_enough = [(s, t) for s, t in pairs if max(len(s), len(t)) <= longest]
    if not short_enough:
        raise CheckpointError(f"calibration: expected a sentence of at most {longest} subwords, found none")
    return short_enough


def _predictions(model: Seq2Seq, pairs: Sequence[tuple[list[int], list[int]]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return, for every target token, the highest probability and whether its subword is the gold one."""
    device = next(model.parameters()).device
    source, mask = padded([source for source, _ in pairs], SYMBOLS.pad, device)
    inputs, real = padded([[BOS, *target[:-1]] for _, target in pairs], PAD, device)
    outputs, _ = padded([target for _, target in pairs], PAD, device)
    hidden = model(source, mask, inputs)[real]  # (target tokens, d_model)
    confidence, predicted = model.project(hidden).float().softmax(dim=-1).max(dim=-1)
    return confidence.cpu(), (predicted == outputs[real]).cpu()
