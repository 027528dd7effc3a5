"""A guard for words that a model hardly knows or loses: a dictionary's translations are placed in a second search.

A small model spells a word anew that its text has seldom: the general model made "Hebel" of "hedgehog". In long
sentences it loses days and months. See `headwise.text.reading.dictionary`.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from headwise.documents.pieces import without_addresses
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.quality import mean_probability
from headwise.engine.terms import Terms, sentence_terms
from headwise.text.reading.dictionary import WORD, Dictionary
from headwise.text.reading.glossary import Match
from headwise.text.tokens.subwords import UNK, Subwords

_AS_LIKELY = 0.7  # times the mean probability of a subword, at least, besides the words that are placed
_A_WORD = 0.3  # log-probability that an output's words cost each, as what the model makes of a word may stand beside it
_COMPOUNDED, _BESIDE = 4, 3  # letters of a word in a compound, and besides it, at least
_LONGER, _FURTHER_WORDS = 1.2, 2  # times the words, and words, that an output has with them at most


@dataclass(frozen=True, eq=False)
class DictionaryWords:
    """The words of a source that are in a dictionary.

    Attributes:
        matches: the words.
        subwords: those of the model.
        room: the most tokens of what is placed.
        alone: whether the source is one word and nothing else.
    """

    matches: tuple[Match, ...]
    subwords: Subwords
    room: int
    alone: bool

    @classmethod
    def of(cls, text: str, dictionary: Dictionary | None, subwords: Subwords, room: int) -> DictionaryWords | None:
        """Return those of a source text, None without any."""
        found = () if dictionary is None else tuple(dictionary.find(without_addresses(text)))
        return cls(found, subwords, room, alone=WORD.fullmatch(text.strip()) is not None) if found else None

    def lacking(self, tokens: Sequence[int]) -> list[Match]:
        """Return the words of which an output has no translation of the dictionary, or not as often.

        A compound that begins or ends with one has it: Olivenöl has Olive.
        """
        text = self.subwords.decode_target(tokens)
        missing = ((match, match.missing(text, lowercase=self.subwords.lowercases)) for match in self.matches)
        lacking = [dataclasses.replace(match, count=count) for match, count in missing if count]
        return [match for match in lacking if not _in_compound(match.entry.targets, text)]

    def terms(self, lacking: Sequence[Match]) -> Terms | None:
        """Return what an output must contain; None where the vocabulary can't write it."""
        return sentence_terms(lacking, self.subwords, self.room)

    def whole(self) -> list[int] | None:
        """Return the first translation of a word that is alone, as the ids of an output; None for other sources."""
        if not self.alone:
            return None
        ids = self.subwords.encode_target(self.matches[0].entry.targets[0])
        return ids if UNK not in ids and len(ids) <= self.room else None

    def best(self, first: Hypothesis, second: Sequence[Hypothesis], placed: Terms) -> Hypothesis | None:
        """Return the one of the second outputs in which the words fit best; None if they fit in none.

        That is the one of which everything but the words is likeliest, and not the likeliest as a whole, which may have
        what the model itself makes of a word beside it ("wasp": "Wasp Wespe").
        """

        def fitness(each: Hypothesis) -> float:
            return sum(_besides(each, placed, ends=True)) - _A_WORD * self._words(each)

        return max((each for each in second if self._fit(first, each, placed)), key=fitness, default=None)

    def _fit(self, first: Hypothesis, second: Hypothesis, placed: Terms) -> bool:
        """Whether the words fit into a second output in which they are placed.

        It has them all and is hardly longer, and what it has besides is hardly less likely: where a word doesn't fit,
        as another part of speech, the search places it somewhere, often behind the sentence. It keeps the first one's
        digits, of which the search may drop one: "to 2nd" must not become "to January".
        """
        return (
            not self.lacking(second.tokens)
            and not self._digits(first) - self._digits(second)
            and self._words(second) <= _LONGER * self._words(first) + _FURTHER_WORDS
            and _probability(_besides(second, placed)) >= _AS_LIKELY * _probability(first.token_log_probabilities)
        )

    def _digits(self, hypothesis: Hypothesis) -> Counter[str]:
        return Counter(filter(str.isdigit, self.subwords.decode_target(hypothesis.tokens)))

    def _words(self, hypothesis: Hypothesis) -> int:
        return len(self.subwords.decode_target(hypothesis.tokens).split())


def _in_compound(forms: Sequence[str], text: str) -> bool:
    """Whether a word of a text begins or ends with one of the forms, and has a word more, not just another ending."""
    parts = [form.lower() for form in forms if len(form) >= _COMPOUNDED]
    words = WORD.findall(text.lower())
    return any(
        len(word) - len(part) >= _BESIDE and (word.startswith(part) or word.endswith(part))
        for word, part in itertools.product(words, parts)
    )


def _besides(hypothesis: Hypothesis, placed: Terms, *, ends: bool = False) -> list[float]:
    """Return the log-probabilities of a hypothesis's tokens, and of its end, without those of the placed words.

    With `ends`, the end of a word is there, in which its forms differ: which of them fits is the model's choice.
    """
    words = set[int]()
    for term in placed.terms:
        for form in term.forms:
            length = _in_common(form, term.forms) if ends else len(form)
            for start in range(len(hypothesis.tokens) - len(form) + 1):
                if hypothesis.tokens[start : start + len(form)] == form:
                    words |= {*range(start, start + length)}
    return [each for place, each in enumerate(hypothesis.token_log_probabilities) if place not in words]


def _in_common(form: Sequence[int], forms: Sequence[Sequence[int]]) -> int:
    """Return with how many tokens a form and all forms of the same first token begin alike."""
    columns = zip(*(other for other in forms if other[0] == form[0]), strict=False)
    return sum(1 for _ in itertools.takewhile(lambda column: len({*column}) == 1, columns))


def _probability(log_probabilities: Sequence[float]) -> float:
    return mean_probability(sum(log_probabilities), len(log_probabilities))
