"""Linearization of a tree in German: gender, case and agreement; verb-second, verb-first and verb-final clauses.

A clause follows the topological field model. In main clauses the finite verb is second, after one constituent (the
front field); in questions it may come first; in subordinate clauses it is last, after the infinitive or participle.
The order of the middle field is: subject, pronouns, sentence adverb; without a negation, time before the definite
objects (*liest heute das Buch*), with a negation, the definite objects before time and *nicht* (*liest das Buch
heute nicht*); then manner, place, indefinite objects, and last the constituents closest to the verb: prepositional
objects, directions and predicates. A negation with an indefinite object becomes *kein*.
"""

from __future__ import annotations

from tools.miniature import declension as d
from tools.miniature.german_phrases import GermanPhrases
from tools.miniature.lexicon.entries import Fixed, Verb
from tools.miniature.syntax import (
    MOVABLE,
    Adjunct,
    Clause,
    Key,
    Linearized,
    Link,
    Phrase,
    Sentence,
    Word,
    asks,
    comma,
    finish,
    fixed_words,
    moves,
)

_RAINING = {"rain": ("regnet", "regnete"), "snow": ("schneit", "schneite")}
_ADVERBS = {"why": "warum", "where": "wo", "when": "wann"}
_LATE = ("never", "already")  # these take the position of nicht


def linearize(sentence: Sentence) -> Linearized:
    """Linearize the tree of a sentence in German."""
    return _Linearizer().sentence(sentence)


class _Linearizer(GermanPhrases):
    """Linearizer of one sentence."""

    # ------------------------------------------------------------------------------------------- sentences

    def sentence(self, sentence: Sentence) -> Linearized:
        clause, second, link = sentence.clause, sentence.second, sentence.link
        if clause.is_fragment:
            words, root = self.phrase(clause.subject, "nom")
        elif second is None or link is None:
            words, root = self.clause(clause, "first" if clause.question == "polar" else "second")
        elif link.kind == "subordinate" and link.first:
            opening, dependent = self.subordinate(second, link)
            words, root = self.clause(clause, "first")
            dependent.head, dependent.relation = root, "advcl"
            words = [*opening, comma(dependent, ((link, "comma"),)), *words]
        elif link.kind in ("subordinate", "purpose"):
            words, root = self.clause(clause, "second")
            closing, dependent = self.subordinate(second, link)
            dependent.head, dependent.relation = root, "advcl"
            words = [*words, comma(dependent, ((link, "comma"),)), *closing]
        else:
            words, root = self.coordination(clause, second, link)
        mark = "?" if asks(clause) else "."
        words.append(Word(mark, "PUNCT", "punct", ((sentence, "end"),), root))
        return finish(words, self.nouns)

    def subordinate(self, clause: Clause, link: Link) -> tuple[list[Word], Word]:
        if link.kind == "purpose":
            words, head = self.clause(clause, "infinitive")
            return [Word("um", "SCONJ", "mark", ((clause, "um"),), head), *words], head
        conjunction = link.conjunction
        assert not isinstance(conjunction, str)
        words, head = self.clause(clause, "last")
        return [Word(conjunction.german, "SCONJ", "mark", ((link, "conjunction"),), head), *words], head

    def coordination(self, clause: Clause, second: Clause, link: Link) -> tuple[list[Word], Word]:
        words, root = self.clause(clause, "second")
        order = {"so": "first", "shared": "shared"}.get(link.kind, "second")
        others, head = self.clause(second, order)
        head.head, head.relation = root, "conj"
        key = ((link, "conjunction"),)
        if link.conjunction == "so":
            joint = Word("deshalb", "ADV", "advmod", key, head)
        else:
            assert isinstance(link.conjunction, str)
            joint = Word({"and": "und", "but": "aber"}[link.conjunction], "CCONJ", "cc", key, head)
        if link.conjunction != "and":
            words.append(comma(head, ((link, "comma"),)))
        return [*words, joint, *others], root

    # -------------------------------------------------------------------------------------------- verb forms

    def finite(self, clause: Clause) -> str:
        """Return the finite form of the lexical verb."""
        verb, subject = clause.verb, clause.subject
        assert verb is not None
        plural = subject.plural or subject.partner is not None
        if verb.infinitive == "sein":
            return (d.WAR if clause.tense == "past" else d.SEIN)[
                3 if plural and subject.person == 2 else subject.person, plural
            ]
        if clause.tense == "past":
            ending = "n" if verb.preterite.endswith("e") else "en"
            return verb.preterite + (ending if plural else "")
        if plural:
            return verb.infinitive
        return (verb.first_singular, verb.second_singular, verb.third_singular)[subject.person - 1]

    def predicate(self, clause: Clause) -> tuple[list[Word], Word]:
        """Return the words before the head of a predicate without a verb, and its head, an adjective or a noun."""
        if clause.nominal is not None:
            words, head = self.phrase(clause.nominal, "nom")
            return words[:-1], head
        assert clause.adjective is not None
        form = clause.adjective.german if clause.standard is None else clause.adjective.german_comparative
        head = Word(form, "ADJ", "", ((clause, "adjective"),))
        if clause.degree is None:
            return [], head
        words = fixed_words(clause.degree.german, clause, "degree")
        words[-1].head = head
        return words, head

    def verbs(self, clause: Clause, head: Word | None) -> tuple[Word, list[Word], Word, Word | None]:
        """Return the finite verb, other verbs in verb-final order, the head and any particle.

        `head` is that of a predicate without a verb.
        """
        subject, verb = clause.subject, clause.verb
        plural = subject.plural or subject.partner is not None
        agreement = (3 if subject.person == 2 and plural else subject.person, plural)
        lexical = (clause, "v")
        past = clause.tense == "past"
        if clause.raining:
            finite = Word(_RAINING[clause.raining][past], "VERB", "", (lexical,))
            return finite, [], finite, None
        if verb is None:
            assert head is not None
            if clause.tense == "future":
                infinitive = Word("sein", "AUX", "cop", (lexical,), head)
                return self.auxiliary(d.WERDEN[agreement], clause, head), [infinitive], head, None
            finite = Word((d.WAR if past else d.SEIN)[agreement], "AUX", "cop", (lexical,), head)
            return finite, [], head, None
        if clause.agent is not None:
            head = Word(verb.perfect, "VERB", "", (lexical,))
            finite = self.auxiliary((d.WURDE if past else d.WERDEN)[agreement], clause, head, "aux:pass")
            return finite, [head], head, None
        if clause.modal is not None:
            head = Word(verb.prefix + verb.infinitive, "VERB", "", (lexical,))
            modal = clause.modal
            if past and modal.german_past is not None:
                form = modal.german_past[plural] + ("st" if subject.person == 2 and not plural else "")
            else:
                form = modal.german[2 if plural else subject.person == 2]
            return Word(form, "AUX", "aux", ((clause, "modal"),), head), [head], head, None
        if clause.tense == "future":
            head = Word(verb.prefix + verb.infinitive, "VERB", "", (lexical,))
            return self.auxiliary(d.WERDEN[agreement], clause, head), [head], head, None
        if clause.tense == "perfect":
            head = Word(verb.perfect, "VERB", "", (lexical,))
            form = (d.SEIN if verb.auxiliary == "sein" else d.HABEN)[agreement]
            return self.auxiliary(form, clause, head), [head], head, None
        head = Word(self.finite(clause), "VERB", "", (lexical,))
        particle = Word(verb.prefix, "ADP", "compound:prt", (lexical,), head) if verb.prefix else None
        return head, [], head, particle

    @staticmethod
    def auxiliary(form: str, clause: Clause, head: Word, relation: str = "aux") -> Word:
        return Word(form, "AUX", relation, ((clause, "auxiliary"),), head)

    # ----------------------------------------------------------------------------------------------- clauses

    def clause(self, clause: Clause, order: str) -> tuple[list[Word], Word]:
        """Return words and head of a clause; `order` is second, first, last, shared (no subject) or infinitive."""
        if order == "infinitive":
            return self.infinitive(clause)
        before, predicate = [], None
        if clause.adjective is not None or clause.nominal is not None:
            before, predicate = self.predicate(clause)
        finite, nonfinite, head, particle = self.verbs(clause, predicate)
        front, middle = self.fields(clause, head, order)
        if predicate is not None:
            index = middle.index(predicate)
            middle[index:index] = before
        if order == "last":
            if particle is not None:
                finite.form = particle.form + finite.form
            words = [*front, *middle, *nonfinite, finite]
        else:
            bracket = nonfinite if particle is None else [particle]
            words = [*front, finite, *middle, *bracket]
        words += self.afterfield
        self.afterfield = []
        return words + self.complement(clause, head), head

    def infinitive(self, clause: Clause) -> tuple[list[Word], Word]:
        """Return words and head of an infinitive clause with zu, without subject; aufzumachen is one word."""
        verb = clause.verb
        assert verb is not None
        head = Word(verb.infinitive, "VERB", "", ((clause, "v"),))
        _, middle = self.fields(clause, head, "infinitive")
        if verb.prefix:
            head.form = f"{verb.prefix}zu{verb.infinitive}"
            head.keys = ((clause, "v"), (clause, "to"))
            return [*middle, head], head
        return [*middle, Word("zu", "PART", "mark", ((clause, "to"),), head), head], head

    def complement(self, clause: Clause, head: Word) -> list[Word]:
        inner = clause.complement
        if inner is None:
            return []
        if clause.complementizer == "to":
            words, verb = self.clause(inner, "infinitive")
            verb.head, verb.relation = head, "xcomp"
            return [comma(verb), *words]
        form = "dass" if clause.complementizer == "that" else "ob"
        words, verb = self.clause(inner, "last")
        verb.head, verb.relation = head, "ccomp"
        return [comma(verb), Word(form, "SCONJ", "mark", ((inner, "mark"),), verb), *words]

    def fields(self, clause: Clause, head: Word, order: str) -> tuple[list[Word], list[Word]]:
        """Return the front field (or the relative pronoun) and the middle field."""
        parts = self.parts(clause, head, order)
        subject = parts.pop("subject", [])
        if clause.raining:
            subject = [Word("es", "PRON", "expl", ((clause, "it"),), head)]
        front: list[Word] = []
        moved = next((name for name in MOVABLE if moves(getattr(clause, name))), "")
        if clause.question in _ADVERBS:
            front = [Word(_ADVERBS[clause.question], "ADV", "advmod", ((clause, "why"),), head)]
        elif moved:
            front = parts.pop(moved)
        elif clause.front and order == "second":
            front = parts.pop(clause.front)
        elif order == "second" or (order == "last" and moves(clause.subject)):
            front, subject = subject, []
        return front, self.middle(clause, head, subject, parts, order)

    def parts(self, clause: Clause, head: Word, order: str) -> dict[str, list[Word]]:
        """Return the constituents of a clause by name, each in its case."""
        parts: dict[str, list[Word]] = {}
        verb = clause.verb
        if not clause.raining and order not in ("shared", "infinitive"):
            parts["subject"] = self.argument(clause.subject, "nom", "nsubj:pass" if clause.agent else "nsubj", head)
        if clause.direct is not None:
            assert verb is not None
            kein = clause.negated and not clause.direct.definite and not clause.direct.is_pronoun
            negation = ((clause, "not"),) if kein and clause.direct.kind == "noun" else ()
            parts["direct"] = self.argument(clause.direct, verb.case, "obj", head, negation)
        if clause.recipient is not None:
            parts["recipient"] = self.argument(clause.recipient, "dat", "iobj", head)
        if clause.oblique is not None:
            assert verb is not None
            key = (clause, "p" if verb.preposition else "v")
            parts["oblique"] = self.prepositional(verb.german_preposition, verb.case, clause.oblique, key, "obl:arg")
        if clause.agent is not None:
            parts["agent"] = self.prepositional("von", "dat", clause.agent, (clause, "by"), "obl:agent")
        if clause.beneficiary is not None:
            parts["beneficiary"] = self.prepositional("für", "acc", clause.beneficiary, (clause, "for"))
        if clause.standard is not None:
            parts["standard"] = self.argument(clause.standard, "nom", "obl", head)
            standard = next(word for word in parts["standard"] if word.head is head)
            parts["standard"].insert(0, Word("als", "ADP", "case", ((clause, "than"),), standard))
        for name in ("place", "time", "frequency", "manner", "comment"):
            adjunct = getattr(clause, name)
            if adjunct is not None:
                parts[name] = self.adjunct(adjunct, clause, name)
        for words in parts.values():
            for word in words:
                if word.head is None:
                    word.head = head
        return parts

    def argument(
        self, phrase: Phrase, case: str, relation: str, head: Word, negation: tuple[Key, ...] = ()
    ) -> list[Word]:
        words, noun = self.phrase(phrase, case, negation, extrapose=relation == "obj")
        noun.head, noun.relation = head, relation
        return words

    def adjunct(self, adjunct: Fixed | Adjunct, clause: Clause, name: str) -> list[Word]:
        if isinstance(adjunct, Fixed):
            return fixed_words(adjunct.german, clause, name)
        preposition = adjunct.preposition
        return self.prepositional(preposition.german, preposition.case, adjunct.phrase, (adjunct, "case"))

    def middle(
        self, clause: Clause, head: Word, subject: list[Word], parts: dict[str, list[Word]], order: str
    ) -> list[Word]:
        """Return the middle field in the order of the module's docstring."""
        verb: Verb | None = clause.verb
        take = parts.pop
        words: list[Word] = []
        reflexive = []
        if verb is not None and verb.reflexive:
            person = (clause.subject.person, clause.subject.plural)
            reflexive = [Word(d.REFLEXIVES.get(person, "sich"), "PRON", "expl:pv", ((clause, "v"),), head)]
        words += subject + reflexive if clause.subject.is_pronoun or not subject else reflexive + subject
        pronouns, early, definite, indefinite = [], [], [], []
        for name in ("recipient", "direct"):
            phrase = getattr(clause, name)
            if name in parts and phrase is not None:
                field = indefinite
                if phrase.is_pronoun:
                    field = pronouns
                elif phrase.definite:
                    dative = name == "recipient" or (verb is not None and verb.case == "dat")
                    field = early if dative or phrase.noun.proper else definite
                field.append(take(name))
        words += [word for group in reversed(pronouns) for word in group]
        words += [word for group in early for word in group]
        frequency = clause.frequency
        late = frequency is not None and frequency.english[0].form in _LATE
        time = take("comment", []) + take("time", []) + ([] if late else take("frequency", []))
        definite_words = [word for group in definite for word in group]
        if late or self.nicht(clause):
            words += definite_words + time
        else:
            words += time + definite_words
        words += take("frequency", [])
        if self.nicht(clause):
            words.append(Word("nicht", "PART", "advmod", ((clause, "not"),), head))
        words += take("manner", [])
        if verb is None or verb.frame not in ("located", "directed", "placing"):
            words += take("place", [])
        words += [word for group in indefinite for word in group]
        for name in ("agent", "oblique", "beneficiary", "place"):
            words += take(name, [])
        if clause.verb is None and not clause.raining:
            words += [head, *take("standard", [])]
        assert not parts, f"constituents left over: {sorted(parts)}"
        return words

    @staticmethod
    def nicht(clause: Clause) -> bool:
        """Whether the clause is negated with *nicht*, as no indefinite object takes *kein*."""
        direct = clause.direct
        return clause.negated and (direct is None or direct.definite or direct.kind != "noun")
