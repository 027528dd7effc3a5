"""What an intervention changed: the words, and what the translation from before costs now."""

from __future__ import annotations

import difflib
from dataclasses import asdict, dataclass
from typing import Any

from headwise.analysis.trace import Trace
from headwise.analysis.tracer import Tracer
from headwise.text.tokens.subwords import EOS


@dataclass(frozen=True)
class WordChange:
    """A stretch of words: `same`, `removed` (before only), `added` (after only) or `replaced` (both)."""

    kind: str
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True)
class Difference:
    """Two traces of one text compared.

    Attributes:
        words: all words of both best translations, in order.
        changed: whether the best translations differ.
        before: log-probability of the earlier translation under the earlier interventions.
        before_now: of the same translation under the later ones, by forced decoding.
        after: of the later translation under the later interventions.
        tokens_now: log-probabilities of the earlier translation's tokens under the later interventions.
    """

    words: tuple[WordChange, ...]
    changed: bool
    before: float
    before_now: float
    after: float
    tokens_now: tuple[float, ...]

    @property
    def delta(self) -> float:
        """What the earlier translation's log-probability changed by; 0 where nothing depends on the change."""
        return self.before_now - self.before

    def to_json(self) -> dict[str, Any]:
        """Return plain values, `delta` included."""
        return {**asdict(self), "delta": self.delta}


def difference(tracer: Tracer, before: Trace, after: Trace) -> Difference:
    """Compare a trace with one of the same text under other interventions; both have at least one hypothesis."""
    first, now = before.hypotheses[0], after.hypotheses[0]
    forced = tracer.force(before.source.text, (*first.ids, EOS), after.interventions, alternatives=1)
    return Difference(
        words=word_changes(first.text, now.text),
        changed=first.ids != now.ids,
        before=first.log_probability,
        before_now=forced.log_probability,
        after=now.log_probability,
        tokens_now=forced.log_probabilities,
    )


def word_changes(before: str, after: str) -> tuple[WordChange, ...]:
    """Compare two texts word by word."""
    old, new = before.split(), after.split()
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return tuple(
        WordChange(_KINDS[tag], tuple(old[a:b]), tuple(new[c:d])) for tag, a, b, c, d in matcher.get_opcodes()
    )


_KINDS = {"equal": "same", "delete": "removed", "insert": "added", "replace": "replaced"}
