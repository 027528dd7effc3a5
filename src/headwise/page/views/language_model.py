"""The views of a language model, with its next-token distribution and its text, and of a masked language model."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch

from headwise.analysis.language_models import LanguageModelTracer, MaskedModelTracer
from headwise.config import Config
from headwise.decoding.generation import Generator, read_prompt
from headwise.decoding.sampling import shaped
from headwise.engine.options import GenerationOptions
from headwise.page.requests import ContinueRequest, TextRequest
from headwise.page.views.view import TextView

SHOWN = 20  # most tokens of a distribution in an answer


class LanguageModelView(TextView[LanguageModelTracer]):
    """View of a language model, which continues texts."""

    tasks = ("language_model",)
    expected = "language_model"

    @classmethod
    def load(cls, run: Path, config: Config, device: str, threads: int) -> LanguageModelView:  # noqa: D102
        return cls(LanguageModelTracer.load(run, device), config)

    @property
    def generator(self) -> Generator:
        """What continues texts."""
        return self.model.generator

    def can(self) -> dict[str, bool]:  # noqa: D102
        return {**super().can(), "language_model": True}


class MaskedModelView(TextView[MaskedModelTracer]):
    """View of an encoder-only model that fills masks."""

    tasks = ("masked_language_model",)

    @classmethod
    def load(cls, run: Path, config: Config, device: str, threads: int) -> MaskedModelView:  # noqa: D102
        return cls(MaskedModelTracer.load(run, device), config)


@torch.inference_mode()
def next_json(generator: Generator, request: TextRequest) -> dict[str, Any]:
    """Return the most probable next tokens, each with the model's probability and the one it is sampled with.

    `kept` counts the tokens that can be sampled. `entropy` is that of the model's distribution, in bits. Special
    symbols never occur within a text and are left out, as in `headwise predict`. Raises `DataError` for unknown
    characters.
    """
    model, vocabulary = generator.model, generator.vocabulary
    ids = read_prompt(generator.config, vocabulary, request.text, "text")
    context = ids[-model.max_length :]
    device = next(model.parameters()).device
    tokens = torch.tensor([context], device=device)
    prefix = tokens.new_full((1,), len(context)) if generator.config.model.prefix else None
    log_probs, _ = model.step(tokens, model.start(), prefix)
    log_probs[:, vocabulary.outside(generator.config.language_model.lines_are_documents)] = -torch.inf
    kept, kept_ids = shaped(log_probs, request.temperature, request.top_k, request.top_p)
    sampling = torch.zeros(log_probs.size(1), dtype=torch.float64).index_put_((kept_ids[0].cpu(),), kept[0].cpu())
    own = log_probs[0].double().cpu().softmax(0)
    best = own.topk(min(SHOWN, len(own))).indices.tolist()
    return {
        "read": len(context),
        "left_out": len(ids) - len(context),
        "kept": int((sampling > 0).sum()),
        "entropy": float(-(own * own.clamp(min=1e-300).log()).sum()) / math.log(2),
        "tokens": [
            {
                "id": i,
                "piece": vocabulary.piece(i),
                "text": vocabulary.decode([i]),
                "probability": float(own[i]),
                "drawn": float(sampling[i]),
            }
            for i in best
            if own[i] > 0
        ],
    }


def continued_json(generator: Generator, request: ContinueRequest) -> dict[str, Any]:
    """Sample a continuation of the text; the same seed gives the same text."""
    options = GenerationOptions(
        temperature=request.temperature,
        top_k=request.top_k,
        top_p=request.top_p,
        max_tokens=request.tokens,
        seed=request.seed,
    )
    return {"text": generator.generate(request.text, options)[0]}
