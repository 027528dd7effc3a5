"""Drawing noun phrases at random, within sense and so that every pronoun can mean one thing only."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from headwise.corpora.miniature.lexicon import lexicon as lx
from headwise.corpora.miniature.lexicon.entries import Adjective, Noun
from headwise.corpora.miniature.syntax import Phrase

_T = TypeVar("_T")
MAN, WOMAN = lx.NOUNS["man"], lx.NOUNS["woman"]
ADJECTIVES_OF = {
    noun: tuple(adjective for adjective in lx.ADJECTIVES if noun in adjective.nouns)
    for noun in lx.NOUNS.values()
}
COLORS = frozenset(["red", "blue", "green", "yellow", "black", "white", "brown"])
QUANTIFIED = frozenset(["no", "every", "all", "many", "some", "two", "three"])
_ALWAYS_ONE = frozenset([lx.NOUNS["mother"], lx.NOUNS["father"]])
_INDEFINITE = {"subject": 0.3, "object": 0.5, "recipient": 0.3, "place": 0.25}
_PLURALS = ("the", "the", "the", "two", "three", "many", "some", "all")


class Retry(Exception):
    """The draw led nowhere (nothing fits, or the sentence would be unclear): begin the sentence again."""


class Phrases:
    """Draws noun phrases and keeps what the sentence under way has mentioned so far."""

    def __init__(self, rng: Random) -> None:
        self.random = rng.random
        self.mentions: list[Phrase] = []

    def pick(self, options: Sequence[_T]) -> _T:
        """One of the options, uniformly."""
        return options[int(self.random() * len(options))]

    def chance(self, probability: float) -> bool:
        """True with the given probability."""
        return self.random() < probability

    # ----------------------------------------------------------------------------------------- what was said

    def fresh(self, nouns: Sequence[Noun]) -> Noun:
        """A noun that the sentence hasn't mentioned yet."""
        for _ in range(4):
            noun = self.pick(nouns)
            if all(noun is not phrase.noun for phrase in self.mentions):
                return noun
        raise Retry

    def single(self, english: str) -> bool:
        """Whether exactly one thing mentioned so far can be what an English pronoun means."""
        origins = {phrase.origin for phrase in self.mentions if phrase.english_pronoun == english}
        return len(origins) == 1

    def resolved(self, phrase: Phrase, adjective: Adjective) -> bool:
        """Whether a pronoun with that predicate can only mean `phrase`: nothing else it could name can be so.

        "The dog did not eat the apple because it was sweet" is clear where "because it was small" is not.
        """
        return not any(
            other.origin is not phrase.origin
            and other.english_pronoun == phrase.english_pronoun
            and (other.plural or other.partner is not None or other.noun in adjective.nouns)
            for other in self.mentions
        )

    def own(self, subject: Phrase | None) -> bool:
        """Whether his, her, its or their can only mean the subject."""
        if (
            subject is None
            or subject.person < 3
            or subject.kind == "question"
            or subject.determiner == "which"
        ):
            return False
        if not subject.noun.human and subject.noun.group != "animal":
            return False
        return self.single(subject.english_pronoun)

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
        """A noun phrase for a noun in a role: subject, object, recipient or place.

        `subject` is the subject of its clause, which his, her, its and their mean; `definite` rules out
        indefinite determiners (as beside a negation), `plain` also adjectives, and `single` the plural.
        """
        phrase = Phrase(noun)
        if not noun.proper:
            if not noun.mass and role != "place" and not single and self.chance(0.24):
                phrase.plural = noun not in lx.KIN or (noun not in _ALWAYS_ONE and self.chance(0.3))
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
        elif noun.group == "event" or noun.group == "weather":
            pass
        elif draw > (0.9 if phrase.plural else 0.93):
            phrase.determiner = "this"
        elif definite:
            pass
        elif noun.mass:
            phrase.determiner = "bare" if role == "object" and draw < 0.6 else "the"
        elif phrase.plural:
            phrase.determiner = self.pick(_PLURALS if role == "subject" else (*_PLURALS, "bare", "bare"))
        elif role == "subject" and draw > 0.88:
            phrase.determiner = self.pick(("every", "no"))
        elif draw < (_INDEFINITE[role] if noun in lx.UNOWNED else 0.17 + _INDEFINITE[role]):
            phrase.determiner = "a"

    def possess(self, phrase: Phrase, subject: Phrase | None) -> None:
        """Give it a possessor: my, your, our, the subject's own, a name or another noun phrase."""
        draw = self.random()
        if draw < 0.45 and self.own(subject):
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

    def speaker(self) -> Phrase:
        """I, you, we; he, she or they whom nobody has mentioned."""
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

    def somebody(self, subject: Phrase) -> Phrase:
        """A pronoun for an object: me, you, us, him, her or them, but nobody that the subject is or includes."""
        phrase = self.speaker()
        if phrase.person == subject.person < 3 or (phrase.person < 3 and subject.kind == "question"):
            raise Retry
        return phrase

    def again(self, phrase: Phrase) -> Phrase:
        """A pronoun for something mentioned; I, you and we stay what they are."""
        antecedent = None if phrase.person < 3 else phrase
        plural = phrase.plural or phrase.partner is not None
        return Phrase(phrase.noun, plural, kind="personal", person=phrase.person, antecedent=antecedent)

    def subject(self, nouns: Sequence[Noun], *, definite: bool = False) -> Phrase:
        """A subject: a noun phrase, sometimes two joined by and, or a pronoun."""
        if MAN in nouns and WOMAN in nouns and self.chance(0.2):
            return self.speaker()
        phrase = self.phrase(self.fresh(nouns), "subject", definite=definite)
        simple = phrase.owner is None and phrase.determiner not in QUANTIFIED and not phrase.plural
        if simple and phrase.noun.human and self.chance(0.08):
            partner = self.phrase(self.fresh(lx.GROUPS["person"]), "subject", definite=True, plain=True)
            if partner.owner is not None or partner.plural:
                raise Retry
            phrase.partner = partner
        return phrase
