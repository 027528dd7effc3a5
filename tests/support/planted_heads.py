"""A model whose heads attend by rule, to check what the measurements find in it."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor

from headwise.analysis.heads.measuring import Annotated, PartReport, measure_heads
from headwise.decoding.translator_model import pytorch_model, with_model
from headwise.engine.translator import Translator
from headwise.models.transformer import Transformer


class Planted:
    """A model whose first encoder layer has planted attention: heads 0 and 1 follow functions of the sentence.

    A function returns, for each query, the key with weight 1, both as subword positions.
    """

    def __init__(
        self,
        translator: Translator,
        sentences: list[Annotated],
        heads: list[Callable[[list[int], list[list[int]], Annotated], list[int]]],
    ) -> None:
        model = copy.deepcopy(pytorch_model(translator))
        self.translator = with_model(translator, model)
        assert isinstance(model, Transformer)
        subwords = translator.subwords
        known = {}
        for one in sentences:
            pieces = subwords.encode_source(one.sentence.text)
            known[tuple(pieces)] = (one, _spans(subwords.source_pieces(pieces)))
        sources: list[Tensor] = []
        encode = model.encode

        def remember(source: Tensor, mask: Tensor):
            sources[:] = [row[real] for row, real in zip(source, mask, strict=True)]
            return encode(source, mask)

        def plant(weights: Tensor, mask: Tensor | None) -> Tensor:
            weights = torch.zeros_like(weights)
            for number, row in enumerate(sources):
                ids = row.tolist()
                one, spans = known[tuple(ids[:-1])]
                for head, rule in enumerate(heads):
                    for query, key in enumerate(rule(ids, spans, one)):
                        weights[number, head, query, key] = 1.0
            return weights

        model.encode = remember  # type: ignore[method-assign]
        model.encoder[0].self_attention.probe = plant  # type: ignore[union-attr]

    def measure(self, sentences: list[Annotated]) -> PartReport:
        targets = [Annotated.of("Zwei Hunde")] * len(sentences)
        (encoder, *_) = measure_heads(self.translator, sentences, targets)
        assert encoder.part == "encoder"
        return encoder


def _spans(pieces: list[str]) -> list[list[int]]:
    """Return the subword positions of each word."""
    spans: list[list[int]] = []
    for place, piece in enumerate(pieces):
        if piece.startswith("▁") or not spans:
            spans.append([])
        spans[-1].append(place)
    return spans


def previous(ids: list[int], spans: list[list[int]], one: Annotated) -> list[int]:
    return [max(place - 1, 0) for place in range(len(ids))]


def subject(ids: list[int], spans: list[list[int]], one: Annotated) -> list[int]:
    """Verbs attend to their subject, everything else to the end symbol."""
    keys = [len(ids) - 1] * len(ids)
    for dependent, head, relation in one.edges:
        if relation == "nsubj":
            for place in spans[head]:
                keys[place] = spans[dependent][0]
    return keys


def antecedent(ids: list[int], spans: list[list[int]], one: Annotated) -> list[int]:
    keys = [len(ids) - 1] * len(ids)
    for pronoun, noun in one.coreference:
        for place in spans[pronoun]:
            keys[place] = spans[noun][-1]
    return keys
