"""Models and searches written for the tests alone, as plainly as possible, to check the real ones against."""

from __future__ import annotations

import hashlib
import itertools
import math

import numpy as np
import torch
from torch import Tensor, nn

from headwise.config import ModelConfig
from headwise.decoding.beam.constraints import Symbols
from headwise.decoding.options import SearchOptions
from headwise.models.base import Memory, Seq2Seq, State
from headwise.models.transformer import Transformer

PAD, UNK, BOS, EOS = 0, 1, 2, 3
SYMBOLS = Symbols(pad=PAD, unknown=UNK, bos=BOS, eos=EOS)


class PrefixState(State):
    """Every row's tokens so far, and every sentence's memory."""

    def __init__(self, memory: Memory, prefixes: Tensor, beams: int) -> None:
        self.memory = memory
        self.prefixes = prefixes  # (rows, time)
        self.beams = beams

    def reorder(self, rows: Tensor) -> PrefixState:
        assert torch.equal(rows // self.beams, torch.arange(len(rows)) // self.beams)  # within the sentence
        return PrefixState(self.memory, self.prefixes[rows], self.beams)

    def keep(self, sentences: Tensor) -> PrefixState:
        rows = (sentences[:, None] * self.beams + torch.arange(self.beams)).flatten()
        memory = Memory(self.memory.states[sentences], self.memory.mask[sentences])
        return PrefixState(memory, self.prefixes[rows], self.beams)


class Uncached(Seq2Seq):
    """Any model, without any cache: each step decodes the whole prefix again."""

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        self.model = model
        self.source_size, self.target_size = model.source_size, model.target_size
        self.max_length = model.max_length

    def encode(self, source: Tensor, mask: Tensor) -> Memory:
        return self.model.encode(source, mask)

    def start(self, memory: Memory, beams: int = 1, capacity: int | None = None) -> PrefixState:
        return PrefixState(memory, torch.empty(len(memory.mask) * beams, 0, dtype=torch.long), beams)

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, PrefixState]:
        assert isinstance(state, PrefixState)
        prefixes = torch.cat([state.prefixes, tokens[:, None]], dim=1)
        memory = Memory(
            state.memory.states.repeat_interleave(state.beams, 0),
            state.memory.mask.repeat_interleave(state.beams, 0),
        )
        logits = self.model.project(self.model.decode(memory, prefixes)[:, -1])
        return logits.float().log_softmax(-1), PrefixState(state.memory, prefixes, state.beams)

    def decode(self, memory: Memory, target_input: Tensor) -> Tensor:
        return self.model.decode(memory, target_input)

    @property
    def output_weight(self) -> Tensor:
        return self.model.output_weight


class TreeModel(Seq2Seq):
    """A distribution of its own, drawn at random, after every source and every prefix.

    Nothing is shared between prefixes, so whatever a search gets wrong about its rows changes its result.
    `sharpness` 0 makes all tokens equally likely, which is nothing but ties.
    """

    max_length = 1000

    def __init__(self, words: int = 3, sharpness: float = 1.5, seed: int = 0) -> None:
        super().__init__()
        self.source_size = self.target_size = 4 + words
        self.sharpness, self.seed = sharpness, seed
        self.identity = nn.Parameter(torch.eye(self.target_size), requires_grad=False)

    def log_probs(self, source: tuple[int, ...], prefix: tuple[int, ...]) -> np.ndarray:
        """log P(. | source, prefix), the prefix without the start symbol."""
        digest = hashlib.sha256(repr((self.seed, source, prefix)).encode()).digest()
        logits = np.random.default_rng(list(digest)).normal(size=self.target_size) * self.sharpness
        return logits - np.log(np.exp(logits).sum())

    def encode(self, source: Tensor, mask: Tensor) -> Memory:
        return Memory(source.float()[..., None], mask)

    def start(self, memory: Memory, beams: int = 1, capacity: int | None = None) -> PrefixState:
        return PrefixState(memory, torch.empty(len(memory.mask) * beams, 0, dtype=torch.long), beams)

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, PrefixState]:
        assert isinstance(state, PrefixState)
        prefixes = torch.cat([state.prefixes, tokens[:, None]], dim=1)
        rows = [
            self.log_probs(self._source(state.memory, row // state.beams), tuple(prefix[1:]))
            for row, prefix in enumerate(prefixes.tolist())
        ]
        return torch.tensor(np.array(rows), dtype=torch.float32), PrefixState(
            state.memory, prefixes, state.beams
        )

    def decode(self, memory: Memory, target_input: Tensor) -> Tensor:
        rows = [
            [self.log_probs(self._source(memory, row), tuple(ids[1:end])) for end in range(1, len(ids) + 1)]
            for row, ids in enumerate(target_input.tolist())
        ]
        return torch.tensor(np.array(rows), dtype=torch.float32)

    @property
    def output_weight(self) -> Tensor:
        return self.identity

    @staticmethod
    def _source(memory: Memory, row: int) -> tuple[int, ...]:
        return tuple(memory.states[row, memory.mask[row], 0].long().tolist())


def tiny_transformer(vocabulary: int = 50, seed: int = 2, **changes: object) -> Transformer:
    """A Transformer with random weights, made less uniform, whose outputs end by themselves now and then.

    Its embeddings aren't shared: with random weights a shared one says again whatever it was fed.
    """
    shape = {
        "encoder_layers": 2,
        "decoder_layers": 2,
        "d_model": 16,
        "d_ff": 32,
        "heads": 2,
        "max_length": 64,
    }
    torch.manual_seed(seed)
    config = ModelConfig.model_validate(
        shape | {"share_embeddings": "none", "positions": "learned"} | changes
    )
    model = Transformer(config, vocabulary, vocabulary).eval()
    with torch.no_grad():
        for name, factor in (("positions.table", 6), ("source_embedding", 2), ("output_projection", 2)):
            for path, parameter in model.named_parameters():
                parameter *= factor if name in path else 1
        model.output_weight[EOS] *= 2
    return model


def sentences(count: int, vocabulary: int = 50, longest: int = 12, seed: int = 0) -> list[list[int]]:
    """Random sources that end with the end symbol, some of them of that alone."""
    rng = np.random.default_rng(seed)
    return [[*rng.integers(4, vocabulary, rng.integers(0, longest)).tolist(), EOS] for _ in range(count)]


def penalty(length: int, alpha: float) -> float:
    """Wu et al. 2016, equation 14."""
    return (5 + length) ** alpha / (5 + 1) ** alpha


def all_outputs(
    model: TreeModel, source: list[int], alpha: float, longest: int
) -> list[tuple[float, tuple[int, ...]]]:
    """Every output of up to `longest` words with its score, best first, by multiplying out the whole tree."""
    found = []
    for length in range(longest + 1):
        for words in itertools.product(range(4, model.target_size), repeat=length):
            total = sum(
                model.log_probs(tuple(source), words[:place])[token]
                for place, token in enumerate([*words, EOS])
            )
            found.append((total / penalty(length + 1, alpha), words))
    return sorted(found, key=lambda entry: -entry[0])


def plain_beam_search(
    model: TreeModel, source: list[int], options: SearchOptions, prefix: tuple[int, ...] = ()
) -> list[tuple[float, tuple[int, ...]]]:
    """The definition in `headwise.decoding.search`, one sentence at a time, with lists and without shortcuts."""
    limit = len(source) + options.extra_length
    if options.max_length is not None:
        limit = min(limit, options.max_length + 1)
    limit = max(limit, options.min_length + 1, len(prefix) + 1)
    live: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    finished: list[tuple[float, tuple[int, ...]]] = []
    while live and len(finished) < options.patience * options.beam:
        candidates = []
        for total, words in live:
            log_probs = model.log_probs(tuple(source), words)
            for token in allowed(words, options, prefix, limit, model.target_size):
                candidates.append((total + log_probs[token], (*words, token)))
        candidates.sort(key=lambda entry: -entry[0])
        for total, words in candidates[: options.beam]:
            if words[-1] == EOS:
                finished.append((total / penalty(len(words), options.alpha), words[:-1]))
        live = [entry for entry in candidates if entry[1][-1] != EOS][: options.beam]
    return sorted(finished, key=lambda entry: -entry[0])[: options.n_best]


def allowed(
    words: tuple[int, ...], options: SearchOptions, prefix: tuple[int, ...], limit: int, vocabulary: int
) -> list[int]:
    """What may follow `words`."""
    if len(words) < len(prefix):
        return [prefix[len(words)]]
    if len(words) + 1 == limit:
        return [EOS]
    tokens = [EOS] if len(words) >= options.min_length else []
    tokens += [token for token in range(vocabulary) if token not in (PAD, UNK, BOS, EOS)]
    tokens += [UNK] if options.allow_unknown else []
    size = options.no_repeat_ngram
    if size:
        grams = {words[i : i + size] for i in range(len(words) - size + 1)}
        tokens = [t for t in tokens if t == EOS or len(words) + 1 < size or (*words, t)[-size:] not in grams]
    return tokens or [EOS]


@torch.inference_mode()
def greedy(model: Seq2Seq, source: list[int], longest: int) -> tuple[tuple[int, ...], float]:
    """The likeliest token at each step, by teacher forcing from the beginning each time."""
    words: list[int] = []
    total = 0.0
    while True:
        ids = torch.tensor([source])
        hidden = model(ids, torch.ones_like(ids, dtype=torch.bool), torch.tensor([[BOS, *words]]))
        log_probs = model.project(hidden)[0, -1].double().log_softmax(-1)
        choices = log_probs.clone()
        choices[[PAD, UNK, BOS]] = -math.inf
        token = int(choices.argmax()) if len(words) < longest else EOS
        total += float(log_probs[token])
        if token == EOS:
            return tuple(words), total
        words.append(token)
