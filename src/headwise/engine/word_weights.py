"""How much of each word of a translation comes from each word of its sentence: an alignment with weights.

The weights are those of `headwise.engine.alignment`. Words are ranges of characters, so that a word may be a
punctuation mark, or a character of a script without spaces.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headwise.documents.sentence import SentencePair, Weights, piece_ranges, shares
from headwise.engine.alignment import SubwordWeights, sharpened
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.outputs import Translation
from headwise.engine.sentences import EncodedSentences
from headwise.engine.translator import Translator


@dataclass(frozen=True)
class FoundTranslations:
    """What a translator found for some sentences; `hypotheses` are those of their parts."""

    translator: Translator
    encoded: EncodedSentences
    hypotheses: Sequence[Sequence[Hypothesis]]
    translations: Sequence[Translation]

    async def word_weights(self, pairs: Sequence[SentencePair]) -> list[Weights]:
        """Return the weights of alignments between sentences and their translations, as `weights`."""
        return self.weights(pairs)

    def weights(self, pairs: Sequence[SentencePair]) -> list[Weights]:
        """Return for each pair the weights, shape (target words, source words); rows sum to at most 1.

        Raises `ConfigError` for a model without cross-attention.
        """
        translator, hypotheses = self.translator, self.hypotheses
        starts = list(itertools.accumulate(self.encoded.parts, initial=0))
        found: list[list[tuple[Sequence[int], Sequence[int]]]] = []
        for pair in pairs:
            parts = range(starts[pair.sentence], starts[pair.sentence + 1])
            best = [hypotheses[part][min(pair.rank, len(hypotheses[part]) - 1)] for part in parts]
            sources = [self.encoded.searched[part].source for part in parts]
            found.append([(source, each.tokens) for source, each in zip(sources, best, strict=True)])
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
            _of_words(pair, [translator.subword_weights(next(recorded), *ids) for ids in parts])
            if parts
            else np.eye(len(pair.target_words), len(pair.source_words), dtype=np.float32)  # it stays as it is
            for pair, parts in zip(pairs, found, strict=True)
        ]


def _of_words(pair: SentencePair, parts: Sequence[SubwordWeights]) -> Weights:
    """Return the weights of words: subwords are assigned to words by where they are in the texts."""
    source_pieces = [piece for _, source, _ in parts for piece in source]
    target_pieces = [piece for _, _, target in parts for piece in target]
    weights = np.zeros((len(target_pieces), len(source_pieces)), dtype=np.float32)
    row = column = 0
    for part, source, target in parts:
        weights[row : row + len(target), column : column + len(source)] = part
        row, column = row + len(target), column + len(source)
    columns = shares(piece_ranges(pair.source, source_pieces), pair.source_words)
    rows = shares(piece_ranges(pair.target, target_pieces), pair.target_words)
    return sharpened((rows.T @ weights @ columns).astype(np.float32))
