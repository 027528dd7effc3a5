"""German noun phrases: case, gender and number of articles, adjectives, nouns, pronouns and relative pronouns."""

from __future__ import annotations

from tools.miniature import declension as d
from tools.miniature.syntax import Clause, Key, Phrase, Word, comma, is_whole


class GermanPhrases:
    """Linearizer of noun phrases; holds their nouns for the coreference links, and extraposed relative clauses."""

    __slots__ = ("afterfield", "nouns")

    def __init__(self) -> None:
        self.nouns: dict[Phrase, Word] = {}
        self.afterfield: list[Word] = []

    def clause(self, clause: Clause, order: str) -> tuple[list[Word], Word]:
        """Return words and head of a clause; the subclass that linearizes clauses implements it."""
        raise NotImplementedError

    def phrase(
        self, phrase: Phrase, case: str, negation: tuple[Key, ...] = (), *, extrapose: bool = False
    ) -> tuple[list[Word], Word]:
        """Return words and head of a noun phrase in a case; a `negation` key turns its article into kein.

        With `extrapose`, a relative clause moves to the end of the clause, after the verbs.
        """
        if phrase.kind == "personal":
            return self.pronoun(phrase, case)
        gender = "p" if phrase.plural else phrase.noun.gender
        if phrase.kind == "relative":
            word = Word(d.RELATIVE[gender, case], "PRON", "", ((phrase, "n"),), referent=phrase.antecedent)
            return [word], word
        if phrase.kind == "question":
            form = d.QUESTIONS[case] if phrase.noun.human else "was"
            word = Word(form, "PRON", "", ((phrase, "n"),))
            return [word], word
        tag = "PROPN" if phrase.noun.proper else "NOUN"
        noun = Word(d.noun_form(phrase.noun, phrase.plural, case), tag, "", ((phrase, "n"),))
        self.nouns[phrase] = noun
        words, after, endings = self.determiner(phrase, gender, case, noun, negation)
        ending = endings[gender, case]
        for adjective in phrase.adjectives:
            words.append(Word(adjective.stem + ending, "ADJ", "amod", ((phrase, adjective.english),), noun))
        words.append(noun)
        words += after
        if phrase.partner is not None:
            others, other = self.phrase(phrase.partner, case)
            other.head, other.relation = noun, "conj"
            words += [Word("und", "CCONJ", "cc", ((phrase, "and"),), other), *others]
        if phrase.relative is not None:
            clause, verb = self.clause(phrase.relative, "last")
            verb.head, verb.relation = noun, "acl:relcl"
            relative = [comma(verb), *clause, comma(verb)]
            if extrapose:
                self.afterfield = relative
            else:
                words += relative
        return words, noun

    def determiner(
        self, phrase: Phrase, gender: str, case: str, noun: Word, negation: tuple[Key, ...]
    ) -> tuple[list[Word], list[Word], dict[tuple[str, str], str]]:
        """Return the words before the adjectives, the words after the noun, and the adjective endings."""
        name, key = phrase.determiner, (phrase, "d")
        owner = phrase.owner
        if owner is not None:
            genitive, other = self.phrase(owner, "gen")
            other.head, other.relation = noun, "nmod"
            if owner.noun.proper or owner.kind == "relative":
                other.relation = "nmod:poss" if owner.noun.proper else "det:poss"
                return genitive, [], d.STRONG
            keys = (key,) if is_whole(phrase) else ()
            return [Word(d.DEFINITE[gender, case], "DET", "det", keys, noun)], genitive, d.WEAK
        if negation:
            form = "kein" + d.POSSESSIVE[gender, case]
            keys = (*negation, key) if name == "a" else negation
            return [Word(form, "DET", "det", keys, noun)], [], d.MIXED
        if phrase.noun.proper or name in ("bare", "profession"):
            return [], [], d.STRONG
        if name == "own":
            owner_phrase = phrase.antecedent
            assert owner_phrase is not None
            several = owner_phrase.plural or owner_phrase.partner is not None
            masculine = not several and owner_phrase.noun.gender != "f"
            form = ("sein" if masculine else "ihr") + d.POSSESSIVE[gender, case]
            return [Word(form, "DET", "det:poss", (key,), noun, owner_phrase)], [], d.MIXED
        relation = "nummod" if name in d.NUMBERS else "det"
        relation = "det:poss" if name in ("my", "your", "our") else relation
        tag = "NUM" if relation == "nummod" else "DET"
        word = Word(d.determiner_form(name, gender, case), tag, relation, (key,), noun)
        endings = d.STRONG if name in d.STRONG_STEMS else d.adjective_declension(name)
        return [word], [], endings

    def pronoun(self, phrase: Phrase, case: str) -> tuple[list[Word], Word]:
        """Return a personal pronoun; in the third person it has the gender of the noun it refers to."""
        if phrase.person < 3:
            form = d.SPEAKERS[phrase.person, phrase.plural][case]
        else:
            form = d.PERSONAL["p" if phrase.plural else phrase.noun.gender, case]
        word = Word(form, "PRON", "", ((phrase, "n"),), referent=phrase.antecedent)
        return [word], word

    def prepositional(self, preposition: str, case: str, phrase: Phrase, key: Key, relation: str = "obl") -> list[Word]:
        """Return a prepositional phrase; preposition and definite article are contracted: zum, im, vom."""
        words, noun = self.phrase(phrase, case)
        noun.relation = relation
        if phrase.noun.group == "city_name" and preposition == "zu":
            preposition = "nach"
        opening = words[0]
        contracted = d.CONTRACTIONS.get((preposition, opening.form))
        if contracted and phrase.kind == "noun" and opening.relation == "det" and phrase.relative is None:
            return [Word(contracted, "ADP", "case", (key, *opening.keys), noun), *words[1:]]
        return [Word(preposition, "ADP", "case", (key,), noun), *words]
