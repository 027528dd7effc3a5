"""Scale `multi30k`: Multi30k, 29,000 captions; all experiments take hours on a laptop."""

from __future__ import annotations

from pathlib import Path

from headwise.experiments.harness.test_sets import TestSet
from headwise.experiments.scales.scale import ARCHITECTURES, Comparison, Recipe, Scale
from headwise.experiments.scales.systems import ALIKE, TREATMENT, system_file

# 2.6 million parameters with 6,000 subwords.
COMPARISON = Comparison(
    alike=(
        *ALIKE,
        "subwords.size=6000",
        "subwords.dropout=0.0",  # BPE-dropout (2020) is in none of the systems' papers, and slows training
        "model.dropout=0.3",
        "batch.tokens=4096",
        "schedule.warmup=400",
        "training.max_steps=4000",
        "training.validate_every=500",
        "training.checkpoint_every=100",
        "training.average_last=10",
    ),
    models={name: Recipe(system_file(name)) for name in ARCHITECTURES},
    rates=dict.fromkeys(ARCHITECTURES, 0.016) | {"transformer": 0.008},
    tried=(0.002, 0.004, 0.008, 0.016),
    steps=400,
    treatment=f"the same 6,000 subwords, dropout 0.3, {TREATMENT}",
)

SCALE = Scale(
    name="multi30k",
    about="Multi30k English→German, 29,000 pairs, lower-cased and tokenized; hours on two cores",
    comparison=COMPARISON,
    base=Recipe("configs/multi30k-en-de-table3.yaml"),
    budget="4,000 steps of 2,048 tokens, sixteen passes over the text",
    test=TestSet(
        Path("data/multi30k/test_2016_flickr.lc.norm.tok.en"),
        Path("data/multi30k/test_2016_flickr.lc.norm.tok.de"),
        corpus="multi30k",
    ),
    minutes=6.0,
    # With 0.0021 its attention collapses: the first layers attend to one position each, the encoder's last layer
    # uniformly; 15 development BLEU after 3,000 steps and 17 after 12,000. With half that rate, 24 and 38.
    rates={"big": 0.00106},
    timed=("training.average_last=3",),  # averages a quarter of the steps, as at equal parameters
)
