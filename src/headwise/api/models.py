"""Models for one's own loop: build one, search with it, and record what it computes. Ids in, ids out."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.analysis.interventions import Part
from headwise.analysis.recording import attention_by_part
from headwise.api.arguments import with_arguments
from headwise.config import Config, ModelConfig
from headwise.decoding.batching import padded
from headwise.decoding.engine import PyTorchEngine
from headwise.engine.base import SearchSentence
from headwise.engine.guards.second_search import search_checked
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.ids import check_ids
from headwise.engine.options import SearchOptions, changed_options
from headwise.engine.symbols import SYMBOLS
from headwise.errors import ConfigError, DataError
from headwise.models.base import Seq2Seq
from headwise.models.build import build_model
from headwise.nn.recording import private_copy, recording
from headwise.text.tokens.subwords import BOS, EOS, PAD, Subwords

Ids = Sequence[Sequence[int]] | Tensor


@with_arguments
def build(config: Config | ModelConfig | Mapping[str, Any], vocabulary: int | Subwords | None = None) -> Seq2Seq:
    """Build an untrained sequence-to-sequence model, a `torch.nn.Module`.

    Args:
        config: a configuration, its section `model`, or keys of that: `{"d_model": 128, "heads": 4}`.
        vocabulary: the subwords, or the number of ids of each side; without, `config.subwords.size`.

    Its `forward(source, source_mask, target_input)` returns hidden states (batch, target, d_model), of which `project`
    makes logits. Raises `ConfigError` for unknown keys, values that can't be combined, and too few ids.
    """
    if isinstance(config, Mapping):
        config = Config.from_tree({"model": dict(config)}, origin="build")
    if isinstance(config, ModelConfig):
        config = Config(model=config)
    if config.task != "translation":
        raise ConfigError(f"task: expected translation for `headwise.build`, found {config.task}")
    if isinstance(vocabulary, Subwords):
        return build_model(config.model, vocabulary.source_size, vocabulary.target_size)
    size = config.subwords.size if vocabulary is None else vocabulary
    if not isinstance(size, int) or size <= EOS:
        raise ConfigError(f"vocabulary: expected subwords or a number of ids of at least {EOS + 1}, found {size!r}")
    return build_model(config.model, size, size)


@with_arguments
def decode(model: Seq2Seq, ids: Ids, **options: Any) -> list[list[Hypothesis]]:
    """Search the outputs of sources, best first: `decode(model, ids, beam=4)[0][0].tokens`.

    `ids` are lists, or a tensor (batch, source) padded with 0; the end symbol is added where a source lacks it. Options
    are those of the search: `beam`, `alpha`, `n_best`, `max_length`, `sample`, …. Raises `ConfigError` for one that is
    unknown or out of range, and `DataError` for ids outside the vocabulary and for more of them than the model has
    positions.
    """
    chosen = changed_options(SearchOptions(), options).within(model.max_length - 1)
    sentences = [SearchSentence(source, chosen) for source in _ended(ids, "source")]
    return search_checked(PyTorchEngine(private_copy(model).eval()), sentences, SYMBOLS)


@dataclass(frozen=True)
class ModelRecording:
    """What a model computed for one pair.

    Attributes:
        attention: weights (layers, heads, rows, columns) of each part that the model has: encoder, decoder, cross.
        log_probabilities: of each target id, the end symbol's last.
        outputs: what each module returned, by its dotted name, such as `encoder.0.feed_forward`; of its first call.
    """

    attention: dict[Part, NDArray[np.float32]]
    log_probabilities: tuple[float, ...]
    outputs: dict[str, Tensor]

    @property
    def weights(self) -> NDArray[np.float32]:
        """`weights[layer][head]` (target, source) of the cross-attention; raises `ConfigError` where there is none."""
        if "cross" not in self.attention:
            raise ConfigError("weights: expected a model with cross-attention, found another")
        return self.attention["cross"]


@torch.no_grad()
@with_arguments
def record(model: Seq2Seq, source: Sequence[int], target: Sequence[int]) -> ModelRecording:
    """Run a model on a pair of ids with teacher forcing and record all that it computes, without dropout.

    The end symbol is added where it is missing. Raises `DataError` for ids outside the vocabularies and for more of
    them than the model has positions.
    """
    (source_ids,), (target_ids,) = _ended([source], "source"), _ended([target], "target")
    check_ids([source_ids], model.source_size, "source")
    check_ids([target_ids], model.target_size, "target")
    copy = private_copy(model).eval()
    ids, mask = padded([source_ids], PAD, model.device)
    inputs = torch.tensor([[BOS, *target_ids[:-1]]], device=model.device)
    with recording(copy, calls=True) as recorded:
        logits = copy.project(copy(ids, mask, inputs)[0]).float()
    chosen = torch.tensor(target_ids, device=model.device)[:, None]
    return ModelRecording(
        attention=attention_by_part(recorded),
        log_probabilities=tuple(logits.log_softmax(-1).gather(1, chosen)[:, 0].tolist()),
        outputs={name: calls[0].returned for name, calls in recorded.calls.items()},
    )


def _ended(ids: Ids, name: str) -> list[list[int]]:
    """Return lists of ids that end with the end symbol, without padding; raises `DataError`."""
    rows = []
    for number, row in enumerate(ids.tolist() if isinstance(ids, Tensor) else ids, start=1):
        if not isinstance(row, Iterable):
            raise DataError(f"{name} {number}: expected a list of ids, found {row!r}")
        kept = [_whole(token) for token in row if token != PAD]
        rows.append(kept if kept and kept[-1] == EOS else [*kept, EOS])
    return rows


def _whole(token: Any) -> Any:
    """Return an id as Python's integer; what is no whole number stays what it is, so that `check_ids` finds it."""
    try:
        return operator.index(token)
    except TypeError:
        return token
