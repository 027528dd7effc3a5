"""Head pruning: BLEU curves by order of removal, with optional fine-tuning, and learned hard-concrete gates.

The gates are those of Voita et al. 2019 (section 6.1), from Louizos et al. 2018: each head is multiplied by a
hard-concrete variable, and training continues with λ times the expected number of open gates added to the loss.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor, nn

from headwise.analysis.heads.importance import HeadPlace, Pairs, gated, head_places, without
from headwise.analysis.interventions import PARTS, Part, attention_parts, heads_of
from headwise.config import OptimizerConfig
from headwise.decoding.translator import Translator
from headwise.errors import TrainingError
from headwise.evaluation.translation import bleu
from headwise.models.base import Seq2Seq
from headwise.training.loss import smoothed_cross_entropy
from headwise.training.optimizer import Adam

_TEMPERATURE, _LOW, _HIGH = 2 / 3, -0.1, 1.1  # β, γ and ζ of Louizos et al. 2018, section 4


@dataclass(frozen=True)
class Tuning:
    """Configuration of fine-tuning: `steps` steps of Adam on random batches of the sentence pairs."""

    steps: int = 100
    rate: float = 1e-4
    sentences: int = 64  # per batch
    label_smoothing: float = 0.1
    seed: int = 1


@dataclass(frozen=True)
class PruningPoint:
    """A point of a pruning curve: BLEU with `removed` heads, a `share` of all, removed."""

    removed: int
    share: float
    bleu: float


def removal_order(importance: dict[HeadPlace, float]) -> list[HeadPlace]:
    """Return the heads sorted by importance, the least important first; ties in the order of the model."""
    return sorted(importance, key=lambda head: (importance[head], head))


def random_order(model: Seq2Seq, seed: int) -> list[HeadPlace]:
    """Return the heads in a random order, determined by the seed."""
    heads = head_places(model)
    Random(seed).shuffle(heads)
    return heads


def pruning_curve(
    translator: Translator,
    order: Sequence[HeadPlace],
    sources: Sequence[str],
    references: Sequence[str],
    *,
    points: int = 8,
    beam: int = 1,
    tuning: tuple[Tuning, Pairs] | None = None,
) -> list[PruningPoint]:
    """Return BLEU (sacreBLEU's default) against the number of heads removed in the given order.

    There is a point without removal, and `points` more, evenly spaced up to all heads. With `tuning`, each pruned model
    is fine-tuned on the pairs, with its heads removed, before it translates. The translator's own model isn't modified.
    """
    curve = []
    for step in range(points + 1):
        count = round(len(order) * step / points)
        replica = copy.copy(translator)
        replica.model = copy.deepcopy(translator.model)
        with gated(replica.model, without(replica.model, order[:count])):
            if tuning is not None and count:
                fine_tune(replica.model, tuning[1], tuning[0])
            score = _bleu(replica, sources, references, beam)
        curve.append(PruningPoint(count, count / len(order), score))
    return curve


def fine_tune(model: Seq2Seq, pairs: Pairs, tuning: Tuning, gates: HardConcreteGates | None = None) -> None:
    """Fine-tune a model, and gates if given; afterwards the model is in evaluation mode.

    Raises `TrainingError` if a gradient isn't finite.
    """
    generator = Random(tuning.seed)
    parameters = [*model.parameters(), *([] if gates is None else gates.parameters())]
    optimizer = Adam(model.parameters(), OptimizerConfig())
    optimizer.param_groups[0]["lr"] = tuning.rate
    if gates is not None:
        optimizer.add_param_group({"params": list(gates.parameters()), "lr": gates.rate})
    indices = range(len(pairs.sources))
    device = next(model.parameters()).device
    model.train()
    with torch.random.fork_rng(), torch.enable_grad():
        torch.manual_seed(tuning.seed)
        for step in range(tuning.steps):
            sample = generator.sample(indices, min(tuning.sentences, len(indices)))
            batch = Pairs(
                [pairs.sources[index] for index in sample], [pairs.targets[index] for index in sample]
            )
            optimizer.zero_grad()
            for source, mask, inputs, outputs, real in batch.batches(device):
                with gated(model, {} if gates is None else gates.draw()):
                    hidden = model(source, mask, inputs)[real]  # (target tokens, d_model)
                total, _ = smoothed_cross_entropy(
                    hidden, model.output_weight, outputs[real], tuning.label_smoothing
                )
                (total / batch.tokens).backward()
            if gates is not None:
                (gates.weight * gates.expected_open()).backward()
            if not all(p.grad is None or bool(p.grad.isfinite().all()) for p in parameters):
                raise TrainingError(
                    f"pruning: expected finite gradients, found others at step {step + 1}; lower the learning rate"
                )
            optimizer.step()
    model.eval()


@dataclass(frozen=True)
class GateResult:
    """Result of training with gates: each head's gate, BLEU with the gates, and BLEU of the original model."""

    gates: dict[HeadPlace, float]
    weight: float
    bleu: float
    bleu_before: float

    @property
    def open(self) -> list[HeadPlace]:
        """The heads whose gates are open (above 0)."""
        return [head for head, gate in self.gates.items() if gate > 0]


def learn_gates(
    translator: Translator,
    pairs: Pairs,
    sources: Sequence[str],
    references: Sequence[str],
    *,
    weight: float,
    tuning: Tuning,
    gate_rate: float = 0.1,
    parts: Sequence[Part] = (),
    beam: int = 1,
) -> GateResult:
    """Fine-tune a copy of the model with gates, then score it with the deterministic gates.

    `weight` is the penalty per expected open gate, added to a loss in nats per target token; `gate_rate` is the
    learning rate of the gates.
    """
    replica = copy.copy(translator)
    replica.model = copy.deepcopy(translator.model)
    gates = HardConcreteGates(replica.model, weight, gate_rate, parts)
    fine_tune(replica.model, pairs, tuning, gates)
    final_gates = gates.deterministic()
    with gated(replica.model, final_gates):
        bleu_after = _bleu(replica, sources, references, beam)
    gate_values = {
        HeadPlace(part, layer, head): float(gate)
        for part, layers in final_gates.items()
        for layer, heads in enumerate(layers)
        for head, gate in enumerate(heads)
    }
    return GateResult(gate_values, weight, bleu_after, _bleu(translator, sources, references, beam))


def _bleu(translator: Translator, sources: Sequence[str], references: Sequence[str], beam: int) -> float:
    translations = translator.translate(sources, beam=beam, n_best=1)
    return bleu([translation.text for translation in translations], references).score


class HardConcreteGates(nn.Module):
    """A gate g = clamp(s (ζ - γ) + γ, 0, 1) for every head, s = sigmoid((log u - log(1 - u) + log α) / β), u uniform.

    A gate is exactly 0 and exactly 1 with positive probability each. P(g > 0) = sigmoid(log α - β log(-γ / ζ)).
    """

    def __init__(self, model: Seq2Seq, weight: float, rate: float = 0.1, parts: Sequence[Part] = ()) -> None:
        """`weight` is λ, the penalty per expected open gate; `parts` are the parts with gates (all by default)."""
        super().__init__()
        self.weight = weight
        self.rate = rate
        device = next(model.parameters()).device
        shapes = {
            part: (len(attentions), heads_of(attentions[0]))
            for part, attentions in attention_parts(model).items()
            if attentions and (not parts or part in parts)
        }
        self.log_alpha = nn.ParameterDict(
            {part: nn.Parameter(torch.full(shape, 2.0, device=device)) for part, shape in shapes.items()}
        )

    def expected_open(self) -> Tensor:
        """Return the expected number of open gates (above 0)."""
        shift = _TEMPERATURE * math.log(-_LOW / _HIGH)
        return torch.stack([torch.sigmoid(part - shift).sum() for part in self.log_alpha.values()]).sum()

    def draw(self) -> dict[Part, Tensor]:
        """Return a random sample of all gates, (layers, heads) for each part."""
        sample: dict[Part, Tensor] = {}
        for part, logits in self._parts():
            uniform = torch.rand_like(logits).clamp(1e-6, 1 - 1e-6)
            concrete = torch.sigmoid((uniform.log() - (1 - uniform).log() + logits) / _TEMPERATURE)
            sample[part] = _stretch(concrete)
        return sample

    def deterministic(self) -> dict[Part, Tensor]:
        """Return the deterministic gates, without noise (Louizos et al. 2018, equation 13)."""
        return {part: _stretch(torch.sigmoid(logits.detach())) for part, logits in self._parts()}

    def _parts(self) -> Iterator[tuple[Part, Tensor]]:
        return ((part, self.log_alpha[part]) for part in PARTS if part in self.log_alpha)


def _stretch(concrete: Tensor) -> Tensor:
    return (concrete * (_HIGH - _LOW) + _LOW).clamp(0, 1)
