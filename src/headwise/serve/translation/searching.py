"""The search of a request's sentences by one model: the scheduler, the glossary, and the guard's second search."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from headwise.documents.sentence import SentencePair, Weights
from headwise.engine.base import SearchSentence
from headwise.engine.guards.second_search import SecondSearch
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.options import SearchOptions
from headwise.engine.word_weights import FoundTranslations
from headwise.serve.translation.models import Model
from headwise.serve.translation.waiting import alone, away
from headwise.text.reading.glossary import Glossary


@dataclass(frozen=True)
class Search:
    """How sentences are searched.

    Attributes:
        options: the search options.
        client: whose sentences they are.
        prefixes: for each sentence the text with which its translation begins.
        alignments: whether the outputs have word alignments.
        glossary: terms whose translations must be in the outputs.
        glossary_texts: the texts in which the terms are looked up, by default the sentences.
    """

    options: SearchOptions
    client: str = ""
    prefixes: list[str] | None = None
    alignments: bool = False
    glossary: Glossary | None = None
    glossary_texts: Sequence[str] | None = None


@dataclass(frozen=True)
class Searched(FoundTranslations):
    """What a served model found for some sentences; `reading` is the model's."""

    reading: asyncio.Lock

    async def word_weights(self, pairs: Sequence[SentencePair]) -> list[Weights]:
        """Return the weights as `FoundTranslations`, computed in another thread."""
        return await alone(self.reading, lambda: self.weights(pairs))


async def translate(model: Model, sentences: Sequence[str], search: Search) -> Searched:
    """Translate sentences; raises as `Translator.encode` and `Scheduler.submit`."""
    translator = model.translator
    encoded = await away(
        sentences,
        lambda: translator.encode(
            sentences,
            search.options,
            prefixes=search.prefixes,
            glossary=search.glossary,
            glossary_texts=search.glossary_texts,
            split="long",
        ),
    )
    hypotheses = await _search(model, encoded.searched, search.client)
    again = SecondSearch(encoded.searched, hypotheses)
    second = await _search(model, again.sentences, search.client)
    for success in again.mend(hypotheses, second):
        model.searched_again["mended" if success else "kept"] += 1
    if not search.alignments:
        found = await away(sentences, lambda: translator.translations(encoded, hypotheses))
    else:
        found = await alone(model.reading, lambda: translator.translations(encoded, hypotheses, alignments=True))
    return Searched(translator, encoded, hypotheses, found, model.reading)


async def _search(model: Model, sentences: Sequence[SearchSentence], client: str) -> list[list[Hypothesis]]:
    """Return the hypotheses of each sentence; where this is cancelled, so are the searches."""
    futures: list[Future[list[Hypothesis]]] = []
    try:
        for sentence in sentences:
            futures.append(model.scheduler.submit(sentence, client=client))
        waiting = [asyncio.wrap_future(future) for future in futures]
        return [await waiting[0]] if len(waiting) == 1 else await asyncio.gather(*waiting)
    finally:
        for future in futures:
            future.cancel()  # has no effect on a finished one
