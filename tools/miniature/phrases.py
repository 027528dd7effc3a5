"""Sampling of noun phrases that make sense, and of pronouns with one possible antecedent only."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from tools.miniature.lexicon import lexicon as lx
from tools.miniature.lexicon.entries import Adjective, Noun
from tools.miniature.syntax import Phrase

_T = TypeVar("_T")
MAN, WOMAN = lx.NOUNS["man"], lx.NOUNS["woman"]
ADJECTIVES_OF = {
    noun: tuple(adjective for adjective in lx.ADJECTIVES if noun in adjective.nouns) for noun in lx.NOUNS.values()
}
COLORS = frozenset(["red", "blue", "green", "yellow", "black", "white", "brown"])
QUANTIFIED = frozenset(["no", "every", "all", "many", "some", *lx.NUMBERS])
_SHORE = lx.NOUNS["shore"]  # which is mostly that of something
_ALWAYS_ONE = frozenset([lx.NOUNS["mother"], lx.NOUNS["father"]])
_INDEFINITE = {"subject": 0.3, "object": 0.5, "recipient": 0.3, "place": 0.25}
_PLURALS = ("the", "the", "the", "number", "number", "many", "some", "all")
_NUMBERS = tuple(lx.NUMBERS)


class Retry(Exception):
    """The sample is a dead end (nothing fits, or the sentence would be ambiguous): sample a new sentence."""


class Phrases:
    """Sampler of noun phrases; `mentions` holds the phrases of the current sentence so far."""

    def __init__(self, rng: Random) -> None:
        self.random = rng.random
        self.mentions: list[Phrase] = []

    def pick(self, options: Sequence[_T]) -> _T:
        """Return one of the options, drawn uniformly."""
        return options[int(self.random() * len(options))]

    def chance(self, probability: float) -> bool:
        """Return True with the given probability."""
        return self.random() < probability

    # ---------------------------------------------------------------------------------------------- mentions

    def fresh(self, nouns: Sequence[Noun]) -> Noun:
        """Return a noun that the sentence hasn't mentioned; raises `Retry` after four attempts."""
        for _ in range(4):
            noun = self.pick(nouns)
            if all(noun is not phrase.noun for phrase in self.mentions):
                return noun
        raise Retry

    def is_unambiguous(self, english: str) -> bool:
        """Whether an English pronoun has exactly one possible antecedent in the sentence so far."""
        origins = {phrase.origin for phrase in self.mentions if phrase.english_pronoun == english}
        return len(origins) == 1

    def resolved(self, phrase: Phrase, adjective: Adjective) -> bool:
        """Whether a pronoun with this predicate refers to `phrase` only: `adjective` fits no other possible antecedent.

        "The dog did not eat the apple because it was sweet" is clear where "because it was small" is not.
        """
        return not any(
            other.origin is not phrase.origin
            and other.english_pronoun == phrase.english_pronoun
            and (other.plural or other.partner is not None or other.noun in adjective.nouns)
            for other in self.mentions
        )

    def own_is_unambiguous(self, subject: Phrase | None) -> bool:
        """Whether his, her, its or their can refer to the subject only."""
        if subject is None or subject.person < 3 or subject.kind == "question" or subject.determiner == "which":
            return False
        if not subject.noun.human and subject.noun.group != "animal" and subject.noun not in lx.FIRMS:
            return False
        return self.is_unambiguous(subject.english_pronoun)

    # ----------------------------------------------------------------------------------------- noun phrases

    def phrase(
        self,
        noun: Noun,
        role: str,
        *,
        subject: Phrase | None = None,
        definite: bool = False,
        plain: bool = False,
        single: bool = False,
    ) -> Phrase:
        """Return a noun phrase for a noun in a role: subject, object, recipient or place.

        `subject` is the subject of its clause, the antecedent of his, her, its and their; `definite` rules out
        indefinite determiners (as with a negation), `plain` adjectives, and `single` the plural.
        """
        phrase = Phrase(noun)
        if not noun.proper:
            if not noun.mass and role != "place" and not single and self.chance(0.24):
                phrase.plural = noun not in lx.KIN or (noun not in _ALWAYS_ONE and self.chance(0.3))
            if noun in lx.WHOLES and not phrase.plural and self.chance(0.7 if noun is _SHORE else 0.25):
                phrase.owner = Phrase(self.fresh(lx.WHOLES[noun]))
                self.mentions.append(phrase.owner)
            else:
                self.determine(phrase, role, subject, definite)
            if not plain:
                self.describe(phrase)
        self.mentions.append(phrase)
        return phrase

    def determine(self, phrase: Phrase, role: str, subject: Phrase | None, definite: bool) -> None:
        """Choose the determiner of a common noun."""
        noun, draw = phrase.noun, self.random()
        if noun in lx.KIN or draw < (0.0 if noun in lx.UNOWNED else 0.17):
            if noun not in lx.KIN or draw < 0.9:
                self.possess(phrase, subject)
        elif noun.group in ("event", "weather", "light"):
            pass
        elif draw > (0.9 if phrase.plural else 0.93):
            phrase.determiner = "this"
        elif definite:
            pass
        elif noun.mass:
            phrase.determiner = "bare" if role == "object" and draw < 0.6 else "the"
        elif phrase.plural:
            phrase.determiner = self.pick(_PLURALS if role == "subject" else (*_PLURALS, "bare", "bare"))
            if phrase.determiner == "number":
                phrase.determiner = self.pick(_NUMBERS)
        elif role == "subject" and draw > 0.88:
            phrase.determiner = self.pick(("every", "no"))
        elif draw < (_INDEFINITE[role] if noun in lx.UNOWNED else 0.17 + _INDEFINITE[role]):
            phrase.determiner = "a"

    def possess(self, phrase: Phrase, subject: Phrase | None) -> None:
        """Add a possessor: my, your, our, the subject's own, a name or another noun phrase."""
        draw = self.random()
        if draw < 0.45 and self.own_is_unambiguous(subject):
            phrase.determiner, phrase.antecedent = "own", subject
        elif draw > 0.72 and (not phrase.noun.human or phrase.noun in lx.KIN):
            named = self.chance(0.6)
            people = lx.GROUPS["name"] if named else lx.GROUPS["he"] + lx.GROUPS["she"]
            owner = self.fresh(people)
            phrase.owner = Phrase(owner, not named and owner not in _ALWAYS_ONE and self.chance(0.15))
            self.mentions.append(phrase.owner)
        else:
            phrase.determiner = self.pick(("my", "my", "your", "our"))

    def describe(self, phrase: Phrase) -> None:
        """Add an adjective or, rarely, two (the second a color)."""
        options = ADJECTIVES_OF[phrase.noun]
        if not options or not self.chance(0.3 if phrase.owner is None else 0.1):
            return
        first = self.pick(options)
        phrase.adjectives = (first,)
        if first.english not in COLORS and self.chance(0.12):
            colors = [adjective for adjective in options if adjective.english in COLORS]
            if colors:
                phrase.adjectives = (first, self.pick(colors))

    def new_pronoun(self) -> Phrase:
        """Return a pronoun without antecedent: I, you, we; or he, she, they where that isn't ambiguous."""
        if self.chance(0.5):
            person, plural = self.pick(((1, False), (1, False), (2, False), (1, True)))
            phrase = Phrase(MAN, plural, kind="personal", person=person)
        else:
            noun, plural = self.pick(((MAN, False), (WOMAN, False), (MAN, True)))
            if any(other.english_pronoun in ("they" if plural else noun.pronoun) for other in self.mentions):
                raise Retry
            phrase = Phrase(noun, plural, kind="personal")
        self.mentions.append(phrase)
        return phrase

    def object_pronoun(self, subject: Phrase) -> Phrase:
        """Return a pronoun for an object: me, you, us, him, her or them, but not the person of the subject."""
        phrase = self.new_pronoun()
        if phrase.person == subject.person < 3 or (phrase.person < 3 and subject.kind == "question"):
            raise Retry
        return phrase

    def pronoun_for(self, phrase: Phrase) -> Phrase:
        """Return a pronoun that refers to a phrase; I, you and we remain themselves."""
        antecedent = None if phrase.person < 3 else phrase
        plural = phrase.plural or phrase.partner is not None
        return Phrase(phrase.noun, plural, kind="personal", person=phrase.person, antecedent=antecedent)

    def subject(self, nouns: Sequence[Noun], *, definite: bool = False) -> Phrase:
        """Return a subject: a noun phrase, sometimes two joined by *and*, or a pronoun."""
        if MAN in nouns and WOMAN in nouns and self.chance(0.2):
            return self.new_pronoun()
        phrase = self.phrase(self.fresh(nouns), "subject", definite=definite)
        simple = phrase.owner is None and phrase.determiner not in QUANTIFIED and not phrase.plural
        if simple and phrase.noun.human and self.chance(0.08):
            partner = self.phrase(self.fresh(lx.GROUPS["person"]), "subject", definite=True, plain=True)
            if partner.owner is not None or partner.plural:
                raise Retry
            phrase.partner = partner
        return phrase
