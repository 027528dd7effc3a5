"""Translation of documents by one translator: their sentences, with the tags and protected pieces in them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from headwise.documents.readers.document_file import Confidence, DocumentFile
from headwise.documents.rendering import Rendered, render
from headwise.documents.sentence import Sentence
from headwise.engine.guards.second_search import search_checked
from headwise.engine.options import SearchOptions
from headwise.engine.outputs import Translation
from headwise.engine.readings.number_marks import number_writer
from headwise.engine.translator import Translator
from headwise.engine.word_weights import FoundTranslations
from headwise.text.reading.glossary import Glossary

T = TypeVar("T")


def translate_document(
    translator: Translator,
    file: DocumentFile,
    options: SearchOptions,
    language: str,
    *,
    glossary: Glossary | None = None,
    chunk: int = 1024,
    notice: Callable[[Rendered[Translation]], None] = lambda sentence: None,
) -> bytes:
    """Return a file with the translations of its texts, in its format.

    `language` is the code of its language, by whose rules texts are split into sentences, empty where nobody tells;
    `chunk` is the most sentences that are searched at once; `notice` gets each sentence. Raises as
    `Translator.translate`.
    """
    numbers = number_writer(*translator.languages)
    texts = [text.prepare(language, numbers=numbers) for text in file.texts]
    sentences = [sentence for text in texts for sentence in text.all_sentences]
    translated: list[Rendered[Translation]] = []
    for start in range(0, len(sentences), chunk):
        for rendered in _rendered(translator, sentences[start : start + chunk], options, glossary):
            notice(rendered)
            translated.append(rendered)
    left = iter(translated)
    found = [[next(left) for _ in text.all_sentences] for text in texts]
    joined = [text.join([one.texts[0] for one in own]) for text, own in zip(texts, found, strict=True)]
    return write(file, joined, found)


def write(
    file: DocumentFile, translations: Sequence[str], sentences: Sequence[Sequence[Rendered[Translation]]]
) -> bytes:
    """Return a file with translations, and what the model estimates of each by those of its sentences."""
    if file.write_rated is None:
        return file.write(translations)
    return file.write_rated(translations, [_confidence(each) for each in sentences])


def _confidence(sentences: Sequence[Rendered[Translation]]) -> Confidence | None:
    """Return the estimate of a text, the lowest of its sentences'; None where it has none that was searched."""
    outputs = [each.translation.outputs[rank] for each in sentences for rank in each.ranks[:1]]
    searched = [output for output in outputs if output.tokens]
    if not searched:
        return None
    if searched[0].quality is None:
        return Confidence(min(output.probability for output in searched), "headwise-probability")
    expected = [output.quality for output in searched if output.quality is not None]
    return Confidence(min(expected) / 100, "headwise-chrF2")


def _rendered(
    translator: Translator, sentences: Sequence[Sentence], options: SearchOptions, glossary: Glossary | None
) -> list[Rendered[Translation]]:
    async def search(texts: list[str], numbers: Sequence[int]) -> list[FoundTranslations]:
        encoded = translator.encode(texts, options, glossary=glossary, split="long")
        hypotheses = search_checked(
            translator.engine, encoded.searched, translator.symbols, batch_tokens=translator.batch_tokens
        )
        translations = translator.with_unknown(encoded, translator.translations(encoded, hypotheses))
        return [FoundTranslations(translator, encoded, hypotheses, translations)]

    return _completed(render(sentences, search))


def _completed(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never waits; an event loop would keep signals from it."""
    try:
        work.send(None)
    except StopIteration as result:
        return result.value
    raise AssertionError("expected a coroutine that never waits")
