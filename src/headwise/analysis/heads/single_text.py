"""Measurement of the heads of encoder-only and decoder-only models on text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from headwise.analysis.attention import SentenceWords, shared_bytes
from headwise.analysis.heads.measuring import (
    BATCH_TOKENS,
    Annotated,
    Measured,
    PartReport,
    by_words,
    is_punctuation,
    similarity_of,
)
from headwise.analysis.interventions import Part, attention_parts
from headwise.analysis.recording import attention_by_part
from headwise.config import Config
from headwise.decoding.batching import batches, padded
from headwise.decoding.generation import first_token, load_language_model
from headwise.errors import ConfigError
from headwise.models.decoder_only import DecoderOnly
from headwise.nn.recording import recording
from headwise.tasks.encoder import EncoderKind
from headwise.tasks.masked_language_model import load_masked_model
from headwise.tasks.registry import find_task
from headwise.text.tokens.subwords import BOS, EOS, PAD
from headwise.text.tokens.vocabulary import Vocabulary
from headwise.text.tokens.words import encode_words

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
    units = [split_words(vocabulary, annotated.sentence) for annotated in sentences]
    ids = [[begin, *numbers] if causal else [begin, *numbers, EOS] for numbers, _ in units]
    kept = [index for index, row in enumerate(ids) if units[index][0] and len(row) <= config.model.max_length]
    if not kept:
        raise ConfigError(
            f"heads: expected a sentence of at most model.max_length={config.model.max_length} tokens, found none"
        )
    counts = Counter(number for row in ids for number in row)
    part: Part = "decoder" if causal else "encoder"
    if not attention_parts(model)[part]:
        raise ConfigError(
            f"heads: expected a model with attention weights, found model.attention={config.model.attention}"
        )
    stack = model if isinstance(model, DecoderOnly) else model.get_submodule("encoder")
    measured = Measured(causal, similarity_of(stack.get_submodule("embedding"), ids, causal=causal))
    for index, weights in _recorded(model, ids, kept):
        frequencies = [float(counts[number]) for number in ids[index]]
        marks = [is_punctuation(vocabulary.piece(number)) for number in units[index][0]]
        if causal:
            measured.tokens.add(weights, frequencies, end=0, separators=[True, *marks])
        else:
            frequencies = [np.inf, *frequencies[1:-1], np.inf]
            measured.tokens.add(weights[:, :, 1:-1], frequencies, end=-1, separators=[True, *marks, True])
        inner = weights[:, :, 1:, 1:] if causal else weights[:, :, 1:-1, 1:-1]
        assert measured.similarity is not None
        measured.similarity.add(inner, units[index][0])
        measured.add_words(by_words(inner, units[index][1]), sentences[index])
    return measured.report(part)


def split_words(vocabulary: Vocabulary, sentence: SentenceWords) -> tuple[list[int], NDArray[np.float64]]:
    """Encode a sentence; return the ids, and how many bytes each word shares with each of them, (words, ids).

    A text whose spelling the vocabulary changes (letters in another case, unknown characters) is encoded word by word.
    """
    text = " ".join(sentence.text.split())
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


@torch.inference_mode()
def _recorded(
    model: nn.Module, ids: Sequence[list[int]], kept: Sequence[int]
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Yield the index of each kept sentence and its attention (layers, heads, tokens, tokens), without padding."""
    device = next(model.parameters()).device
    part: Part = "decoder" if isinstance(model, DecoderOnly) else "encoder"
    for positions in batches([len(ids[index]) for index in kept], BATCH_TOKENS):
        indices = [kept[position] for position in positions]
        tokens, mask = padded([ids[index] for index in indices], PAD, device)
        with recording(model) as recorded:
            model(tokens) if isinstance(model, DecoderOnly) else model(tokens, mask)
        for row, index in enumerate(indices):
            size = len(ids[index])
            yield index, attention_by_part(recorded, row)[part][:, :, :size, :size]
