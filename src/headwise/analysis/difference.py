"""The effect of interventions: changed words, and the original translation's log-probability under them."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from headwise.analysis.trace import Trace
from headwise.analysis.tracer import Tracer
from headwise.analysis.translation_tracer import TranslationTracer
from headwise.text.tokens.subwords import EOS


@dataclass(frozen=True)
class WordChange:
    """A span of words; `kind` is `same`, `removed` (before only), `added` (after only) or `replaced` (both)."""

    kind: str
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True)
class Difference:
    """The difference between two traces of one text.

    Attributes:
        words: the word-level diff of the best translations, all words included.
        changed: whether the best translations differ.
        before: log-probability of the first translation under the first interventions.
        before_now: log-probability of the first translation under the second interventions, by forced decoding.
        after: log-probability of the second translation under the second interventions.
    """

    words: tuple[WordChange, ...]
    changed: bool
    before: float
    before_now: float
    after: float

    @property
    def delta(self) -> float:
        """Change in the first translation's log-probability; 0 if it doesn't depend on the interventions."""
        return self.before_now - self.before


def difference(tracer: Tracer, before: Trace, after: Trace) -> Difference:
    """Compare two traces of the same text under different interventions; each has at least one hypothesis."""
    best_before, best_after = before.hypotheses[0], after.hypotheses[0]
    ids = (*best_before.ids, EOS) if isinstance(tracer, TranslationTracer) else best_before.ids
    now = tracer.force(before.source, ids, after.interventions, alternatives=1)
    return Difference(
        words=word_changes(best_before.text, best_after.text),
        changed=best_before.ids != best_after.ids,
        before=best_before.log_probability,
        before_now=now.log_probability,
        after=best_after.log_probability,
    )


def word_changes(before: str, after: str) -> tuple[WordChange, ...]:
    """Return the word-level diff of two texts."""
    old_words, new_words = before.split(), after.split()
    matcher = difflib.SequenceMatcher(None, old_words, new_words, autojunk=False)
    return tuple(
        WordChange(_KINDS[tag], tuple(old_words[a:b]), tuple(new_words[c:d]))
        for tag, a, b, c, d in matcher.get_opcodes()
    )


_KINDS = {"equal": "same", "delete": "removed", "insert": "added", "replace": "replaced"}
