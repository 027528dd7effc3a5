"""Sampling of single clauses: verb or predicate, arguments, tense, negation and adverbials.

The lexicon defines which words combine. This module ensures that an English sentence has one German translation:
verbs whose past equals their present (*read*, *put*) are in the perfect where no -s distinguishes the tenses, and
*you* never occurs with the preterite, which German avoids.
"""

from __future__ import annotations

from collections.abc import Sequence

from tools.miniature.lexicon import lexicon as lx
from tools.miniature.lexicon.entries import Adjective, Fixed, Noun, Place, Verb
from tools.miniature.phrases import ADJECTIVES_OF, COLORS, MAN, QUANTIFIED, Phrases, Retry
from tools.miniature.syntax import Adjunct, Clause, Modal, Phrase

CAN = Modal("can", ("kann", "kannst", "können"), ("konnte", "konnten"))
MUST = Modal("must", ("muss", "musst", "müssen"), ("musste", "mussten"))
WANT = Modal("want", ("will", "willst", "wollen"), ("wollte", "wollten"))
MAY = Modal("may", ("darf", "darfst", "dürfen"), None)
SHOULD = Modal("should", ("sollte", "solltest", "sollten"), None)

# Weight of each verb of a frame, in halves, as the frames differ in their number of verbs.
_FRAME_WEIGHTS = {
    "intransitive": 2,
    "located": 4,
    "directed": 4,
    "transitive": 2,
    "dative": 3,
    "giving": 3,
    "prepositional": 3,
    "placing": 8,
}


def _weighted(verbs: Sequence[Verb]) -> tuple[Verb, ...]:
    return tuple(verb for verb in verbs for _ in range(_FRAME_WEIGHTS[verb.frame] * (3 if "x" in verb.flags else 1)))


ANY_VERB = _weighted(lx.PREDICATES)
VERBS_OF_SUBJECT = {
    noun: _weighted([verb for verb in lx.PREDICATES if noun in verb.subjects]) for noun in lx.NOUNS.values()
}
VERBS_OF_OBJECT = {
    noun: tuple(verb for verb in lx.VERBS["transitive"] + lx.VERBS["dative"] if noun in verb.objects)
    for noun in lx.NOUNS.values()
}
_DIRECTIONS_OF = {
    verb: tuple(place for place in lx.DIRECTIONS if verb.base in place.verbs) for verb in lx.VERBS["directed"]
}
_TEMPORARY = tuple(adjective for adjective in lx.ADJECTIVES if adjective in lx.TEMPORARY)
_HABIT = frozenset(["habit"])
_ANIMAL = lx.NOUNS["animal"]


class Clauses(Phrases):
    """Sampler of clauses."""

    def clause(
        self,
        *,
        subject: Phrase | None = None,
        direct: Phrase | None = None,
        place: Adjunct | None = None,
        verb: Verb | None = None,
        tense: str = "",
        front: bool = False,
        negation: float = 0.14,
        adverbials: bool = True,
        definite: bool = False,
    ) -> Clause:
        """Return a clause with a verb; missing parts are sampled, the subject as a `definite` one on request.

        Raises `Retry` where nothing fits the given parts.
        """
        if verb is None:
            verb = self.fitting(subject, direct)
        negated = self.chance(negation)
        if subject is None:
            subject = self.subject(verb.subjects, definite=negated or definite)
        elif subject.determiner in QUANTIFIED or subject.determiner in ("a", "bare"):
            negated = False
        clause = Clause(subject, verb, direct=direct, place=place, negated=negated)
        self.arguments(clause)
        self.tense(clause, tense)
        if adverbials:
            self.adverbials(clause)
            if front:
                self.move(clause)
        return clause

    def fitting(self, subject: Phrase | None, direct: Phrase | None) -> Verb:
        """Return a verb that fits the given arguments; raises `Retry` where none does."""
        if direct is not None:
            options = VERBS_OF_OBJECT[direct.noun]
            if subject is not None:
                options = [verb for verb in options if subject.noun in verb.subjects]
        else:
            options = ANY_VERB if subject is None else VERBS_OF_SUBJECT[subject.noun]
        if not options:
            raise Retry
        return self.pick(options)

    def state(
        self,
        *,
        subject: Phrase | None = None,
        adjective: Adjective | None = None,
        tense: str = "",
        negation: float = 0.12,
        front: bool = False,
        temporary: bool = False,
    ) -> Clause:
        """Return a clause with a predicative adjective; with `temporary`, one for a temporary state."""
        negated = self.chance(negation)
        if subject is None:
            adjective = adjective or self.pick(_TEMPORARY if temporary else lx.ADJECTIVES)
            if MAN in adjective.nouns and self.chance(0.2):
                subject = self.new_pronoun()
            else:
                definite = negated or self.chance(0.8)
                plain = self.chance(0.75)
                noun = self.fresh(adjective.nouns)
                subject = self.phrase(noun, "subject", definite=definite, plain=plain)
        elif adjective is None:
            options = [a for a in ADJECTIVES_OF[subject.noun] if not temporary or a in lx.TEMPORARY]
            if not options:
                raise Retry
            adjective = self.pick(options)
        if subject.kind == "noun" and (subject.determiner in QUANTIFIED or subject.determiner == "a"):
            negated = False
        for other in subject.origin.adjectives:
            pair = frozenset([adjective.english, other.english])
            if len(pair) == 1 or pair <= COLORS or pair in lx.OPPOSITES:
                raise Retry
        clause = Clause(subject, adjective=adjective, negated=negated)
        if not tense:
            draw = self.random()
            future = draw > 0.85 and adjective in lx.TEMPORARY
            tense = "future" if future else "present" if draw < 0.62 else "past"
        clause.tense = "present" if tense == "perfect" else tense
        if adjective not in lx.ABSOLUTE and adjective.english not in COLORS and self.chance(0.15):
            clause.degree = self.pick(lx.DEGREES)
        if front and adjective in lx.TEMPORARY and self.chance(0.4):
            clause.time = self.fixed(lx.TIMES[:3], self.contexts(clause))
            if clause.time is not None and self.chance(0.5):
                clause.front = "time"
        return clause

    def identity_clause(self) -> Clause:
        """Return a clause that says what somebody or something is: a profession, an animal, or one's relation."""
        if self.chance(0.2):
            subject = self.phrase(self.fresh(lx.GROUPS["animal"][:-1]), "subject", definite=True)
            return Clause(subject, nominal=Phrase(_ANIMAL, subject.plural, "bare" if subject.plural else "a"))
        subject = (
            self.new_pronoun()
            if self.chance(0.6)
            else self.phrase(self.fresh(lx.GROUPS["person"]), "subject", definite=True)
        )
        female = subject.english_pronoun == "she"
        options = (
            lx.PROFESSIONS
            if subject.person < 3 or subject.plural
            else [noun for noun in lx.PROFESSIONS if (noun.pronoun == "she") is female]
        )
        noun = self.fresh(options)
        clause = Clause(subject, nominal=Phrase(noun, subject.plural, "bare" if subject.plural else "profession"))
        clause.negated = self.chance(0.1)
        return clause

    # ---------------------------------------------------------------------------------------------- tense

    def tense(self, clause: Clause, allowed: str = "") -> None:
        """Choose tense and modal; `allowed` is empty or one of present, past, perfect, future and modal."""
        verb = clause.verb
        assert verb is not None
        draw = self.random()
        if not allowed:
            allowed = (
                "present" if draw < 0.4 else "past" if draw < 0.67 else "perfect" if draw < 0.78
                else "future" if draw < 0.86 else "modal"
            )  # fmt: skip
        if "n" in verb.flags and allowed not in ("present", "past"):
            allowed = "present"
        if allowed == "modal":
            noun = clause.subject.noun
            modals = (CAN, MUST, WANT) if noun.group == "animal" else (CAN,)
            if noun.human:
                modals = (CAN, CAN, MUST, MUST, WANT, WANT, MAY, SHOULD)
            clause.modal = self.pick(modals)
            past = clause.modal.german_past is not None and self.chance(0.3)
            clause.tense = "past" if past else "present"
        else:
            clause.tense = allowed
            if clause.tense in ("present", "past") and not verb.flags & {"s", "n"}:
                clause.progressive = self.chance(0.45 if clause.tense == "present" else 0.1)
        self.avoid_ambiguous_tense(clause, verb)

    @staticmethod
    def avoid_ambiguous_tense(clause: Clause, verb: Verb) -> None:
        """Replace a tense that is ambiguous in English or unusual in German by the perfect."""
        subject = clause.subject
        if clause.modal is not None or clause.tense not in ("present", "past"):
            return
        same = verb.base == verb.past and not clause.progressive
        third = subject.person == 3 and not subject.plural and subject.partner is None
        if (same and not third) or (clause.tense == "past" and subject.person == 2):
            clause.tense, clause.progressive = "perfect", False

    # ------------------------------------------------------------------------------------------- arguments

    def arguments(self, clause: Clause) -> None:
        """Sample the missing arguments that the verb of a clause requires."""
        verb, subject = clause.verb, clause.subject
        assert verb is not None
        definite = clause.negated or subject.determiner == "no"
        if verb.frame == "giving":
            if self.chance(0.2):
                clause.recipient = self.object_pronoun(subject)
            else:
                noun = self.fresh(verb.recipients)
                clause.recipient = self.phrase(noun, "recipient", subject=subject, definite=True, plain=True)
        pronoun = MAN in verb.objects and self.chance(0.15)
        if verb.frame == "prepositional":
            if pronoun:
                clause.oblique = self.object_pronoun(subject)
            else:
                noun = self.fresh(verb.objects)
                clause.oblique = self.phrase(noun, "object", subject=subject, definite=definite)
        elif verb.objects and clause.direct is None:
            if pronoun:
                clause.direct = self.object_pronoun(subject)
            else:
                noun = self.fresh(verb.objects)
                direct = self.phrase(noun, "object", subject=subject, single="1" in verb.flags)
                if definite and (direct.determiner in QUANTIFIED or (verb.case == "dat" and not direct.definite)):
                    direct.determiner = "the"
                clause.direct = direct
        if clause.place is None:
            if verb.base == "sit" and self.chance(0.12):
                pass  # the cat sat
            elif verb.frame == "located":
                self.place(clause, lx.HOMES if verb.base == "live" else lx.LOCATIONS)
            elif verb.frame == "directed":
                self.place(clause, _DIRECTIONS_OF[verb])
            elif verb.frame == "placing":
                self.place(clause, lx.TARGETS)

    def place(self, clause: Clause, places: tuple[Place, ...]) -> None:
        """Add a location or direction to a clause."""
        place = self.pick(places)
        noun: Noun = self.fresh(place.nouns)
        phrase = self.phrase(noun, "place", subject=clause.subject, plain=self.chance(0.7))
        clause.place = Adjunct(place.preposition, phrase)

    # ------------------------------------------------------------------------------------------ adverbials

    @staticmethod
    def contexts(clause: Clause) -> frozenset[str]:
        """Return the contexts of a clause that adverbials may require (see `modifiers.TIMES`)."""
        if clause.modal is not None:
            return frozenset(["modal"] if clause.tense == "present" else [])
        if clause.tense != "present":
            return frozenset([clause.tense])
        if clause.progressive:
            return frozenset(["present", "progressive"])
        stative = clause.verb is None or "s" in clause.verb.flags
        return frozenset(["present"] if stative else ["present", "habit"])

    def fixed(self, options: tuple[Fixed, ...], contexts: frozenset[str]) -> Fixed | None:
        """Return one of the adverbials that fit the contexts, or None."""
        fitting = [option for option in options if not contexts.isdisjoint(option.contexts)]
        return self.pick(fitting) if fitting else None

    def adverbials(self, clause: Clause) -> None:
        """Add adverbials of time, frequency, manner and place, and a beneficiary."""
        verb, contexts, negated = clause.verb, self.contexts(clause), clause.negated
        assert verb is not None
        lasting = "n" in verb.flags
        draw = self.random()
        if draw < 0.27 and not lasting:
            time = self.fixed(lx.TIMES, contexts)
            habitual = time is not None and not _HABIT.isdisjoint(time.contexts)
            clause.time = None if negated and habitual else time
        elif draw < 0.39 and not lasting:
            place = self.pick(lx.EVENTS if draw < 0.33 else lx.CAUSES)
            phrase = Phrase(self.fresh(place.nouns))
            self.mentions.append(phrase)
            clause.time = Adjunct(place.preposition, phrase)
        free = clause.time is None and not negated and clause.subject.determiner != "no"
        if not lasting and free and not clause.progressive and self.chance(0.2):
            clause.frequency = self.fixed(lx.FREQUENCIES, contexts)
        if clause.frequency is None and verb.frame != "giving" and self.chance(0.2):
            clause.manner = self.fixed(lx.MANNERS, verb.flags)
        if "p" in verb.flags and self.chance(0.3):
            if not negated or verb.frame == "intransitive":
                animal = clause.subject.noun.group == "animal"
                self.place(clause, lx.LOCATIONS if animal else lx.ACTIVITIES)
        elif "b" in verb.flags and not negated and self.chance(0.3):
            noun = self.fresh(lx.GROUPS["person"])
            clause.beneficiary = self.phrase(noun, "recipient", subject=clause.subject, definite=True, plain=True)

    def move(self, clause: Clause) -> None:
        """Front an adverbial: a sentence adverb always, time and place sometimes."""
        verb = clause.verb
        assert verb is not None
        if self.chance(0.08) and clause.subject.determiner != "no":
            clause.comment = self.fixed(lx.COMMENTS, self.contexts(clause))
        negated_cause = clause.negated and isinstance(clause.time, Adjunct)
        if clause.comment is not None:
            clause.front = "comment" if self.chance(0.5) else ""
        elif clause.time is not None and (negated_cause or self.chance(0.45)):
            clause.front = "time"
        elif clause.place is not None and not clause.negated and verb.frame not in ("directed", "placing"):
            phrase = clause.place.phrase
            known = phrase.definite and phrase.determiner != "own"
            clause.front = "place" if known and self.chance(0.25) else ""
