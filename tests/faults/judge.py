"""Oracle of the fuzzer: whether both engines handle a damaged run as promised.

The promise is a one-sentence error message, or a native translation that the PyTorch engine gives too. Where rounding
may change the result of a search, the parts are compared: the log-probabilities of the native engine's translation
equal the PyTorch engine's (with the same rounding, see `rounding`), and the PyTorch search over the native engine's
probabilities gives the same translation. The tolerance is measured: it is the difference between the PyTorch
engine in float32 and in float64.
"""

from __future__ import annotations

import math
import random
import shutil
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, nn

from decoding_models import TreeModel
from edits import edits
from headwise.decoding import search as search_module
from headwise.decoding.batching import padded
from headwise.decoding.search import search
from headwise.decoding.selection import best_continuations
from headwise.decoding.translator_model import pytorch_model
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.native.engine import NativeEngine
from headwise.engine.sentences import LongLineWarning
from headwise.engine.shortlist import FILE as SHORTLIST
from headwise.engine.symbols import SYMBOLS
from headwise.engine.translator import Translator
from headwise.errors import HeadwiseError
from headwise.models.base import Seq2Seq
from headwise.nn.multihead import Attended, MultiHeadAttention
from rounding import rounding

SENTENCES = ["Two dogs.", "Is OLD…", "A"]
# tolerance of a log-probability x, times 1 + |x|
BASE_ERROR = {"float32": 1e-3, "bfloat16": 0.05, "int8": 0.05}
_LOWEST = -(2.0**24)
_LONGEST = 1500  # maximum characters of an error message


class Broken(Exception):
    """A promise is broken; the message says which."""


def damage(bases: Path, folder: Path, number: int) -> str:
    """Write the damaged run of case `number` to `folder`; returns a one-line description of the damage."""
    draw = random.Random(number)
    base = draw.choice(sorted(path.name for path in bases.iterdir()))
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(bases / base, folder)
    weights, kinds = zip(*edits(bases), strict=True)
    descriptions = [base]
    for kind in draw.choices(kinds, weights, k=draw.choice([1, 1, 1, 2, 3])):
        descriptions.append(kind(folder, draw))
    return "; ".join(descriptions).replace("\n", "\\n")


def judge(folder: Path) -> str:
    """Translate with a damaged run in both engines; returns "sentence", "same", "tied" or "rounding".

    Raises `Broken`, or any exception that an engine raises unexpectedly.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", LongLineWarning)
        warnings.filterwarnings("ignore", category=DeprecationWarning, module="torch")
        native_result = attempt(folder, "auto")
        if isinstance(native_result, HeadwiseError):
            return "sentence"
        readable_result = attempt(folder, "pytorch")
        if isinstance(readable_result, HeadwiseError):
            readable = Translator.load(folder, engine="pytorch", device="cpu")
            sources = [translate_ids(readable, text) for text in SENTENCES]
            if indeterminate(readable, sources, native_result[1]):
                return "rounding"
            raise Broken(f"a translation, where the readable engine says: {readable_result}")
        return compare(*native_result, *readable_result)


Result = tuple[Translator, list[list[Hypothesis]]]


def attempt(folder: Path, engine: str) -> Result | HeadwiseError:
    """Load a run and translate; returns the translator and its hypotheses, or the user error."""
    shortlist = (folder / SHORTLIST).exists()
    try:
        translator = Translator.load(folder, engine=engine, shortlist=shortlist, workers=1, device="cpu")
        translations = translator.translate(SENTENCES, n_best=min(2, translator.options.beam))
    except HeadwiseError as error:
        text = str(error)
        if not text or len(text) > _LONGEST or not text.isprintable():
            raise Broken(f"not one sentence but {text[:2000]!r}") from error
        return error
    for output in (output for translation in translations for output in translation.outputs):
        if not math.isfinite(output.score):
            raise Broken(f"a score of {output.score}")
    return translator, [
        [Hypothesis(o.tokens, o.log_probability, o.score, o.token_log_probabilities) for o in each.outputs]
        for each in translations
    ]


def compare(
    native: Translator, found: list[list[Hypothesis]], readable: Translator, expected: list[list[Hypothesis]]
) -> str:
    """Compare the native engine's translations with the PyTorch engine's."""
    engine = native.engine
    if not isinstance(engine, NativeEngine):
        if found != expected:
            raise Broken("the readable engine gives two results")
        return "same"
    sources = [translate_ids(readable, text) for text in SENTENCES]
    with rounding(pytorch_model(readable), engine.models[0].precision):
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
    """Compare the translations while the PyTorch model rounds as the native engine does."""
    engine = native.engine
    assert isinstance(engine, NativeEngine)
    if engine.models[0].precision != "float32":
        expected, _ = attempt_again(readable, pytorch_model(readable))
    for source, hypotheses in zip(sources, found, strict=True):
        if source and (text := agree(readable, engine.models[0].precision, source, hypotheses)):
            raise Broken(text)
    if texts(found) == texts(expected):
        return "same"
    again, ties = attempt_again(native, NativeProbabilities(engine))
    if texts(found) != texts(again) and not ties and not equally_good(found, again):
        raise Broken(f"another translation: {found}, where the readable search finds {again}")
    return "tied"


def texts(found: list[list[Hypothesis]]) -> list[list[tuple[int, ...]]]:
    """Return the tokens of each sentence's translations."""
    return [[hypothesis.tokens for hypothesis in hypotheses] for hypotheses in found]


def equally_good(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> bool:
    """Whether the scores are equal, rank by rank, because all hypotheses of a damaged model may be tied.

    Below `_LOWEST`, different log-probabilities may round to the same float32 number and come in any order.
    """
    for ours, theirs in zip(found, expected, strict=True):
        scores = [[max(h.score, _LOWEST) for h in hypotheses] for hypotheses in (ours, theirs)]
        if len(ours) != len(theirs) or not np.allclose(*scores, rtol=1e-4, atol=1e-4):
            return False
    return True


def translate_ids(translator: Translator, text: str) -> list[int]:
    """Return the source ids of a sentence; an empty list for an empty sentence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts = translator.encode([text], translator.options).searched
    return list(parts[0].source) if parts else []


class NativeProbabilities(TreeModel):
    """The probabilities of a native engine by its forced decoding, a model for the search in PyTorch."""

    def __init__(self, engine: NativeEngine) -> None:
        super().__init__(engine.target_size - 4)
        self.source_size, self.max_length, self.engine = engine.source_size, engine.max_length, engine

    def log_probs(self, source: tuple[int, ...], prefix: tuple[int, ...]) -> np.ndarray:
        targets = [[*prefix, token] for token in range(self.target_size)]
        try:
            found = self.engine.score([source] * len(targets), targets, SYMBOLS, alpha=0.0)
            return np.array([each.token_log_probabilities[len(prefix)] for each in found])
        except HeadwiseError:  # a token has no probability
            return np.array([self._log_prob(source, target) for target in targets])

    def _log_prob(self, source: tuple[int, ...], target: list[int]) -> float:
        try:
            (found,) = self.engine.score([source], [target], SYMBOLS, alpha=0.0)
        except HeadwiseError:
            return -math.inf
        return found.token_log_probabilities[len(target) - 1]


def attempt_again(translator: Translator, model: Seq2Seq) -> tuple[list[list[Hypothesis]], bool]:
    """Search with a model as it is now, by the search in PyTorch; also returns whether there were ties.

    The native engine ranks by logits, which may differ where their log-probabilities are equal in float32.
    """
    ties = []

    def continuations(log_probs: Tensor, totals: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
        best = (log_probs + totals[..., None]).flatten(1).sort(descending=True).values[:, : count + 1]
        gaps = (best[:, :-1] - best[:, 1:]) / best[:, 1:].abs().clamp(min=1)
        ties.append(bool((gaps < 1e-6).any()))
        return best_continuations(log_probs, totals, count)

    with patch.object(search_module, "best_continuations", continuations):
        return searched(translator, model), any(ties)


def searched(translator: Translator, model: Seq2Seq) -> list[list[Hypothesis]]:
    options = translator.options_with(n_best=min(2, translator.options.beam))
    options = options.within(translator.engine.max_length - 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts = [translator.encode([text], options).searched for text in SENTENCES]
    sources = [list(part[0].source) if part else [] for part in parts]
    batch = [part[0] for part, source in zip(parts, sources, strict=True) if source]
    hypotheses = search(model, batch, translator.symbols) if batch else []
    results = iter(hypotheses)
    return [next(results) if source else [] for source in sources]


def agree(readable: Translator, precision: str, source: Sequence[int], hypotheses: Sequence[Hypothesis]) -> str:
    """Compare log-probabilities with the PyTorch model's; returns a description of a difference, or an empty string."""
    outputs = [hypothesis.tokens for hypothesis in hypotheses]
    single, double = (forced(readable, source, outputs, kind) for kind in (torch.float32, torch.float64))
    for hypothesis, low, high in zip(hypotheses, single, double, strict=True):
        ours = np.asarray(hypothesis.token_log_probabilities)
        allowed = BASE_ERROR[precision] * (1 + np.abs(high)) + 30 * np.abs(low - high).max()
        if not (np.abs(ours - high) <= allowed).all():
            reference = f"{high.tolist()} float64, {low.tolist()} float32"
            return f"log-probabilities {ours.tolist()}, the readable engine's are {reference}"
    return ""


def indeterminate(
    readable: Translator, sources: Sequence[Sequence[int]], found: Sequence[Sequence[Hypothesis]]
) -> bool:
    """Whether the order of summation determines the result.

    That is the case where sums come near the float32 maximum, where the terms of logits or attention scores, which are
    exponents, are so large that their rounding alone changes the result, or where a normalization subtracts a mean that
    is so large that little more than rounding is left.
    """
    model = pytorch_model(readable)
    sums, exponents, cancelled = [0.0], [0.0], [0.0]
    product, norm, project = nn.functional.linear, nn.functional.layer_norm, model.project

    def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        sums.append(float((x.abs() @ weight.abs().T).max()))
        return product(x, weight, bias)

    def layer_norm(x: Tensor, shape: Sequence[int], weight: Tensor, bias: Tensor, epsilon: float) -> Tensor:
        sums.append(float(x.square().sum(-1).max()))
        deviation = (x.var(-1, correction=0) + epsilon).sqrt()
        cancelled.append(float((x.abs().amax(-1) / deviation).max()))
        return norm(x, shape, weight, bias, epsilon)

    def logits(hidden: Tensor) -> Tensor:
        exponents.append(float((hidden.abs() @ model.output_weight.to(hidden.dtype).abs().T).max()))
        return project(hidden)

    def watch(seen: Attended) -> None:
        exponents.append(float((seen.q.abs() @ seen.k.abs().mT).max()))

    with ExitStack() as stack:
        stack.enter_context(patch.object(nn.functional, "linear", linear))
        stack.enter_context(patch.object(nn.functional, "layer_norm", layer_norm))
        stack.enter_context(patch.object(model, "project", logits))
        for module in model.modules():
            if isinstance(module, MultiHeadAttention):
                stack.enter_context(patch.object(module, "watch", watch))
        for source, hypotheses in zip(sources, found, strict=True):
            if source:
                forced(readable, source, [hypothesis.tokens for hypothesis in hypotheses], torch.float64)
        encode_together(readable, [source for source in sources if source], torch.float64)
    float32 = torch.finfo(torch.float32)
    # With a margin for the hypotheses that the search dropped.
    rounded = float32.eps * max(*exponents, *cancelled)
    return not (max(sums) <= float32.max / 1000 and rounded <= 0.01)


def encode_together(translator: Translator, sources: Sequence[Sequence[int]], kind: torch.dtype) -> None:
    """Encode sentences as a padded batch, as the PyTorch engine does: an overflow in padding reaches its results."""
    model = pytorch_model(translator)
    previous_dtype, model.compute_dtype = model.compute_dtype, kind
    try:
        with torch.inference_mode():
            model.encode(*padded(sources, SYMBOLS.pad, model.device))
    finally:
        model.compute_dtype = previous_dtype


def forced(
    translator: Translator, source: Sequence[int], outputs: Sequence[Sequence[int]], kind: torch.dtype
) -> list[np.ndarray]:
    """Return the PyTorch model's log-probabilities of given translations, over the shortlist if there is one."""
    model = pytorch_model(translator)
    ends = [[*tokens, SYMBOLS.eos] for tokens in outputs]
    previous_dtype, model.compute_dtype = model.compute_dtype, kind
    try:
        with torch.inference_mode():
            ids = torch.tensor([source] * len(outputs))
            inputs, _ = padded([[SYMBOLS.bos, *tokens] for tokens in outputs], SYMBOLS.pad, ids.device)
            targets, _ = padded(ends, SYMBOLS.pad, ids.device)
            logits = model.project(model(ids, torch.ones_like(ids, dtype=torch.bool), inputs)).double()
            if translator.shortlist is not None:
                allowed = torch.zeros(model.target_size, dtype=torch.bool)
                allowed[torch.from_numpy(translator.shortlist(source)).long()] = True
                logits = logits.masked_fill(~allowed, -torch.inf)
            log_probs = logits.log_softmax(-1).gather(-1, targets[..., None])[..., 0].numpy()
    finally:
        model.compute_dtype = previous_dtype
    return [row[: len(tokens)] for row, tokens in zip(log_probs, ends, strict=True)]
