from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decoding_models import EOS, SYMBOLS, TreeModel, all_outputs, decode, sentences, tiny_transformer
from headwise.decoding.sampling import draw, shaped
from headwise.engine.options import SearchOptions
from headwise.engine.uniforms import uniforms


def test_every_sentence_and_sample_has_its_own_stream() -> None:
    numbers = np.stack([uniforms(sentence, samples=3, steps=50, seed=1) for sentence in ([5, 6], [7])])
    assert numbers.shape == (2, 3, 50)
    assert bool(((numbers >= 0) & (numbers < 1)).all())
    assert len(set(numbers.flatten().tolist())) == 300
    assert np.array_equal(uniforms([7], samples=2, steps=20, seed=1), numbers[1, :2, :20])
    assert not np.array_equal(uniforms([7], samples=2, steps=20, seed=2), numbers[1, :2, :20])


def shaped_by_definition(probabilities: np.ndarray, temperature: float, top_k: int, top_p: float) -> np.ndarray:
    """Temperature, top-k and top-p on one distribution, token by token."""
    probabilities = probabilities ** (1 / temperature)
    probabilities /= probabilities.sum()
    ranked = sorted(range(len(probabilities)), key=lambda token: (-probabilities[token], token))
    if top_k:
        ranked = ranked[:top_k]
    mass = sum(probabilities[token] for token in ranked)
    kept, total = [], 0.0
    for token in ranked:
        kept.append(token)
        total += probabilities[token] / mass
        if total >= top_p - 1e-12:
            break
    result = np.zeros_like(probabilities)
    result[kept] = probabilities[kept] / probabilities[kept].sum()
    return result


@settings(max_examples=80, deadline=None)
@given(
    counts=st.lists(st.integers(1, 6), min_size=2, max_size=12),
    temperature=st.sampled_from([0.5, 1.0, 2.0]),
    top_k=st.integers(0, 15),
    top_p=st.sampled_from([0.05, 0.33, 0.71, 1.0]),
)
def test_shaping_is_its_definition(counts: list[int], temperature: float, top_k: int, top_p: float) -> None:
    probabilities = np.array(counts, dtype=np.float64) / sum(counts)
    log_probs = torch.from_numpy(np.log(probabilities))
    found, tokens = shaped(log_probs[None].float(), temperature, top_k, top_p)
    expected = shaped_by_definition(probabilities, temperature, top_k, top_p)
    assert torch.zeros(len(counts)).double().scatter(0, tokens[0], found[0]).numpy() == pytest.approx(
        expected, abs=1e-6
    )


@settings(max_examples=50, deadline=None)
@given(counts=st.lists(st.integers(0, 5), min_size=1, max_size=10).filter(any))
def test_drawing_inverts_the_distribution(counts: list[int]) -> None:
    parts = 100 * sum(counts)
    probabilities = torch.tensor(counts, dtype=torch.float64) / sum(counts)
    numbers = (torch.arange(parts) + 0.5) / parts  # one number in every part of [0, 1)
    tokens = draw(probabilities.expand(parts, -1), numbers.double())
    assert torch.bincount(tokens, minlength=len(counts)).tolist() == [100 * count for count in counts]


def test_drawing_at_the_edges_never_gives_an_impossible_token() -> None:
    probabilities = torch.tensor([0.0, 0.3, 0.0, 0.7, 0.0], dtype=torch.float64).expand(2, -1)
    numbers = torch.tensor([0.0, 1.0 - 2.0**-53], dtype=torch.float64)
    assert draw(probabilities, numbers).tolist() == [1, 3]


def test_samples_follow_the_models_distribution() -> None:
    model = TreeModel(words=2, sharpness=1.0, seed=3)
    source = [4, EOS]
    samples = 4000
    options = SearchOptions(sample=True, n_best=samples, max_length=2, seed=5)
    (found,) = decode(model, [source], options, SYMBOLS)
    assert len(found) == samples
    seen = Counter(h.tokens for h in found)
    # At each step the model's probabilities of the allowed tokens, renormalized; at the limit only the end symbol.
    expected = {}
    for _, words in all_outputs(model, source, alpha=0.0, longest=2):
        probability = 1.0
        for place, token in enumerate([*words, EOS]):
            if place < 2:
                each = np.exp(model.log_probs(tuple(source), words[:place]))
                probability *= each[token] / each[[EOS, 4, 5]].sum()
        expected[words] = samples * probability
    assert set(seen) <= set(expected)
    assert len(expected) == 7
    statistic = sum((seen[words] - count) ** 2 / count for words, count in expected.items())
    assert statistic < 22.458  # chi-square table: 6 degrees of freedom, 99.9 %


def test_sampling_among_one_token_is_greedy() -> None:
    model = tiny_transformer()
    sources = sentences(8)
    drawn = decode(model, sources, SearchOptions(sample=True, top_k=1), SYMBOLS)
    searched = decode(model, sources, SearchOptions(beam=1), SYMBOLS)
    assert [found[0].tokens for found in drawn] == [found[0].tokens for found in searched]


def test_more_samples_begin_with_the_fewer() -> None:
    model = tiny_transformer()
    sources = sentences(5)
    few = decode(model, sources, SearchOptions(sample=True, n_best=2, extra_length=5), SYMBOLS)
    many = decode(model, sources, SearchOptions(sample=True, n_best=5, extra_length=5), SYMBOLS)
    for left, right in zip(few, many, strict=True):
        assert [h.tokens for h in left] == [h.tokens for h in right[:2]]
        assert len({h.tokens for h in right}) > 1


def test_another_seed_gives_other_samples() -> None:
    model = tiny_transformer()
    options = [SearchOptions(sample=True, extra_length=5, seed=seed) for seed in (1, 1, 2)]
    first, again, other = (decode(model, sentences(5), each, SYMBOLS) for each in options)
    assert first == again
    assert first != other


def test_a_large_nucleus_is_found_too() -> None:
    log_probs = torch.full((2, 1000), 1 / 1000).log()
    log_probs[1, 500] = 5.0  # the second row's nucleus is small, the first one's isn't
    found, tokens = shaped(log_probs.log_softmax(-1), top_p=0.75)
    kept = [set(tokens[row][found[row] > 0].tolist()) for row in range(2)]
    assert len(kept[0]) == pytest.approx(750, abs=1)
    assert kept[1] == {500}
