"""Reference models and searches for the tests, written as plainly as possible."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headwise.config import ModelConfig
from headwise.decoding.engine import PyTorchEngine
from headwise.engine.base import BATCH_TOKENS, Engine, SearchSentence
from headwise.engine.guards.second_search import search_checked
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.options import SearchOptions
from headwise.engine.symbols import Symbols
from headwise.engine.terms import Terms
from headwise.models.base import Memory, Seq2Seq, State
from headwise.models.transformer import Transformer

PAD, UNK, BOS, EOS = 0, 1, 2, 3
SYMBOLS = Symbols(pad=PAD, unknown=UNK, bos=BOS, eos=EOS)


def decode(
    searched: Engine | Seq2Seq,
    sources: Sequence[Sequence[int]],
    options: SearchOptions,
    symbols: Symbols = SYMBOLS,
    *,
    prefixes: Sequence[Sequence[int]] | None = None,
    shortlist: Callable[[Sequence[int]], NDArray[np.int32]] | None = None,
    terms: Sequence[Terms | None] | None = None,
    lettered: Sequence[bool] | None = None,
    batch_tokens: int = BATCH_TOKENS,
) -> list[list[Hypothesis]]:
    """Search with an engine, or a model in PyTorch, as `Translator` does."""
    engine = PyTorchEngine(searched) if isinstance(searched, Seq2Seq) else searched
    none = [None] * len(sources)
    found = zip(sources, prefixes or none, terms or none, lettered or [False] * len(sources), strict=True)
    all_sentences = [
        SearchSentence(source, options, prefix, None if shortlist is None else shortlist(source), each, needy)
        for source, prefix, each, needy in found
    ]
    return search_checked(engine, all_sentences, symbols, batch_tokens=batch_tokens)


class PrefixState(State):
    """Decoding state: the tokens so far of every hypothesis, and the memory of every sentence."""

    def __init__(self, memory: Memory, prefixes: Tensor, beams: int) -> None:
        self.memory = memory
        self.prefixes = prefixes  # (hypotheses, time)
        self.beams = beams

    def reorder(self, rows: Tensor) -> PrefixState:
        # Beams move only within their sentence.
        assert torch.equal(rows // self.beams, torch.arange(len(rows)) // self.beams)
        return PrefixState(self.memory, self.prefixes[rows], self.beams)

    def keep(self, sentences: Tensor) -> PrefixState:
        hypotheses = (sentences[:, None] * self.beams + torch.arange(self.beams)).flatten()
        memory = Memory(self.memory.states[sentences], self.memory.mask[sentences])
        return PrefixState(memory, self.prefixes[hypotheses], self.beams)


class Uncached(Seq2Seq):
    """A model without key/value cache: each step decodes the whole prefix again."""

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        self.model = model
        self.source_size, self.target_size = model.source_size, model.target_size
        self.max_length = model.max_length

    def encode(self, source: Tensor, mask: Tensor) -> Memory:
        return self.model.encode(source, mask)

    def start(self, memory: Memory, beams: int = 1) -> PrefixState:
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
    """Model with an independent random distribution for every source and prefix.

    Because prefixes share nothing, any confusion of hypotheses in a search changes its result.
    `sharpness` 0 makes all tokens equally likely, so that all continuations are tied.
    """

    max_length = 1000

    def __init__(self, words: int = 3, sharpness: float = 1.5, seed: int = 0) -> None:
        super().__init__()
        self.source_size = self.target_size = 4 + words
        self.sharpness, self.seed = sharpness, seed
        self.identity = nn.Parameter(torch.eye(self.target_size), requires_grad=False)

    def log_probs(self, source: tuple[int, ...], prefix: tuple[int, ...]) -> np.ndarray:
        """Return log P(. | source, prefix), with the prefix without the start symbol."""
        digest = hashlib.sha256(repr((self.seed, source, prefix)).encode()).digest()
        logits = np.random.default_rng(list(digest)).normal(size=self.target_size) * self.sharpness
        return logits - np.log(np.exp(logits).sum())

    def encode(self, source: Tensor, mask: Tensor) -> Memory:
        return Memory(source.float()[..., None], mask)

    def start(self, memory: Memory, beams: int = 1) -> PrefixState:
        return PrefixState(memory, torch.empty(len(memory.mask) * beams, 0, dtype=torch.long), beams)

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, PrefixState]:
        assert isinstance(state, PrefixState)
        prefixes = torch.cat([state.prefixes, tokens[:, None]], dim=1)
        log_probs = [
            self.log_probs(self._source(state.memory, row // state.beams), tuple(prefix[1:]))
            for row, prefix in enumerate(prefixes.tolist())
        ]
        return torch.tensor(np.array(log_probs), dtype=torch.float32), PrefixState(state.memory, prefixes, state.beams)

    def decode(self, memory: Memory, target_input: Tensor) -> Tensor:
        log_probs = [
            [self.log_probs(self._source(memory, row), tuple(ids[1:end])) for end in range(1, len(ids) + 1)]
            for row, ids in enumerate(target_input.tolist())
        ]
        return torch.tensor(np.array(log_probs), dtype=torch.float32)

    @property
    def output_weight(self) -> Tensor:
        return self.identity

    @staticmethod
    def _source(memory: Memory, row: int) -> tuple[int, ...]:
        return tuple(memory.states[row, memory.mask[row], 0].long().tolist())


def tiny_transformer(vocabulary: int = 50, seed: int = 2, **changes: object) -> Transformer:
    """Return a Transformer with scaled random weights, some of whose outputs end before the maximum length.

    Its embeddings aren't shared, because a random shared embedding repeats the input token.
    """
    shape = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 16, "d_ff": 32, "heads": 2}
    shape |= {"max_length": 64}
    torch.manual_seed(seed)
    config = ModelConfig.model_validate(shape | {"share_embeddings": "none", "positions": "learned"} | changes)
    model = Transformer(config, vocabulary, vocabulary).eval()
    with torch.no_grad():
        for name, factor in (("positions.table", 6), ("source_embedding", 2), ("output_projection", 2)):
            for path, parameter in model.named_parameters():
                parameter *= factor if name in path else 1
        model.output_weight[EOS] *= 2
    return model


def sentences(count: int, vocabulary: int = 50, longest: int = 12, seed: int = 0) -> list[list[int]]:
    """Return random sources that end with the end symbol; some contain nothing else."""
    rng = np.random.default_rng(seed)
    return [[*rng.integers(4, vocabulary, rng.integers(0, longest)).tolist(), EOS] for _ in range(count)]


def penalty(length: int, alpha: float) -> float:
    """Return the length penalty (Wu et al. 2016, equation 14)."""
    return (5 + length) ** alpha / (5 + 1) ** alpha


def all_outputs(model: TreeModel, source: list[int], alpha: float, longest: int) -> list[tuple[float, tuple[int, ...]]]:
    """Return every output of up to `longest` words with its score, best first, by exhaustive search."""
    scored = []
    for length in range(longest + 1):
        for words in itertools.product(range(4, model.target_size), repeat=length):
            total = sum(
                model.log_probs(tuple(source), words[:position])[token] for position, token in enumerate([*words, EOS])
            )
            scored.append((total / penalty(length + 1, alpha), words))
    return sorted(scored, key=lambda entry: -entry[0])


def plain_beam_search(
    model: TreeModel,
    source: list[int],
    options: SearchOptions,
    prefix: tuple[int, ...] = (),
    letters: frozenset[int] | None = None,
) -> list[tuple[float, tuple[int, ...]]]:
    """Beam search by its definition in `headwise.decoding.search`, for one sentence, with lists, unoptimized.

    `letters` are tokens of which an output must contain one.
    """
    limit = len(source) + options.extra_length
    if options.max_length is not None:
        limit = min(limit, options.max_length + 1)
    limit = max(limit, options.min_length + 1, len(prefix) + 1 + (letters is not None))
    live: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    finished: list[tuple[float, tuple[int, ...]]] = []
    likeliest = -math.inf
    while live and (len(finished) < options.patience * options.beam or live[0][0] > likeliest):
        candidates = []
        for total, words in live:
            log_probs = model.log_probs(tuple(source), words)
            for token in allowed(words, options, prefix, limit, model.target_size, letters):
                candidates.append((total + log_probs[token], (*words, token)))
        candidates.sort(key=lambda entry: -entry[0])
        for total, words in candidates[: options.beam]:
            if words[-1] == EOS:
                likeliest = max(likeliest, total)
                finished.append((total / penalty(len(words), options.alpha), words[:-1]))
        live = [entry for entry in candidates if entry[1][-1] != EOS][: options.beam]
    return sorted(finished, key=lambda entry: -entry[0])[: options.n_best]


def allowed(
    words: tuple[int, ...],
    options: SearchOptions,
    prefix: tuple[int, ...],
    limit: int,
    vocabulary: int,
    letters: frozenset[int] | None,
) -> list[int]:
    """Return the tokens that may follow `words`."""
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
    if letters is not None and letters.isdisjoint(words):
        last = len(words) + 2 == limit
        tokens = [token for token in tokens if token in letters or (not last and token != EOS)]
    return tokens or [EOS]


@torch.inference_mode()
def greedy(model: Seq2Seq, source: list[int], longest: int) -> tuple[tuple[int, ...], float]:
    """Greedy search: the likeliest token at each step, with teacher forcing of the whole prefix."""
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
