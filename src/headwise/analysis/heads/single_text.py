"""Measurement of the heads of encoder-only and decoder-only models on text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import nn

from headwise.analysis.attention import SentenceWords, shared_bytes, spaced
from headwise.analysis.heads.measuring import Annotated, PartReport, StackTexts, measured, similarity_of
from headwise.analysis.heads.similarity import REACH
from headwise.analysis.interventions import attention_parts
from headwise.analysis.recording import Stack
from headwise.config import Config
from headwise.decoding.generation import first_token, load_language_model
from headwise.errors import ConfigError
from headwise.models.decoder_only import DecoderOnly
from headwise.tasks.encoder import EncoderKind
from headwise.tasks.masked_language_model import load_masked_model
from headwise.tasks.registry import find_task
from headwise.text.tokens.subwords import BOS, EOS
from headwise.text.tokens.vocabulary import Vocabulary, encode_words

TASKS = ("language_model", "masked_language_model", "classification", "tagging", "question_answering")


def measure_single_text(
    run: Path, config: Config, sentences: Sequence[Annotated], *, device: str = "auto"
) -> PartReport:
    """Measure every head of a run of one of `TASKS`; sentences that are longer than the model reads are left out.

    Raises `ConfigError` if there is no sentence, and for a model without attention weights.
    """
    model, vocabulary = _load(run, config, device)
    causal = isinstance(model, DecoderOnly)
    begin = first_token(config, vocabulary) if causal else BOS
    words = [split_words(vocabulary, annotated.sentence)[0] for annotated in sentences]
    ids = [[begin, *numbers] if causal else [begin, *numbers, EOS] for numbers in words]
    max_length = config.model.max_length
    longest = min(max_length, REACH)
    kept = [index for index, row in enumerate(ids) if words[index] and len(row) <= longest]
    if not kept:
        raise ConfigError(
            f"heads: expected a sentence with text, of at most {longest} tokens (model.max_length={max_length}), "
            "found none"
        )
    stack: Stack = "decoder" if causal else "encoder"
    if not attention_parts(model)[stack]:
        raise ConfigError(
            f"heads: expected a model with attention weights, found model.attention={config.model.attention}"
        )
    embedding = (model if causal else model.get_submodule("encoder")).get_submodule("embedding")
    read = StackTexts(
        sentences,
        ids,
        slice(1, None) if causal else slice(1, -1),
        Counter(number for row in ids for number in row),
        similarity_of(embedding, ids, causal=causal),
        lambda numbers: list(map(vocabulary.piece, numbers)),
        lambda sentence, _: split_words(vocabulary, sentence)[1],
    )
    (report,) = measured(model, {stack: read}, kept)
    return report


def split_words(vocabulary: Vocabulary, sentence: SentenceWords) -> tuple[list[int], NDArray[np.float64]]:
    """Encode a sentence; return the ids, and how many bytes each word shares with each of them, (words, ids).

    A text whose spelling the vocabulary changes (letters in another case, unknown characters) is encoded word by word.
    """
    text = spaced(sentence.text)
    ids = vocabulary.encode(text)
    spelled = b"".join(map(vocabulary.spelled, ids))
    if ids and spelled.removeprefix(b" ") == text.encode():
        lengths = [len(vocabulary.spelled(number)) for number in ids]
        lengths[0] += not spelled.startswith(b" ")  # the space before the first word
        return ids, shared_bytes(sentence, lengths)
    words, end = [], 0
    for word in sentence.words:
        start = text.index(word, end)
        end = start + len(word)
        words.append(" " * (start > 0 and text[start - 1] == " ") + word)
    encoded = encode_words(vocabulary, words)
    shared = np.zeros((len(words), sum(map(len, encoded))))
    first = 0
    for row, numbers in enumerate(encoded):
        shared[row, first : first + len(numbers)] = 1
        first += len(numbers)
    return [number for numbers in encoded for number in numbers], shared


def _load(run: Path, config: Config, device: str) -> tuple[nn.Module, Vocabulary]:
    if config.task == "language_model":
        return load_language_model(run, config, device=device)
    if config.task == "masked_language_model":
        return load_masked_model(run, config, device=device, precision="float32")
    kind = find_task(config.task)
    assert isinstance(kind, EncoderKind)
    tools = kind.load(run, config, device=device, precision="float32")
    return tools.model, tools.vocabulary
