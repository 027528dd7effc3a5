"""Translation of documents by functions, in place of models."""

from __future__ import annotations

from headwise.documents.formats import read_file
from headwise.documents.placement import placed, source_words, target_words
from headwise.documents.preparation import ParsedText
from headwise.documents.protected import locate
from headwise.documents.sentence import Sentence


def of_document(document: ParsedText, translate, weigh=lambda rows, columns: None) -> str:
    """Translate a document by a function of sentences, with the weights of another one."""
    prepared = document.prepare("en")
    return prepared.join([_one(sentence, translate, weigh) for sentence in prepared.all_sentences])


def of_file(
    name: str,
    content: str | bytes,
    translate=str.upper,
    weigh=lambda rows, columns: None,
    target: str = "",
    source: str = "",
) -> bytes:
    """Translate a file into `target` as `of_document`."""
    file = read_file(name, content.encode() if isinstance(content, str) else content, target, source)
    return file.write([of_document(text, translate, weigh) for text in file.texts])


def _one(sentence: Sentence, translate, weigh) -> str:
    sentence = sentence.without([n for n, piece in enumerate(sentence.pieces) if piece.hidden])
    text = translate(sentence.text)
    found, missing = locate(sentence, text)
    if missing:
        sentence = sentence.without(range(len(sentence.pieces)))
        text, found = translate(sentence.text), []
    weights = weigh(len(target_words(text, found)), len(source_words(sentence)))
    return placed(sentence, text, found, weights)
