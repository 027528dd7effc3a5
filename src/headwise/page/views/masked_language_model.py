"""The view of a masked language model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headwise.analysis.language_models import MaskedModelTracer
from headwise.config import Config
from headwise.page.views.view import TextView


class MaskedModelView(TextView[MaskedModelTracer]):
    """View of an encoder-only model that fills masks."""

    tasks = ("masked_language_model",)

    @classmethod
    def load(cls, run: Path, config: Config, device: str, threads: int) -> MaskedModelView:  # noqa: D102
        return cls(MaskedModelTracer.load(run, device), config)

    def can(self) -> dict[str, bool]:  # noqa: D102
        return {**super().can(), "boxes": True, "switches": True}

    def describe(self) -> dict[str, Any]:  # noqa: D102
        return {**super().describe(), "subwords": self.model.vocabulary.size}
