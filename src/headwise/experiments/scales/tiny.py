"""Scale `tiny`: the built-in miniature corpus; every row takes minutes."""

from __future__ import annotations

from pathlib import Path

from headwise.experiments.harness.test_sets import TestSet
from headwise.experiments.scales.scale import ARCHITECTURES, Comparison, Recipe, Scale
from headwise.experiments.scales.systems import ALIKE, TREATMENT, system_file

MINIATURE = "data/miniature"
TINY_TEXT = (
    f"data.source=[{MINIATURE}/train.en]",
    f"data.target=[{MINIATURE}/train.de]",
    f"data.dev_source={MINIATURE}/dev.en",
    f"data.dev_target={MINIATURE}/dev.de",
    "subwords.size=2000",
    "batch.tokens=1024",
)

# 0.9 million parameters with 2,000 subwords; a test checks this for every system.
COMPARISON = Comparison(
    alike=(
        *TINY_TEXT,
        *ALIKE,
        "subwords.dropout=0.0",
        "model.d_model=128",
        "model.dropout=0.0",  # five epochs of generated text: no overfitting
        "schedule.warmup=150",
        "training.max_steps=1200",
        "training.validate_every=200",
        "training.checkpoint_every=50",
        "training.average_last=4",
    ),
    models={
        "sutskever": Recipe(system_file("sutskever"), ("model.recurrent.size=143",)),
        "bahdanau": Recipe(system_file("bahdanau"), ("model.recurrent.size=138",)),
        "luong": Recipe(system_file("luong"), ("model.recurrent.size=93",)),
        "gnmt": Recipe(
            system_file("gnmt"),
            ("model.encoder_layers=3", "model.decoder_layers=3", "model.recurrent.size=89"),
        ),
        "convs2s": Recipe(
            system_file("convs2s"),
            ("model.encoder_layers=4", "model.decoder_layers=3", "model.convolutional.channels=104"),
        ),
        "transformer": Recipe(
            system_file("transformer"),
            (
                "model.encoder_layers=2",
                "model.decoder_layers=2",
                "model.d_ff=256",
                "model.heads=4",
                "model.norm=pre",
            ),
        ),
    },
    rates=dict.fromkeys(ARCHITECTURES, 0.016) | {"transformer": 0.008},
    tried=(0.004, 0.008, 0.016),
    steps=300,
    treatment=f"the same 2,000 subwords, no dropout, {TREATMENT}",
)

_BASE = (
    *TINY_TEXT,
    "model.d_model=64",
    "model.d_ff=256",
    "schedule.peak=0.004",  # 53 BLEU; with 0.0072, by the paper's formula, 3 BLEU
    "schedule.warmup=300",
    "training.max_steps=1200",
    "training.validate_every=300",
    "training.checkpoint_every=300",
)


def _write_miniature(test: Path) -> None:
    """Generate the miniature corpus in the test set's folder, if the test set is missing."""
    from headwise.corpora.synthetic import generate

    if not test.exists():
        generate("miniature", test.parent)


SCALE = Scale(
    name="tiny",
    about="the built-in miniature corpus, 20,000 pairs; minutes",
    comparison=COMPARISON,
    base=Recipe("configs/multi30k-en-de-table3.yaml", _BASE),
    budget="1,200 steps of 1,024 tokens, five passes over the text: what learns faster is ahead",
    test=TestSet(Path(MINIATURE) / "test.en", Path(MINIATURE) / "test.de"),
    minutes=0.75,
    deep=("schedule.warmup=150", "training.max_steps=600"),
    sentence=12,
    before=_write_miniature,
)
