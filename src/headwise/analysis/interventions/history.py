"""A run's model at its checkpoints, and before training."""

from __future__ import annotations

import copy
from pathlib import Path

import torch

from headwise.config import Config
from headwise.errors import ConfigError
from headwise.models.base import Seq2Seq
from headwise.models.build import build_model, load_weights
from headwise.training.checkpoint import Checkpoints


class History:
    """The checkpoints of a run directory's last training.

    Step 0 is the initialization, drawn again from the run's seed; a run that began from another run's weights
    (`training.initialize_from`) has none.
    """

    def __init__(self, run: Path) -> None:
        self.run = run
        self.config = Config.of_run(run)

    def steps(self) -> list[int]:
        """Return the steps whose models are available, in their order; none if the run has no checkpoints."""
        steps = Checkpoints(self.run).steps_of_current_start()
        reproducible = self.config.training.initialize_from is None
        return [0, *steps] if steps and reproducible else steps

    def model(self, step: int, trained: Seq2Seq) -> Seq2Seq:
        """Return a copy of the run's trained model with the parameters that it had after `step` steps.

        Raises `ConfigError` for a step without a checkpoint, `CheckpointError` for a damaged one.
        """
        if step not in self.steps():
            known = ", ".join(map(str, self.steps())) or "none"
            raise ConfigError(
                f"intervention 'checkpoint:{step}': expected a step that {self.run} has a checkpoint of ({known}), "
                f"found {step}"
            )
        model = copy.deepcopy(trained)
        if step == 0:
            initial = dict(self._initial(trained).named_parameters())
            with torch.no_grad():
                for name, parameter in model.named_parameters():
                    parameter.copy_(initial[name])
        else:
            load_weights(model, Checkpoints(self.run).path(step) / "model.safetensors")
        return model

    def _initial(self, trained: Seq2Seq) -> Seq2Seq:
        """Build the model as training does, with the run's seed."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.config.training.seed)
            return build_model(self.config.model, trained.source_size, trained.target_size)
