"""Measuring the heads of a model on text: attention recorded by forced decoding, sentence by sentence, then counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from headwise.analysis.attention import Sentence, overlap
from headwise.analysis.heads.roles import HeadRoles, LinkCounts, RelationRate, TokenCounts, head_roles
from headwise.analysis.interventions import PARTS, Part
from headwise.analysis.tracer import stacked
from headwise.decoding.batching import batches, padded
from headwise.decoding.ensemble import Ensemble
from headwise.decoding.translator import Translator
from headwise.errors import ConfigError
from headwise.nn.multihead import recording
from headwise.text.reading.conllu import Tree
from headwise.text.tokens.subwords import BOS, EOS, PAD

_BATCH_TOKENS = 2048


@dataclass(frozen=True)
class Annotated:
    """A sentence with what is known of it: words, (dependent, head, relation) and (pronoun, antecedent) links."""

    sentence: Sentence
    edges: tuple[tuple[int, int, str], ...] = ()
    coreference: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, text: str) -> Annotated:
        """Take a text without annotation; its words are what stands between spaces."""
        return cls(Sentence.of(text))

    @classmethod
    def of_tree(cls, tree: Tree, *, tokenized: bool = False, lowercase: bool = False) -> Annotated:
        """Take a gold tree; `tokenized` puts a space between all words and `lowercase` lowers them for the model."""
        text, words = " ".join(tree.words) if tokenized else tree.text, tree.words
        if lowercase:
            text, words = text.lower(), tuple(word.lower() for word in words)
        return cls(Sentence(text, words), tree.edges, tree.coreference)


@dataclass(frozen=True)
class PartReport:
    """All heads of one part, the best head for each relation, and how many sentences were read."""

    part: Part
    heads: tuple[HeadRoles, ...]
    relations: tuple[RelationRate, ...]
    coreference: tuple[RelationRate, ...]
    sentences: int


def measure_heads(
    translator: Translator,
    sources: Sequence[Annotated],
    targets: Sequence[Annotated],
    *,
    frequencies: tuple[Counter[int], Counter[int]] | None = None,
) -> list[PartReport]:
    """Measure every head while the model says the targets.

    `frequencies` of source and of target ids are those found here unless given.

    Parts that the model lacks are left out. Raises `ConfigError` for an ensemble, and where there is no sentence.
    """
    if isinstance(translator.model, Ensemble):
        raise ConfigError("heads: expected one model, found an ensemble of several")
    if not sources:
        raise ConfigError("heads: expected at least one sentence, found none")
    subwords = translator.subwords
    source_ids = [[*subwords.encode_source(one.sentence.text), EOS] for one in sources]
    target_ids = [subwords.encode_target(one.sentence.text) for one in targets]
    room = translator.model.max_length
    kept = [
        n
        for n, (s, t) in enumerate(zip(source_ids, target_ids, strict=True))
        if max(len(s), len(t) + 1) <= room
    ]
    kept = [n for n in kept if len(source_ids[n]) > 1 and target_ids[n]]
    source_counts, target_counts = frequencies or (
        Counter(token for ids in source_ids for token in ids),
        Counter(token for ids in target_ids for token in [BOS, *ids]),
    )
    counts: dict[Part, tuple[TokenCounts, LinkCounts, LinkCounts]] = {}
    for number, attention in _recorded(translator, source_ids, target_ids, kept):
        source, target = sources[number], targets[number]
        for part, weights in attention.items():
            causal = part == "decoder"
            if part not in counts:
                counts[part] = (TokenCounts(causal), LinkCounts(causal=causal), LinkCounts(causal=causal))
            tokens, links, pronouns = counts[part]
            if causal:
                tokens.add(weights, [target_counts[i] for i in [BOS, *target_ids[number]]], end=0)
            else:
                seen = [source_counts[i] for i in source_ids[number]]
                rows = weights[:, :, :-1] if part == "encoder" else weights
                tokens.add(rows, [*seen[:-1], np.inf], end=-1)
            if part == "cross":
                continue
            one = target if causal else source
            # The decoder's first column is the start symbol, the encoder's last the end symbol: neither is a word.
            inside = weights[:, :, 1:, 1:] if causal else weights[:, :, :-1, :-1]
            ids = target_ids[number] if causal else source_ids[number][:-1]
            pieces = (subwords.target_pieces if causal else subwords.source_pieces)(ids)
            over_words = _by_words(inside, one.sentence, pieces)
            links.add(over_words, one.edges)
            refer = [(pronoun, noun, "coreference") for pronoun, noun in one.coreference]
            pronouns.add(over_words, refer, both=False)
    return [_report(part, *counts[part]) for part in PARTS if part in counts]


def _report(part: Part, tokens: TokenCounts, links: LinkCounts, pronouns: LinkCounts) -> PartReport:
    relations = [links.relation(key) for key in links.relations()]
    coreference = [pronouns.relation(key) for key in pronouns.relations()]
    return PartReport(
        part,
        tuple(head_roles(tokens, links, pronouns)),
        tuple(found for found in relations if found is not None),
        tuple(found for found in coreference if found is not None),
        links.sentences or tokens.sentences,
    )


@torch.inference_mode()
def _recorded(
    translator: Translator, sources: Sequence[list[int]], targets: Sequence[list[int]], kept: Sequence[int]
) -> Iterator[tuple[int, dict[Part, NDArray[np.float32]]]]:
    """Yield each kept sentence's attention, without padding, in batches of similar length."""
    model = translator.model
    device = next(model.parameters()).device
    lengths = [max(len(sources[n]), len(targets[n]) + 1) for n in kept]
    for places in batches(lengths, _BATCH_TOKENS):
        numbers = [kept[place] for place in places]
        source, mask = padded([sources[n] for n in numbers], PAD, device)
        inputs, _ = padded([[BOS, *targets[n]] for n in numbers], PAD, device)
        with recording(model) as records:
            model(source, mask, inputs)
        for row, number in enumerate(numbers):
            sizes = {"source": len(sources[number]), "target": len(targets[number]) + 1}
            shapes = {
                "encoder": ("source", "source"),
                "decoder": ("target", "target"),
                "cross": ("target", "source"),
            }
            yield (
                number,
                {
                    part: weights[:, :, : sizes[shapes[part][0]], : sizes[shapes[part][1]]]
                    for part, weights in stacked(records, row).items()
                },
            )


def _by_words(weights: NDArray[np.float32], sentence: Sentence, pieces: Sequence[str]) -> NDArray[np.float32]:
    """Go from tokens to the sentence's words: the sum over columns, the mean over rows."""
    shared = overlap(sentence, pieces)  # (words, pieces)
    columns = shared / np.maximum(shared.sum(axis=0), 1)
    rows = (shared > 0) / np.maximum((shared > 0).sum(axis=1, keepdims=True), 1)
    return (rows @ weights @ columns.T).astype(np.float32)
