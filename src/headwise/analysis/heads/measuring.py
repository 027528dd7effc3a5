"""Measurement of a model's heads on text: attention is recorded by forced decoding and counted by sentence."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from headwise.analysis.attention import SentenceWords, joining, overlap
from headwise.analysis.heads.roles import HeadRoles, LinkCounts, RelationRate, TokenCounts, head_roles
from headwise.analysis.heads.similarity import REACH, SimilarityCounts
from headwise.analysis.interventions import PARTS, Part
from headwise.analysis.recording import Stack, attention_by_part
from headwise.decoding.batching import batches, padded
from headwise.decoding.ensemble import Ensemble
from headwise.decoding.translator_model import pytorch_model
from headwise.engine.translator import Translator
from headwise.errors import ConfigError
from headwise.models.embedded import EmbeddedSeq2Seq
from headwise.nn.recording import recording
from headwise.text.reading.conllu import Tree
from headwise.text.tokens.subwords import BOS, EOS, PAD

BATCH_TOKENS = 2048

_STACKS: dict[Part, tuple[Stack, Stack]] = {  # of the queries and of the keys
    "encoder": ("encoder", "encoder"),
    "decoder": ("decoder", "decoder"),
    "cross": ("decoder", "encoder"),
}


@dataclass(frozen=True)
class Annotated:
    """A sentence with gold annotation: (dependent, head, relation) edges and (pronoun, antecedent) links of words."""

    sentence: SentenceWords
    edges: tuple[tuple[int, int, str], ...] = ()
    coreference: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, text: str) -> Annotated:
        """Make a sentence without annotation; words are separated by whitespace."""
        return cls(SentenceWords.of(text))

    @classmethod
    def of_tree(cls, tree: Tree, *, tokenized: bool = False, lowercase: bool = False) -> Annotated:
        """Make a sentence from a gold tree; `tokenized` puts a space between all words, `lowercase` lower-cases."""
        text, words = " ".join(tree.words) if tokenized else tree.text, tree.words
        if lowercase:
            text, words = text.lower(), tuple(word.lower() for word in words)
        return cls(SentenceWords(text, words), tree.edges, tree.coreference)


@dataclass(frozen=True)
class PartReport:
    """Measurements of one part: all its heads, the best head for each relation, and the number of sentences."""

    part: Part
    heads: tuple[HeadRoles, ...]
    relations: tuple[RelationRate, ...]
    coreference: tuple[RelationRate, ...]
    sentences: int


@dataclass(frozen=True)
class StackTexts:
    """The sentences as one stack of a model, its encoder or its decoder, reads them.

    Attributes:
        sentences: with their annotation.
        ids: of each sentence, with the symbols around its words.
        words: where the ids of the words are; the others are symbols.
        frequencies: of ids, for the rare-word role.
        similarity: counts of similar tokens.
        pieces: returns the pieces of ids.
        shared: returns how many bytes each word of a sentence shares with each of its pieces, (words, pieces).
    """

    sentences: Sequence[Annotated]
    ids: Sequence[list[int]]
    words: slice
    frequencies: Counter[int]
    similarity: SimilarityCounts
    pieces: Callable[[Sequence[int]], Sequence[str]]
    shared: Callable[[SentenceWords, Sequence[str]], NDArray[np.float64]]


class _Measured:
    """Counts of one part while sentences are read: its tokens, syntactic links, pronouns, and similar tokens."""

    def __init__(self, part: Part, texts: StackTexts) -> None:
        self.part: Part = part
        self.texts, self.causal = texts, part == "decoder"
        self.tokens = TokenCounts(self.causal)
        self.links, self.pronouns = LinkCounts(causal=self.causal), LinkCounts(causal=self.causal)

    def add(self, weights: NDArray[np.float32], number: int) -> None:
        """Count the sentence of this number; weights (layers, heads, rows, columns), the columns those of its ids."""
        texts, words = self.texts, self.texts.words
        ids, annotated = texts.ids[number], texts.sentences[number]
        pieces = texts.pieces(ids[words])
        separators = np.ones(len(ids), np.bool_)
        separators[words] = [is_punctuation(piece) for piece in pieces]
        counted = slice(None) if self.causal else words  # of the symbols, only a decoder's first has a frequency
        frequencies = np.full(len(ids), np.inf)
        frequencies[counted] = [texts.frequencies[token] for token in ids[counted]]
        rows = weights[:, :, words] if self.part == "encoder" else weights
        end = 0 if self.causal else -1
        self.tokens.add(rows, frequencies.tolist(), end=end, separators=separators.tolist())
        if self.part == "cross":
            return
        inner = weights[:, :, words, words]
        texts.similarity.add(inner, ids[words])
        means, sums = joining(texts.shared(annotated.sentence, pieces))
        by_word = (means @ inner @ sums.T).astype(np.float32)
        self.links.add(by_word, annotated.edges)
        antecedents = [(pronoun, noun, "coreference") for pronoun, noun in annotated.coreference]
        self.pronouns.add(by_word, antecedents, both=False)

    def report(self) -> PartReport:
        """Return the measurements."""
        similarity = None if self.part == "cross" else self.texts.similarity
        relations = [self.links.relation(key) for key in self.links.relations()]
        coreference = [self.pronouns.relation(key) for key in self.pronouns.relations()]
        return PartReport(
            self.part,
            tuple(head_roles(self.tokens, self.links, self.pronouns, similarity)),
            tuple(rate for rate in relations if rate is not None),
            tuple(rate for rate in coreference if rate is not None),
            self.links.sentences or self.tokens.sentences,
        )


def measure_heads(
    translator: Translator,
    sources: Sequence[Annotated],
    targets: Sequence[Annotated],
    *,
    frequencies: tuple[Counter[int], Counter[int]] | None = None,
) -> list[PartReport]:
    """Measure every head by forced decoding of the targets.

    `frequencies` of source and target ids, for the rare-word role, are counted in these sentences by default.

    Pairs with an empty side, or longer than the model reads or than `REACH`, and parts that the model lacks are left
    out. Raises `ConfigError` for an ensemble, and if no pair is left.
    """
    model, subwords = pytorch_model(translator), translator.subwords
    if isinstance(model, Ensemble):
        raise ConfigError("heads: expected one model, found an ensemble of several")
    if not isinstance(model, EmbeddedSeq2Seq):
        raise ConfigError("heads: expected a model with source embeddings, found another")
    source_ids = [[*subwords.encode_source(annotated.sentence.text), EOS] for annotated in sources]
    target_ids = [subwords.encode_target(annotated.sentence.text) for annotated in targets]
    max_length = translator.engine.max_length
    longest = min(max_length, REACH)
    kept = [
        n
        for n, (s, t) in enumerate(zip(source_ids, target_ids, strict=True))
        if len(s) > 1 and t and max(len(s), len(t) + 1) <= longest
    ]
    if not kept:
        raise ConfigError(
            f"heads: expected a sentence pair with text on both sides, of at most {longest} subwords "
            f"(model.max_length={max_length}), found none"
        )
    source_counts, target_counts = frequencies or (
        Counter(token for ids in source_ids for token in ids),
        Counter(token for ids in target_ids for token in [BOS, *ids]),
    )
    source_similarity = similarity_of(model.source_embedding, source_ids, causal=False)
    target_similarity = similarity_of(model.target_embedding, target_ids, causal=True)
    target_ids = [[BOS, *ids] for ids in target_ids]
    pieces = subwords.source_pieces, subwords.target_pieces
    shared = partial(overlap, codes=subwords.codes)
    encoder = StackTexts(sources, source_ids, slice(0, -1), source_counts, source_similarity, pieces[0], shared)
    decoder = StackTexts(targets, target_ids, slice(1, None), target_counts, target_similarity, pieces[1], shared)
    return measured(model, {"encoder": encoder, "decoder": decoder}, kept)


@torch.inference_mode()
def measured(model: nn.Module, texts: Mapping[Stack, StackTexts], kept: Sequence[int]) -> list[PartReport]:
    """Record the attention to the sentences of these numbers, and return the measurements of each part of the model."""
    counts: dict[Part, _Measured] = {}
    device = next(model.parameters()).device
    lengths = [max(len(read.ids[n]) for read in texts.values()) for n in kept]
    for positions in batches(lengths, BATCH_TOKENS):
        numbers = [kept[position] for position in positions]
        inputs = {s: padded([read.ids[n] for n in numbers], PAD, device) for s, read in texts.items()}
        with recording(model) as recorded:
            model(*inputs.get("encoder", ()), *inputs.get("decoder", ())[:1])
        for row, number in enumerate(numbers):
            for part, weights in attention_by_part(recorded, row).items():
                queries, keys = (texts[stack] for stack in _STACKS[part])
                cropped = weights[:, :, : len(queries.ids[number]), : len(keys.ids[number])]
                counts.setdefault(part, _Measured(part, keys)).add(cropped, number)
    return [counts[part].report() for part in PARTS if part in counts]


def is_punctuation(piece: str) -> bool:
    """Whether a subword has punctuation alone, such as `▁.`; `▁` stands for a space."""
    text = piece.removeprefix("▁").strip()
    return bool(text) and all(unicodedata.category(character).startswith("P") for character in text)


def similarity_of(embedding: nn.Module, ids: Iterable[Iterable[int]], *, causal: bool) -> SimilarityCounts:
    """Return the counts of similar tokens for an embedding and the ids of the whole text."""
    weight = embedding.get_parameter("weight").detach().float().cpu().numpy()
    return SimilarityCounts(weight, (number for row in ids for number in row), causal=causal)
