"""The recorded forward pass of a model over a pair, a text or an image, from which all that is shown is read.

`Tracer.record` and `ClassifierViewer.record` make a `ForwardPass`. A trace has its attention and token probabilities,
`headwise.analysis.head_arithmetic` one head's numbers, and `headwise.analysis.boxes` each box's inputs and outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headwise.analysis.interventions import PARTS, Intervention, Part, part_of
from headwise.analysis.trace import Side
from headwise.nn.recording import Recording

Stack = Literal["encoder", "decoder"]
Row = Literal[Stack, "pooled"]  # what the rows of tensors are: a stack's tokens, or one vector for all


@dataclass(frozen=True)
class ForwardPass:
    """One forward pass over a pair, a text, or an image.

    Attributes:
        trained: the model without interventions, with the parameters that acted.
        interventions: those that acted.
        off: dotted names of what they switched off (`headwise.analysis.interventions.switched_off`).
        sides: the tokens that each stack read, in the order of the computation; `pooled` is one vector for all.
        recording: what every module computed.
        logits: of the last linear map, (rows, size) float32.
        chosen: the tokens, or the class, whose probability is shown.
        what: `chosen` in words.
        names: the tokens, or the classes, of ids.
    """

    trained: nn.Module
    interventions: tuple[Intervention, ...]
    off: frozenset[str]
    sides: dict[Row, Side]
    recording: Recording
    logits: Tensor
    chosen: Side
    what: str
    names: Callable[[Sequence[int]], Sequence[str]]


def attention_by_part(recorded: Recording, row: int = 0) -> dict[Part, NDArray[np.float32]]:
    """Return the attention weights of one forward pass, of text number `row` in the batch.

    They are grouped by part, (layers, heads, rows, columns); a part that the model lacks is missing.
    """
    layers: dict[Part, list[Tensor]] = {part: [] for part in PARTS}
    for name, entries in recorded.attended.items():
        if entries:
            layers[part_of(name)].append(entries[0].weights[row])
    return {part: torch.stack(weights).float().cpu().numpy() for part, weights in layers.items() if weights}
