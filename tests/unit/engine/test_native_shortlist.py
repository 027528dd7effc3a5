"""Shortlists and given symbols in the native engine: as if there were no other tokens."""

from __future__ import annotations

import dataclasses
from functools import cache

import numpy as np
import pytest
import torch

from decoding_models import EOS, SYMBOLS, decode, sentences
from headwise.decoding.engine import PyTorchEngine
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.options import SearchOptions
from headwise.models.transformer import Transformer
from headwise.native.library import Library
from native_engines import compiled, search_at_once
from native_models import (
    SEARCHES,
    VOCABULARY,
    assert_same,
    shared_engine,
    shared_transformer,
    shortlist,
    step_search,
)

pytestmark = compiled


@cache
def found_with_pytorch(options: SearchOptions) -> list[list[list[Hypothesis]]]:
    """Search without the tokens outside the shortlists, and with these, once for all variants of the library."""
    model, sources = shared_transformer(), sentences(6, VOCABULARY, seed=9)
    found = []
    for source in sources:
        others = torch.from_numpy(np.setdiff1d(np.arange(VOCABULARY), shortlist(source)))
        found += step_search(Restricted(model, others), [source], options)
    return [found, decode(model, sources, options, SYMBOLS, shortlist=shortlist)]


@pytest.mark.parametrize("options", SEARCHES.values(), ids=SEARCHES.keys())
def test_a_shortlist_is_as_if_there_were_no_other_tokens(library: Library, options: SearchOptions) -> None:
    fast = shared_engine(library)
    sources = sentences(6, VOCABULARY, seed=9)
    found = search_at_once(fast, sources, options, 3, lists=[shortlist(each) for each in sources])
    for source, hypotheses in zip(sources, found, strict=True):
        listed = shortlist(source)
        assert {token for hypothesis in hypotheses for token in hypothesis.tokens} <= set(listed.tolist())
    for expected in found_with_pytorch(options):
        assert_same(found, expected)
    assert found == decode(fast, sources, options, SYMBOLS, shortlist=shortlist)


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_no_result_with_a_shortlist_depends_on_the_batch(library: Library, precision: str) -> None:
    fast = shared_engine(library, precision)
    sources, options = sentences(9, VOCABULARY, seed=10), SearchOptions(n_best=4)
    lists = [shortlist(source) for source in sources]
    together = search_at_once(fast, sources, options, 9, lists=lists)
    alone = [
        search_at_once(fast, [source], options, 1, lists=[listed])[0]
        for source, listed in zip(sources, lists, strict=True)
    ]
    assert together == alone


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("listed", [False, True])
@torch.inference_mode()
def test_a_given_symbol_begins_every_output(library: Library, beam: int, listed: bool) -> None:
    """The search equals that in PyTorch with the symbol as a prefix, whose log-probability is then left out."""
    model, given = shared_transformer(), 17
    symbols = dataclasses.replace(SYMBOLS, given=(given, 18))
    options = SearchOptions(beam=beam, alpha=0.0, min_length=2, extra_length=8)
    sources = sentences(9, VOCABULARY)
    lists = [np.array([EOS, *range(20, 60, 1 + n % 3)], np.int32) for n in range(9)]
    shortlist = (lambda source: lists[sources.index(source)]) if listed else None
    found, again = (
        decode(each, sources, options, symbols, shortlist=shortlist) for each in (shared_engine(library), model)
    )
    prefixed = decode(model, sources, options, SYMBOLS, prefixes=[[given]] * 9, shortlist=shortlist)
    for native_outputs, outputs, (expected, *_) in zip(found, again, prefixed, strict=True):
        assert native_outputs[0].tokens == outputs[0].tokens
        assert listed or outputs[0].tokens == expected.tokens  # a prefix is on the shortlist, too
        assert native_outputs[0].tokens[0] == given
        log_probs = [0.0, *expected.token_log_probabilities[1:]]
        for output in (native_outputs[0], outputs[0]):
            if not listed:
                assert output.token_log_probabilities == pytest.approx(log_probs, abs=1e-4)
            assert output.log_probability == pytest.approx(sum(output.token_log_probabilities), abs=1e-4)
            assert output.token_log_probabilities[0] == 0.0
    (scored,) = PyTorchEngine(model).score(sources[:1], [found[0][0].tokens], symbols, alpha=0.0)
    if not listed:
        assert scored.log_probability == pytest.approx(found[0][0].log_probability, abs=1e-4)


class Restricted(Transformer):
    """A model that never predicts the tokens `others`."""

    def __init__(self, model: Transformer, others: torch.Tensor) -> None:
        super().__init__(model.config, model.source_size, model.target_size)
        self.load_state_dict(model.state_dict())
        self.others = others
        self.eval()

    def project(self, hidden: torch.Tensor) -> torch.Tensor:
        return super().project(hidden).index_fill(-1, self.others, -1e30)
