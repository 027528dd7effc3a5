"""Translation as a task for the loop, and a run directory from text to trained model."""

from __future__ import annotations

import math
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import torch

from headwise.config import Config
from headwise.decoding.options import SearchOptions
from headwise.decoding.translator import Translator
from headwise.errors import CheckpointError
from headwise.evaluation.translation import bleu
from headwise.files import write_text
from headwise.models.base import Seq2Seq
from headwise.models.build import build_model
from headwise.nn.device import find_device, find_precision
from headwise.text.batches import Batch, BatchStream, make_batch, plan_batches
from headwise.text.store import PreparedData, prepare
from headwise.text.subword import PAD
from headwise.training.checkpoint import Checkpoints, Progress
from headwise.training.loop import Trainer
from headwise.training.loss import LossSum, r_drop_cross_entropy, smoothed_cross_entropy
from headwise.training.monitor import read_metrics
from headwise.training.parallel import World

# Keys that may change when a run goes on: they decide how long, how often and where, not what is computed.
_MAY_CHANGE = (
    "data.workers",
    "decoding",
    "training.max_steps",
    "training.max_minutes",
    "training.validate_every",
    "training.validate_bleu",
    "training.validate_beam",
    "training.patience",
    "training.best_by",
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
        """Loss (nats per target subword, without smoothing), perplexity, and BLEU on the development data.

        BLEU is sacreBLEU's default on the development text; the final one searches with the run's own beam.
        """
        was_training = self.model.training
        self.model.eval()
        try:
            dev = self.prepared.dev
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
    try:
        if world.first:
            _open_run(config, run, restart)
            _prepare(config, run)
        world.wait()
        prepared = _prepare(config, run)  # found ready
        torch.manual_seed(config.training.seed)
        subwords = prepared.subwords
        model = build_model(config.model, subwords.source_size, subwords.target_size).to(device)
        model.compute_dtype = precision
        trainer = Trainer(
            TranslationTask(config, prepared, model), config, run, device=device, world=world, quiet=quiet
        )
        if world.first:
            for line in [*prepared.report, _summary(config, model, device, precision, world)]:
                trainer.monitor.say(line)
        progress = trainer.fit()
    finally:
        world.leave()
    return TrainedRun(run, progress, model.parameter_count(), _last_scores(run))


def _prepare(config: Config, run: Path) -> PreparedData:
    prepared = prepare(
        config.data,
        config.subwords,
        run / "prepared",
        seed=config.training.seed,
        max_length=config.model.max_length,
    )
    if int(os.environ.get("RANK", "0")) == 0:
        prepared.subwords.save(run)
    return prepared


def _open_run(config: Config, run: Path, restart: bool) -> None:
    """Make the run directory, or check that what is in it goes on with this configuration."""
    file = run / "config.yaml"
    if restart:
        for name in ("checkpoints", "prepared"):
            shutil.rmtree(run / name, ignore_errors=True)
        for name in ("latest", "best", "metrics.jsonl", "curves.png", "model.safetensors", "config.yaml"):
            (run / name).unlink(missing_ok=True)
    if Checkpoints(run).latest() is not None:
        if not file.exists():
            raise CheckpointError(
                f"{file}: there is no such file, though {run} has checkpoints; use --restart"
            )
        _check_same(Config.load(file), config, run)
    write_text(file, config.to_yaml())


def _check_same(old: Config, new: Config, run: Path) -> None:
    before, now = _flat(old.model_dump(mode="json")), _flat(new.model_dump(mode="json"))
    for key in sorted(before.keys() | now.keys()):
        if key.startswith(_MAY_CHANGE) or before.get(key) == now.get(key):
            continue
        raise CheckpointError(
            f"{run}: was begun with {key}={before.get(key)}, found {key}={now.get(key)} now; "
            "keep the value to go on, use another run directory, or --restart to begin anew"
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
