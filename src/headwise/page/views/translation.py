"""The view of a translator: its search, its steps of decoding, and sentences to begin with."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from headwise.analysis.translation_tracer import TranslationTracer
from headwise.config import Config
from headwise.page.development_set import suggestions
from headwise.page.views.view import TextView


class TranslationView(TextView[TranslationTracer]):
    """View of a translator, whose tracer is `model`."""

    tasks = ("translation",)

    def __init__(self, model: TranslationTracer, config: Config, run: Path | None = None) -> None:
        super().__init__(model, config)
        self._run = run

    @classmethod
    def load(cls, run: Path, config: Config, device: str, threads: int) -> TranslationView:  # noqa: D102
        return cls(TranslationTracer.load(run, device, threads), config, run)

    def can(self) -> dict[str, bool]:  # noqa: D102
        return {**super().can(), **dict.fromkeys(("translate", "steps", "evidence"), True)}

    @cached_property
    def samples(self) -> list[str]:
        """Sentences that the page suggests."""
        return suggestions(self._run, self.config.data)

    def describe(self) -> dict[str, Any]:  # noqa: D102
        translator, history = self.model.translator, self.model.history
        return {
            **super().describe(),
            "beam": translator.options.beam,
            "alpha": translator.options.alpha,
            "samples": self.samples,
            "checkpoints": history.steps() if history else [],
        }
