"""Translation as a task for the loop, and a run directory from text to trained model."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch

from headwise.config import Config
from headwise.decoding.options import SearchOptions
from headwise.decoding.translator import Translator
from headwise.errors import CheckpointError, ConfigError
from headwise.evaluation.translation import bleu
from headwise.files import hold, remove_partial, write_text
from headwise.models.base import Seq2Seq
from headwise.models.build import build_model
from headwise.nn.device import find_device, find_precision
from headwise.text.batches import Batch, BatchStream, make_batch, plan_batches
from headwise.text.store import PreparedData, prepare
from headwise.text.subword import PAD
from headwise.training.checkpoint import Checkpoints, Progress, read_state
from headwise.training.loop import Trainer
from headwise.training.loss import LossSum, r_drop_cross_entropy, smoothed_cross_entropy
from headwise.training.monitor import read_metrics
from headwise.training.parallel import World

# Keys that may change when a run goes on: they decide how long, how often and where, not what is computed.
# (Text may have moved: its checksum tells whether it is the same.)
_MAY_CHANGE = (
    "data.source",
    "data.target",
    "data.dev_source",
    "data.dev_target",
    "data.workers",
    "decoding",
    "training.max_steps",
    "training.max_minutes",
    "training.validate_every",
    "training.validate_bleu",
    "training.validate_beam",
    "training.patience",
    "training.checkpoint_every",
    "training.average_last",
    "training.device",
    "training.threads",
    "training.log_every",
    "training.tensorboard",
)


class TranslationTask:
    """Learn to translate prepared sentence pairs."""

    def __init__(self, config: Config, prepared: PreparedData, model: Seq2Seq) -> None:
        self.config = config
        self.prepared = prepared
        self.model = model
        self.device = next(model.parameters()).device

    @property
    def d_model(self) -> int:
        """Width in the paper's learning-rate formula."""
        return self.config.model.d_model

    def batches(self, rank: int, world: int) -> BatchStream:
        """Training batches of one rank."""
        return BatchStream(
            self.prepared,
            self.config.batch.tokens,
            seed=self.config.training.seed,
            rank=rank,
            world=world,
            dropout=self.config.subwords.dropout,
            weights=self.config.data.weights,
            max_length=self.config.model.max_length,
        )

    def loss(self, batch: Batch) -> LossSum:
        """Label-smoothed cross-entropy summed over target tokens, with R-Drop where it is asked for."""
        options = self.config.training
        source, mask = batch.source.to(self.device), batch.source_mask.to(self.device)
        target_input = batch.target_input.to(self.device)
        targets = batch.target_output.to(self.device).flatten()
        real = (targets != PAD).nonzero().squeeze(1)
        if options.r_drop > 0 and self.model.training:
            # Two dropout masks for every sentence, in one pass (Liang et al. 2021, section 2.2).
            hidden = self.model(source.repeat(2, 1), mask.repeat(2, 1), target_input.repeat(2, 1)).flatten(
                0, 1
            )
            hidden = hidden[torch.cat([real, real + targets.numel()])]
            total, nll = r_drop_cross_entropy(
                hidden, self.model.output_weight, targets[real], options.label_smoothing, options.r_drop
            )
        else:
            hidden = self.model(source, mask, target_input).flatten(0, 1)[real]  # (target tokens, d_model)
            total, nll = smoothed_cross_entropy(
                hidden, self.model.output_weight, targets[real], options.label_smoothing
            )
        return LossSum(total, nll, batch.target_tokens)

    @torch.no_grad()
    def validate(self, *, final: bool = False) -> dict[str, float]:
        """Loss (nats per target subword, without smoothing), perplexity, and BLEU on the development data, if any.

        BLEU is sacreBLEU's default on the development text; the final one searches with the run's own beam.
        """
        dev = self.prepared.dev
        if not len(dev):
            return {}
        was_training = self.model.training
        self.model.eval()
        try:
            nll, tokens = 0.0, 0
            for rows in plan_batches(
                dev.source_lengths, dev.target_lengths, self._validation_tokens(), seed=0, epoch=0
            ):
                loss = self.loss(make_batch(dev, rows))
                nll += loss.nll.item()
                tokens += loss.count
            scores = {"loss": nll / tokens, "perplexity": math.exp(min(nll / tokens, 700.0))}
            if self.config.training.validate_bleu:
                scores["bleu"] = self._bleu(final)
        finally:
            self.model.train(was_training)
        return scores

    def _bleu(self, final: bool) -> float:
        decoding = self.config.decoding
        translator = Translator(self.model, self.prepared.subwords, decoding)
        beam = decoding.beam if final else self.config.training.validate_beam
        options = SearchOptions(beam=beam, alpha=decoding.alpha, extra_length=decoding.extra_length)
        translations = translator.translate(self.prepared.dev_source, options)
        return bleu([t.text for t in translations], self.prepared.dev_target).score

    def _validation_tokens(self) -> int:
        longest = max(
            int(self.prepared.dev.source_lengths.max()), int(self.prepared.dev.target_lengths.max())
        )
        return max(self.config.batch.tokens, longest)

    def locate(self, batch: Batch) -> str:
        """Name the lines of a batch."""
        return self.prepared.train.locate(batch.rows)

    def identity(self) -> dict[str, str]:
        """Checksums of the text and of the subword model."""
        return {"data": self.prepared.checksum, "subwords": self.prepared.subwords.digest()}


@dataclass(frozen=True)
class TrainedRun:
    """What `train` leaves: where, how far, and the scores of the averaged model on the development data."""

    run: Path
    progress: Progress
    parameters: int
    scores: dict[str, float]


def train(config: Config, run: Path, *, restart: bool = False, quiet: bool = False) -> TrainedRun:
    """Prepare the data, then train in `run` from wherever it stands; `config.yaml` is written there.

    `restart` removes what an earlier training left in `run` first. Raises a `HeadwiseError` for anything the user
    can mend: data, configuration, device, disk, or a run directory that holds something else.
    """
    device = find_device(config.training.device)
    precision = find_precision(config.training.precision, device)
    if config.training.threads:
        torch.set_num_threads(config.training.threads)
    world = World.join(config.training.device)
    if world.size > 1 and device.type == "cuda":
        device = torch.device("cuda", world.local_rank)

    def say(line: str) -> None:
        if world.first and not quiet:
            print(line, file=sys.stderr, flush=True)

    held = ExitStack()
    try:
        world.on_first(lambda: held.enter_context(hold(run)))
        latest = None if restart else Checkpoints(run).latest()
        prepared = world.in_turn(lambda: _prepare(config, run, latest, say))
        torch.manual_seed(config.training.seed)
        subwords = prepared.subwords
        model = build_model(config.model, subwords.source_size, subwords.target_size).to(device)
        model.compute_dtype = precision
        if restart:
            world.on_first(lambda: _remove_training(run))
        trainer = Trainer(
            TranslationTask(config, prepared, model), config, run, device=device, world=world, quiet=quiet
        )
        world.on_first(lambda: _write_down(config, run, prepared))
        if prepared.reused:
            say(f"{prepared.directory}: found ready")
        for line in [*prepared.report, _summary(config, model, device, precision, world)]:
            say(line)
        progress = trainer.fit()
    finally:
        held.close()
        world.leave()
    return TrainedRun(run, progress, model.parameter_count(), _last_scores(run))


def _prepare(config: Config, run: Path, latest: Path | None, say: Callable[[str], None]) -> PreparedData:
    """Prepare the text; where the run has a checkpoint, check first that it goes on with all this."""
    identity: dict[str, str] = {}
    if latest is None:
        _check_ours(run)
    else:
        _check_same(config, run)
        identity = read_state(latest)["identity"]
    prepared = prepare(
        config.data,
        config.subwords,
        run / "prepared",
        seed=config.training.seed,
        max_length=config.model.max_length,
        expected=identity.get("data"),
        say=say,
    )
    found = prepared.subwords.digest()
    if identity.get("subwords", found) != found:
        raise CheckpointError(
            f"{latest}: was trained with subwords {identity['subwords']}, found {found} in {prepared.directory}; "
            "use --restart to begin anew"
        )
    return prepared


def _remove_training(run: Path) -> None:
    """Remove what an earlier training left, but for the prepared text."""
    Checkpoints(run).remove()
    for name in ("metrics.jsonl", "curves.png", "model.safetensors"):
        (run / name).unlink(missing_ok=True)
    shutil.rmtree(run / "tensorboard", ignore_errors=True)


def _write_down(config: Config, run: Path, prepared: PreparedData) -> None:
    """Write what goes with the model to come, and clear away what a kill left half-written."""
    remove_partial(run / "*")
    prepared.subwords.save(run)
    write_text(run / "config.yaml", config.to_yaml())


def _check_ours(run: Path) -> None:
    """Refuse to write over another program's config.yaml."""
    file = run / "config.yaml"
    if file.exists():
        try:
            Config.load(file)
        except ConfigError as error:
            raise CheckpointError(
                f"{run}: expected a new folder or a run, found one whose config.yaml Headwise can't have written "
                f"({error})"
            ) from None


def _check_same(config: Config, run: Path) -> None:
    """Check that a run goes on with the configuration it was begun with, or one that computes the same."""
    file = run / "config.yaml"
    if not file.exists():
        raise CheckpointError(f"{file}: there is no such file, though {run} has checkpoints; use --restart")
    before, now = _flat(Config.load(file).model_dump(mode="json")), _flat(config.model_dump(mode="json"))
    changed = [
        f"{key}={before.get(key)}, found {key}={now.get(key)} now"
        for key in sorted(before.keys() | now.keys())
        if before.get(key) != now.get(key) and not any(f"{key}.".startswith(f"{may}.") for may in _MAY_CHANGE)
    ]
    if changed:
        raise CheckpointError(
            f"{run}: was begun with {'; with '.join(changed)}; keep what it was begun with to go on, use another run "
            "directory, or --restart to begin anew"
        )


def _last_scores(run: Path) -> dict[str, float]:
    """Scores of the averaged model on the development data, empty while training hasn't ended."""
    averaged = [r for r in read_metrics(run / "metrics.jsonl") if r["kind"] == "averaged"]
    return (
        {key: value for key, value in averaged[-1].items() if key not in {"kind", "step"}} if averaged else {}
    )


def _flat(tree: dict[str, object], prefix: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def _summary(
    config: Config, model: Seq2Seq, device: torch.device, precision: torch.dtype, world: World
) -> str:
    name = str(precision).removeprefix("torch.")
    ranks = f", {world.size} processes" if world.size > 1 else ""
    return (
        f"{model.parameter_count():,} parameters, {name} on {device}{ranks}, configuration {config.digest()}"
    )
