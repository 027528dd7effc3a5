"""Linearization of a tree in English: agreement, do-support, progressive, auxiliaries, a and an, relative pronouns."""

from __future__ import annotations

from tools.miniature.lexicon.entries import Fixed, Verb
from tools.miniature.lexicon.lexicon import NUMBERS
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
    is_whole,
    moves,
)

_PRONOUNS = {
    (1, False): ("I", "me"),
    (2, False): ("you", "you"),
    (1, True): ("we", "us"),
    "he": ("he", "him"),
    "she": ("she", "her"),
    "it": ("it", "it"),
    "they": ("they", "them"),
}
_OWN = {"he": "his", "she": "her", "it": "its", "they": "their"}
_BE = {(1, False): "am", (3, False): "is"}
_RAINING = {"rain": ("is", "was", "raining"), "snow": ("is", "was", "snowing")}
_NO_COMMA = ("today", "now", "yesterday", "tomorrow", "soon", "perhaps")
_LATE_PARTICLES = ("aloud", "along", "back")  # give the book back, but put on the coat
_SHORT = {"am": "'m", "is": "'s", "are": "'re", "have": "'ve", "has": "'s", "will": "'ll"}  # I'm, she's
_CARRIERS = frozenset(["I", "you", "he", "she", "it", "we", "they"])
_WITH_NOT = {"will": "won't", "can": "can't"}
_OF = {("shore", "river"): "bank", ("shores", "river"): "banks"}  # a river has banks where a lake has shores
_SEMI = {"want": ("want", "wants", "wanted"), "must": ("have", "has", "had")}


def article(following: str) -> str:
    """Return `an` before a vowel sound, `a` elsewhere."""
    return "an" if following[0] in "aeio" or following.startswith(("um", "un", "ug", "hon")) else "a"


def linearize(sentence: Sentence) -> Linearized:
    """Linearize the tree of a sentence in English."""
    return _Linearizer(sentence.contracted).sentence(sentence)


class _Linearizer:
    """Linearizer of one sentence; holds the noun of every noun phrase for the coreference links."""

    __slots__ = ("contracted", "nouns")

    def __init__(self, contracted: bool) -> None:
        self.contracted = contracted
        self.nouns: dict[Phrase, Word] = {}

    # ------------------------------------------------------------------------------------------- sentences

    def sentence(self, sentence: Sentence) -> Linearized:
        clause, second, link = sentence.clause, sentence.second, sentence.link
        if clause.is_fragment:
            words, root = self.phrase(clause.subject, subject=True)
        else:
            words, root = self.clause(clause)
        if second is not None and link is not None:
            others, head = self.clause(second, "infinitive" if link.kind == "purpose" else link.kind)
            head.head = root
            head.relation = "advcl" if link.kind in ("subordinate", "purpose") else "conj"
            key = ((link, "comma"),)
            if link.kind == "subordinate":
                assert not isinstance(link.conjunction, str)
                others = self.mark(link, link.conjunction.english, head) + others
            elif link.kind != "purpose":
                conjunction = link.conjunction
                assert isinstance(conjunction, str)
                tag, relation = ("ADV", "advmod") if conjunction == "so" else ("CCONJ", "cc")
                others.insert(0, Word(conjunction, tag, relation, ((link, "conjunction"),), head))
            if link.first:
                words = [*others, comma(head, key), *words]
            elif link.conjunction in ("so", "but"):
                words = [*words, comma(head, key), *others]
            else:
                words = words + others
        words.append(Word("?" if asks(clause) else ".", "PUNCT", "punct", ((sentence, "end"),), root))
        return finish(words, self.nouns)

    @staticmethod
    def mark(link: Link, forms: tuple[str, ...], head: Word) -> list[Word]:
        """Return the words of a subordinating conjunction; all others depend on the first (so that)."""
        first = Word(forms[0], "SCONJ", "mark", ((link, "conjunction"),), head)
        rest = [Word(form, "SCONJ", "fixed", ((link, "conjunction"),), first) for form in forms[1:]]
        return [first, *rest]

    # ------------------------------------------------------------------------------------------ noun phrases

    def phrase(self, phrase: Phrase, *, subject: bool = False) -> tuple[list[Word], Word]:
        """Return words and head of a noun phrase."""
        key = ((phrase, "n"),)
        if phrase.kind == "personal":
            name = (phrase.person, phrase.plural) if phrase.person < 3 else phrase.english_pronoun
            word = Word(_PRONOUNS[name][not subject], "PRON", "", key, referent=phrase.antecedent)
            return [word], word
        if phrase.kind == "relative":
            word = Word(self.relativizer(phrase, subject), "PRON", "", key, referent=phrase.antecedent)
            return [word], word
        if phrase.kind == "question":
            form = ("who" if subject else "whom") if phrase.noun.human else "what"
            word = Word(form, "PRON", "", key)
            return [word], word
        form = phrase.noun.english_plural if phrase.plural else phrase.noun.english
        if phrase.owner is not None:
            form = _OF.get((form, phrase.owner.noun.english), form)
        *modifiers, core = form.split()
        noun = Word(core, "PROPN" if phrase.noun.proper else "NOUN", "", key)
        self.nouns[phrase] = noun
        words = [
            Word(adjective.english, "ADJ", "amod", ((phrase, adjective.english),), noun)
            for adjective in phrase.adjectives
        ]
        words += [Word(part, "NOUN", "compound", key, noun) for part in modifiers]
        words.append(noun)
        words = self.determiner(phrase, noun, words[0].form) + words
        if phrase.owner is not None and is_whole(phrase):
            others, other = self.phrase(phrase.owner)
            other.head, other.relation = noun, "nmod"
            words += [Word("of", "ADP", "case", ((phrase.owner, "d"),), other), *others]
        if phrase.partner is not None:
            others, other = self.phrase(phrase.partner, subject=subject)
            other.head, other.relation = noun, "conj"
            words += [Word("and", "CCONJ", "cc", ((phrase, "and"),), other), *others]
        if phrase.relative is not None:
            clause, verb = self.clause(phrase.relative, "subordinate")
            verb.head, verb.relation = noun, "acl:relcl"
            words += clause
        return words, noun

    @staticmethod
    def relativizer(phrase: Phrase, subject: bool) -> str:
        if phrase.noun.pronoun == "it" and not phrase.noun.human:
            return "that" if phrase.determiner != "which" else "which"
        return "who" if subject else "whom"

    def determiner(self, phrase: Phrase, noun: Word, following: str) -> list[Word]:
        """Return the words before the adjectives: an article, a possessive, or the owner with 's."""
        owner, name, key = phrase.owner, phrase.determiner, ((phrase, "d"),)
        if owner is not None and not is_whole(phrase):
            if owner.kind == "relative":
                return [Word("whose", "PRON", "nmod:poss", ((owner, "n"),), noun, owner.antecedent)]
            words, other = self.phrase(owner)
            other.head, other.relation = noun, "nmod:poss"
            keys = ((owner, "n" if owner.noun.proper else "d"),)
            clitic = "'" if owner.plural and other.form.endswith("s") else "'s"
            return [*words, Word(clitic, "PART", "case", keys, other)]
        if name == "bare" or phrase.noun.proper:
            return []
        if name == "own":
            assert phrase.antecedent is not None
            form = _OWN[phrase.antecedent.english_pronoun]
            return [Word(form, "PRON", "nmod:poss", key, noun, phrase.antecedent)]
        if name in ("my", "your", "our"):
            return [Word(name, "PRON", "nmod:poss", key, noun)]
        if name in NUMBERS:
            return [Word(name, "NUM", "nummod", key, noun)]
        if name in ("a", "profession"):
            name = article(following)
        elif name == "this" and phrase.plural:
            name = "these"
        return [Word(name, "ADJ" if name == "many" else "DET", "amod" if name == "many" else "det", key, noun)]

    # -------------------------------------------------------------------------------------------- verb group

    @staticmethod
    def agreement(subject: Phrase) -> tuple[int, bool]:
        """Return person and number of the finite verb; *you* takes plural forms."""
        plural = subject.plural or subject.partner is not None or subject.person == 2
        return (3 if subject.person == 2 else subject.person, plural)

    def be(self, clause: Clause) -> str:
        person, plural = self.agreement(clause.subject)
        if clause.tense == "past":
            return "were" if plural else "was"
        return "are" if plural else _BE[person, plural]

    def verbs(self, clause: Clause, head: Word | None) -> tuple[list[Word], Word, Word, bool]:
        """Return the auxiliaries (finite first), the clause's head, the word that complements depend on, and a flag.

        `head` is that of a predicate without a verb.
        The flag says whether the auxiliaries include the negation (cannot).
        """
        verb, modal = clause.verb, clause.modal
        third = self.agreement(clause.subject) == (3, False)
        past = clause.tense == "past"
        lexical: tuple[Key, ...] = ((clause, "v"),)
        aux: tuple[Key, ...] = ((clause, "auxiliary"),)
        if clause.raining:
            present, was, gerund = _RAINING[clause.raining]
            head = Word(gerund, "VERB", "", lexical)
            return [Word(was if past else present, "AUX", "aux", (), head)], head, head, False
        if verb is None:
            assert head is not None
            if clause.tense == "future":
                cop = Word("be", "AUX", "cop", lexical, head)
                return [Word("will", "AUX", "aux", aux, head), cop], head, head, False
            return [Word(self.be(clause), "AUX", "cop", lexical, head)], head, head, False
        if verb.base == "be" and modal is None and clause.tense in ("present", "past"):
            head = Word(self.be(clause), "VERB", "", lexical)
            return [head], head, head, False
        if clause.agent is not None:
            head = Word(verb.participle, "VERB", "", lexical)
            return [Word(self.be(clause), "AUX", "aux:pass", aux, head)], head, head, False
        if modal is not None:
            return self.modal(clause, verb, third)
        if clause.tense == "future":
            head = Word(verb.base, "VERB", "", lexical)
            return [Word("will", "AUX", "aux", aux, head)], head, head, False
        if clause.tense == "perfect":
            head = Word(verb.participle, "VERB", "", lexical)
            return [Word("has" if third else "have", "AUX", "aux", aux, head)], head, head, False
        if clause.progressive:
            head = Word(verb.gerund, "VERB", "", lexical)
            return [Word(self.be(clause), "AUX", "aux", (), head)], head, head, False
        if self.supported(clause):
            head = Word(verb.base, "VERB", "", lexical)
            return [self.do(past, third, head)], head, head, False
        head = Word(verb.past if past else verb.third if third else verb.base, "VERB", "", lexical)
        return [], head, head, False

    def predicate(self, clause: Clause) -> tuple[list[Word], Word]:
        """Return the words before the head of a predicate without a verb, and its head, an adjective or a noun."""
        if clause.nominal is not None:
            words, head = self.phrase(clause.nominal)
            return words[:-1], head
        assert clause.adjective is not None
        *more, form = clause.adjective.english_comparative if clause.standard else (clause.adjective.english,)
        head = Word(form, "ADJ", "", ((clause, "adjective"),))
        words = [Word(form, "ADV", "advmod", head.keys, head) for form in more]
        if clause.degree is not None:
            words = fixed_words(clause.degree.english, clause, "degree")
            words[-1].head = head
        return words, head

    @staticmethod
    def do(past: bool, third: bool, head: Word) -> Word:
        return Word("did" if past else "does" if third else "do", "AUX", "aux", (), head)

    @staticmethod
    def supported(clause: Clause) -> bool:
        """Whether a verb without an auxiliary needs do-support: in negations and non-subject questions."""
        return clause.negated or (asks(clause) and not moves(clause.subject))

    def modal(self, clause: Clause, verb: Verb, third: bool) -> tuple[list[Word], Word, Word, bool]:
        modal = clause.modal
        assert modal is not None
        past = clause.tense == "past"
        keys: tuple[Key, ...] = ((clause, "modal"),)
        main = Word(verb.base, "VERB", "", ((clause, "v"),))
        inflected = modal.name == "want" or (modal.name == "must" and (past or clause.negated))
        if inflected:
            base, present, preterite = _SEMI[modal.name]
            supported = self.supported(clause)
            form = base if supported or not (past or third) else preterite if past else present
            semi = Word(form, "VERB", "", keys)
            main.head, main.relation = semi, "xcomp"
            return [self.do(past, third, semi)] if supported else [], semi, main, False
        if modal.name == "can" and clause.negated and not asks(clause) and not past:
            form = "can't" if self.contracted else "cannot"
            return [Word(form, "AUX", "aux", (*keys, (clause, "not")), main)], main, main, True
        form = {"can": "could" if past else "can", "must": "must", "may": "may", "should": "should"}[modal.name]
        if modal.name == "may" and clause.negated:
            form = "must"
        return [Word(form, "AUX", "aux", keys, main)], main, main, False

    # ----------------------------------------------------------------------------------------------- clauses

    def clause(self, clause: Clause, kind: str = "main") -> tuple[list[Word], Word]:
        """Return words and head of a clause; `kind` is main, subordinate, infinitive or shared (no subject)."""
        if kind == "infinitive":
            assert clause.verb is not None
            head = Word(clause.verb.base, "VERB", "", ((clause, "v"),))
            to = Word("to", "PART", "mark", ((clause, "um"), (clause, "to")), head)
            return [to, head, *self.after(clause, self.parts(clause, head, head, kind), head)], head
        before, predicate = [], None
        if clause.adjective is not None or clause.nominal is not None:
            before, predicate = self.predicate(clause)
        auxiliaries, head, main, done = self.verbs(clause, predicate)
        parts = self.parts(clause, head, main, kind)
        subject = parts["subject"]
        opening = self.opening(clause, parts, head)
        adverbs = []
        if clause.negated and not (done or self.contract(auxiliaries, clause)):
            adverbs.append(Word("not", "PART", "advmod", ((clause, "not"),), head))
        adverbs += parts.pop("frequency", [])
        if clause.comment is not None and clause.front != "comment":
            adverbs += parts.pop("comment")
        if asks(clause) and not moves(clause.subject):
            words = [*opening, auxiliaries[0], *subject, *adverbs, *auxiliaries[1:]]
        else:
            self.attach(subject, auxiliaries)
            words = [*opening, *subject, *auxiliaries[:1], *adverbs, *auxiliaries[1:]]
        words += before if head in words else [*before, head]
        if main is not head:
            words += [Word("to", "PART", "mark", ((clause, "modal"),), main), main]
        return words + self.after(clause, parts, main), head

    def contract(self, auxiliaries: list[Word], clause: Clause) -> bool:
        """Join *not* to the first auxiliary where the sentence is contracted; returns whether it is joined."""
        if not self.contracted or not auxiliaries or auxiliaries[0].form == "am":
            return False
        first = auxiliaries[0]
        first.form = _WITH_NOT.get(first.form, f"{first.form}n't")
        first.keys = (*first.keys, (clause, "not"))
        return True

    def attach(self, subject: list[Word], auxiliaries: list[Word]) -> None:
        """Shorten the first auxiliary after a pronoun where the sentence is contracted: *I'm*, *she'll*."""
        if self.contracted and len(subject) == 1 and auxiliaries and subject[0].form in _CARRIERS:
            first = auxiliaries[0]
            first.form = _SHORT.get(first.form, first.form)

    def opening(self, clause: Clause, parts: dict[str, list[Word]], head: Word) -> list[Word]:
        """Return the words before the subject: a fronted constituent, a question word or a relative pronoun."""
        if clause.question in ("why", "where", "when"):
            return [Word(clause.question, "ADV", "advmod", ((clause, "why"),), head)]
        moved = next((name for name in MOVABLE if moves(getattr(clause, name))), "")
        if moved:
            return parts.pop(moved)
        if not clause.front:
            return []
        words = parts.pop(clause.front)
        plain = clause.front == "direct" or (len(words) == 1 and words[0].form in _NO_COMMA)
        return words if plain else [*words, comma(head)]

    def parts(self, clause: Clause, head: Word, main: Word, kind: str) -> dict[str, list[Word]]:
        """Return the constituents of a clause by name; arguments depend on the main verb, the subject on the head."""
        parts: dict[str, list[Word]] = {}
        verb = clause.verb
        if kind in ("shared", "infinitive"):
            parts["subject"] = []
        elif clause.raining:
            parts["subject"] = [Word("it", "PRON", "expl", ((clause, "it"),), head)]
        else:
            relation = "nsubj:pass" if clause.agent else "nsubj"
            parts["subject"] = self.argument(clause.subject, relation, head, subject=True)
        if clause.direct is not None:
            assert verb is not None
            words = verb.preposition.split()
            key = (clause, "v")
            relation = "obl" if words else "obj"
            parts["direct"] = self.argument(clause.direct, relation, main, words=words, key=key)
        if clause.recipient is not None:
            assert verb is not None
            to = "to" in verb.flags or (clause.direct is not None and clause.direct.is_pronoun)
            parts["to" if to else "recipient"] = self.argument(
                clause.recipient, "obl" if to else "iobj", main, words=["to"] if to else []
            )
        if clause.oblique is not None:
            assert verb is not None
            words = verb.preposition.split()
            parts["oblique"] = self.argument(
                clause.oblique, "obl" if words else "obj", main, words=words, key=(clause, "p")
            )
        others = (("agent", "by", "obl:agent"), ("beneficiary", "for", "obl"), ("standard", "than", "obl"))
        for name, word, relation in others:
            phrase = getattr(clause, name)
            if phrase is not None:
                parts[name] = self.argument(phrase, relation, main, words=[word], key=(clause, word))
        for name in ("place", "time", "frequency", "manner", "comment"):
            adjunct = getattr(clause, name)
            if isinstance(adjunct, Adjunct):
                words = list(adjunct.preposition.english)
                parts[name] = self.argument(adjunct.phrase, "obl", main, words=words, key=(adjunct, "case"))
            elif isinstance(adjunct, Fixed):
                parts[name] = fixed_words(adjunct.english, clause, name)
                for word in parts[name]:
                    word.head = word.head or main
        return parts

    def argument(
        self,
        phrase: Phrase,
        relation: str,
        head: Word,
        *,
        subject: bool = False,
        words: list[str] | None = None,
        key: Key | None = None,
    ) -> list[Word]:
        """Return a noun phrase with its relation, after the preposition `words`, if any."""
        result, noun = self.phrase(phrase, subject=subject)
        noun.head, noun.relation = head, relation
        if not words:
            return result
        if noun.form == "that" and phrase.kind == "relative":
            noun.form = "which"
        keys = () if key is None else (key,)
        first = Word(words[0], "ADP", "case", keys, noun)
        return [first, *[Word(form, "ADP", "fixed", keys, first) for form in words[1:]], *result]

    def after(self, clause: Clause, parts: dict[str, list[Word]], main: Word) -> list[Word]:
        """Return the words after the main verb: objects, then manner, place and time, then a complement clause."""
        verb, take = clause.verb, parts.pop
        words: list[Word] = []
        particle: list[Word] = []
        if verb is not None and verb.particle:
            particle = [Word(verb.particle, "ADP", "compound:prt", ((clause, "v"),), main)]
        late = clause.direct is not None and "direct" in parts and clause.direct.is_pronoun
        if not late and (verb is None or verb.particle not in _LATE_PARTICLES):
            words += particle
            particle = []
        for name in ("recipient", "direct"):
            words += take(name, [])
        words += particle
        for name in (
            "to",
            "oblique",
            "agent",
            "standard",
            "beneficiary",
            "manner",
            "place",
            "time",
            "comment",
        ):
            words += take(name, [])
        inner = clause.complement
        if inner is not None:
            kind = "infinitive" if clause.complementizer == "to" else "subordinate"
            others, verb_word = self.clause(inner, kind)
            verb_word.head = main
            verb_word.relation = "xcomp" if kind == "infinitive" else "ccomp"
            if kind == "subordinate":
                words.append(Word(clause.complementizer, "SCONJ", "mark", ((inner, "mark"),), verb_word))
            words += others
        return words
