"""Generation as the decoder computes it, one token at a time, beside teacher forcing, which computes all at once.

At step i the decoder has read i + 1 tokens (`<s>` first) and computes the distribution of the next one. Teacher forcing
reads the whole target, and the causal mask keeps position i from seeing more than step i did; so both distributions are
equal, but for rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.analysis.interventions import Intervention, part_of
from headwise.analysis.json_arrays import as_json, rounded
from headwise.analysis.trace import Alternative, Side
from headwise.analysis.tracer import likeliest
from headwise.analysis.translation_tracer import TranslationTracer
from headwise.decoding.batching import padded
from headwise.errors import ConfigError
from headwise.models.base import Memory, Seq2Seq
from headwise.nn.recording import recording
from headwise.text.tokens.subwords import PAD


@dataclass(frozen=True)
class DecodingStep:
    """One step, and teacher forcing at the same position.

    Attributes:
        chosen: the token that the target continues with, with its log-probability at this step.
        alternatives: the likeliest next tokens, best first.
        forced: log-probability of the chosen token with teacher forcing.
        forced_alternatives: the likeliest next tokens with teacher forcing, best first.
        difference: the largest absolute difference of two probabilities of the same token, over the vocabulary.
    """

    chosen: Alternative
    alternatives: tuple[Alternative, ...]
    forced: float
    forced_alternatives: tuple[Alternative, ...]
    difference: float


@dataclass(frozen=True)
class Stepwise:
    """The steps of one target; `attention` is the cross-attention (layers, heads, steps, source), None without any."""

    source: Side
    target: Side
    steps: tuple[DecodingStep, ...]
    attention: NDArray[np.float32] | None

    @property
    def difference(self) -> float:
        """The largest difference of all steps."""
        return max(step.difference for step in self.steps)

    def to_json(self, array: Callable[[NDArray], Any] = rounded) -> dict[str, Any]:
        """Return JSON-serializable values, `attention` as `array` makes it."""
        return as_json({**vars(self), "difference": self.difference}, array)


def step_by_step(
    tracer: TranslationTracer,
    text: str | Side,
    target: str | Sequence[int],
    interventions: Sequence[Intervention] = (),
    *,
    alternatives: int = 8,
) -> Stepwise:
    """Decode a target step by step and with teacher forcing; `target` is a text, or ids as `ForcedDecoding.target.ids`.

    `text` and errors are as for `Tracer.force`.
    """
    recorded = tracer.record(text, target, interventions)
    source, inputs, chosen = recorded.sides["encoder"], recorded.sides["decoder"].ids, recorded.chosen
    forced = recorded.logits.log_softmax(-1).cpu()  # (target, vocabulary)
    with tracer.model(interventions) as model, torch.inference_mode():
        memory = model.encode(*padded([source.ids], PAD, model.device))
        stepwise, attention = _steps(model, memory, inputs)
    if not bool(torch.isfinite(stepwise).all() & torch.isfinite(forced).all()):
        raise ConfigError("expected finite log-probabilities, found others: the model's numbers overflow")
    best, forced_best = (likeliest(rows, alternatives, tracer.names) for rows in (stepwise, forced))
    differences = (stepwise.exp() - forced.exp()).abs().amax(1).tolist()
    steps = tuple(
        DecodingStep(
            Alternative(token, chosen.pieces[i], float(stepwise[i, token])),
            best[i],
            float(forced[i, token]),
            forced_best[i],
            differences[i],
        )
        for i, token in enumerate(chosen.ids)
    )
    return Stepwise(source, chosen, steps, attention)


def _steps(model: Seq2Seq, memory: Memory, inputs: Sequence[int]) -> tuple[Tensor, NDArray[np.float32] | None]:
    """Return the log-probabilities (steps, vocabulary), and the cross-attention (layers, heads, steps, source)."""
    rows: list[Tensor] = []
    attention: list[Tensor] = []
    with recording(model) as recorded:
        state = model.start(memory)
        for token in inputs:
            log_probs, state = model.step(torch.tensor([token], device=model.device), state)
            rows.append(log_probs[0])
            # The last query is the newest token's, also where a step computes its whole prefix.
            of_step = [
                entries[-1].weights[0, :, -1]
                for name, entries in recorded.attended.items()
                if entries and part_of(name) == "cross"
            ]
            if of_step:
                attention.append(torch.stack(of_step))  # (layers, heads, source)
    joined = torch.stack(attention, 2).float().cpu().numpy() if attention else None
    return torch.stack(rows).float().cpu(), joined
