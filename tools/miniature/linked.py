"""Sampling of sentences with two clauses: reasons, conditions, times, purposes, reports and plain sequences.

The second clause refers back to the first by a pronoun, whose German form depends on the gender of a distant noun;
only an unambiguous antecedent is referred to.
"""

from __future__ import annotations

from tools.miniature.clauses import CAN, VERBS_OF_OBJECT, Clauses
from tools.miniature.lexicon import lexicon as lx
from tools.miniature.lexicon.entries import Verb
from tools.miniature.phrases import ADJECTIVES_OF, MAN, Retry
from tools.miniature.syntax import Adjunct, Clause, Link, Phrase, Sentence

_BECAUSE, _ALTHOUGH, *_OTHERS = lx.SUBORDINATORS
_FREQUENT = {"when": 2, "if": 3, "so": 5, "while": 4, "before": 3, "until": 2}
_SUBORDINATORS = tuple(link for link in _OTHERS for _ in range(_FREQUENT.get(link.english[0], 1)))
_WEATHER = tuple(link for link in lx.SUBORDINATORS if link.kind in ("reason", "contrast", "present", "past"))
_SITTING = tuple(
    verb
    for verb in lx.VERBS["located"]
    for _ in range({"sit_sitzen": 3, "lie_liegen": 1, "stay_bleiben": 1}.get(verb.key, 0))
)
_BEINGS = lx.VERBS_BY_KEY["sit_sitzen"][0].subjects
_LAZY = tuple(lx.ADJECTIVES_BY_NAME[name] for name in ("tired", "tired", "sick", "lazy"))
_ON = next(place.preposition for place in lx.LOCATIONS if place.preposition.german == "auf")
_MOTIVES, _REASONS = tuple(lx.MOTIVES.items()), tuple(lx.REASONS.items())
_AIMS = tuple(
    verb for verb in lx.VERBS["transitive"] + lx.VERBS["dative"] if not verb.flags & {"s", "n"} and MAN in verb.subjects
)
_KINDNESSES = tuple(
    verb
    for key in ("help_helfen", "help_helfen", "save_retten", "visit_besuchen", "call_anrufen", "hug_umarmen")
    for verb in lx.VERBS_BY_KEY[key]
)
(_CROSS,) = lx.VERBS_BY_KEY["cross_überqueren"]
_OBSTACLES, _INVITATIONS = lx.REASONS[_CROSS][::-1]
_BRAVE = tuple(adjective for adjective, (does, _) in lx.MOTIVES.items() if _CROSS in does)
(_CARE,) = lx.VERBS_BY_KEY["care_sorgen"]
_LASTING = tuple(verb for verb in lx.PREDICATES if "d" in verb.flags)
_NO_ERRAND = frozenset(["wear", "hold", "carry", "turn", "put", "take", "praise"])
_ERRANDS = tuple(verb for verb in lx.VERBS["directed"] if verb.base in ("go", "run", "drive", "travel", "come"))


class LinkedClauses(Clauses):
    """Sampler of sentences with two clauses; the docstring of each construction is an example."""

    # ------------------------------------------------------------------------------------------ explanations

    def motive(self) -> Sentence:
        """The cat sleeps because it is tired. Although I was sick, I worked. He is tired, but he works."""
        adjective, (does, avoids) = self.pick(_MOTIVES)
        contrast = self.chance(0.35)
        negated = self.chance(0.5 if contrast else 0.25)
        tense = "past" if self.chance(0.5) else "present"
        if MAN in adjective.nouns and self.chance(0.3):
            subject = self.new_pronoun()
        else:
            subject = self.phrase(self.fresh(adjective.nouns), "subject", definite=True)
        verbs = [verb for verb in (avoids if negated is not contrast else does) if subject.noun in verb.subjects]
        if not verbs:
            raise Retry
        state_first, other = self.chance(0.5), self.pronoun_for(subject)
        first, second = (subject, other) if state_first else (other, subject)
        state = self.state(subject=first, adjective=adjective, tense=tense, negation=0.0)
        action = self.action(self.pick(verbs), tense, negated, subject=second, adverbials=self.chance(0.15))
        if not state_first and subject.person == 3 and not self.resolved(subject, adjective):
            raise Retry
        return self.join_explanation(action, state, contrast, state_first)

    def reason(self) -> Sentence:
        """The man buys the car because it is cheap. Because the soup was hot, the child did not eat it."""
        verb, (likely, unlikely) = self.pick(_REASONS)
        contrast = self.chance(0.35)
        negated = self.chance(0.5 if contrast else 0.25)
        adjective = self.pick(unlikely if negated is not contrast else likely)
        nouns = [noun for noun in verb.objects if noun in adjective.nouns]
        if not nouns:
            raise Retry
        tense = "past" if self.chance(0.5) else "present"
        noun = self.fresh(nouns)
        state_first = verb.frame != "prepositional" and self.chance(0.4)
        if state_first:
            thing = self.phrase(noun, "subject", definite=True)
            state = self.state(subject=thing, adjective=adjective, tense=tense, negation=0.0)
            action = self.action(verb, tense, negated, direct=self.pronoun_for(thing))
        else:
            action = self.action(verb, tense, negated)
            thing = action.direct or action.oblique
            if thing is None or thing.noun not in adjective.nouns or not self.resolved(thing, adjective):
                raise Retry
            if thing.determiner in ("bare", "every", "all") or (negated and not thing.definite):
                raise Retry
            state = self.state(subject=self.pronoun_for(thing), adjective=adjective, tense=tense, negation=0.0)
        return self.join_explanation(action, state, contrast, state_first)

    def seat(self) -> Sentence:
        """The cat sat on the mat because it was tired. The cat sat on the mat because it was soft."""
        about_seat = self.chance(0.6)
        contrast = about_seat and self.chance(0.2)
        negated = about_seat and self.chance(0.5 if contrast else 0.15)
        options = lx.SEAT_OBJECTIONS if negated is not contrast else lx.SEAT_REASONS
        adjective = self.pick(options if about_seat else _LAZY)
        tense = "past" if self.chance(0.5) else "present"
        seats = [seat for seat in lx.SEATS if not about_seat or seat in adjective.nouns]
        seat = Phrase(self.fresh([*seats, *seats[:1], *seats[:1]]))
        seat.determiner = "this" if self.chance(0.1) else "the"
        self.mentions.append(seat)
        verb = self.pick(_SITTING)
        beings = [noun for noun in _BEINGS if about_seat or noun in adjective.nouns]
        subject = self.phrase(self.fresh(beings), "subject", definite=True, plain=self.chance(0.7))
        action = self.action(verb, tense, negated, subject=subject, place=Adjunct(_ON, seat))
        meant = seat if about_seat else subject
        if meant.noun not in adjective.nouns or not self.resolved(meant, adjective):
            raise Retry
        state = self.state(subject=self.pronoun_for(meant), adjective=adjective, tense=tense, negation=0.0)
        return self.join_explanation(action, state, contrast, False)

    def crossing(self) -> Sentence:
        """The animal didn't cross the street because it was too tired. … because it was too wide."""
        about_way, negated = self.chance(0.55), self.chance(0.85)
        adjective = self.pick((_OBSTACLES if negated else _INVITATIONS) if about_way else _LAZY if negated else _BRAVE)
        tense = "past" if self.chance(0.6) else "present"
        way = Phrase(self.fresh([noun for noun in _CROSS.objects if not about_way or noun in adjective.nouns]))
        way.determiner = "this" if self.chance(0.1) else "the"
        self.mentions.append(way)
        beings = [noun for noun in _CROSS.subjects if about_way or noun in adjective.nouns]
        subject = self.phrase(self.fresh(beings), "subject", definite=True, plain=self.chance(0.7))
        action = self.action(_CROSS, tense, negated, subject=subject, direct=way)
        meant = way if about_way else subject
        if not self.resolved(meant, adjective):
            raise Retry
        state = self.state(subject=self.pronoun_for(meant), adjective=adjective, tense=tense, negation=0.0)
        return self.join_explanation(action, state, False, False)

    def concern(self) -> Sentence:
        """Alice helped Bob because she cared."""
        tense = "past" if self.chance(0.6) else "present"
        action = self.action(self.pick(_KINDNESSES), tense, False)
        subject = action.subject
        if subject.noun not in _CARE.subjects:
            raise Retry
        if subject.person == 3 and not self.is_unambiguous(subject.english_pronoun):
            raise Retry
        care = self.action(_CARE, tense, False, subject=self.pronoun_for(subject))
        return Sentence(action, care, Link("subordinate", _BECAUSE))

    def action(
        self,
        verb: Verb,
        tense: str,
        negated: bool,
        *,
        subject: Phrase | None = None,
        direct: Phrase | None = None,
        place: Adjunct | None = None,
        adverbials: bool = False,
    ) -> Clause:
        """Return a clause of the given polarity and tense; raises `Retry` where the sample has others."""
        clause = self.clause(
            subject=subject,
            direct=direct,
            place=place,
            verb=verb,
            tense=tense,
            negation=float(negated),
            adverbials=adverbials,
            definite=True,
        )
        if clause.negated is not negated or clause.tense != tense or (clause.progressive and tense == "past"):
            raise Retry
        return clause

    def join_explanation(self, action: Clause, state: Clause, contrast: bool, state_first: bool) -> Sentence:
        """Join an action and the state that explains it or contrasts with it: because, although, so, but.

        Half of the explanations why something isn't done say that a quality is *too* much.
        """
        adjective = state.adjective
        if action.negated and not contrast and adjective not in lx.ABSOLUTE and self.chance(0.5):
            state.degree = lx.DEGREES[-1]
        if state_first and self.chance(0.5):
            link = Link("coordinate", "but") if contrast else Link("so", "so")
            return Sentence(state, action, link)
        return Sentence(action, state, Link("subordinate", _ALTHOUGH if contrast else _BECAUSE, state_first))

    def weather(self) -> Sentence:
        """Because it is raining, the children stay in the house."""
        conjunction = self.pick(_WEATHER)
        kind = conjunction.kind
        tense = kind if kind in ("present", "past") else self.pick(("present", "past"))
        main = self.first_clause(tense, states=0.0)
        if main.tense != tense or (main.verb is not None and "n" in main.verb.flags):
            raise Retry
        raining = Clause(main.subject, raining=self.pick(("rain", "snow")), tense=tense)
        return Sentence(main, raining, Link("subordinate", conjunction, self.chance(0.4)))

    # --------------------------------------------------------------------------------- first and second clause

    def first_clause(self, tense: str, *, states: float, verb: Verb | None = None) -> Clause:
        """Return the first of two clauses, kept short to limit the length of the sentence."""
        if tense in ("present", "past") and self.chance(states):
            return self.state(tense=tense, temporary=True, negation=0.0)
        return self.clause(verb=verb, tense=tense, adverbials=self.chance(0.2), definite=True)

    def candidates(self, clause: Clause) -> list[Phrase]:
        """Return the phrases of a clause that a pronoun in the next clause can refer to unambiguously."""
        antecedents = []
        for phrase in (clause.subject, clause.direct, clause.recipient, clause.oblique):
            if phrase is None:
                continue
            if phrase.person < 3:
                if phrase is clause.subject:
                    antecedents.append(phrase)
                continue
            referential = phrase.determiner not in ("bare", "no", "every", "all")
            negative = clause.negated and not phrase.definite and not phrase.is_pronoun
            if referential and not negative and self.is_unambiguous(phrase.english_pronoun):
                antecedents.append(phrase)
        return antecedents

    def new_subject(self) -> Phrase:
        """Return a subject that wasn't mentioned: a pronoun, or a short definite phrase for a person or animal."""
        if self.chance(0.25):
            return self.new_pronoun()
        nouns = lx.GROUPS["person"] if self.chance(0.7) else lx.GROUPS["animal"]
        return self.phrase(self.fresh(nouns), "subject", definite=True, plain=True)

    def second_clause(self, clause: Clause, tense: str, *, states: float, negation: float = 0.14) -> Clause:
        """Return a second clause that refers back to the first by a pronoun, or (rarely) doesn't."""
        candidates = self.candidates(clause)
        if not candidates:
            raise Retry
        if self.chance(0.12):
            return self.clause(subject=self.new_subject(), tense=tense, negation=negation, adverbials=False)
        phrase = self.pick(candidates)
        if phrase.partner is None and ADJECTIVES_OF[phrase.noun] and self.chance(states):
            return self.state(subject=self.pronoun_for(phrase), tense=tense, temporary=True, negation=0.05)
        subject, direct = self.pronoun_for(phrase), None
        if VERBS_OF_OBJECT[phrase.noun] and phrase.person == 3 and phrase.partner is None and self.chance(0.5):
            others = [other for other in candidates if other is not phrase and other.noun.human]
            direct = subject
            subject = self.pronoun_for(self.pick(others)) if others and self.chance(0.6) else self.new_subject()
        return self.clause(subject=subject, direct=direct, tense=tense, negation=negation, adverbials=False)

    # ----------------------------------------------------------------------------------------- constructions

    def subordinate(self) -> Sentence:
        """When the doctor came, the child was sick. I write slowly so that she can read the letter."""
        conjunction = self.pick(_SUBORDINATORS)
        kind = conjunction.kind
        main_tense = other_tense = "past" if self.chance(0.45) else "present"
        if kind in ("present", "past"):
            main_tense = other_tense = kind
        elif kind == "condition":
            main_tense, other_tense = ("future" if self.chance(0.7) else "present"), "present"
        steady = kind in ("simultaneous", "sequence", "purpose")
        first = kind not in ("purpose", "sequence") and self.chance(0.4)
        opening = self.first_clause(
            other_tense if first else main_tense,
            states=0.3 if first and not steady else 0.0,
            verb=self.pick(_LASTING) if conjunction.german == "bis" else None,
        )
        closing = self.second_clause(
            opening,
            main_tense if first else other_tense,
            states=0.0 if first or steady else 0.3,
            negation=0.0 if steady else 0.05,
        )
        main, second = (closing, opening) if first else (opening, closing)
        if main.tense != main_tense or second.tense != other_tense:
            raise Retry
        if any(clause.verb is not None and "n" in clause.verb.flags for clause in (main, second)):
            raise Retry
        if main.verb is second.verb:
            raise Retry
        if steady:
            self.check_steady(main, second, conjunction.german)
        return Sentence(main, second, Link("subordinate", conjunction, first))

    @staticmethod
    def check_steady(main: Clause, second: Clause, conjunction: str) -> None:
        """Check the clauses of *while*, *before*, *until* and *so that*; the clause of *so that* gets *can*."""
        if main.negated or second.negated or main.verb is None or second.verb is None:
            raise Retry
        if conjunction == "damit":
            if "s" in main.verb.flags or main.modal is not None:
                raise Retry
            second.modal, second.progressive = CAN, False

    def coordinate(self) -> Sentence:
        """The dog barks and eats the meat. The dog barks and the cat sleeps. I like it, but she does not."""
        tense = "past" if self.chance(0.45) else "present"
        draw = self.random()
        if draw < 0.5:
            clause = self.clause(tense=tense, adverbials=False, negation=0.0, definite=True)
            second = self.clause(subject=clause.subject, tense=tense, adverbials=False, negation=0.0)
            simple = not clause.progressive and not second.progressive
            if not simple or clause.tense != tense or second.tense != tense or clause.verb is second.verb:
                raise Retry
            return Sentence(clause, second, Link("shared", "and"))
        clause = self.first_clause(tense, states=0.2)
        if draw < 0.65:
            second = self.clause(tense=tense, adverbials=False, negation=0.0, definite=True)
        else:
            second = self.second_clause(clause, tense, states=0.2)
        return Sentence(clause, second, Link("coordinate", "but" if draw > 0.82 else "and"))

    def complement(self) -> Sentence:
        """The teacher says that the boy is tired. She asks whether the train has already left."""
        asking = self.chance(0.3)
        verb = self.pick(lx.VERBS["asking"] if asking else lx.VERBS["clausal"])
        tense = "past" if self.chance(0.4) else "present"
        subject = self.subject(verb.subjects, definite=True)
        clause = self.clause(
            subject=subject, verb=verb, tense=tense, negation=0.0 if asking else 0.08, adverbials=False
        )
        if clause.tense != tense:
            raise Retry
        if tense == "present" and self.chance(0.4):
            tense = self.pick(("perfect", "future", "modal"))
        if self.is_unambiguous(subject.english_pronoun) and self.chance(0.35):
            inner = self.clause(subject=self.pronoun_for(subject), tense=tense, adverbials=self.chance(0.3))
        elif tense in ("present", "past") and self.chance(0.35):
            inner = self.identity_clause() if self.chance(0.2) else self.state(tense=tense)
        else:
            inner = self.clause(tense=tense, adverbials=self.chance(0.3), definite=True)
        clause.complement, clause.complementizer = inner, "whether" if asking else "that"
        return Sentence(clause)

    def infinitive(self) -> Sentence:
        """The boy tries to open the window. My aunt goes to the station to meet a friend."""
        errand = self.chance(0.5)
        verb = self.pick(_ERRANDS if errand else lx.VERBS["infinitive"])
        subject = self.subject(verb.subjects, definite=True)
        clause = self.clause(subject=subject, verb=verb, negation=0.05, adverbials=False)
        aims = [aim for aim in _AIMS if subject.noun in aim.subjects and not (errand and aim.base in _NO_ERRAND)]
        if not aims:
            raise Retry
        inner = Clause(subject, self.pick(aims))
        self.arguments(inner)
        if errand:
            return Sentence(clause, inner, Link("purpose", ""))
        clause.complement, clause.complementizer = inner, "to"
        return Sentence(clause)
