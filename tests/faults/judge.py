"""One case: a damaged run, what both engines make of it, and whether that is as promised.

Promised is one sentence that says what is wrong, or a translation that the readable engine gives, too. Where rounding
may lead a search elsewhere, that is shown piece by piece: the log-probabilities of the native engine's translation are
the readable engine's (with the same rounding, see `rounding`), and the readable search over the native engine's
probabilities gives the same translation. How much two roundings may differ is not guessed: it is how much the readable
engine in float32 differs from itself in float64.
"""

from __future__ import annotations

import math
import random
import shutil
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, nn

from edits import edits
from headwise.decoding import search as search_module
from headwise.decoding.batching import padded
from headwise.decoding.beam.hypothesis import Hypothesis
from headwise.decoding.beam.selection import best_continuations
from headwise.decoding.native.transformer import NativeTransformer
from headwise.decoding.search import search
from headwise.decoding.shortlist import FILE as SHORTLIST
from headwise.decoding.translator import SYMBOLS, LongLineWarning, Translator
from headwise.errors import HeadwiseError
from headwise.models.base import Seq2Seq
from headwise.nn.multihead import Attended, MultiHeadAttention
from rounding import rounding

SENTENCES = ["Two dogs.", "Is OLD…", "A"]
BASE_ERROR = {"float32": 1e-3, "bfloat16": 0.05, "int8": 0.05}  # of a log-probability x, times 1 + |x|
_LOWEST = -(2.0**24)
_LONGEST = 1500  # characters of a sentence to the user


class Broken(Exception):
    """A promise isn't kept; the message says which."""


def damage(bases: Path, folder: Path, number: int) -> str:
    """Make case `number` in `folder`; returns what was done, in a line."""
    draw = random.Random(number)
    base = draw.choice(sorted(path.name for path in bases.iterdir()))
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(bases / base, folder)
    weights, kinds = zip(*edits(bases), strict=True)
    said = [base]
    for kind in draw.choices(kinds, weights, k=draw.choice([1, 1, 1, 2, 3])):
        said.append(kind(folder, draw))
    return "; ".join(said).replace("\n", "\\n")


def judge(folder: Path) -> str:
    """Translate with a damaged run; returns "sentence", "same", "tied" or "rounding".

    Raises `Broken`, or whatever escapes.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", LongLineWarning)
        warnings.filterwarnings("ignore", category=DeprecationWarning, module="torch")
        found, expected = attempt(folder, "auto"), attempt(folder, "readable")
        if isinstance(found, HeadwiseError):
            return "sentence"
        if isinstance(expected, HeadwiseError):
            readable = Translator.load(folder, engine="readable", device="cpu")
            sources = [translate_ids(readable, text) for text in SENTENCES]
            if indeterminate(readable, sources, found[1]):
                return "rounding"
            raise Broken(f"a translation, where the readable engine says: {expected}")
        return compare(*found, *expected)


Found = tuple[Translator, list[list[Hypothesis]]]


def attempt(folder: Path, engine: str) -> Found | HeadwiseError:
    """Load and translate; returns the user's sentence where there is one."""
    shortlist = (folder / SHORTLIST).exists()
    try:
        translator = Translator.load(folder, engine=engine, shortlist=shortlist, workers=1, device="cpu")
        translations = translator.translate(SENTENCES, n_best=min(2, translator.options.beam))
    except HeadwiseError as error:
        text = str(error)
        if not text or len(text) > _LONGEST or not text.isprintable():
            raise Broken(f"not one sentence but {text[:2000]!r}") from error
        return error
    found = []
    for translation in translations:
        found.append(
            [
                Hypothesis(o.tokens, o.log_probability, o.score, o.token_log_probabilities)
                for o in translation.outputs
            ]
        )
        for output in translation.outputs:
            if not math.isfinite(output.score):
                raise Broken(f"a score of {output.score}")
    return translator, found


def compare(
    native: Translator, found: list[list[Hypothesis]], readable: Translator, expected: list[list[Hypothesis]]
) -> str:
    """Hold the native engine's translations against the readable engine's."""
    engine = native._loaded_model
    if not isinstance(engine, NativeTransformer):
        if found != expected:
            raise Broken("the readable engine gives two results")
        return "same"
    sources = [translate_ids(readable, text) for text in SENTENCES]
    with rounding(readable.model, engine.precision):
        try:
            return differences(native, found, readable, expected, sources)
        except (Broken, HeadwiseError):
            if indeterminate(readable, sources, found):
                return "rounding"
            raise


def differences(
    native: Translator,
    found: list[list[Hypothesis]],
    readable: Translator,
    expected: list[list[Hypothesis]],
    sources: Sequence[Sequence[int]],
) -> str:
    """Do that with the readable model as it is now, which rounds as the native engine does."""
    engine = native._loaded_model
    assert isinstance(engine, NativeTransformer)
    if engine.precision != "float32":
        expected = attempt_again(readable)
    for source, hypotheses in zip(sources, found, strict=True):
        if source and (text := agree(readable, engine.precision, source, hypotheses)):
            raise Broken(text)
    if texts(found) == texts(expected):
        return "same"
    again, ties = attempt_stepwise(native)
    if texts(found) != texts(again) and not ties and not equally_good(found, again):
        raise Broken(f"another translation: {found}, where the readable search finds {again}")
    return "tied"


def texts(found: list[list[Hypothesis]]) -> list[list[tuple[int, ...]]]:
    """Return the tokens of each sentence's translations."""
    return [[hypothesis.tokens for hypothesis in hypotheses] for hypotheses in found]


def equally_good(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> bool:
    """Tell whether the scores are equal, place by place: a damaged model may have nothing but ties.

    Below `_LOWEST` log-probabilities that differ are one number in float32, and any of them may come first.
    """
    for ours, theirs in zip(found, expected, strict=True):
        scores = [[max(h.score, _LOWEST) for h in hypotheses] for hypotheses in (ours, theirs)]
        if len(ours) != len(theirs) or not np.allclose(*scores, rtol=1e-4, atol=1e-4):
            return False
    return True


def translate_ids(translator: Translator, text: str) -> list[int]:
    """Return the row that is searched for a sentence; empty where none is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = translator._encode_source(text, 1, split=False)
    return rows[0] if rows else []


def attempt_again(readable: Translator) -> list[list[Hypothesis]]:
    """Search with the readable model as it is now."""
    return searched(readable, readable.model)


def attempt_stepwise(native: Translator) -> tuple[list[list[Hypothesis]], bool]:
    """Search with the readable search over the native engine's probabilities; tells whether there were ties.

    The native engine orders by logits, which may differ where their log-probabilities in float32 don't.
    """
    ties = []

    def continuations(log_probs: Tensor, totals: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
        best = (log_probs + totals[..., None]).flatten(1).sort(descending=True).values[:, : count + 1]
        gaps = (best[:, :-1] - best[:, 1:]) / best[:, 1:].abs().clamp(min=1)
        ties.append(bool((gaps < 1e-6).any()))
        return best_continuations(log_probs, totals, count)

    with patch.object(search_module, "best_continuations", continuations):
        return searched(native, native._loaded_model), any(ties)


def searched(translator: Translator, model: Seq2Seq) -> list[list[Hypothesis]]:
    options = translator._within_model(translator.options_with(n_best=min(2, translator.options.beam)))
    sources = [translate_ids(translator, text) for text in SENTENCES]
    searched = [source for source in sources if source]
    listed = None
    if translator.shortlist is not None:
        listed = torch.zeros(len(searched), model.target_size, dtype=torch.bool)
        for row, source in enumerate(searched):
            listed[row, torch.from_numpy(translator.shortlist(source)).long()] = True
    found = []
    if searched:
        rows = padded(searched, SYMBOLS.pad, torch.device("cpu"))
        found = search(model, *rows, options, SYMBOLS, listed=listed)
    results = iter(found)
    return [next(results) if source else [] for source in sources]


def agree(
    readable: Translator, precision: str, source: Sequence[int], hypotheses: Sequence[Hypothesis]
) -> str:
    """Compare translations' log-probabilities with the readable model's; returns what is wrong, if anything."""
    outputs = [hypothesis.tokens for hypothesis in hypotheses]
    single, double = (forced(readable, source, outputs, kind) for kind in (torch.float32, torch.float64))
    for hypothesis, low, high in zip(hypotheses, single, double, strict=True):
        ours = np.asarray(hypothesis.token_log_probabilities)
        allowed = BASE_ERROR[precision] * (1 + np.abs(high)) + 30 * np.abs(low - high).max()
        if not (np.abs(ours - high) <= allowed).all():
            said = f"{high.tolist()} float64, {low.tolist()} float32"
            return f"log-probabilities {ours.tolist()}, the readable engine's are {said}"
    return ""


def indeterminate(
    readable: Translator, sources: Sequence[Sequence[int]], found: Sequence[Sequence[Hypothesis]]
) -> bool:
    """Tell whether the order of adding decides.

    So it is where terms add up to nearly as much as float32 holds, or where logits or attention scores, which are
    exponents, have terms so large that their rounding alone is a difference.
    """
    model = readable.model
    sums, exponents = [0.0], [0.0]
    product, norm, project = nn.functional.linear, nn.functional.layer_norm, model.project

    def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        sums.append(float((x.abs() @ weight.abs().T).max()))
        return product(x, weight, bias)

    def layer_norm(x: Tensor, *others: Any) -> Tensor:
        sums.append(float(x.square().sum(-1).max()))
        return norm(x, *others)

    def logits(hidden: Tensor) -> Tensor:
        exponents.append(float((hidden.abs() @ model.output_weight.to(hidden.dtype).abs().T).max()))
        return project(hidden)

    def watch(seen: Attended) -> None:
        exponents.append(float((seen.q.abs() @ seen.k.abs().mT).max()))

    with ExitStack() as stack:
        stack.enter_context(patch.object(nn.functional, "linear", linear))
        stack.enter_context(patch.object(nn.functional, "layer_norm", layer_norm))
        stack.enter_context(patch.object(model, "project", logits))
        for part in model.modules():
            if isinstance(part, MultiHeadAttention):
                stack.enter_context(patch.object(part, "watch", watch))
        for source, hypotheses in zip(sources, found, strict=True):
            if source:
                forced(readable, source, [hypothesis.tokens for hypothesis in hypotheses], torch.float64)
    known = torch.finfo(torch.float32)
    # With room for those of the hypotheses that the search left.
    return not (max(sums) <= known.max / 1000 and max(exponents) * known.eps <= 0.01)


def forced(
    translator: Translator, source: Sequence[int], outputs: Sequence[Sequence[int]], kind: torch.dtype
) -> list[np.ndarray]:
    """Return the readable model's log-probabilities of given translations, among a shortlist's where there is one."""
    model = translator.model
    ends = [[*tokens, SYMBOLS.eos] for tokens in outputs]
    before, model.compute_dtype = model.compute_dtype, kind
    try:
        with torch.inference_mode():
            ids = torch.tensor([source] * len(outputs))
            given, _ = padded([[SYMBOLS.bos, *tokens] for tokens in outputs], SYMBOLS.pad, ids.device)
            wanted, _ = padded(ends, SYMBOLS.pad, ids.device)
            logits = model.project(model(ids, torch.ones_like(ids, dtype=torch.bool), given)).double()
            if translator.shortlist is not None:
                listed = torch.zeros(model.target_size, dtype=torch.bool)
                listed[torch.from_numpy(translator.shortlist(source)).long()] = True
                logits = logits.masked_fill(~listed, -torch.inf)
            found = logits.log_softmax(-1).gather(-1, wanted[..., None])[..., 0].numpy()
    finally:
        model.compute_dtype = before
    return [row[: len(tokens)] for row, tokens in zip(found, ends, strict=True)]
