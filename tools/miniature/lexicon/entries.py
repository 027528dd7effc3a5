"""Data classes of the lexicon's entries: nouns, verbs, adjectives, adverbials, prepositions and conjunctions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A noun with its English and German forms; `oblique` equals `german` unless the noun is weak."""

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
        """Whether the noun denotes a person: English refers to it with *who*, German uses *essen*, not *fressen*."""
        return self.group in ("he", "she", "child", "name")


@dataclass(frozen=True, slots=True, eq=False)
class Preposition:
    """A preposition: its English words (the last one governs the noun phrase), its German word and case."""

    english: tuple[str, ...]
    german: str
    case: str


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb with its English and German forms, its frame and its possible arguments."""

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
        """Return the name of the verb in held-out combinations, such as `eat_essen`."""
        return f"{self.base}_{self.prefix}{self.infinitive}"


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """An adjective with the nouns it fits; German endings attach to `stem`."""

    english: str
    german: str
    stem: str
    english_comparative: tuple[str, ...]
    german_comparative: str
    nouns: tuple[Noun, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """One word of a fixed phrase: its form, its dependency relation and the letter it is aligned by."""

    form: str
    relation: str
    link: str


@dataclass(frozen=True, slots=True, eq=False)
class Fixed:
    """An adverb or fixed adverbial phrase in both languages, and the contexts that it fits."""

    english: tuple[Piece, ...]
    german: tuple[Piece, ...]
    contexts: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """A preposition, the nouns that it fits, and (for directions) the verbs that it fits."""

    preposition: Preposition
    nouns: tuple[Noun, ...]
    verbs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Subordinator:
    """A subordinating conjunction: `weil` for "because"."""

    english: tuple[str, ...]
    german: str
    kind: str
