"""What a trained run is worth: both kinds of BLEU, perplexity, calibration, speed of decoding, and its curve."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from headwise.decoding.batching import BATCH_TOKENS, batches, padded
from headwise.decoding.translator import SYMBOLS, Translator
from headwise.errors import CheckpointError
from headwise.evaluation.calibration import calibration
from headwise.evaluation.translation import count_words, perplexity
from headwise.experiments.harness.test_sets import TestSet
from headwise.models.base import Seq2Seq
from headwise.models.weights import read_recipe
from headwise.text.tokens.subwords import BOS, EOS, PAD, Subwords
from headwise.training.monitor import read_metrics

_BINS = 10  # of the confidence, for calibration


def curve(run: Path, target_tokens: int) -> list[dict[str, float]]:
    """Return each validation with the minutes of training before it, validations not counted.

    The minutes are added up from the recorded speeds, the last of which holds on to the end of a run that ends between
    two of them; all steps are taken to have the mean number of tokens.
    """
    records = read_metrics(run / "metrics.jsonl")
    tokens = target_tokens / max((r["step"] for r in records), default=1)  # of a step
    seconds, before, speed, points = 0.0, 0, 0.0, []
    for record in records:
        if record["kind"] == "train":
            speed = record["target_tokens_per_second"]
            seconds += tokens * (record["step"] - before) / speed
            before = record["step"]
        elif record["kind"] == "dev":
            kept = {key: record[key] for key in ("loss", "bleu") if key in record}
            since = tokens * (record["step"] - before) / speed if speed else record["seconds"]
            points.append({"step": record["step"], "minutes": (seconds + since) / 60, **kept})
    return points


def minutes_to(points: Sequence[dict[str, float]], bleu: float) -> float | None:
    """Return the minutes after which development BLEU first reached `bleu`, on straight lines between validations."""
    before = {"minutes": 0.0, "bleu": 0.0}
    for point in points:
        if "bleu" not in point:
            continue
        if point["bleu"] >= bleu:
            rise = point["bleu"] - before["bleu"]
            share = (bleu - before["bleu"]) / rise if rise > 0 else 1.0
            return before["minutes"] + share * (point["minutes"] - before["minutes"])
        before = point
    return None


def score_run(run: Path, test: TestSet, *, threads: int = 0, device: str = "auto") -> dict[str, Any]:
    """Translate and score a test set with a run (see `TestSet.scores`); raises as reading and translating do."""
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
def measure_calibration(
    translator: Translator, sources: Sequence[str], references: Sequence[str]
) -> dict[str, Any]:
    """Measure how often the likeliest next subword over the references is right, against its probability."""
    model, subwords = translator.model, translator.subwords
    pairs = _encoded(subwords, sources, references, model.max_length)
    confidences, right = [], []
    for rows in batches([max(len(s), len(t)) for s, t in pairs], BATCH_TOKENS):
        sure, correct = _predictions(model, [pairs[row] for row in rows])
        confidences += sure.tolist()
        right += correct.tolist()
    found = calibration(confidences, right, _BINS)
    return {
        "error": found.error,
        "counts": [part.n for part in found.bins],
        "confidence": [part.confidence for part in found.bins],
        "accuracy": [part.accuracy for part in found.bins],
    }


def _encoded(
    subwords: Subwords, sources: Sequence[str], references: Sequence[str], longest: int
) -> list[tuple[list[int], list[int]]]:
    pairs = [
        ([*subwords.encode_source(source), EOS], [*subwords.encode_target(reference), EOS])
        for source, reference in zip(sources, references, strict=True)
    ]
    fitting = [(s, t) for s, t in pairs if max(len(s), len(t)) <= longest]
    if not fitting:
        raise CheckpointError(f"calibration: expected a sentence of at most {longest} subwords, found none")
    return fitting


def _predictions(
    model: Seq2Seq, pairs: Sequence[tuple[list[int], list[int]]]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return for every target token the highest probability, and whether its subword was the right one."""
    device = next(model.parameters()).device
    source, mask = padded([source for source, _ in pairs], SYMBOLS.pad, device)
    inputs, real = padded([[BOS, *target[:-1]] for _, target in pairs], PAD, device)
    outputs, _ = padded([target for _, target in pairs], PAD, device)
    hidden = model(source, mask, inputs)[real]  # (target tokens, d_model)
    sure, choice = model.project(hidden).float().softmax(dim=-1).max(dim=-1)
    return sure.cpu(), (choice == outputs[real]).cpu()
