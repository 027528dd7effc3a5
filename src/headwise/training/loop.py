"""The training loop. It knows steps, gradients and checkpoints, and nothing of what is being learned."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from safetensors.torch import save
from torch import nn

from headwise.config import Config
from headwise.errors import TrainingError
from headwise.files import write_bytes
from headwise.training.checkpoint import Checkpoints, Progress, average, random_state
from headwise.training.monitor import Monitor
from headwise.training.parallel import World
from headwise.training.schedule import learning_rate
from headwise.training.task import Task


class Interruption:
    """Turns the first Ctrl-C or SIGTERM into a request to stop after the step; a second one stops at once."""

    def __init__(self) -> None:
        self.requested = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listen while the block runs."""
        before = {s: signal.signal(s, self._request) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _request(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True


class Trainer:
    """Trains one task in one run directory, from wherever its last checkpoint stands."""

    def __init__(
        self,
        task: Task,
        config: Config,
        run: Path,
        *,
        device: torch.device,
        world: World | None = None,
        quiet: bool = False,
    ) -> None:
        self.task, self.config, self.run, self.device = task, config, run, device
        self.world = world or World()
        self.options = config.training
        self.model = task.model
        self.parameters = [p for p in self.model.parameters() if p.requires_grad]
        o = config.optimizer
        self.optimizer = torch.optim.AdamW(
            self.parameters,
            lr=0.0,
            betas=(o.beta1, o.beta2),
            eps=o.epsilon,
            weight_decay=o.weight_decay,
            fused=True,
        )
        self.checkpoints = Checkpoints(run)
        self.progress = Progress()
        self.batches = task.batches(self.world.rank, self.world.size)
        self.monitor = Monitor(
            run,
            max_steps=self.options.max_steps,
            tensorboard=self.options.tensorboard and self.world.first,
            quiet=quiet or not self.world.first,
        )

    def fit(self) -> Progress:
        """Train to the end, or until interrupted; returns where the run stands.

        `progress.finished` says why it ended and is empty after an interruption. Raises `TrainingError` for a
        loss that isn't finite or a disk that is full, `CheckpointError` for a checkpoint that can't be resumed.
        """
        self._resume()
        if self.progress.finished and not self._may_go_on():
            self.monitor.say(f"{self.run}: already trained ({self.progress.finished})")
            return self.progress
        self.progress.finished = ""
        interruption = Interruption()
        if self.world.first:
            self.monitor.start(self.progress.step)
        try:
            with interruption.listening():
                self._train(interruption)
                if self.progress.finished:
                    self._finish()
        finally:
            if self.world.first:
                self.monitor.stop()
        return self.progress

    def _resume(self) -> None:
        latest = self.checkpoints.latest()
        if latest is None:
            # Every rank drew the same initial parameters; from here on each has its own randomness.
            torch.manual_seed(self.options.seed * 1_000_003 + self.world.rank)
            self.world.broadcast_parameters(p.data for p in self.parameters)
            return
        self.progress = self.checkpoints.load(
            latest, self.model, self.optimizer, self.task.identity(), rank=self.world.rank
        )
        if len(self.progress.positions) != self.world.size:
            raise TrainingError(
                f"{latest}: was saved by {len(self.progress.positions)} processes, found {self.world.size} now; "
                "resume with as many"
            )
        self.batches.load_state(self.progress.positions[self.world.rank])
        self.monitor.say(f"resuming from {latest} (step {self.progress.step})")

    def _may_go_on(self) -> bool:
        """Whether a finished run has been given more steps or minutes."""
        more_time = self.options.max_minutes is None or self.progress.seconds < self.options.max_minutes * 60
        stopped_early = self.progress.finished.startswith("no better")
        return self.progress.step < self.options.max_steps and more_time and not stopped_early

    def _train(self, interruption: Interruption) -> None:
        options, progress = self.options, self.progress
        stream = iter(self.batches)
        window = _Window()
        clock = time.perf_counter()
        progress.finished = self._reason_to_end()
        while not progress.finished:
            began = time.perf_counter()
            nll, count = self._step(stream)
            window.add(nll, count, time.perf_counter() - began)
            self._report(window)
            progress.seconds += time.perf_counter() - clock
            clock = time.perf_counter()
            progress.finished = self._reason_to_end()
            stopping = self.world.any(interruption.requested, self.device)
            best = False
            if progress.step % options.validate_every == 0 or progress.finished:
                best = self._validate()
                if options.patience and progress.stale >= options.patience and not progress.finished:
                    progress.finished = f"no better in {options.patience} validations"
            if progress.step % options.checkpoint_every == 0 or best or progress.finished or stopping:
                self._save(best)
            if stopping and not progress.finished:
                self.monitor.say(
                    f"stopped after step {progress.step}; saved. Run the same command again to go on."
                )
                return

    def _reason_to_end(self) -> str:
        """Say why training has reached its end, or return an empty string."""
        if self.progress.step >= self.options.max_steps:
            return f"reached {self.options.max_steps} steps"
        limit = self.options.max_minutes
        if limit is not None and self.world.any(self.progress.seconds >= limit * 60, self.device):
            return f"reached {limit:g} minutes"
        return ""

    def _step(self, stream: Iterator[Any]) -> tuple[float, int]:
        """One optimizer step over `accumulate` batches on every rank; returns (nll, tokens) over all of them."""
        self.model.train()
        batches = [next(stream) for _ in range(self.config.batch.accumulate)]
        tokens = sum(batch.target_tokens for batch in batches)
        (all_tokens,) = self.world.sum(tokens, device=self.device)
        nll = 0.0
        for batch in batches:
            loss = self.task.loss(batch)
            value = loss.total.item()
            if not math.isfinite(value):
                raise TrainingError(self._not_finite(value, batch))
            (loss.total / all_tokens).backward()
            nll += loss.nll.item()
        self.world.sum_gradients(self.parameters)
        if self.config.optimizer.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.parameters, self.config.optimizer.clip_norm)
        self.progress.step += 1
        self._set_rate(self._rate())
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.progress.tokens += int(all_tokens)
        (all_nll,) = self.world.sum(nll, device=self.device)
        return all_nll, int(all_tokens)

    def _rate(self) -> float:
        return learning_rate(
            self.config.schedule, self.task.d_model, self.progress.step, self.options.max_steps
        )

    def _set_rate(self, rate: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    def _report(self, window: _Window) -> None:
        step = self.progress.step
        if not self.world.first:
            return
        if step % self.options.log_every:
            self.monitor.advance(step)
            return
        loss, speed, per_step = window.read()
        left = (self.options.max_steps - step) * per_step
        if self.options.max_minutes is not None:
            left = min(left, self.options.max_minutes * 60 - self.progress.seconds)
        self.monitor.train(step, loss=loss, rate=self._rate(), speed=speed, seconds_left=left)

    def _validate(self) -> bool:
        """Score the model on the development data; returns whether it is the best so far."""
        progress = self.progress
        self.model.eval()
        scores = self.task.validate() if self.world.first else {}
        scores = self.world.gather(scores)[0]
        wanted = self.options.best_by
        score = scores[wanted] if wanted in scores and wanted != "loss" else -scores["loss"]
        best = progress.best is None or score > progress.best
        if best:
            progress.best, progress.best_step, progress.stale = score, progress.step, 0
        else:
            progress.stale += 1
        if self.world.first:
            self.monitor.validation(progress.step, scores, best=best)
        return best

    def _save(self, best: bool) -> None:
        if not all(bool(torch.isfinite(p).all()) for p in self.parameters):
            raise TrainingError(
                f"step {self.progress.step}: a parameter is not finite any more; {self._last_good()}"
            )
        self.progress.positions = self.world.gather(self.batches.state())
        randoms = self.world.gather(random_state())
        if self.world.first:
            self.monitor.sync()
            self.checkpoints.save(self.model, self.optimizer, self.progress, self.task.identity(), randoms)
            if best:
                self.checkpoints.mark_best(self.progress.step)
            self.checkpoints.prune(self.options.average_last)
        self.world.wait()

    def _finish(self) -> None:
        """Average the last checkpoints, score the result, and write it as the run's model."""
        if self.world.first:
            steps = self.checkpoints.steps()[-self.options.average_last :]
            averaged = average([self.checkpoints.path(step) for step in steps])
            with torch.no_grad():
                for name, parameter in self.model.named_parameters():
                    parameter.copy_(averaged[name])
            self.model.eval()
            scores = self.task.validate(final=True)
            self.monitor.say(f"{self.progress.finished}; averaged the last {len(steps)} checkpoints")
            self.monitor.validation(self.progress.step, scores, best=False, name="averaged")
            write_bytes(self.run / "model.safetensors", save(averaged))
        self.world.wait()

    def _not_finite(self, value: float, batch: Any) -> str:
        step = self.progress.step + 1
        return f"step {step}: the loss is {value} for {self.task.locate(batch)}; {self._last_good()}"

    def _last_good(self) -> str:
        latest = self.checkpoints.latest()
        where = f"the last good checkpoint is {latest}" if latest else "there is no checkpoint yet"
        return f"{where}; a lower learning rate or optimizer.clip_norm may help"


class _Window:
    """Loss and speed since the last report."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.nll, self.tokens, self.seconds, self.steps = 0.0, 0, 0.0, 0

    def add(self, nll: float, tokens: int, seconds: float) -> None:
        self.nll += nll
        self.tokens += tokens
        self.seconds += seconds
        self.steps += 1

    def read(self) -> tuple[float, float, float]:
        """Return (nats per token, tokens per second, seconds per step) and begin anew."""
        result = self.nll / self.tokens, self.tokens / self.seconds, self.seconds / self.steps
        self._clear()
        return result
