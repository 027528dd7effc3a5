"""Sentence pairs with gold annotation, and their split into training, development and test sets."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from headwise.errors import DataError
from headwise.files import write_text
from tools.miniature import english, german
from tools.miniature.lexicon.entries import Adjective, Noun, Verb
from tools.miniature.phrases import Retry
from tools.miniature.sayings import SAYINGS
from tools.miniature.sentences import Constructions
from tools.miniature.syntax import Clause, Linearized, Phrase, Sentence

_SHORTEST, _LONGEST = 2, 17  # tokens, final punctuation included
_HELD_OUT_SHARE = 20  # one combination in 20 is reserved for dev and test
_FEWEST_CHOICES = 10  # words with fewer partners have none held out, so that each word occurs in training
# Sentences of public walk-throughs of the paper, in words of this corpus
EXAMPLES = (
    "The cat sat on the mat because it was tired.",
    "The cat sat on the mat because it was soft.",
    "The cat sat on the mat because it was comfortable.",
    "The dog chased the ball because it was red.",
    "Dog bites man.",
    "Man bites dog.",
    "Alice helped Bob because he was sick.",
    "Alice helped Bob because she was friendly.",
    "The old cat woke up.",
    "The animal didn't cross the street because it was too tired.",
    "The animal didn't cross the street because it was too wide.",
    "The quick brown fox jumps over the lazy dog.",
    "I am a student.",
    "The bank of the river.",
    "The bank raised its rates.",
)
SAID = 28  # times that each fixed sentence stands in the training text
_CLITICS = frozenset([".", "?", ",", "'s", "'", "'m", "'re", "'ve", "'ll"])


@dataclass(frozen=True, slots=True)
class MiniaturePair:
    """An English sentence, its German translation, and the gold annotation of both.

    Tokens are words, with punctuation and the English possessive 's as separate tokens. Indices count tokens from 0.
    `alignment` holds the pairs (source index, target index) of words that translate each other; function words that
    only one of the languages requires (*does* in a question, German commas) are not aligned. Heads and relations
    form a dependency tree in the style of Universal Dependencies: head -1 marks the root. Coreference holds
    (pronoun, noun) indices for personal, possessive and relative pronouns that refer to a noun of the
    sentence. Tags are Universal part-of-speech tags.
    """

    source: str
    target: str
    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    alignment: frozenset[tuple[int, int]]
    source_heads: tuple[int, ...]
    target_heads: tuple[int, ...]
    source_relations: tuple[str, ...]
    target_relations: tuple[str, ...]
    source_coreference: tuple[tuple[int, int], ...]
    target_coreference: tuple[tuple[int, int], ...]
    source_tags: tuple[str, ...]
    target_tags: tuple[str, ...]


@dataclass(frozen=True)
class MiniatureCorpus:
    """Training, development and test set; no English sentence occurs twice, within or across the sets."""

    train: list[MiniaturePair]
    dev: list[MiniaturePair]
    test: list[MiniaturePair]


def generate(train: int = 20_000, dev: int = 500, test: int = 500, seed: int = 1) -> MiniatureCorpus:
    """Generate a corpus with the given set sizes; takes about 0.1 s per 1,000 pairs.

    Equal arguments give equal corpora. The test set depends on `test` and `seed` alone, the training set on
    `train` and `seed`. Raises `DataError` for a negative size.
    """
    for name, size in (("train", train), ("dev", dev), ("test", test)):
        if size < 0:
            raise DataError(f"{name}: the miniature corpus needs a size of 0 or more, found {size}")
    used_sources: set[str] = set()
    test_pairs = _draw(test, f"{seed}/test", held_out=True, used_sources=used_sources)
    dev_pairs = _draw(dev, f"{seed}/dev", held_out=True, used_sources=used_sources)
    train_pairs = _draw(train, f"{seed}/train", held_out=False, used_sources=set())
    return MiniatureCorpus(train_pairs, dev_pairs, test_pairs)


def write(corpus: MiniatureCorpus, directory: Path) -> list[Path]:
    """Write the corpus as text, one sentence per line; returns the paths.

    Writes train, dev and test `.en` and `.de`; `test.align` and `dev.align` with the alignments in Pharaoh
    format (`source-target`, from 0); and for dev and test `.en.conllu` and `.de.conllu` with the dependency
    trees, where `Antecedent=N` in the last column of a pronoun is the number of the noun it refers to;
    and `examples.en`, the sentences that the page suggests first. Where there is training text, the fixed sentences of
    `SAYINGS` follow it, each as often as `SAID`. Raises `TrainingError` where the directory can't
    be written.
    """
    files: dict[str, Iterable[str]] = {"examples.en": (f"{text}\n" for text in EXAMPLES)}
    for name, pairs in (("train", corpus.train), ("dev", corpus.dev), ("test", corpus.test)):
        said = SAYINGS * SAID if name == "train" and pairs else ()
        texts = [(pair.source, pair.target) for pair in pairs] + [*said]
        files[f"{name}.en"] = [f"{source}\n" for source, _ in texts]
        files[f"{name}.de"] = [f"{target}\n" for _, target in texts]
        if name != "train":
            files[f"{name}.align"] = (f"{_pharaoh(pair)}\n" for pair in pairs)
            files[f"{name}.en.conllu"] = _conllu(name, pairs, german_side=False)
            files[f"{name}.de.conllu"] = _conllu(name, pairs, german_side=True)
    for file, lines in files.items():
        write_text(directory / file, "".join(lines))
    return [directory / file for file in files]


# ------------------------------------------------------------------------------------------------- drawing


def _draw(count: int, stream: str, *, held_out: bool, used_sources: set[str]) -> list[MiniaturePair]:
    """Sample pairs with (or without) held-out combinations whose sources are new, and add these to `used_sources`."""
    sampler = Constructions(Random(stream))
    pairs: list[MiniaturePair] = []
    while len(pairs) < count:
        try:
            sentence = sampler.sentence()
        except Retry:
            continue
        if any(map(is_held_out, combinations(sentence))) is not held_out:
            continue
        pair = annotate(sentence)
        shortest = min(len(pair.source_tokens), len(pair.target_tokens))
        longest = max(len(pair.source_tokens), len(pair.target_tokens))
        if shortest >= _SHORTEST and longest <= _LONGEST and pair.source not in used_sources:
            used_sources.add(pair.source)
            pairs.append(pair)
    return pairs


@cache
def is_held_out(combination: tuple[str, str]) -> bool:
    """Whether a combination is held out of the training set, by a fixed hash that no seed changes."""
    return zlib.crc32("|".join(combination).encode()) % _HELD_OUT_SHARE == 0


def combinations(sentence: Sentence) -> Iterator[tuple[str, str]]:
    """Yield the word pairs that a sentence combines.

    These are a verb with the nouns of its subject, objects and prepositional object, and an adjective with its noun,
    as attribute or predicate; a pronoun counts as the noun it refers to. Verbs and adjectives with few partners
    are excluded. One combination in twenty is held out.
    """
    yield from _clause_combinations(sentence.clause)
    if sentence.second is not None:
        yield from _clause_combinations(sentence.second)


def _clause_combinations(clause: Clause) -> Iterator[tuple[str, str]]:
    verb = clause.verb
    for role in ("subject", "direct", "recipient", "oblique", "agent"):
        phrase: Phrase | None = getattr(clause, role)
        if phrase is None:
            continue
        origin = phrase.origin
        if verb is not None and origin.kind == "noun" and len(_choices(verb, role)) >= _FEWEST_CHOICES:
            yield (f"{verb.key}:{role}", origin.noun.english)
        yield from _phrase_combinations(phrase)
    if clause.nominal is not None and clause.subject.origin.kind == "noun":
        yield (f"be:{clause.nominal.noun.english}", clause.subject.noun.english)
    if clause.adjective is not None and clause.subject.origin.kind == "noun":
        yield from _adjective_combination(clause.adjective, clause.subject.noun)
    for phrase in (clause.standard, clause.beneficiary, clause.place and clause.place.phrase):
        if phrase is not None:
            yield from _phrase_combinations(phrase)
    if clause.complement is not None:
        yield from _clause_combinations(clause.complement)


def _choices(verb: Verb, role: str) -> tuple[Noun, ...]:
    """Return the possible nouns of a verb in a role; none where no combination may be held out."""
    if verb.base == "eat" and role in ("subject", "agent"):  # who eats decides between essen and fressen
        return ()
    if role == "recipient":
        return verb.recipients
    return verb.subjects if role in ("subject", "agent") else verb.objects


def _phrase_combinations(phrase: Phrase) -> Iterator[tuple[str, str]]:
    for adjective in phrase.adjectives:
        yield from _adjective_combination(adjective, phrase.noun)
    if phrase.relative is not None:
        yield from _clause_combinations(phrase.relative)


def _adjective_combination(adjective: Adjective, noun: Noun) -> Iterator[tuple[str, str]]:
    if len(adjective.nouns) >= _FEWEST_CHOICES:
        yield (adjective.english, noun.english)


# ---------------------------------------------------------------------------------------------- annotation


def annotate(sentence: Sentence) -> MiniaturePair:
    """Linearize a tree in both languages and align the words that share a key."""
    source, target = english.linearize(sentence), german.linearize(sentence)
    return MiniaturePair(
        source=join(source.tokens),
        target=join(target.tokens),
        source_tokens=source.tokens,
        target_tokens=target.tokens,
        alignment=_align(source, target),
        source_heads=source.heads,
        target_heads=target.heads,
        source_relations=source.relations,
        target_relations=target.relations,
        source_coreference=source.coreference,
        target_coreference=target.coreference,
        source_tags=source.tags,
        target_tags=target.tags,
    )


def _align(source: Linearized, target: Linearized) -> frozenset[tuple[int, int]]:
    return frozenset(
        (left, right)
        for key, lefts in source.positions.items()
        for right in target.positions.get(key, ())
        for left in lefts
    )


def join(tokens: tuple[str, ...]) -> str:
    """Join tokens into the written sentence, without spaces before punctuation and the possessive."""
    first, *rest = tokens
    return first + "".join([token if token in _CLITICS else " " + token for token in rest])


# -------------------------------------------------------------------------------------------------- formats


def _pharaoh(pair: MiniaturePair) -> str:
    return " ".join(f"{left}-{right}" for left, right in sorted(pair.alignment))


def _conllu(name: str, pairs: list[MiniaturePair], *, german_side: bool) -> Iterator[str]:
    for number, pair in enumerate(pairs, 1):
        text, tokens, tags = pair.source, pair.source_tokens, pair.source_tags
        heads, relations, links = pair.source_heads, pair.source_relations, pair.source_coreference
        if german_side:
            text, tokens, tags = pair.target, pair.target_tokens, pair.target_tags
            heads, relations, links = pair.target_heads, pair.target_relations, pair.target_coreference
        yield f"# sent_id = {name}-{number}\n# text = {text}\n"
        antecedents = dict(links)
        following = (*tokens[1:], "")
        for index, token in enumerate(tokens):
            notes = [f"Antecedent={antecedents[index] + 1}"] if index in antecedents else []
            if following[index] in _CLITICS:
                notes.append("SpaceAfter=No")
            columns = (
                str(index + 1),
                token,
                "_",
                tags[index],
                "_",
                "_",
                str(heads[index] + 1),
                relations[index],
                "_",
                "|".join(notes) or "_",
            )
            yield "\t".join(columns) + "\n"
        yield "\n"
