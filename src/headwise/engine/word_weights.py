"""How much of each word of a translation comes from each word of its sentence: an alignment with weights.

Cross-attention is averaged over heads and layers, without the first and the last layer where there are more. Words to
which everything attends, such as full stops, are discounted: each weight is multiplied by its share of the weights of
its source word. A factor exp(-4 d) prefers words at about the same place, where d from 0 to 1 is the distance from the
diagonal.

Words are ranges of characters, so that a word may be a punctuation mark, or a character of a script without spaces.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headwise.documents.sentence import SentencePair, Weights, piece_ranges, shares
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.outputs import Translation
from headwise.engine.sentences import EncodedSentences
from headwise.engine.translator import Translator

_NEAR = 4.0


@dataclass(frozen=True)
class FoundTranslations:
    """What a translator found for some sentences."""

    translator: Translator
    encoded: EncodedSentences
    hypotheses: Sequence[Sequence[Hypothesis]]
    translations: Sequence[Translation]

    async def word_weights(self, pairs: Sequence[SentencePair]) -> list[Weights]:
        """Return the weights of alignments between sentences and their translations, as `word_weights`."""
        return word_weights(self.translator, self.encoded, self.hypotheses, pairs)


def word_weights(
    translator: Translator,
    encoded: EncodedSentences,
    hypotheses: Sequence[Sequence[Hypothesis]],
    pairs: Sequence[SentencePair],
) -> list[Weights]:
    """Return for each pair the weights, shape (target words, source words); rows sum to at most 1.

    `hypotheses` are those that a search found for the parts of the encoded sentences. Raises `ConfigError` for a model
    without cross-attention.
    """
    starts = list(itertools.accumulate(encoded.parts, initial=0))
    found: list[list[tuple[Sequence[int], Sequence[int]]]] = []
    for pair in pairs:
        parts = range(starts[pair.sentence], starts[pair.sentence + 1])
        ranks = [(part, min(pair.rank, len(hypotheses[part]) - 1)) for part in parts]
        found.append([(encoded.searched[part].source, hypotheses[part][rank].tokens) for part, rank in ranks])
    flat = list(itertools.chain(*found))
    recorded = iter(
        translator.engine.cross_attention(
            [source for source, _ in flat],
            [target for _, target in flat],
            translator.symbols,
            batch_tokens=translator.batch_tokens,
        )
    )
    return [
        _of_words(pair, [_Part(translator, next(recorded), *ids) for ids in parts])
        if parts
        else np.eye(len(pair.target_words), len(pair.source_words), dtype=np.float32)  # it stays as it is
        for pair, parts in zip(pairs, found, strict=True)
    ]


class _Part:
    """A part of a sentence that was translated at once: its subwords and their weights (target, source)."""

    def __init__(
        self, translator: Translator, attention: Weights, source: Sequence[int], target: Sequence[int]
    ) -> None:
        subwords = translator.subwords
        text = subwords.without_language(source[:-1])
        given = int(bool(target) and target[0] in translator.symbols.given)
        self.source = subwords.source_pieces(text)
        self.target = subwords.target_pieces(target[given:])
        layers = attention[1:-1] if len(attention) > 2 else attention
        self.weights = layers.mean((0, 1))[
            given : given + len(self.target), len(source) - 1 - len(text) : len(source) - 1
        ]


def _of_words(pair: SentencePair, parts: Sequence[_Part]) -> Weights:
    """Return the weights of words: subwords are assigned to words by where they are in the texts."""
    source_pieces = [piece for part in parts for piece in part.source]
    target_pieces = [piece for part in parts for piece in part.target]
    weights = np.zeros((len(target_pieces), len(source_pieces)), dtype=np.float32)
    row = column = 0
    for part in parts:
        weights[row : row + len(part.target), column : column + len(part.source)] = part.weights
        row, column = row + len(part.target), column + len(part.source)
    source = shares(piece_ranges(pair.source, source_pieces), pair.source_words)
    target = shares(piece_ranges(pair.target, target_pieces), pair.target_words)
    return sharpened((target.T @ weights @ source).astype(np.float32))


def sharpened(words: Weights) -> Weights:
    """Return weights of words in which those of an alignment stand out; rows sum to 1, or to 0 without any weight."""
    rows, columns = words.shape
    words = words / np.maximum(words.sum(1, keepdims=True), 1e-9)
    shares = words / np.maximum(words.sum(0, keepdims=True), 1e-9)
    places = np.linspace(0, 1, rows)[:, None] - np.linspace(0, 1, columns)[None]
    words = words * shares * np.exp(-_NEAR * np.abs(places))
    return (words / np.maximum(words.sum(1, keepdims=True), 1e-9)).astype(np.float32)
