"""The training loop: steps, learning rate, validation and checkpoints, for any `headwise.training.task.Task`."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn

from headwise.config import Config
from headwise.errors import TrainingError
from headwise.metrics import read_metrics
from headwise.nn.device import give_back_freed_memory, keep_freed_memory
from headwise.nn.linear import use_gemm
from headwise.training.background import BackgroundWork
from headwise.training.checkpoint import (
    Checkpoints,
    Moments,
    Tensors,
    checkpointed,
    parameter_files,
    random_file,
)
from headwise.training.gradients import LossNotFinite, compute_gradients
from headwise.training.monitor import Monitor
from headwise.training.optimizer import build_optimizer
from headwise.training.pace import Overhead, Pace
from headwise.training.parallel.replica import all_finite, optimizer_state, replicate
from headwise.training.parallel.watchdog import COMPUTING, OTHER, READING, Watchdog
from headwise.training.parallel.world import World
from headwise.training.products_trial import find_products
from headwise.training.progress import Progress
from headwise.training.randomness import random_state, rank_seed, seed_random
from headwise.training.task import Task
from headwise.weights import read_recipe

_HANG_UP = getattr(signal, "SIGHUP", None)  # doesn't exist on Windows
# Signals that stop training: Ctrl-C, a batch system or service manager, and a closed terminal.
_STOP_SIGNALS = [signal.SIGINT, signal.SIGTERM, *([_HANG_UP] if _HANG_UP else [])]


class Interruption:
    """Handler of Ctrl-C, SIGTERM and SIGHUP: the first requests a stop after the step, a second one stops at once.

    SIGHUP requests a stop but isn't counted, because terminals and service managers send it together with another
    signal. If it is ignored (nohup), it stays ignored.
    """

    def __init__(self) -> None:
        self.requested = False
        self._received = False  # whether SIGINT or SIGTERM has arrived

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Install the signal handlers while the block runs; outside the main thread, do nothing."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handled = [s for s in _STOP_SIGNALS if s != _HANG_UP or signal.getsignal(s) is not signal.SIG_IGN]
        previous = {s: signal.signal(s, self._request) for s in handled}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _request(self, number: int, frame: FrameType | None) -> None:
        if number != _HANG_UP:
            if self._received:
                raise KeyboardInterrupt
            self._received = True
        self.requested = True


class Trainer:
    """Trainer of one task in one run directory; it resumes from the last checkpoint, if there is one."""

    def __init__(
        self,
        task: Task,
        config: Config,
        run: Path,
        *,
        device: torch.device,
        world: World | None = None,
        quiet: bool = False,
        trial: float | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Load the last checkpoint, if any; raises `CheckpointError` if training can't resume from it.

        `trial` is the duration in seconds of the one that has chosen the number of processes, if others are to be tried
        again; `clock` returns seconds.
        """
        self.task, self.config, self.run, self.device = task, config, run, device
        if device.type == "cpu":
            keep_freed_memory()
        self.world = world or World()
        self.products = find_products(config.training.products)  # of float32 in the steps on a CPU
        self.options = config.training
        self.model = task.model
        self.checkpoints = Checkpoints(run)
        self.writing = BackgroundWork("checkpoint")
        self.progress = Progress()
        self.batches = task.batches()
        if self.world.size > 1:
            self.batches.share(self.world.rank, self.world.size, whole=not self.world.shares_batches)
        self.watchdog = Watchdog(self.world, self.options.rank_timeout)
        self.monitor = Monitor(
            run,
            max_steps=self.options.max_steps,
            tensorboard=self.options.tensorboard and self.world.first,
            quiet=quiet or not self.world.first,
        )
        moments = self._resume()
        self.replica = replicate(task, self.world, self.options, device)
        self.parameters = list(self.replica.parameters.values())
        self.optimizer = build_optimizer(self.replica.model, config.optimizer, self.world)
        self.replica.restore(self.optimizer, moments)
        self.pace = Pace(
            config,
            self.progress,
            self.world,
            device,
            d_model=task.d_model,
            dev_tokens=task.dev_tokens,
            clock=clock,
        )
        self._recent_tokens, self._recent_seconds = 0, 0.0  # of this process since the last report
        self.trial_is_due, self._tries = False, trial is not None
        if trial is not None:
            self.pace.tried(trial)

    def fit(self) -> Progress:
        """Train to the end, or until interrupted; returns the progress.

        `progress.finished` gives the reason why training ended and is empty after an interruption, and where
        `trial_is_due`: a trial of other numbers of processes, after which a new trainer resumes. Raises
        `TrainingError` for a loss that isn't finite or a full disk.
        """
        # Recomputed, because the limits may have changed.
        self.progress.finished, limit = self._reason_to_end()
        if self.progress.finished and self.world.on_first(self._has_model):
            self.monitor.say(f"{self.run}: already trained ({self.progress.finished}); a larger {limit} trains on")
            return self.progress
        interruption = Interruption()
        self.world.on_first(lambda: self.monitor.start(self.progress.step))
        try:
            with interruption.listening():
                with self.watchdog.watching():
                    self._train(interruption)
                self._finish_writing()
                if self.progress.finished:
                    self.world.on_first(self._average, heavy=True)
            if self.trial_is_due:
                self.replica.close()
        finally:
            self.batches.close()
            self.writing.abandon()
            if self.world.first:
                self.monitor.stop()
        return self.progress

    def _resume(self) -> Moments:
        """Load the last checkpoint, if any, into the task's model; return the optimizer's state by parameter."""
        latest, seed, world = self.checkpoints.latest(), self.options.seed, self.world
        if latest is None:
            self.checkpoints.begin()
            # Initial parameters were drawn with the same seed on every rank; from here on each rank has its own seed.
            seed_random(rank_seed(seed, world.rank))
            world.broadcast_parameters(p.data for p in self.model.parameters())
            return {}
        self.progress, moments = self.checkpoints.load(
            latest, self.model, self.task.identity(), world.rank, self.config.optimizer
        )
        before = len(self.progress.positions)
        if world.rank >= before:
            seed_random(rank_seed(seed, world.rank, self.progress.step))
        self.batches.load_state(self.progress.positions[0])
        world.on_first(lambda: self.checkpoints.rewind(self.progress))
        change = f", saved by {before} process{'es' if before > 1 else ''}" if before != world.size else ""
        self.monitor.say(f"resuming from {latest} (step {self.progress.step}{change})")
        return moments

    def _has_model(self) -> bool:
        """Whether the final scores are recorded and the run's model is the average of the current checkpoints."""
        records = read_metrics(self.run / "metrics.jsonl")
        recorded = any(r["kind"] == "averaged" and r["step"] == self.progress.step for r in records)
        file = self.run / "model.safetensors"
        return recorded and file.exists() and read_recipe(file).get("steps") == self._steps_to_average()

    def _steps_to_average(self) -> list[int]:
        return self.checkpoints.to_average(self.options.average_last, self.options.checkpoint_every)

    def _train(self, interruption: Interruption) -> None:
        options, progress = self.options, self.progress
        stream = iter(self.batches)
        constants = {name: buffer.clone() for name, buffer in self._stored_buffers()}
        self.pace.start()
        while not progress.finished:
            tokens = self.step(stream)
            if constants:
                self._check_constant(constants)
                constants.clear()  # the first step tells
            self.watchdog.at(OTHER, progress.step)
            self._recent_tokens += tokens
            self._recent_seconds += self.pace.stepped()
            self._report()
            progress.finished, _ = self._reason_to_end()
            trial_is_due = self._tries and self.pace.affords("trial")
            stops = self.world.sum(interruption.requested, trial_is_due, device=self.device)
            stopping, trial_is_due = (ranks > 0 for ranks in stops)
            best = False
            if self._is_due("validation", options.validate_every):
                best = self._validate()
                progress.finished = progress.finished or self._reason_to_end()[0]
            ends = bool(progress.finished) or stopping
            self.trial_is_due = trial_is_due and not ends
            ends = ends or self.trial_is_due
            if self._is_due("saving", options.checkpoint_every) or best or ends:
                with self.pace.spending("saving"):
                    self._save(best)
            if stopping and not progress.finished:
                self.monitor.say(f"stopped after step {progress.step}; saved. Run the same command again to go on.")
            if ends:
                return

    def _stored_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the model's persistent buffers, which only a model of one's own has."""
        model = self.replica.model
        buffers = dict(model.named_buffers(remove_duplicate=False))
        return ((name, value) for name, value in model.state_dict().items() if name in buffers)

    def _check_constant(self, before: Mapping[str, Tensor]) -> None:
        """Raise `TrainingError` if a step has changed a stored buffer, as no checkpoint has it."""
        for name, buffer in self._stored_buffers():
            if not torch.equal(buffer, before[name]):
                raise TrainingError(
                    f"model: expected parameters for all that training changes, found the buffer {name}, which "
                    "checkpoints don't have; one that the trained model doesn't need is registered with "
                    "persistent=False"
                )

    def _reason_to_end(self) -> tuple[str, str]:
        """Return the reason why training ends now and the limit that it has reached, or empty strings."""
        if self.progress.step >= self.options.max_steps:
            return f"reached {self.options.max_steps} steps", "--max-steps"
        if self.pace.out_of_time:
            return f"reached {self.options.max_minutes:g} minutes", "--max-minutes"
        if self.options.patience and self.progress.stale >= self.options.patience:
            return f"no better in {self.progress.stale} validations", "training.patience"
        return "", ""

    def _is_due(self, kind: Overhead, every: int) -> bool:
        """Whether to validate or to save after this step, by the steps and by the clock.

        The end of a training without a time limit is always validated.
        """
        if kind == "validation" and self.progress.finished and self.options.max_minutes is None:
            return True
        due = self.progress.step % every == 0
        if due and not self.pace.affords(kind):
            line = self.pace.skipped()
            if line and not self.progress.finished:
                self.monitor.say(line)
            return False
        return due

    def step(self, stream: Iterator[Any]) -> int:
        """Do one optimizer step over `accumulate` batches on every rank; return the target tokens of all ranks."""
        self.replica.model.train()
        step = self.progress.step + 1
        self.watchdog.at(READING, step)
        batches = [next(stream) for _ in range(self.config.batch.accumulate)]
        self.watchdog.at(COMPUTING, step)
        try:
            with use_gemm(self.products):
                loss = compute_gradients(self.replica, batches, self.world, self.device)
        except LossNotFinite as problem:
            raise TrainingError(f"step {step}: {problem}; {self._last_good()}") from None
        if self.config.optimizer.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.parameters, self.config.optimizer.clip_norm)
        rate = self.pace.begin_step()
        self.progress.step += 1
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.progress.tokens += loss.tokens
        self.progress.recent_tokens += loss.tokens
        self.progress.recent_nll += loss.nll
        return loss.tokens

    def _report(self) -> None:
        options, progress = self.options, self.progress
        self.monitor.max_steps = self.pace.last_step
        if progress.step % options.log_every:
            self.monitor.advance(progress.step, self.pace.seconds_left)
            return
        if self.device.type == "cpu":
            give_back_freed_memory()
        loss = progress.recent_nll / progress.recent_tokens
        speed = self._recent_tokens / self._recent_seconds
        progress.recent_nll, progress.recent_tokens = 0.0, 0
        self._recent_tokens, self._recent_seconds = 0, 0.0
        if self.world.first:
            self.monitor.train(
                progress.step,
                loss=loss,
                rate=self.pace.rate,
                speed=speed,
                seconds=progress.seconds,
                seconds_left=self.pace.seconds_left,
            )

    def _validate(self) -> bool:
        """Score the model on the development set, if there is one; return whether it is the best so far."""
        progress, metric = self.progress, self.options.best_by
        self.model.eval()
        with self.pace.spending("validation"):
            self.replica.collect_parameters()
            scores = self.world.on_first(self.task.validate, heavy=True)
        if not scores:
            return False
        score = -scores["loss"] if metric == "loss" else scores[metric]
        best = progress.best is None or score > progress.best
        if best:
            progress.best, progress.best_step = score, progress.step
        progress.stale = (progress.step - progress.best_step) // self.options.validate_every
        if self.world.first:
            self.monitor.validation(progress.step, scores, best=best, seconds=progress.seconds)
        return best

    def _save(self, best: bool) -> None:
        """Save a checkpoint; with several ranks, training continues while it is written.

        The first rank writes it, after all ranks have written their parts of divided tensors.
        """
        progress, first = self.progress, self.world.first
        if self.world.any(not all_finite(self.parameters), self.device):
            raise TrainingError(f"step {progress.step}: a parameter is not finite any more; {self._last_good()}")
        self._finish_writing()  # of the checkpoint before
        self.world.on_first(self.checkpoints.remove_partial)
        progress.positions = [self.batches.state()] * self.world.size
        randoms = self.world.gather(random_state())
        moments = optimizer_state(self.replica.parameters, self.optimizer)
        in_background = self.world.size > 1 and not progress.finished
        tensors: Tensors = {}
        write_parts: Callable[[Path | None], None] | None = None
        if self.replica.shards is not None:
            files, parts = parameter_files(self.replica.model, moments), self.checkpoints.parts(progress.step)
            write_parts = self.replica.shards.writing(files, parts, copy=in_background)
            tensors = random_file(randoms)
        elif first:
            tensors = checkpointed(self.model, moments, randoms, copy=in_background)
        saved = deepcopy(progress)  # as its timing, too, changes while the checkpoint is written

        def write() -> None:
            if first:
                self.checkpoints.save(tensors, saved, self.task.identity(), write_parts)
                if best:
                    self.checkpoints.mark_best(saved.step)
                self._prune()
            elif write_parts is not None:
                write_parts(None)

        self.world.on_first(self.monitor.sync)
        self.writing.start(write)
        if not in_background:
            self._finish_writing()

    def _finish_writing(self) -> None:
        """Wait for the checkpoint that is being written, if any; every rank raises the first one's error."""
        if not self.world.first:
            self.writing.abandon()
        self.world.on_first(self.writing.wait)

    def _prune(self) -> None:
        options = self.options
        self.checkpoints.prune(options.average_last, options.checkpoint_every, options.keep_checkpoints)

    def _average(self) -> None:
        """Average the last checkpoints, write the result as the run's model and score it."""
        steps = self._steps_to_average()
        file = self.run / "model.safetensors"
        averaged = self.checkpoints.write_average(steps, file, self.config.digest())
        self.replica.close()
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                parameter.copy_(torch.from_numpy(averaged[name]))
        self.model.eval()
        scores = self.task.validate(final=True)
        self._prune()
        checkpoints = "checkpoint" if len(steps) == 1 else f"{len(steps)} checkpoints"
        self.monitor.say(f"{self.progress.finished}; averaged the last {checkpoints}")
        self.monitor.validation(self.progress.step, scores, best=False, name="averaged")

    def _last_good(self) -> str:
        latest = self.checkpoints.latest()
        where = f"the last good checkpoint is {latest}" if latest else "there is no checkpoint yet"
        return f"{where}; a lower learning rate or optimizer.clip_norm may help"
