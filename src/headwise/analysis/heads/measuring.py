"""Measurement of a model's heads on text: attention is recorded by forced decoding and counted by sentence."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from headwise.analysis.attention import SentenceWords, overlap
from headwise.analysis.heads.roles import HeadRoles, LinkCounts, RelationRate, TokenCounts, head_roles
from headwise.analysis.heads.similarity import SimilarityCounts
from headwise.analysis.interventions import PARTS, Part
from headwise.analysis.recording import attention_by_part
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


class Measured:
    """Counts of one part while sentences are read: its tokens, syntactic links, pronouns, and similar tokens."""

    def __init__(self, causal: bool, similarity: SimilarityCounts | None = None) -> None:
        self.similarity = similarity
        self.tokens = TokenCounts(causal)
        self.links, self.pronouns = LinkCounts(causal=causal), LinkCounts(causal=causal)

    def add_words(self, weights: NDArray[np.float32], annotated: Annotated) -> None:
        """Count the links of a sentence; weights (layers, heads, words, words)."""
        self.links.add(weights, annotated.edges)
        antecedents = [(pronoun, noun, "coreference") for pronoun, noun in annotated.coreference]
        self.pronouns.add(weights, antecedents, both=False)

    def report(self, part: Part) -> PartReport:
        """Return the measurements."""
        relations = [self.links.relation(key) for key in self.links.relations()]
        coreference = [self.pronouns.relation(key) for key in self.pronouns.relations()]
        return PartReport(
            part,
            tuple(head_roles(self.tokens, self.links, self.pronouns, self.similarity)),
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

    Pairs with an empty side, or longer than the model reads, and parts that the model lacks are left out. Raises
    `ConfigError` for an ensemble, and if no pair is left.
    """
    model, subwords = pytorch_model(translator), translator.subwords
    if isinstance(model, Ensemble):
        raise ConfigError("heads: expected one model, found an ensemble of several")
    assert isinstance(model, EmbeddedSeq2Seq)
    source_ids = [[*subwords.encode_source(annotated.sentence.text), EOS] for annotated in sources]
    target_ids = [subwords.encode_target(annotated.sentence.text) for annotated in targets]
    max_length = translator.engine.max_length
    kept = [
        n
        for n, (s, t) in enumerate(zip(source_ids, target_ids, strict=True))
        if max(len(s), len(t) + 1) <= max_length
    ]
    kept = [n for n in kept if len(source_ids[n]) > 1 and target_ids[n]]
    if not kept:
        raise ConfigError(
            f"heads: expected a sentence pair of at most model.max_length={max_length} subwords, found none"
        )
    source_counts, target_counts = frequencies or (
        Counter(token for ids in source_ids for token in ids),
        Counter(token for ids in target_ids for token in [BOS, *ids]),
    )
    counts: dict[Part, Measured] = {}
    for index, attention in _recorded(translator, source_ids, target_ids, kept):
        source, target = sources[index], targets[index]
        for part, weights in attention.items():
            causal = part == "decoder"
            if part not in counts:
                side = (
                    (model.target_embedding, target_ids) if causal else (model.source_embedding, source_ids)
                )
                counts[part] = Measured(
                    causal, None if part == "cross" else similarity_of(*side, causal=causal)
                )
            measured = counts[part]
            if causal:
                pieces = subwords.target_pieces(target_ids[index])
                measured.tokens.add(
                    weights,
                    [target_counts[i] for i in [BOS, *target_ids[index]]],
                    end=0,
                    separators=[True, *map(is_punctuation, pieces)],
                )
            else:
                key_frequencies = [source_counts[i] for i in source_ids[index]]
                query_rows = weights[:, :, :-1] if part == "encoder" else weights
                pieces = subwords.source_pieces(source_ids[index][:-1])
                measured.tokens.add(
                    query_rows,
                    [*key_frequencies[:-1], np.inf],
                    end=-1,
                    separators=[*map(is_punctuation, pieces), True],
                )
            if part == "cross":
                continue
            annotated = target if causal else source
            # The decoder's first column is the start symbol, the encoder's last the end symbol: neither is a word.
            token_weights = weights[:, :, 1:, 1:] if causal else weights[:, :, :-1, :-1]
            ids = target_ids[index] if causal else source_ids[index][:-1]
            assert measured.similarity is not None
            measured.similarity.add(token_weights, ids)
            measured.add_words(by_words(token_weights, overlap(annotated.sentence, pieces)), annotated)
    return [counts[part].report(part) for part in PARTS if part in counts]


@torch.inference_mode()
def _recorded(
    translator: Translator, sources: Sequence[list[int]], targets: Sequence[list[int]], kept: Sequence[int]
) -> Iterator[tuple[int, dict[Part, NDArray[np.float32]]]]:
    """Yield the index and the attention, without padding, of each kept pair; batches are of similar length."""
    model = pytorch_model(translator)
    device = next(model.parameters()).device
    lengths = [max(len(sources[n]), len(targets[n]) + 1) for n in kept]
    for positions in batches(lengths, BATCH_TOKENS):
        indices = [kept[position] for position in positions]
        source, mask = padded([sources[n] for n in indices], PAD, device)
        inputs, _ = padded([[BOS, *targets[n]] for n in indices], PAD, device)
        with recording(model) as recorded:
            model(source, mask, inputs)
        for row, index in enumerate(indices):
            sizes = {"source": len(sources[index]), "target": len(targets[index]) + 1}
            shapes = {
                "encoder": ("source", "source"),
                "decoder": ("target", "target"),
                "cross": ("target", "source"),
            }
            yield (
                index,
                {
                    part: weights[:, :, : sizes[shapes[part][0]], : sizes[shapes[part][1]]]
                    for part, weights in attention_by_part(recorded, row).items()
                },
            )


def is_punctuation(piece: str) -> bool:
    """Whether a subword has punctuation alone, such as `▁.`; `▁` stands for a space."""
    text = piece.removeprefix("▁").strip()
    return bool(text) and all(unicodedata.category(character).startswith("P") for character in text)


def similarity_of(embedding: nn.Module, ids: Iterable[Iterable[int]], *, causal: bool) -> SimilarityCounts:
    """Return the counts of similar tokens for an embedding and the ids of the whole text."""
    weight = embedding.get_parameter("weight").detach().float().cpu().numpy()
    return SimilarityCounts(weight, (number for row in ids for number in row), causal=causal)


def by_words(weights: NDArray[np.float32], shared: NDArray[np.float64]) -> NDArray[np.float32]:
    """Aggregate token weights into words, sum over columns, mean over rows; `shared` is `overlap` (words, pieces)."""
    columns = shared / np.maximum(shared.sum(axis=0), 1)
    rows = (shared > 0) / np.maximum((shared > 0).sum(axis=1, keepdims=True), 1)
    return (rows @ weights @ columns.T).astype(np.float32)
