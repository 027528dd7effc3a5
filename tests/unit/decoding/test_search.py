from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from decoding_models import (
    BOS,
    EOS,
    PAD,
    SYMBOLS,
    UNK,
    TreeModel,
    Uncached,
    all_outputs,
    decode,
    greedy,
    sentences,
    tiny_transformer,
)
from headwise.decoding.batching import batches
from headwise.decoding.beam_tree import BeamTrace
from headwise.decoding.engine import PyTorchEngine
from headwise.decoding.ensemble import Ensemble
from headwise.decoding.search import search
from headwise.decoding.selection import best_continuations
from headwise.engine.base import SearchSentence
from headwise.engine.hypotheses import length_penalty
from headwise.engine.options import SearchOptions
from headwise.engine.symbols import Symbols
from headwise.errors import CheckpointError, ConfigError


@pytest.mark.parametrize(("alpha", "n_best"), [(0.0, 121), (0.6, 121), (0.6, 1), (2.0, 3)])
def test_a_wide_beam_finds_what_trying_all_outputs_finds(alpha: float, n_best: int) -> None:
    sources = [[4, 5, EOS], [6, EOS], [EOS]]
    options = SearchOptions(beam=121, alpha=alpha, n_best=n_best, max_length=4)
    for seed in range(3):
        model = TreeModel(words=3, seed=seed)
        for source, found in zip(sources, decode(model, sources, options, SYMBOLS), strict=True):
            expected = all_outputs(model, source, alpha, longest=4)
            assert len(expected) == 1 + 3 + 9 + 27 + 81
            assert [h.tokens for h in found] == [words for _, words in expected[:n_best]]
            assert [h.score for h in found] == pytest.approx([value for value, _ in expected[:n_best]], rel=1e-5)


def test_beam_of_one_is_greedy() -> None:
    model = tiny_transformer()
    sources = sentences(12)
    found = decode(model, sources, SearchOptions(beam=1, extra_length=8), SYMBOLS)
    lengths = set()
    for source, (hypothesis,) in zip(sources, found, strict=True):
        words, total = greedy(model, source, longest=len(source) - 1 + 8)
        assert hypothesis.tokens == words
        assert hypothesis.log_probability == pytest.approx(total, abs=1e-4)
        lengths.add(len(words) - len(source))
    assert len(lengths) > 1  # some outputs end before the limit


def test_length_penalty_is_that_of_wu_et_al() -> None:
    assert length_penalty(1, 0.6) == 1.0  # an empty output: the end symbol alone
    assert length_penalty(7, 1.0) == 2.0
    assert length_penalty(19, 0.5) == 2.0
    assert length_penalty(100, 0.0) == 1.0


@pytest.mark.parametrize(
    "options",
    [
        SearchOptions(beam=5, n_best=5),
        SearchOptions(beam=3, n_best=3, alpha=0.0, min_length=6, no_repeat_ngram=2),
        SearchOptions(beam=2, max_length=2, allow_unknown=True),
        SearchOptions(sample=True, n_best=3, temperature=1.5, top_k=20, top_p=0.9, extra_length=5),
    ],
)
@pytest.mark.parametrize("ensemble", [False, True])
def test_every_score_is_the_forced_score(options: SearchOptions, ensemble: bool) -> None:
    model = tiny_transformer()
    if ensemble:
        model = Ensemble([model, tiny_transformer(seed=1, d_model=8)])
    sources = sentences(10)
    found = decode(model, sources, options, SYMBOLS, prefixes=[[7, 8] if row % 2 else [] for row in range(10)])
    pairs = [(source, h) for source, hypotheses in zip(sources, found, strict=True) for h in hypotheses]
    assert len(pairs) >= 10
    given = [s for s, _ in pairs], [h.tokens for _, h in pairs]
    forced = PyTorchEngine(model).score(*given, SYMBOLS, alpha=options.alpha)
    for (_, h), expected in zip(pairs, forced, strict=True):
        assert h.tokens == expected.tokens
        assert h.token_log_probabilities == pytest.approx(expected.token_log_probabilities, abs=1e-4)
        assert h.log_probability == pytest.approx(expected.log_probability, abs=1e-4)
        assert h.log_probability == pytest.approx(math.fsum(h.token_log_probabilities), abs=1e-9)
        assert h.score == pytest.approx(expected.score, abs=1e-4)


@pytest.mark.parametrize("options", [SearchOptions(beam=1), SearchOptions(beam=5, n_best=5, no_repeat_ngram=3)])
def test_cached_search_equals_search_without_any_cache(options: SearchOptions) -> None:
    model = tiny_transformer()
    sources = sentences(16)
    cached = decode(model, sources, options, SYMBOLS)
    uncached = decode(Uncached(model), sources, options, SYMBOLS)
    for left, right in zip(cached, uncached, strict=True):
        assert [h.tokens for h in left] == [h.tokens for h in right]
        for a, b in zip(left, right, strict=True):
            assert a.token_log_probabilities == pytest.approx(b.token_log_probabilities, abs=1e-5)


def test_ties_go_to_the_lower_token_and_the_earlier_hypothesis() -> None:
    model = TreeModel(words=3, sharpness=0.0)  # 7 equally likely tokens, 4 of which are allowed
    options = SearchOptions(beam=4, n_best=4, alpha=0.0, max_length=2, patience=math.inf)
    (found,) = decode(model, [[4, EOS]], options, SYMBOLS)
    # Step 1: end, 4, 5, 6. Step 2, after 4 as the first of the ties: end, 4, 5, 6. Step 3: all end.
    assert [h.tokens for h in found] == [(), (4,), (4, 4), (4, 5)]


def test_an_output_has_at_most_the_inputs_length_and_the_extra() -> None:
    model = TreeModel(words=5, sharpness=0.1)
    model.log_probs = without_end(model.log_probs)
    sources = [[4, 5, 6, EOS], [EOS], [5, EOS]]
    for hypotheses, source in zip(decode(model, sources, SearchOptions(extra_length=2), SYMBOLS), sources, strict=True):
        (hypothesis,) = hypotheses
        assert len(hypothesis.tokens) == len(source) - 1 + 2
        assert hypothesis.token_log_probabilities[-1] == pytest.approx(
            -20.0
        )  # finished with the model's log-probability


def without_end(log_probs):
    """Return the model's `log_probs` with a very unlikely end symbol."""

    def changed(source: tuple[int, ...], prefix: tuple[int, ...]) -> np.ndarray:
        values = log_probs(source, prefix).copy()
        values[EOS] = -20.0
        return values

    return changed


def test_special_symbols_are_never_said_and_unknown_only_where_allowed() -> None:
    model = TreeModel(words=1)
    options = SearchOptions(beam=4, n_best=4, max_length=4, min_length=3)
    sources = sentences(20, vocabulary=5)
    said = {token for found in decode(model, sources, options, SYMBOLS) for h in found for token in h.tokens}
    assert said == {4}
    options = SearchOptions(beam=4, n_best=4, max_length=4, min_length=3, allow_unknown=True)
    said = {token for found in decode(model, sources, options, SYMBOLS) for h in found for token in h.tokens}
    assert said == {UNK, 4}
    assert not said & {PAD, BOS, EOS}


def test_symbols_are_arguments() -> None:
    model = TreeModel(words=3)
    (found,) = decode(model, [[4, 5]], SearchOptions(max_length=4), Symbols(pad=6, unknown=5, bos=4, eos=0))
    assert set(found[0].tokens) <= {1, 2, 3}


def test_repeats_that_leave_no_token_end_the_output() -> None:
    model = TreeModel(words=2)
    model.log_probs = without_end(model.log_probs)
    (found,) = decode(model, [[4, EOS]], SearchOptions(beam=1, no_repeat_ngram=1, min_length=5), SYMBOLS)
    assert sorted(found[0].tokens) == [4, 5]
    assert found[0].token_log_probabilities[-1] == pytest.approx(-20.0)


def test_finished_sentences_leave_the_batch() -> None:
    batch_sizes = []

    class Counting(TreeModel):
        def step(self, tokens, state):
            batch_sizes.append(len(tokens))
            return super().step(tokens, state)

    sources = [[4] * length + [EOS] for length in (8, 3, 1)]
    options = SearchOptions(beam=2, extra_length=0, min_length=1)
    model = Counting(words=3)
    model.log_probs = without_end(model.log_probs)
    decode(model, sources, options, SYMBOLS)
    assert batch_sizes == [
        6,
        6,
        4,
        4,
        *[2] * 5,
    ]  # 2 hypotheses per sentence until its limit: 2, 4 and 9 steps


def test_the_search_stops_as_soon_as_nothing_can_win() -> None:
    steps = 0

    class Counting(TreeModel):
        def log_probs(self, source, prefix):
            values = np.full(self.target_size, math.log(0.01 / (self.target_size - 1)))
            values[EOS if len(prefix) == 2 else 4] = math.log(0.99)
            return values

        def step(self, tokens, state):
            nonlocal steps
            steps += 1
            return super().step(tokens, state)

    (found,) = decode(Counting(), [[4, EOS]], SearchOptions(beam=4, patience=math.inf), SYMBOLS)
    assert found[0].tokens == (4, 4)
    assert steps == 3


def test_a_hypothesis_that_can_still_win_keeps_the_search_going() -> None:
    class Patient(TreeModel):
        def log_probs(self, source, prefix):
            values = np.full(self.target_size, -30.0)
            values[4] = math.log(0.4) if not prefix else -0.0
            values[EOS] = math.log(0.6) if not prefix else -30.0
            if len(prefix) == 4:
                values[4], values[EOS] = values[EOS], values[4]
            return values

    # After one step the live hypothesis, log 0.4 = -0.92, scores worse than the finished one, log 0.6 = -0.51, but
    # its other tokens have probability 1, and its length penalty grows to (10 / 6)^2: -0.33.
    options = SearchOptions(beam=2, alpha=2.0, patience=math.inf)
    (found,) = decode(Patient(), [[4, EOS]], options, SYMBOLS)
    assert found[0].tokens == (4, 4, 4, 4)
    assert found[0].score == pytest.approx(math.log(0.4) * (6 / 10) ** 2)
    (found,) = decode(Patient(), [[4, EOS]], SearchOptions(beam=1, alpha=2.0), SYMBOLS)
    assert found[0].tokens == ()  # greedy search stops after one finished hypothesis
    (found,) = decode(Patient(), [[4, EOS]], SearchOptions(beam=1, alpha=2.0, patience=2), SYMBOLS)
    assert found[0].tokens == (4, 4, 4, 4)


def test_ensemble_votes_with_the_mean_of_the_probabilities() -> None:
    models = [TreeModel(words=3, seed=seed) for seed in range(3)]
    source = [4, 5, EOS]
    (found,) = decode(Ensemble(models), [source], SearchOptions(n_best=4, max_length=5), SYMBOLS)
    for hypothesis in found:
        for place, token in enumerate([*hypothesis.tokens, EOS]):
            each = [np.exp(m.log_probs(tuple(source), hypothesis.tokens[:place])[token]) for m in models]
            assert hypothesis.token_log_probabilities[place] == pytest.approx(np.log(np.mean(each)), rel=1e-5)


def test_ensemble_of_copies_is_the_model() -> None:
    model = tiny_transformer()
    sources = sentences(8)
    alone = decode(model, sources, SearchOptions(n_best=4), SYMBOLS)
    together = decode(Ensemble([model, tiny_transformer()]), sources, SearchOptions(n_best=4), SYMBOLS)
    assert [[h.tokens for h in found] for found in alone] == [[h.tokens for h in found] for found in together]


def test_ensemble_of_different_vocabularies_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"50 source and 50 target subwords, as in model 1, found 60 and 60 in model 2"
    ):
        Ensemble([tiny_transformer(50), tiny_transformer(60)])


def test_damaged_parameters_are_named() -> None:
    model = tiny_transformer()
    with torch.no_grad():
        model.source_embedding.weight.fill_(math.nan)
    with pytest.raises(CheckpointError, match=r"sentence 1 of the batch: .* its parameters are damaged"):
        decode(model, [[4, EOS]], SearchOptions(extra_length=2), SYMBOLS)


def test_trace_holds_the_whole_beam_tree() -> None:
    model = tiny_transformer()
    sources = sentences(6)
    options = SearchOptions(beam=4, n_best=4)
    batch = [SearchSentence(source, options) for source in sources]
    trace = BeamTrace()
    found = search(model, batch, SYMBOLS, trace=trace)
    untraced = search(model, batch, SYMBOLS)
    assert found == untraced
    for sentence, hypotheses in enumerate(found):
        nodes = trace.tree(sentence, options.alpha)
        ended = {}
        for node in nodes:
            path = [node]
            while path[-1].parent is not None:
                path.append(nodes[path[-1].parent])
            tokens = tuple(step.token for step in reversed(path))
            assert node.length == len(path)
            assert node.log_probability == pytest.approx(sum(step.token_log_probability for step in path), abs=1e-4)
            assert not any(step.finished for step in path[1:])
            assert node.finished == (node.token == EOS)
            if node.finished:
                ended[tokens] = node.score
            assert node.length_penalty == length_penalty(node.length, options.alpha)
            assert node.score == node.log_probability / node.length_penalty
        best = sorted(ended.items(), key=lambda entry: -entry[1])[: len(hypotheses)]
        assert [tokens for tokens, _ in best] == [(*h.tokens, EOS) for h in hypotheses]
        assert [value for _, value in best] == pytest.approx([h.score for h in hypotheses], abs=1e-5)


def test_batches_bound_the_padded_tokens_and_hold_every_row_once() -> None:
    lengths = np.random.default_rng(0).integers(1, 40, 300).tolist()
    planned = list(batches([*lengths, 500], 128))
    assert sorted(row for rows in planned for row in rows) == list(range(301))
    assert planned[0] == [300]  # too long for any batch but its own
    for rows in planned[1:]:
        assert len(rows) * max(lengths[row] for row in rows) <= 128


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"beam": 0}, "beam: expected a whole number of at least 1, found 0"),
        ({"beam": 2.0}, r"beam: expected a whole number of at least 1, found 2\.0"),
        ({"beam": True}, "beam: expected a whole number of at least 1, found True"),
        ({"alpha": -0.1}, r"alpha: expected a number from 0 to 50, found -0\.1"),
        ({"alpha": math.nan}, "alpha: expected a number from 0 to 50, found nan"),
        ({"n_best": 5}, "n_best: expected at most the beam size 4, found 5"),
        ({"min_length": -1}, "min_length: expected a whole number of at least 0, found -1"),
        ({"max_length": 0}, "max_length: expected a whole number of at least 1, found 0"),
        ({"min_length": 9, "max_length": 8}, "min_length: expected at most max_length 8, found 9"),
        ({"no_repeat_ngram": -1}, "no_repeat_ngram: expected a whole number of at least 0, found -1"),
        (
            {"patience": 0.5},
            r"patience: expected a number from 1 to 1,000,000, or infinity \(.inf\), found 0\.5",
        ),
        ({"top_k": 3}, "top_k: expected only together with sampling, found 3"),
        (
            {"sample": True, "temperature": 0},
            "temperature: expected a number from 1e-06 to 1,000,000, found 0",
        ),
        ({"sample": True, "top_p": 1.5}, r"top_p: expected a probability above 0 and up to 1, found 1\.5"),
        ({"sample": True, "top_k": -1}, "top_k: expected a whole number of at least 0, found -1"),
    ],
)
def test_bad_options_are_named(options: dict, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        SearchOptions(**options)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_what_is_not_a_number_displaces_nothing(sign: float) -> None:
    log_probs = torch.randn(2, 3, 100).log_softmax(-1)
    log_probs[0, 1] = torch.copysign(torch.tensor(torch.nan), torch.tensor(sign))
    values, parents, tokens = best_continuations(log_probs, torch.zeros(2, 3), 4)
    expected = log_probs[0, [0, 2]].flatten().sort(descending=True).values[:4]
    assert torch.equal(values[0], expected)
    assert torch.equal(values[0], log_probs[0, parents[0], tokens[0]])


@pytest.mark.parametrize("beam", [2, 4])
def test_outputs_that_end_early_do_not_displace_a_certain_one(beam: int) -> None:
    certain = (5, 6, 7, 8, 9, 4, 5, 6)

    class Certain(TreeModel):
        """Each token of one output has 99.9 %; what ends before, or goes on otherwise, is unlikely."""

        def log_probs(self, source: tuple[int, ...], words: tuple[int, ...]) -> list[float]:
            likely = (*certain, EOS)[len(words)] if words == certain[: len(words)] else EOS
            rest = (1 - 0.999) / (self.target_size - 1)
            return [math.log(0.999 if token == likely else rest) for token in range(self.target_size)]

    (found,) = decode(Certain(words=6), [[4, EOS]], SearchOptions(beam=beam), SYMBOLS)
    assert found[0].tokens == certain
