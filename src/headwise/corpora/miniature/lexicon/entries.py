"""The records of the miniature lexicon: what is known of each noun, verb, adjective and adverbial."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A noun with its English and German forms; `oblique` is the weak declension's form, if it has one."""

    english: str
    english_plural: str
    german: str
    german_plural: str
    gender: str
    genitive: str
    oblique: str
    pronoun: str  # he, she or it
    group: str
    mass: bool = False
    proper: bool = False

    @property
    def human(self) -> bool:
        """Whether English refers to it with who, he and she, and German animals' verbs don't fit."""
        return self.group in ("he", "she", "child", "name")


@dataclass(frozen=True, slots=True, eq=False)
class Preposition:
    """A preposition: its English words (the last one governs the noun phrase), its German word and case."""

    english: tuple[str, ...]
    german: str
    case: str


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb, its forms on both sides and what it combines with."""

    frame: str
    base: str
    third: str
    past: str
    participle: str
    gerund: str
    particle: str
    preposition: str
    infinitive: str
    first_singular: str
    second_singular: str
    third_singular: str
    preterite: str
    perfect: str
    prefix: str
    auxiliary: str
    reflexive: bool
    german_preposition: str
    case: str
    subjects: tuple[Noun, ...]
    objects: tuple[Noun, ...]
    recipients: tuple[Noun, ...]
    flags: frozenset[str]

    @property
    def key(self) -> str:
        """The name of the verb in held-out combinations, such as `eat_essen`."""
        return f"{self.base}_{self.prefix}{self.infinitive}"


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """An adjective; `stem` is what German endings are added to."""

    english: str
    german: str
    stem: str
    english_comparative: tuple[str, ...]
    german_comparative: str
    nouns: tuple[Noun, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """One word of a fixed phrase: its form, its relation within the phrase and the link to its translation."""

    form: str
    relation: str
    link: str


@dataclass(frozen=True, slots=True, eq=False)
class Fixed:
    """An adverb or a fixed adverbial phrase on both sides, and the contexts it goes with."""

    english: tuple[Piece, ...]
    german: tuple[Piece, ...]
    contexts: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """A preposition, the nouns it goes with, and (for directions) the verbs that take it."""

    preposition: Preposition
    nouns: tuple[Noun, ...]
    verbs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Subordinator:
    """A conjunction that opens a subordinate clause: `weil` for "because"."""

    english: tuple[str, ...]
    german: str
    kind: str
