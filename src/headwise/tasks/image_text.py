"""Contrastive learning of images and texts (CLIP, Radford et al. 2021), on generated captions of digits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.config import Config
from headwise.errors import ConfigError
from headwise.evaluation.retrieval import accuracy_at
from headwise.images.batches import RowDraws
from headwise.images.captions import PHRASINGS, CaptionWords, Facts, draw_picture
from headwise.images.prepared import ImageFormat, PreparedImages, prepare_images
from headwise.images.sets import DIGITS, Labeled
from headwise.models.build import load_filled
from headwise.models.contrastive import ImageText, contrastive_loss
from headwise.nn.device import find_device, find_precision
from headwise.tasks.base import Evaluation, EvaluationRequest, Measured, TaskKind
from headwise.tasks.image_classification import NO_TEXT, held_out
from headwise.text.tokens.subwords import PAD
from headwise.training.loss import LossSum

TEST_SEED = 12  # of the pictures that held-out digits are drawn into
_DEV_SEED, _DRAWS = 11, 400


@dataclass(frozen=True)
class PairBatch:
    """Pictures (batch, 1, canvas, canvas) float32, and the captions that stand beside them, on the CPU."""

    images: Tensor
    tokens: Tensor  # (batch, words) int64, padded on the right
    rows: list[int]  # digits that they were drawn from, for messages

    @property
    def mask(self) -> Tensor:
        """Which words are real, (batch, words) bool."""
        return self.tokens != PAD

    @property
    def target_tokens(self) -> int:
        """Pairs that the loss is summed over."""
        return len(self.rows)


class ImageTextTask:
    """Learn which caption belongs to which picture; every epoch draws new ones from the training digits."""

    def __init__(self, config: Config, prepared: PreparedImages, model: ImageText) -> None:
        self._measured = Measured(model)
        self.config, self.prepared, self.model = config, prepared, model
        self.device = next(model.parameters()).device
        self.words = CaptionWords()

    @property
    def d_model(self) -> int:
        """Width in the paper's learning-rate formula."""
        return self.config.model.d_model

    def batches(self, rank: int, world: int) -> RowDraws[PairBatch]:
        """Training batches of one rank; none has a digit in a place that is kept for testing."""
        canvas, train, form = self.config.image_text.canvas, self.prepared.train, self.prepared.format

        def make(rows: NDArray[np.int64], random: np.random.Generator) -> PairBatch:
            drawn = [
                draw_picture(*_digit(train, form, row), canvas, random, held_out=False)
                for row in rows.tolist()
            ]
            captions = [facts.caption(int(random.integers(len(PHRASINGS)))) for _, facts in drawn]
            return make_pairs([picture for picture, _ in drawn], captions, self.words, rows.tolist())

        return RowDraws(
            len(train),
            self.config.image_text.pairs,
            make,
            seed=self.config.training.seed,
            identity={"canvas": canvas, **self.identity()},
            rank=rank,
            world=world,
        )

    def loss(self, batch: PairBatch) -> LossSum:
        """CLIP's symmetric loss, summed over pairs; the other pairs of the batch are what each is told apart from."""
        logits = self.model(*(part.to(self.device) for part in (batch.images, batch.tokens, batch.mask)))
        total = contrastive_loss(logits)
        return LossSum(total, total.detach(), batch.target_tokens)

    def validate(self, *, final: bool = False) -> dict[str, float]:
        """Loss and retrieval accuracy (percent) on pictures of the development digits, if any, all facts different."""
        if not len(self.prepared.dev):
            return {}
        return self._measured.once("dev", self._scores)

    def _scores(self) -> dict[str, float]:
        gallery = make_gallery(self.prepared.dev, self.prepared.format, self.config, _DEV_SEED, held_out=None)
        logits = compare(self.model, gallery, self.words)
        pairs = self.config.image_text.pairs
        # As in training: each pair against those of a batch.
        parts = [
            logits[start : start + pairs, start : start + pairs] for start in range(0, len(logits), pairs)
        ]
        loss = sum(contrastive_loss(part).item() for part in parts) / len(logits)
        return {"loss": loss, **_accuracies(logits)}

    def locate(self, batch: PairBatch) -> str:
        """Name the images of a batch."""
        return f"pictures of training images {', '.join(map(str, batch.rows[:10]))}"

    def identity(self) -> dict[str, str]:
        """The checksum of the images."""
        return self.prepared.identity()


class ImageTextLearning(TaskKind):
    """Tell which caption belongs to which picture."""

    name = "image_text"
    unused = (*NO_TEXT, "batch.tokens", "training.label_smoothing")
    scores = ("text_to_image_at_1", "image_to_text_at_1")
    shares_batches = False  # each pair is told apart from the others of its batch
    after = "try `headwise evaluate {run}` and `headwise patches {run} --row 1 -o patches.png`"

    def check(self, config: Config) -> None:  # noqa: D102
        super().check(config)
        options, longest = config.image_text, CaptionWords().longest
        if options.source != DIGITS:
            raise ConfigError(
                f"image_text.source: expected {DIGITS}, of which captions are known, found {options.source}"
            )
        if options.canvas < 10:
            raise ConfigError(
                f"image_text.canvas: expected at least 10 pixels around 8, found {options.canvas}"
            )
        if config.model.max_length < longest:
            raise ConfigError(
                f"model.max_length: expected at least the {longest} words of a caption, found {config.model.max_length}"
            )

    def prepare(  # noqa: D102
        self, config: Config, directory: Path, *, expected: str | None, say: Callable[[str], None]
    ) -> PreparedImages:
        return prepare_images(config.image_text, directory, expected=expected, say=say)

    def build(self, config: Config, prepared: PreparedImages) -> ImageText:  # noqa: D102
        return _build(config)

    def task(self, config: Config, prepared: PreparedImages, model: ImageText) -> ImageTextTask:  # noqa: D102
        return ImageTextTask(config, prepared, model)

    def evaluate(self, request: EvaluationRequest) -> Evaluation:
        """Retrieval accuracy on pictures of the digits that were held out, with seen and with held-out pairs."""
        test, form = held_out(request), ImageFormat.load(request.run)
        model, words = (
            load_image_text(request.run, request.config, device=request.device, precision=request.precision),
            CaptionWords(),
        )
        record: dict[str, Any] = {}
        lines = [f"{'':<42} text→image      image→text", f"{'':<42}  @1      @5      @1      @5"]
        for name, which in (("seen", False), ("held_out", True)):
            gallery = make_gallery(test, form, request.config, TEST_SEED, held_out=which)
            scores = _accuracies(compare(model, gallery, words))
            record[name] = {**scores, "pictures": len(gallery)}
            title = "digit and place seen together in training" if name == "seen" else "never seen together"
            lines.append(
                f"{title:<42} {' '.join(f'{scores[key]:6.2f} ' for key in _KEYS)} of {len(gallery):,} pictures"
            )
        return Evaluation(record, lines)


@dataclass(frozen=True)
class Shown:
    """A picture, what is true of it, and the row of the digit it was drawn from."""

    picture: NDArray[np.float32]
    facts: Facts
    row: int


_KEYS = ("text_to_image_at_1", "text_to_image_at_5", "image_to_text_at_1", "image_to_text_at_5")


def make_gallery(
    digits: Labeled, form: ImageFormat, config: Config, seed: int, *, held_out: bool | None
) -> list[Shown]:
    """Draw pictures of some digits of which no two have the same facts, so that a caption fits one alone."""
    random = np.random.default_rng(seed)
    found: dict[Facts, Shown] = {}
    for row in range(max(_DRAWS, len(digits))):
        row %= len(digits)
        digit, label = _digit(digits, form, row)
        picture, facts = draw_picture(digit, label, config.image_text.canvas, random, held_out=held_out)
        found.setdefault(facts, Shown(picture, facts, row))
    return list(found.values())


@torch.no_grad()
def compare(model: ImageText, gallery: Sequence[Shown], words: CaptionWords) -> Tensor:
    """Logits (picture, caption) of all pictures and their captions, each in a phrasing in turn; float32, on the CPU."""
    captions = [shown.facts.caption(number % len(PHRASINGS)) for number, shown in enumerate(gallery)]
    pairs = make_pairs(
        [shown.picture for shown in gallery], captions, words, [shown.row for shown in gallery]
    )
    device = next(model.parameters()).device
    return model(*(part.to(device) for part in (pairs.images, pairs.tokens, pairs.mask))).float().cpu()


def make_pairs(
    pictures: Sequence[NDArray[np.float32]], captions: Sequence[str], words: CaptionWords, rows: list[int]
) -> PairBatch:
    """Bring pictures and captions into tensors; pixels go from -1 to 1."""
    ids = [torch.tensor(words.encode(caption)) for caption in captions]
    tokens = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=PAD)
    return PairBatch(torch.from_numpy(np.stack(pictures))[:, None] * 2 - 1, tokens, rows)


def load_image_text(
    run: Path, config: Config, *, device: str = "auto", precision: str = "float32"
) -> ImageText:
    """Load the trained model of a run, in evaluation mode; raises `CheckpointError` and `DeviceError`."""
    place = find_device(device)
    model = load_filled(lambda: _build(config), run / "model.safetensors")
    model.compute_dtype = find_precision(precision, place)
    return model.to(place).eval()


def _accuracies(logits: Tensor) -> dict[str, float]:
    by_image = logits.numpy()
    values = [accuracy_at(side, k) for side in (by_image.T, by_image) for k in (1, 5)]
    return dict(zip(_KEYS, values, strict=True))


def _digit(digits: Labeled, form: ImageFormat, row: int) -> tuple[NDArray[np.float32], int]:
    return digits.images[row, 0].astype(np.float32) / form.full, int(digits.labels[row])


def _build(config: Config) -> ImageText:
    options = config.image_text
    shape = (1, options.canvas, options.canvas)
    return ImageText(config.model, shape, options.patch, len(CaptionWords()), options.width)
