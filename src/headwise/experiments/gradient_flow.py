"""Gradient flow: ‖∂output_t/∂input_s‖ against the distance t - s, for each architecture.

There are two measurements: through the encoder, from its states to the source embeddings, and through the decoder,
from its hidden states to the embeddings of earlier target tokens. The Frobenius norm of each Jacobian is estimated by
random projections: for v ~ N(0, I), E ‖vᵀ J‖² = ‖J‖².
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headwise.analysis.recurrence.networks import Lookups
from headwise.config import Config
from headwise.decoding.translator import Translator
from headwise.errors import DataError
from headwise.experiments.harness.rows import Place
from headwise.models.base import Seq2Seq
from headwise.models.build import build_model
from headwise.text.tokens.subwords import BOS

_PROJECTIONS = 4


def flow(model: Seq2Seq, source: Tensor, target: Tensor) -> dict[str, list[float]]:
    """Return the gradient norms of `encoder` and `decoder`, by distance 0, 1, …

    source (batch, n) and target (batch, m) are ids without padding. The encoder's gradients are those of its first and
    last state (to cover both directions of a recurrent encoder), the decoder's those of its last hidden state.
    """
    model.eval()
    mask = torch.ones_like(source, dtype=torch.bool)
    with Lookups() as embeddings:
        memory = model.encode(source, mask)
        states = memory.states
    encoder = sum(
        (_squared_norms(states[:, end], embeddings.tensors[0]).flip(0 if end else ()) for end in (-1, 0)),
        start=torch.zeros(source.size(1), dtype=torch.float64),
    )
    with Lookups() as embeddings:
        hidden = model.decode(memory, target)
    decoder = _squared_norms(hidden[:, -1], embeddings.tensors[0]).flip(0)
    return {"encoder": encoder.sqrt().tolist(), "decoder": decoder.sqrt().tolist()}


def _squared_norms(output: Tensor, embedded: Tensor) -> Tensor:
    """Return ‖∂output/∂input_s‖² averaged over the batch, (time,) float64.

    output is (batch, width), embedded (batch, time, d).
    """
    generator = torch.Generator().manual_seed(0)
    total = torch.zeros(embedded.size(1), dtype=torch.float64)
    for _ in range(_PROJECTIONS):
        projection = torch.randn(output.shape, generator=generator).to(output)
        (gradient,) = torch.autograd.grad((output * projection).sum(), embedded, retain_graph=True)
        total += gradient.double().square().sum(-1).mean(0).cpu()
    return total / _PROJECTIONS


def measure_untrained(
    *, seed: int, systems: dict[str, str], length: int, sentences: int
) -> dict[str, dict[str, list[float]]]:
    """Measure each system, built from its configuration file with random weights, on random tokens."""
    norms = {}
    for name, file in systems.items():
        torch.manual_seed(seed)
        config = Config.load(file)
        size = config.subwords.size
        model = build_model(config.model, size, size)
        source, target = (torch.randint(4, size, (sentences, length)) for _ in range(2))
        norms[name] = flow(model, source, target)
    return norms


def measure_trained(*, seed: int, place: Place, systems: Sequence[str], length: int) -> dict[str, Any]:
    """Measure table 2's trained runs on test pairs of at least `length` subwords per side, truncated to `length`."""
    norms = {}
    for name in systems:
        run = trained_run(place, name, seed)
        translator = Translator.load(run, device="cpu")
        source, target = _long_sentences(translator, *place.scale.test.pairs(), length)
        norms[name] = flow(translator.model, source, target)
    return norms


def trained_run(place: Place, name: str, seed: int) -> Path:
    """Return the run directory of a system of table 2; raises `DataError` if it hasn't been trained."""
    run = place.run(f"table2-{name}", seed)
    if not (run / "model.safetensors").exists():
        raise DataError(
            f"{run}: expected a trained run, found none; `headwise reproduce table2 --scale {place.scale.name} --rows "
            f"table2-{name} --seeds {seed} --out {place.runs}` makes it"
        )
    return run


def _long_sentences(
    translator: Translator, sources: Sequence[str], references: Sequence[str], length: int
) -> tuple[Tensor, Tensor]:
    subwords = translator.subwords
    pairs = [
        (subwords.encode_source(source)[:length], [BOS, *subwords.encode_target(reference)][:length])
        for source, reference in zip(sources, references, strict=True)
    ]
    long_pairs = [pair for pair in pairs if min(map(len, pair)) == length][:64]
    if not long_pairs:
        raise DataError(f"gradient flow: expected test sentences of {length} subwords, found none so long")
    return torch.tensor([s for s, _ in long_pairs]), torch.tensor([t for _, t in long_pairs])
