"""What a trained run is worth: both kinds of BLEU, perplexity, calibration, speed of decoding, and its curve."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from headwise.decoding.batching import batches, padded
from headwise.decoding.translator import SYMBOLS, Translator
from headwise.errors import CheckpointError
from headwise.evaluation.translation import count_words, perplexity
from headwise.experiments.test_sets import TestSet
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
        "calibration": calibration(translator, sources, references).to_json(),
        "decoding": {
            "sentences_per_second": len(sources) / seconds,
            "target_tokens_per_second": tokens / seconds,
            "beam": translator.options.beam,
            "threads": torch.get_num_threads(),
        },
        "checksums": read_recipe(run / "model.safetensors"),
    }


@dataclass(frozen=True)
class Calibration:
    """How often the likeliest next subword is right, against how likely the model takes it to be.

    `confidence` and `accuracy` are means over the tokens of each bin; `error` is the expected calibration error
    (Guo et al. 2017, equation 3): Σ count / all · |accuracy - confidence|.
    """

    counts: list[int]
    confidence: list[float]
    accuracy: list[float]

    @property
    def error(self) -> float:
        """Expected calibration error, from 0 to 1."""
        rows = zip(self.counts, self.confidence, self.accuracy, strict=True)
        return sum(n * abs(a - c) for n, c, a in rows) / sum(self.counts)

    def to_json(self) -> dict[str, Any]:
        """Return the bins and the error."""
        return {
            "error": self.error,
            "counts": self.counts,
            "confidence": self.confidence,
            "accuracy": self.accuracy,
        }


@torch.inference_mode()
def calibration(translator: Translator, sources: Sequence[str], references: Sequence[str]) -> Calibration:
    """Measure the calibration of next-subword predictions over the references."""
    model, subwords = translator.model, translator.subwords
    pairs = _encoded(subwords, sources, references, model.max_length)
    counts, confidence, right = (torch.zeros(_BINS, dtype=torch.float64) for _ in range(3))
    for rows in batches([max(len(s), len(t)) for s, t in pairs], 4096):
        sure, correct = _predictions(model, [pairs[row] for row in rows])
        place = (sure * _BINS).long().clamp(max=_BINS - 1)
        counts += torch.bincount(place, minlength=_BINS)
        confidence += torch.bincount(place, sure.double(), minlength=_BINS)
        right += torch.bincount(place, correct.double(), minlength=_BINS)
    among = counts.clamp(min=1)
    return Calibration(
        [int(count) for count in counts], (confidence / among).tolist(), (right / among).tolist()
    )


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
