"""The search of a request's sentences by one model: the scheduler, the glossary, and the guard's second search."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool

from headwise.documents.sentence import SentencePair, Weights
from headwise.engine import repetition_guard as guard
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.options import SearchOptions
from headwise.engine.outputs import Translation
from headwise.engine.sentences import EncodedSentences
from headwise.engine.word_weights import word_weights
from headwise.serve.translation.models import Model
from headwise.serve.translation.waiting import away
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
class Searched:
    """What a model found for some sentences."""

    model: Model
    encoded: EncodedSentences
    hypotheses: list[list[Hypothesis]]
    translations: list[Translation]

    async def word_weights(self, pairs: Sequence[SentencePair]) -> list[Weights]:
        """Return the weights of alignments between sentences and their translations."""
        async with self.model.reading:
            return await run_in_threadpool(
                word_weights, self.model.reader, self.encoded, self.hypotheses, pairs
            )


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
            split=True,
        ),
    )
    hypotheses = await _hypotheses(model, encoded, range(len(encoded.sources)), search.client)
    if search.options.guard:
        await _guard(model, encoded, hypotheses, search.client)
    if not search.alignments:
        found = await away(sentences, lambda: translator.translations(encoded, hypotheses))
    else:
        async with model.reading:
            found = await run_in_threadpool(
                lambda: model.reader.translations(encoded, hypotheses, alignments=True)
            )
    return Searched(model, encoded, hypotheses, found)


async def _hypotheses(
    model: Model, encoded: EncodedSentences, numbers: Sequence[int], client: str, *, again: bool = False
) -> list[list[Hypothesis]]:
    """Return the hypotheses of some of the sources, with `again` by the guard's second search."""
    shortlist = model.translator.shortlist
    futures: list[Future[list[Hypothesis]]] = []
    try:
        for number in numbers:
            source, options = encoded.sources[number], encoded.options_of(number)
            futures.append(
                model.scheduler.submit(
                    source,
                    guard.again(options) if again else options,
                    client=client,
                    prefix=None if encoded.prefixes is None else encoded.prefixes[number],
                    allowed=None if shortlist is None else shortlist(source),
                    terms=encoded.terms_of(number),
                )
            )
        waiting = [asyncio.wrap_future(future) for future in futures]
        return [await waiting[0]] if len(waiting) == 1 else await asyncio.gather(*waiting)
    finally:
        for future in futures:
            future.cancel()  # has no effect on a finished one


async def _guard(
    model: Model, encoded: EncodedSentences, hypotheses: list[list[Hypothesis]], client: str
) -> None:
    """Search again for the sources whose best hypothesis has a defect, and replace their hypotheses."""
    suspects = [
        number
        for number, found in enumerate(hypotheses)
        if guard.defect(encoded.sources[number], found[0], encoded.options)
    ]
    searched = await _hypotheses(model, encoded, suspects, client, again=True)
    for number, second in zip(suspects, searched, strict=True):
        source, first = encoded.sources[number], hypotheses[number]
        hypotheses[number], success = guard.mended(source, first, second, encoded.options)
        model.searched_again["mended" if success else "kept"] += 1
