"""Abstract syntax trees, from which both languages are linearized, and the words of the linearization.

A sentence is one tree of phrases and clauses that holds lexical entries and grammatical choices but neither word
order nor inflection. `english.py` and `german.py` each linearize the same tree into `Word`s, so that the two sentences
are translations by construction. Words of the two sides that realize the same node of the tree share a key, which
gives the gold alignment; heads and relations are set when the words are created.
"""

from __future__ import annotations

from dataclasses import dataclass

from tools.miniature.lexicon.entries import (
    Adjective,
    Fixed,
    Noun,
    Piece,
    Preposition,
    Subordinator,
    Verb,
)
from tools.miniature.lexicon.lexicon import NUMBERS, WHOLES

Key = tuple[object, str]


class Word:
    """One token of a linearized sentence; `head` is None for the root, `referent` is the antecedent of a pronoun."""

    __slots__ = ("form", "head", "keys", "referent", "relation", "tag")

    def __init__(
        self,
        form: str,
        tag: str,
        relation: str,
        keys: tuple[Key, ...] = (),
        head: Word | None = None,
        referent: Phrase | None = None,
    ) -> None:
        self.form = form
        self.tag = tag
        self.relation = relation
        self.keys = keys
        self.head = head
        self.referent = referent


@dataclass(slots=True, eq=False)
class Phrase:
    """A noun phrase or pronoun.

    `kind` is `noun`, `personal`, `relative` or `question`. A pronoun's `noun` is that of its antecedent (or a
    stand-in for I, you and unmentioned persons), so that agreement uses the same field for all kinds.
    `antecedent` is the phrase that a pronoun or the determiner `own` (his, her, its, their) refers to.
    """

    noun: Noun
    plural: bool = False
    determiner: str = "the"
    kind: str = "noun"
    person: int = 3
    adjectives: tuple[Adjective, ...] = ()
    antecedent: Phrase | None = None
    owner: Phrase | None = None
    relative: Clause | None = None
    partner: Phrase | None = None

    @property
    def is_pronoun(self) -> bool:
        """Whether this is a personal pronoun."""
        return self.kind == "personal"

    @property
    def english_pronoun(self) -> str:
        """Return the English pronoun that refers to this phrase: he, she, it or they."""
        return "they" if self.plural or self.partner else self.noun.pronoun

    @property
    def definite(self) -> bool:
        """Whether the phrase is definite: German puts it before adverbials and negates it with *nicht*, not *kein*."""
        return self.kind == "noun" and self.determiner not in INDEFINITE

    @property
    def origin(self) -> Phrase:
        """Return the noun phrase at the end of a chain of antecedents."""
        phrase = self
        while phrase.kind != "noun" and phrase.antecedent is not None:
            phrase = phrase.antecedent
        return phrase


INDEFINITE = frozenset(["a", "bare", "many", "some", "no", *NUMBERS])


@dataclass(slots=True, eq=False)
class Adjunct:
    """A prepositional phrase."""

    preposition: Preposition
    phrase: Phrase


@dataclass(frozen=True, slots=True, eq=False)
class Modal:
    """A modal verb: its English name and its German present and past forms."""

    name: str
    german: tuple[str, str, str]  # for ich and er, du, wir and sie
    german_past: tuple[str, str] | None  # for ich and er, wir and sie


@dataclass(slots=True, eq=False)
class Clause:
    """A clause: a verb, an adjective or a noun as predicate, with arguments, adverbials and grammatical choices.

    Without any predicate it is a fragment: the phrase of its subject alone, as in a title.
    """

    subject: Phrase
    verb: Verb | None = None
    adjective: Adjective | None = None
    degree: Fixed | None = None
    nominal: Phrase | None = None
    standard: Phrase | None = None
    direct: Phrase | None = None
    recipient: Phrase | None = None
    oblique: Phrase | None = None
    agent: Phrase | None = None
    beneficiary: Phrase | None = None
    place: Adjunct | None = None
    time: Fixed | Adjunct | None = None
    frequency: Fixed | None = None
    manner: Fixed | None = None
    comment: Fixed | None = None
    tense: str = "present"
    modal: Modal | None = None
    progressive: bool = False
    negated: bool = False
    front: str = ""
    question: str = ""  # polar, why, where or when
    complement: Clause | None = None
    complementizer: str = ""  # that, whether or to
    raining: str = ""  # an impersonal weather verb in place of everything else

    @property
    def is_fragment(self) -> bool:
        """Whether the clause is a noun phrase alone."""
        return not (self.verb or self.adjective or self.nominal or self.raining)


@dataclass(slots=True, eq=False)
class Link:
    """The connection between the two clauses of a sentence."""

    kind: str  # subordinate, coordinate, shared (subject), so, purpose
    conjunction: Subordinator | str
    first: bool = False  # whether the subordinate clause comes first


@dataclass(slots=True, eq=False)
class Sentence:
    """A main clause, and possibly a second clause joined to it; `contracted` says whether English writes *didn't*."""

    clause: Clause
    second: Clause | None = None
    link: Link | None = None
    contracted: bool = False


@dataclass(frozen=True, slots=True)
class Linearized:
    """One side of a sentence pair: tokens, dependency tree, tags, coreference and the token positions of each key."""

    tokens: tuple[str, ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]
    tags: tuple[str, ...]
    coreference: tuple[tuple[int, int], ...]
    positions: dict[Key, list[int]]


MOVABLE = ("direct", "recipient", "oblique", "place")


def moves(part: Phrase | Adjunct | Fixed | None) -> bool:
    """Whether a constituent must open its clause: relative pronouns, question words and phrases with them."""
    phrase = part.phrase if isinstance(part, Adjunct) else part
    if not isinstance(phrase, Phrase):
        return False
    whose = phrase.owner is not None and phrase.owner.kind == "relative"
    return phrase.kind in ("relative", "question") or phrase.determiner == "which" or whose


def is_whole(phrase: Phrase) -> bool:
    """Whether the owner of a phrase is what it is a part of, as in *the door of the house*."""
    return (
        phrase.owner is not None
        and phrase.owner.kind == "noun"
        and phrase.noun in WHOLES
        and (phrase.owner.noun in WHOLES[phrase.noun])
    )


def asks(clause: Clause) -> bool:
    """Whether a main clause is a question."""
    phrases = (clause.subject, clause.direct, clause.oblique)
    return bool(clause.question) or any(
        phrase is not None and (phrase.kind == "question" or (phrase.kind == "noun" and phrase.determiner == "which"))
        for phrase in phrases
    )


_TAGS = {"advmod": "ADV", "obl": "NOUN", "det": "DET", "case": "ADP", "amod": "ADJ", "nummod": "NUM"}


def fixed_words(pieces: tuple[Piece, ...], clause: Clause, name: str) -> list[Word]:
    """Return the words of a fixed adverbial; all depend on its core word, whose own head is left None."""
    words = [
        Word(piece.form, _TAGS[piece.relation], piece.relation, ((clause, name + piece.link),)) for piece in pieces
    ]
    core = next(word for word in words if word.relation in ("advmod", "obl"))
    for word in words:
        if word is not core:
            word.head = core
    return words


def comma(head: Word | None, keys: tuple[Key, ...] = ()) -> Word:
    """Return a comma that depends on `head`."""
    return Word(",", "PUNCT", "punct", keys, head)


def finish(words: list[Word], nouns: dict[Phrase, Word]) -> Linearized:
    """Number the words, capitalize the first and remove commas before other punctuation.

    `nouns` maps every noun phrase of the sentence to its noun, for the coreference links.
    """
    kept = [
        word
        for word, following in zip(words, [*words[1:], None], strict=True)
        if not (word.form == "," and following is not None and following.tag == "PUNCT")
    ]
    first = kept[0]
    first.form = first.form[0].upper() + first.form[1:]
    index = {word: position for position, word in enumerate(kept)}
    positions: dict[Key, list[int]] = {}
    links = []
    for position, word in enumerate(kept):
        for key in word.keys:
            positions.setdefault(key, []).append(position)
        if word.referent is not None:
            noun = nouns.get(word.referent.origin)
            if noun is not None:
                links.append((position, index[noun]))
    return Linearized(
        tokens=tuple([word.form for word in kept]),
        heads=tuple([-1 if word.head is None else index[word.head] for word in kept]),
        relations=tuple([word.relation or "root" for word in kept]),
        tags=tuple([word.tag for word in kept]),
        coreference=tuple(links),
        positions=positions,
    )
