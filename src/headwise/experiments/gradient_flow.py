"""How far a gradient reaches: ‖∂output_t/∂input_s‖ against the distance t - s, for each architecture.

Measured twice: through the encoder, from its states to the source's embeddings, and through the decoder, from its
hidden states back to the embeddings of earlier target words. The Frobenius norm of each Jacobian comes from random
projections: for v ~ N(0, I), E ‖vᵀ J‖² = ‖J‖².
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from headwise.config import Config
from headwise.decoding.translator import Translator
from headwise.errors import DataError
from headwise.experiments.harness.rows import Place
from headwise.models.base import Seq2Seq
from headwise.models.build import build_model
from headwise.text.tokens.subwords import BOS

_PROBES = 4  # random projections


class LookedUp(TorchFunctionMode):
    """Keeps what embeddings give while it is active, in `tensors`, so that gradients to it can be asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.tensors: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is functional.embedding:
            self.tensors.append(result)
        return result


def flow(model: Seq2Seq, source: Tensor, target: Tensor) -> dict[str, list[float]]:
    """Return the norms by distance 0, 1, … for `encoder` and `decoder`.

    source (batch, n) and target (batch, m) are ids without padding. The encoder's are taken from its first and last
    state (so that either direction of reading is seen), the decoder's from its last.
    """
    model.eval()
    mask = torch.ones_like(source, dtype=torch.bool)
    with LookedUp() as looked:
        memory = model.encode(source, mask)
        states = memory.states
    encoder = sum(
        (_squares(states[:, end], looked.tensors[0]).flip(0 if end else ()) for end in (-1, 0)),
        start=torch.zeros(source.size(1), dtype=torch.float64),
    )
    with LookedUp() as looked:
        hidden = model.decode(memory, target)
    decoder = _squares(hidden[:, -1], looked.tensors[0]).flip(0)
    return {"encoder": encoder.sqrt().tolist(), "decoder": decoder.sqrt().tolist()}


def _squares(output: Tensor, embedded: Tensor) -> Tensor:
    """Mean ‖∂output/∂input_s‖² over the batch, (time,) float64; output (batch, width), embedded (batch, time, d)."""
    generator = torch.Generator().manual_seed(0)
    total = torch.zeros(embedded.size(1), dtype=torch.float64)
    for _ in range(_PROBES):
        probe = torch.randn(output.shape, generator=generator).to(output)
        (gradient,) = torch.autograd.grad((output * probe).sum(), embedded, retain_graph=True)
        total += gradient.double().square().sum(-1).mean(0).cpu()
    return total / _PROBES


def measure_untrained(
    *, seed: int, systems: dict[str, str], length: int, sentences: int
) -> dict[str, dict[str, list[float]]]:
    """Build each system of a configuration file with random weights and measure on random words."""
    found = {}
    for name, file in systems.items():
        torch.manual_seed(seed)
        config = Config.load(file)
        size = config.subwords.size
        model = build_model(config.model, size, size)
        source, target = (torch.randint(4, size, (sentences, length)) for _ in range(2))
        found[name] = flow(model, source, target)
    return found


def measure_trained(*, seed: int, place: Place, systems: Sequence[str], length: int) -> dict[str, Any]:
    """Measure trained runs of table 2 on test sentences of at least `length` subwords, cut to it."""
    found = {}
    for name in systems:
        run = trained_run(place, name, seed)
        translator = Translator.load(run, device="cpu")
        source, target = _long_sentences(translator, *place.scale.test.pairs(), length)
        found[name] = flow(translator.model, source, target)
    return found


def trained_run(place: Place, name: str, seed: int) -> Path:
    """Return the run directory of a system of table 2; raises `DataError` where it hasn't been trained."""
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
    long = [pair for pair in pairs if min(map(len, pair)) == length][:64]
    if not long:
        raise DataError(f"gradient flow: expected test sentences of {length} subwords, found none so long")
    return torch.tensor([s for s, _ in long]), torch.tensor([t for _, t in long])
