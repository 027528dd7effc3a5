"""What holds over many sentences, measured once in the background while the page is in use already."""

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
from headwise.analysis.attribution import attribute
from headwise.analysis.confidence import free_running, teacher_forced
from headwise.analysis.heads.measuring import PartReport, measure_heads
from headwise.analysis.heads.roles import HeadRoles, Rate, RelationRate
from headwise.analysis.interventions import attention_parts, private_copy
from headwise.analysis.tracer import Tracer
from headwise.decoding.translator import Translator
from headwise.errors import HeadwiseError
from headwise.serve.evaluation_pairs import EvaluationPairs

_log = logging.getLogger(__name__)
_TOLD = 200  # sentences for the calibration when the reference is told
_TRANSLATED = 100  # and of the model's own output
_ATTRIBUTED = 25  # for attribution: each needs the model once for every source word
_PLACES = {-1: "previous token", 0: "same position", 1: "next token"}
_POLITE = 0.2  # seconds between looks whether somebody uses the model

Status = Literal["not measured", "measuring", "measured", "failed"]


@dataclass
class Evidence:
    """Measures one run in a thread of its own; `told` gives what there is so far."""

    corpus: EvaluationPairs | None
    load: Callable[[], Translator]
    idle: Callable[[], bool] = lambda: True
    status: Status = "not measured"
    about: str = (
        "It needs sentence pairs, and the run’s development data isn’t there any more: "
        "give some with --source and --target."
    )
    found: dict[str, Any] = field(default_factory=dict)
    _starting: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        """Begin to measure, once."""
        with self._starting:
            if self.corpus is None or self.status != "not measured":
                return
            self.status = "measuring"
            self.about = f"{len(self.corpus.sources)} sentences of {self.corpus.name}."
        threading.Thread(target=self._measure, name="evidence", daemon=True).start()

    def told(self) -> dict[str, Any]:
        """Say in plain values what was measured."""
        return {
            "status": self.status,
            "about": self.about,
            "sentences": 0 if self.corpus is None else len(self.corpus.sources),
            "heads": {},
            "alignment": None,
            "attribution": [],
            "calibration": [],
            **self.found,
        }

    def _measure(self) -> None:
        assert self.corpus is not None
        try:
            shared = self.load()
            # A copy of the modules: recording must not meet anybody else's request.
            translator = Translator(private_copy(shared.model), shared.subwords)
            translator.options = shared.options
            whole, self.corpus = self.corpus, self.corpus.within(translator)
            self.about = f"{len(self.corpus.sources)} sentences of {self.corpus.name}."
            if left_out := len(whole.sources) - len(self.corpus.sources):
                self.about += f" {left_out} more are longer than the model reads."
            for measure in (_heads, _alignment, _calibration, _attribution):
                while not self.idle():
                    time.sleep(_POLITE)
                self.found |= measure(translator, self.corpus)
        except HeadwiseError as error:
            self.status, self.about = "failed", f"{error}."
            return
        except Exception:  # a bug of ours, which must not look as if it were still running
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
                "position": _role(_place(head.offset), f"{head.offset:+d}", head.position),
                "rare": _role("rarest token", "rare", head.rare),
                "entropy": head.entropy.rate,
                "confidence": head.confidence.rate,
            }
        )
    return layers


def _roles(head: HeadRoles) -> list[dict[str, Any]]:
    """Name the roles whose thresholds the head passes, each with its numbers."""
    found = {
        "position": _role(_place(head.offset), f"{head.offset:+d}".replace("-", "−"), head.position),
        "rare": _role("rarest token", "rare", head.rare),
        "coreference": None
        if head.coreference is None
        else _role("pronoun → its noun", "coref", head.coreference.found),
        "relation": _relation(head.relation, head.relation.relation if head.relation else ""),
    }
    named = ("position", "rare", "coreference")
    kinds = [next((kind for kind in named if role.startswith(kind)), "relation") for role in head.roles]
    return [role for kind in kinds if (role := found[kind]) is not None]


def _relation(relation: RelationRate | None, short: str) -> dict[str, Any] | None:
    return None if relation is None else _role(relation.name, short, relation.found)


def _role(name: str, short: str, rate: Rate) -> dict[str, Any]:
    """Put a rate beside the highest of its baselines."""
    against, baseline = max(rate.baselines.items(), key=lambda item: item[1])
    return {
        "name": name,
        "short": short,
        "rate": rate.rate,
        "against": {"offset": "best fixed offset"}.get(against, against),
        "baseline": baseline,
        "samples": rate.n,
    }


def _place(offset: int) -> str:
    return _PLACES.get(offset, f"position {offset:+d}".replace("-", "−"))


def _alignment(translator: Translator, corpus: EvaluationPairs) -> dict[str, Any]:
    """Choose the rule on every other sentence and measure it on the rest."""
    if corpus.gold is None or len(corpus.gold) < 2 or not attention_parts(translator.model)["cross"]:
        return {}
    sources, targets = ([one.sentence for one in side] for side in (corpus.sources, corpus.targets))
    attentions = cross_attention(translator, sources, targets)
    rule = best_rule(attentions[::2], corpus.gold[::2])
    rate = error_rate(attentions[1::2], corpus.gold[1::2], rule)
    return {"alignment": {"rule": str(rule), "error": rate, "sentences": len(attentions[1::2])}}


def _calibration(translator: Translator, corpus: EvaluationPairs) -> dict[str, Any]:
    """Tell how often the model is right when it is so sure: about the references, and about what it writes itself."""
    told = teacher_forced(translator, *corpus.texts(_TOLD))
    free = free_running(translator, *corpus.texts(_TRANSLATED))
    named = {"told the reference": told, "in its own words": free}
    return {
        "calibration": [
            {
                "name": name,
                "error": found.error,
                "tokens": found.n,
                "bins": [
                    {"confidence": one.confidence, "accuracy": one.accuracy, "count": one.n}
                    for one in found.bins
                    if one.n
                ],
            }
            for name, found in named.items()
        ]
    }


def _attribution(translator: Translator, corpus: EvaluationPairs) -> dict[str, Any]:
    """Tell how far attention, averaged over all layers and heads, ranks source words as two measures of use do."""
    tracer = Tracer(translator)
    sums: dict[str, list[tuple[float, int]]] = {"gradient": [], "deletion": []}
    for source, target in zip(*corpus.texts(_ATTRIBUTED), strict=True):
        if not source.split() or not target.split():
            continue
        correlations = attribute(tracer, source, target).correlations()
        for name, found in sums.items():
            rho, words = correlations.get(f"attention, {name}", (math.nan, 0))
            if words:
                found.append((rho, words))
    names = {"gradient": "gradient × input", "deletion": "deleting the word"}
    return {
        "attribution": [
            {
                "name": names[name],
                "correlation": sum(rho * words for rho, words in found) / sum(words for _, words in found),
                "samples": sum(words for _, words in found),
            }
            for name, found in sums.items()
            if found
        ]
    }
