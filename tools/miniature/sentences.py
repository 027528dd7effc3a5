"""Sampling of whole sentences: the constructions of the miniature corpus and their frequencies."""

from __future__ import annotations

from tools.miniature.clauses import ANY_VERB, VERBS_OF_OBJECT, VERBS_OF_SUBJECT
from tools.miniature.lexicon import lexicon as lx
from tools.miniature.lexicon import nouns
from tools.miniature.linked import LinkedClauses
from tools.miniature.phrases import MAN, Retry
from tools.miniature.syntax import Adjunct, Clause, Phrase, Sentence

# Percentage of sentences drawn with each construction; the names are methods of `Constructions`.
CONSTRUCTIONS = {
    "simple": 19,
    "headline": 1,
    "predicate": 6,
    "comparison": 3,
    "passive": 3,
    "topic": 1,
    "relative": 11,
    "question": 11,
    "motive": 7,
    "reason": 7,
    "seat": 3,
    "crossing": 2,
    "weather": 2,
    "subordinate": 6,
    "coordinate": 3,
    "complement": 3,
    "infinitive": 3,
    "identity": 4,
    "concern": 1,
    "fragment": 4,
}
_MENU = tuple(name for name, weight in CONSTRUCTIONS.items() for _ in range(weight))
_PASSIVES = tuple(
    (verb, tuple(noun for noun in verb.objects if not noun.human))
    for verb in lx.VERBS["transitive"]
    if "v" in verb.flags
)
_QUESTIONS = ("polar",) * 6 + ("why", "where", "when", "who", "who", "what", "which")
_COMPARABLE = tuple(adjective for adjective in lx.ADJECTIVES if adjective.english_comparative)
_THINGS = frozenset(nouns.THINGS.split()) - {"event", "weather"}
_TOPICS = tuple(
    (verb, tuple(noun for noun in verb.objects if noun.group in _THINGS))
    for verb in lx.VERBS["transitive"]
    if not verb.particle and not verb.preposition and any(noun.group in _THINGS for noun in verb.objects)
)
_HEADLINES = tuple(
    verb
    for verb in lx.VERBS["transitive"]
    if not verb.particle
    and not verb.preposition
    and (verb.flags & {"v"} or verb.key == "bite_beißen")
    and any(noun.group == "animal" for noun in (*verb.subjects, *verb.objects))
)
_WITH_PLACE = lx.VERBS["located"] + tuple(verb for verb in lx.PREDICATES if "p" in verb.flags)
_MODIFIABLE = frozenset(["the", "a", "many", "every", "all", *lx.NUMBERS])
_BELONGINGS = lx.GROUPS["animal"] + lx.GROUPS["vehicle"] + lx.GROUPS["ware"]
_NOUNS = tuple(lx.NOUNS.values())
(_BE,) = lx.VERBS_BY_KEY["be_sein"]
_THING = lx.NOUNS["book"]  # stands in for the pronoun what


class Constructions(LinkedClauses):
    """Sampler of whole sentences; the docstring of each construction is an example."""

    def sentence(self) -> Sentence:
        """Sample one sentence; raises `Retry` where the sample is a dead end."""
        self.mentions.clear()
        sentence: Sentence = getattr(self, self.pick(_MENU))()
        sentence.contracted = self.chance(0.25)
        return sentence

    def simple(self) -> Sentence:
        """The teacher reads a book in the garden. Today the boy cannot find his key."""
        return Sentence(self.clause(front=True))

    def headline(self) -> Sentence:
        """Dog bites man."""
        verb = self.pick(_HEADLINES)
        subject = Phrase(self.fresh(verb.subjects), determiner="bare")
        self.mentions.append(subject)
        direct = Phrase(self.fresh(verb.objects), determiner="bare")
        self.mentions.append(direct)
        return Sentence(Clause(subject, verb, direct=direct))

    def predicate(self) -> Sentence:
        """The old house was dark. It was red."""
        if self.chance(0.06):
            thing = Phrase(_THING, kind="personal")
            return Sentence(self.state(subject=thing, adjective=self.pick(lx.ADJECTIVES)))
        return Sentence(self.state(front=True))

    def identity(self) -> Sentence:
        """I am a student. Is she a doctor? The cat is an animal."""
        clause = self.identity_clause()
        draw = self.random()
        if draw < 0.25 and not clause.negated:
            clause.question = "polar"
        elif draw > 0.85:
            clause.tense = "past"
        return Sentence(clause)

    def fragment(self) -> Sentence:
        """The bank of the river. Red car. Three dogs."""
        noun = self.pick(_NOUNS)
        phrase = self.phrase(noun, "subject", definite=self.chance(0.3))
        if phrase.determiner == "the" and phrase.owner is None and self.chance(0.5):
            phrase.determiner = "bare"
        return Sentence(Clause(phrase))

    def comparison(self) -> Sentence:
        """The horse is bigger than the dog."""
        adjective = self.pick(_COMPARABLE)
        noun = self.fresh(adjective.nouns)
        peers = [other for other in adjective.nouns if other.group == noun.group]
        subject = self.phrase(noun, "subject", definite=True, plain=True)
        standard = self.phrase(self.fresh(peers), "subject", definite=True, plain=True)
        clause = Clause(subject, adjective=adjective, standard=standard, negated=self.chance(0.15))
        clause.tense = "present" if self.chance(0.75) else "past"
        return Sentence(clause)

    def passive(self) -> Sentence:
        """The letter was written by the teacher."""
        verb, nouns = self.pick(_PASSIVES)
        if not nouns:
            raise Retry
        patient = self.phrase(self.fresh(nouns), "subject", definite=self.chance(0.6))
        agent = self.phrase(self.fresh(verb.subjects), "recipient", definite=self.chance(0.7), plain=True)
        clause = Clause(patient, verb, agent=agent, tense="past" if self.chance(0.75) else "present")
        if clause.tense == "past" and self.chance(0.3):
            clause.time = self.fixed(lx.TIMES, frozenset(["past"]))
            clause.front = "time" if self.chance(0.5) else ""
        return Sentence(clause)

    def topic(self) -> Sentence:
        """A fronted object: this book the teacher has already read."""
        verb, things = self.pick(_TOPICS)
        direct = Phrase(self.fresh(things), determiner="this")
        self.mentions.append(direct)
        subject = self.subject(verb.subjects, definite=True)
        clause = self.clause(subject=subject, direct=direct, verb=verb, adverbials=False)
        if clause.tense == "perfect" and not clause.negated:
            clause.frequency = lx.FREQUENCIES[-1]
        clause.front = "direct"
        return Sentence(clause)

    # -------------------------------------------------------------------------------------- relative clauses

    def relative(self) -> Sentence:
        """The man who sells the car sleeps. The child reads the book that my sister has bought."""
        clause = self.clause(adverbials=False, negation=0.08) if self.chance(0.75) else self.state()
        phrases = [clause.subject, clause.recipient]
        if clause.verb is not None and clause.verb.frame != "placing":
            phrases.append(clause.direct)
        options = [phrase for phrase in phrases if phrase is not None and self.modifiable(phrase)]
        if not options:
            raise Retry
        self.modify(self.pick(options), "past" if clause.tense == "past" else "present")
        return Sentence(clause)

    @staticmethod
    def modifiable(phrase: Phrase) -> bool:
        """Whether a noun phrase can take a restrictive relative clause."""
        common = phrase.kind == "noun" and not phrase.noun.proper and not phrase.noun.mass
        alone = phrase.partner is None and phrase.owner is None
        return common and alone and phrase.determiner in _MODIFIABLE

    def modify(self, phrase: Phrase, tense: str) -> None:
        """Add a relative clause to a noun phrase, which may have any role in the clause."""
        noun = phrase.noun
        gap = Phrase(noun, phrase.plural, kind="relative", antecedent=phrase)
        draw = self.random()
        if tense == "present" and self.chance(0.3):
            tense = "perfect"
        if draw < 0.4:
            if VERBS_OF_SUBJECT[noun] and self.chance(0.75):
                phrase.relative = self.clause(subject=gap, tense=tense, adverbials=self.chance(0.3))
            else:
                phrase.relative = self.state(subject=gap, tense=tense)
        elif draw < 0.72:
            phrase.relative = self.clause(direct=gap, tense=tense, adverbials=False)
        elif draw < 0.86:
            phrase.relative = self.prepositional_relative(gap, tense)
        else:
            phrase.relative = self.possessive_relative(gap, tense)

    def prepositional_relative(self, gap: Phrase, tense: str) -> Clause:
        """The man for whom the woman waits; the house in which my uncle lives."""
        gap.determiner = "which"
        places = [place for place in lx.LOCATIONS if gap.noun in place.nouns]
        if places:
            verb = self.pick(lx.VERBS["located"])
            clause = Clause(self.subject(verb.subjects, definite=True), verb)
            clause.place = Adjunct(places[0].preposition, gap)
        else:
            verbs = [
                verb
                for verb in lx.VERBS["prepositional"]
                if gap.noun in verb.objects and verb.preposition and not verb.particle
            ]
            if not verbs:
                raise Retry
            verb = self.pick(verbs)
            clause = Clause(self.subject(verb.subjects, definite=True), verb, oblique=gap)
        self.tense(clause, tense)
        return clause

    def possessive_relative(self, gap: Phrase, tense: str) -> Clause:
        """The woman whose dog sleeps; the boy whose bicycle the thief has stolen."""
        if not gap.noun.human:
            raise Retry
        owned = Phrase(self.fresh(_BELONGINGS), owner=gap)
        self.mentions.append(owned)
        if VERBS_OF_SUBJECT[owned.noun] and self.chance(0.4):
            return self.clause(subject=owned, tense=tense, adverbials=False)
        if self.chance(0.5):
            return self.state(subject=owned, tense=tense)
        return self.clause(direct=owned, tense=tense, adverbials=False)

    # --------------------------------------------------------------------------------------------- questions

    def question(self) -> Sentence:
        """Does the dog like the soup? Whom has the king invited? Which letter must I read?"""
        draw = self.random()
        tense = "present" if draw < 0.4 else "perfect" if draw < 0.7 else "modal" if draw < 0.9 else "future"
        kind = self.pick(_QUESTIONS)
        if kind == "who":
            return Sentence(self.asked_person(tense))
        if kind in ("what", "which"):
            return Sentence(self.asked_thing(kind, tense))
        if kind == "where" and self.chance(0.25):
            place = self.phrase(self.fresh(lx.GROUPS["place"]), "subject", definite=True)
            return Sentence(Clause(place, _BE, question="where"))
        if kind in ("polar", "why") and self.chance(0.2):
            clause = self.state(tense="present" if self.chance(0.7) else "past", negation=0.0)
        else:
            verb = self.pick(_WITH_PLACE if kind == "where" else ANY_VERB)
            if kind == "when" and ("s" in verb.flags or tense == "perfect"):
                raise Retry
            adverbials = kind == "polar" and self.chance(0.5)
            clause = self.clause(verb=verb, tense=tense, negation=0.0, adverbials=adverbials)
            if kind == "where":
                clause.place = None
        if clause.subject.determiner == "no":
            raise Retry
        clause.question = kind
        return Sentence(clause)

    def asked_thing(self, kind: str, tense: str) -> Clause:
        """What is the man eating? Which book have you read?"""
        verb, things = self.pick(_TOPICS)
        if kind == "what":
            direct = Phrase(_THING, kind="question")
        else:
            direct = Phrase(self.fresh(things), self.chance(0.2), "which")
            if direct.noun.proper or direct.noun.mass:
                raise Retry
            self.mentions.append(direct)
        return self.clause(direct=direct, verb=verb, tense=tense, negation=0.0, adverbials=False)

    def asked_person(self, tense: str) -> Clause:
        """Who is sleeping in the garden? Whom does the doctor help?"""
        person = Phrase(MAN, kind="question")
        if self.chance(0.5):
            return self.clause(subject=person, tense=tense, negation=0.05)
        verb = self.pick(VERBS_OF_OBJECT[MAN])
        return self.clause(direct=person, verb=verb, tense=tense, negation=0.0, adverbials=False)
