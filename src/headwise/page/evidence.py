"""Measurements of a run over many sentences, made once in a background thread while the page is in use."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from headwise.analysis.alignment import best_rule, error_rate
from headwise.analysis.attention import cross_attention
from headwise.analysis.attribution import attributable, attribute
from headwise.analysis.calibration import free_running, teacher_forced
from headwise.analysis.heads.measuring import PartReport, measure_heads
from headwise.analysis.heads.roles import HeadRoles, Rate
from headwise.analysis.interventions import attention_parts
from headwise.analysis.translation_tracer import TranslationTracer
from headwise.decoding.translator_model import pytorch_model, with_model
from headwise.engine.translator import Translator
from headwise.errors import HeadwiseError
from headwise.nn.recording import private_copy
from headwise.page.evaluation_pairs import EvaluationPairs

_log = logging.getLogger(__name__)
_FORCED_SENTENCES = 200  # for calibration under teacher forcing
_FREE_SENTENCES = 100  # for calibration of the model's own output
_ATTRIBUTED_SENTENCES = 25  # for attribution: each needs one forward pass per source word
_OFFSETS = {-1: "previous token", 0: "same position", 1: "next token"}
_IDLE_POLL = 0.2  # seconds between checks whether the request queue is idle

Status = Literal["not measured", "measuring", "measured", "failed"]


@dataclass
class Evidence:
    """Measurement of one run in its own thread; `to_json` returns the results so far.

    Attributes:
        corpus: the sentence pairs to measure on.
        load: loads the run's model.
        idle: whether no request uses the models; each measurement waits for that.
        status: how far the measurement is.
        about: one sentence for the page: the sentences measured on, or the error.
        results: the measurements by their JSON fields.
    """

    corpus: EvaluationPairs | None
    load: Callable[[], Translator]
    idle: Callable[[], bool] = lambda: True
    status: Status = "not measured"
    about: str = (
        "It needs sentence pairs, and the run’s development data isn’t there any more: "
        "give some with --source and --target."
    )
    results: dict[str, Any] = field(default_factory=dict)
    _start_lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        """Start the measuring thread unless it was started before or there is no corpus."""
        with self._start_lock:
            if self.corpus is None or self.status != "not measured":
                return
            self.status = "measuring"
            self.about = f"{len(self.corpus.sources)} sentences of {self.corpus.name}."
        threading.Thread(target=self.measure, name="evidence", daemon=True).start()

    def to_json(self) -> dict[str, Any]:
        """Return the status and the results so far as JSON values."""
        return {
            "status": self.status,
            "about": self.about,
            "sentences": 0 if self.corpus is None else len(self.corpus.sources),
            "heads": {},
            "alignment": None,
            "attribution": [],
            "calibration": [],
            **self.results,
        }

    def measure(self) -> None:
        """Measure in this thread; `status` says how it ended. There must be a corpus."""
        assert self.corpus is not None
        try:
            shared = self.load()
            # A copy of the modules, so that recording doesn't interfere with requests in progress.
            translator = with_model(shared, private_copy(pytorch_model(shared)))
            unfiltered, self.corpus = self.corpus, self.corpus.within(translator)
            self.about = f"{len(self.corpus.sources)} sentences of {self.corpus.name}."
            if left_out := len(unfiltered.sources) - len(self.corpus.sources):
                self.about += f" {left_out} more are longer than the model reads."
            for measure in (_heads, _alignment, _calibration, _attribution):
                while not self.idle():
                    time.sleep(_IDLE_POLL)
                self.results |= measure(translator, self.corpus)
        except HeadwiseError as error:
            self.status, self.about = "failed", f"{error}."
            return
        except Exception:  # a bug must not leave the status at "measuring"
            _log.exception("measuring failed")
            self.status, self.about = "failed", "The server’s log says why."
            return
        self.status = "measured"


def _heads(translator: Translator, corpus: EvaluationPairs) -> dict[str, Any]:
    reports = measure_heads(translator, corpus.sources, corpus.targets)
    return {"heads": {report.part: _layers(report) for report in reports}}


def _layers(report: PartReport) -> list[list[dict[str, Any]]]:
    layers: list[list[dict[str, Any]]] = [[] for _ in range(1 + max(head.layer for head in report.heads))]
    for head in report.heads:
        layers[head.layer].append(
            {
                "roles": _roles(head),
                "position": _role(_offset_name(head.offset), f"{head.offset:+d}", head.position),
                "entropy": head.entropy.rate,
                "confidence": head.confidence.rate,
            }
        )
    return layers


def _roles(head: HeadRoles) -> list[dict[str, Any]]:
    """Return the roles whose thresholds the head passes, each with its rate and baseline."""
    candidates = {
        "position": _role(_offset_name(head.offset), f"{head.offset:+d}".replace("-", "−"), head.position),
        "rare": _role("rarest token", "rare", head.rare),
        "separator": _role("separators", "sep", head.separator, "weight"),
        "semantic": head.similarity and _role("semantic similarity", "sim", head.similarity, "correlation"),
        "coreference": head.coreference and _role("pronoun → its noun", "coref", head.coreference.found),
        "relation": head.relation and _role(head.relation.name, head.relation.relation, head.relation.found),
    }
    named = ("position", "rare", "separator", "semantic", "coreference")
    kinds = [next((kind for kind in named if role.startswith(kind)), "relation") for role in head.roles]
    return [role for kind in kinds if (role := candidates[kind]) is not None]


def _role(name: str, short: str, rate: Rate, unit: str = "share") -> dict[str, Any]:
    """Return a role's rate with the highest of its baselines; the unit is `share`, `weight` or `correlation`."""
    against, baseline = max(rate.baselines.items(), key=lambda item: item[1])
    return {
        "name": name,
        "short": short,
        "rate": rate.rate,
        "unit": unit,
        "against": {"offset": "best fixed offset", "permuted": "permuted embeddings"}.get(against, against),
        "baseline": baseline,
        "samples": rate.n,
    }


def _offset_name(offset: int) -> str:
    return _OFFSETS.get(offset, f"position {offset:+d}".replace("-", "−"))


def _alignment(translator: Translator, corpus: EvaluationPairs) -> dict[str, Any]:
    """Select the alignment rule on every other sentence and measure its error rate on the rest."""
    if corpus.gold is None or len(corpus.gold) < 2 or not attention_parts(pytorch_model(translator))["cross"]:
        return {}
    sources, targets = ([annotated.sentence for annotated in side] for side in (corpus.sources, corpus.targets))
    attentions = cross_attention(translator, sources, targets)
    rule = best_rule(attentions[::2], corpus.gold[::2])
    rate = error_rate(attentions[1::2], corpus.gold[1::2], rule)
    return {"alignment": {"rule": str(rule), "error": rate, "sentences": len(attentions[1::2])}}


def _calibration(translator: Translator, corpus: EvaluationPairs) -> dict[str, Any]:
    """Measure the calibration under teacher forcing and of the model's own output."""
    forced = teacher_forced(translator, *corpus.texts(_FORCED_SENTENCES))
    free = free_running(translator, *corpus.texts(_FREE_SENTENCES))
    calibrations = {"told the reference": forced, "in its own words": free}
    return {
        "calibration": [
            {
                "name": name,
                "error": calibration.error,
                "tokens": calibration.n,
                "bins": [
                    {"confidence": bin_.confidence, "accuracy": bin_.accuracy, "count": bin_.n}
                    for bin_ in calibration.bins
                    if bin_.n
                ],
            }
            for name, calibration in calibrations.items()
        ]
    }


def _attribution(translator: Translator, corpus: EvaluationPairs) -> dict[str, Any]:
    """Correlate attention, averaged over all layers and heads, with two attributions of the source words."""
    tracer = TranslationTracer(translator)
    by_measure: dict[str, list[tuple[float, int]]] = {"gradient": [], "deletion": []}
    for source, target in zip(*corpus.texts(_ATTRIBUTED_SENTENCES), strict=True):
        if not attributable(tracer, source, target):
            continue
        correlations = attribute(tracer, source, target).correlations()
        for name, samples in by_measure.items():
            rho, words = correlations.get(f"attention, {name}", (math.nan, 0))
            if words:
                samples.append((rho, words))
    names = {"gradient": "gradient × input", "deletion": "deleting the word"}
    return {
        "attribution": [
            {
                "name": names[name],
                "correlation": sum(rho * words for rho, words in samples) / sum(words for _, words in samples),
                "samples": sum(words for _, words in samples),
            }
            for name, samples in by_measure.items()
            if samples
        ]
    }
