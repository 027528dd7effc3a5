"""What a language model would write next: its distribution, and what temperature, top-k and top-p leave of it."""

from __future__ import annotations

import math
from typing import Any

import torch

from headwise.decoding.generation import GenerationOptions, Generator, first_token
from headwise.decoding.sampling import shaped
from headwise.serve.requests import ContinueRequest, TextRequest
from headwise.text.tokens.subwords import EOS
from headwise.text.tokens.vocabulary import refuse_unknown

SHOWN = 20  # tokens of a distribution


@torch.inference_mode()
def next_json(generator: Generator, asked: TextRequest) -> dict[str, Any]:
    """Tell the likeliest next tokens, each with the model's probability and the one it is drawn with.

    `kept` counts the tokens that can be drawn, `entropy` is the model's own, in bits. Special symbols never stand
    within a text and are left out, as in `headwise generate`. Raises `DataError` for characters that the model
    doesn't know.
    """
    model, vocabulary = generator.model, generator.vocabulary
    ids = [first_token(generator.config, vocabulary), *refuse_unknown(vocabulary, asked.text, "text")]
    read = ids[-model.max_length :]
    device = next(model.parameters()).device
    tokens = torch.tensor([read], device=device)
    prefix = tokens.new_full((1,), len(read)) if generator.config.model.prefix else None
    log_probs, _ = model.step(tokens, model.start(len(read)), prefix)
    documents, last = generator.config.language_model.lines_are_documents, vocabulary.line_end
    log_probs[:, [i for i in range(last + 1) if i != (EOS if documents else last)]] = -torch.inf
    drawn, choices = shaped(log_probs, asked.temperature, asked.top_k, asked.top_p)
    chances = torch.zeros(log_probs.size(1), dtype=torch.float64).index_put_(
        (choices[0].cpu(),), drawn[0].cpu()
    )
    own = log_probs[0].double().cpu().softmax(0)
    best = own.topk(min(SHOWN, len(own))).indices.tolist()
    return {
        "read": len(read),
        "left_out": len(ids) - len(read),
        "kept": int((chances > 0).sum()),
        "entropy": float(-(own * own.clamp(min=1e-300).log()).sum()) / math.log(2),
        "tokens": [
            {
                "id": i,
                "piece": vocabulary.piece(i),
                "text": vocabulary.decode([i]),
                "probability": float(own[i]),
                "drawn": float(chances[i]),
            }
            for i in best
            if own[i] > 0
        ],
    }


def continued_json(generator: Generator, asked: ContinueRequest) -> dict[str, Any]:
    """Write on; the same seed gives the same text."""
    options = GenerationOptions(
        temperature=asked.temperature,
        top_k=asked.top_k,
        top_p=asked.top_p,
        max_tokens=asked.tokens,
        seed=asked.seed,
    )
    return {"text": generator.generate(asked.text, options)[0]}
