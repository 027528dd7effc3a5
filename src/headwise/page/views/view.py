"""Views: what the page shows of a run of one task.

Another task needs a view in a module here, a line in `headwise.page.views`, and a panel of the page; a request that
only it answers needs a route, too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from torch import nn

from headwise.analysis.head_arithmetic import has_products
from headwise.analysis.interventions import attention_parts, heads_of
from headwise.analysis.recording import ForwardPass
from headwise.analysis.tracer import Tracer
from headwise.config import Config
from headwise.errors import ConfigError
from headwise.models.counting import parameter_count
from headwise.page.requests import BoxesRequest

# What a run can show: translation, attention weights, a head's products, the steps of decoding, boxes, parts of the
# model switched off, recurrence beside attention, statistics over many sentences, a language model's next token,
# images, and training curves.
CAPABILITIES = (
    *("translate", "read", "products", "steps", "boxes", "switches", "recurrence", "evidence"),
    *("language_model", "vision", "metrics"),
)

Loaded = TypeVar("Loaded")
SomeTracer = TypeVar("SomeTracer", bound=Tracer)


class View(ABC, Generic[Loaded]):
    """View of a run: its loaded model, as analysis reads it.

    Attributes:
        tasks: those that it shows.
        expected: the tasks that a request for this view expects, in words.
    """

    tasks: ClassVar[tuple[str, ...]] = ()
    expected: ClassVar[str]

    def __init__(self, model: Loaded, config: Config) -> None:
        self.model, self.config = model, config

    @classmethod
    @abstractmethod
    def load(cls, run: Path, config: Config, device: str, threads: int) -> View[Loaded]:
        """Load the model of a run directory; raises `CheckpointError` or `DeviceError`."""

    @abstractmethod
    def can(self) -> dict[str, bool]:
        """Return which of `CAPABILITIES` the run has; those that are left out it hasn't."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return the description of the model for the page."""

    @abstractmethod
    def record(self, request: BoxesRequest) -> ForwardPass:
        """Record the forward pass whose boxes are shown; raises `ConfigError`."""


class TextView(View[SomeTracer]):
    """View of a model that reads text, which its tracer reads."""

    expected = "translation"

    @property
    def trained(self) -> nn.Module:
        """The PyTorch model."""
        return self.model.trained

    def can(self) -> dict[str, bool]:
        """Return what models of text have in common: attention weights where they have attention, boxes, recurrence."""
        parts = self._parts()
        products = any(part["products"] for part in parts.values())
        boxes = dict.fromkeys(("boxes", "switches"), self.config.model.architecture == "transformer")
        return {"read": bool(parts), "products": products, "recurrence": True, **boxes}

    def describe(self) -> dict[str, Any]:  # noqa: D102
        return {"parts": self._parts(), "parameters": parameter_count(self.trained)}

    def record(self, request: BoxesRequest) -> ForwardPass:  # noqa: D102
        if request.target is None:
            raise ConfigError("target: expected a text, or ids as a trace has them, found none")
        return self.model.record(request.text, request.target, request.changes())

    def _parts(self) -> dict[str, dict[str, int]]:
        """Return each part's numbers of layers and heads, and whether its heads' products can be shown."""
        return {
            part: {
                "layers": len(layers),
                "heads": heads_of(layers[0]),
                "products": all(map(has_products, layers)),
            }
            for part, layers in attention_parts(self.trained).items()
            if layers
        }
