"""Scale `wmt14`: WMT 2014, the paper's recipe (configs/wmt14); days on eight GPUs."""

from __future__ import annotations

from pathlib import Path

from headwise.experiments.harness.test_sets import TestSet
from headwise.experiments.scales.scale import ARCHITECTURES, Comparison, Recipe, Scale

WMT14_FILE = "configs/wmt14/en-de-base.yaml"
_RECURRENT = ("model.architecture=recurrent", "optimizer.clip_norm=1.0", "model.dropout=0.2")
_RATE = ("schedule.name=inverse_sqrt",)

# 63 to 64 million parameters with 37,000 subwords; base has 63.
COMPARISON = Comparison(
    alike=(),
    models={
        "sutskever": Recipe(
            WMT14_FILE,
            (
                *_RECURRENT,
                *_RATE,
                "model.encoder_layers=4",
                "model.decoder_layers=4",
                "model.recurrent={cell: lstm, size: 850, reading: backward, attention: none, readout: state}",
            ),
        ),
        "bahdanau": Recipe(
            WMT14_FILE,
            (
                *_RECURRENT,
                *_RATE,
                "model.encoder_layers=1",
                "model.decoder_layers=1",
                "model.recurrent={cell: gru, size: 1330, reading: both, attention: additive, readout: maxout}",
            ),
        ),
        "luong": Recipe(
            WMT14_FILE,
            (
                *_RECURRENT,
                *_RATE,
                "model.encoder_layers=2",
                "model.decoder_layers=2",
                "model.recurrent={cell: lstm, size: 850, reading: both, attention: multiplicative, query: current, "
                "readout: tanh, input_feeding: true}",
            ),
        ),
        "gnmt": Recipe(
            WMT14_FILE,
            (
                *_RECURRENT,
                *_RATE,
                "model.encoder_layers=8",
                "model.decoder_layers=8",
                "model.recurrent={cell: lstm, size: 500, reading: both-first, residual: true, attention: additive, "
                "readout: state}",
            ),
        ),
        "convs2s": Recipe(
            WMT14_FILE,
            (
                *_RATE,
                "model.architecture=convolutional",
                "optimizer.clip_norm=0.1",
                "model.dropout=0.2",
                "model.encoder_layers=15",
                "model.decoder_layers=15",
                "model.convolutional={channels: 450, kernel: 3}",
            ),
        ),
        "transformer": Recipe(WMT14_FILE),
    },
    rates={name: 0.001 for name in ARCHITECTURES if name != "transformer"},
    tried=(),
    steps=0,
    treatment=(
        "the same 37,000 subwords, batches, steps, label smoothing and search; dropout, clipping and rate as each "
        "system's authors and their successors report them, not tuned here"
    ),
)

FRENCH = "en-fr"  # name of the other WMT 2014 test set

SCALE = Scale(
    name="wmt14",
    about="the paper's recipe: 4.5 million pairs English→German (36 million English→French); days on 8 GPUs",
    comparison=COMPARISON,
    base=Recipe(WMT14_FILE),
    budget="100,000 steps of 25,000 tokens, as in the paper",
    test=TestSet(
        Path("data/wmt14-en-de/newstest2014.full.en"),
        Path("data/wmt14-en-de/newstest2014.full.de"),
        form="stanford",
        compounds=True,
        corpus="wmt14-en-de",
    ),
    other_tests={
        FRENCH: TestSet(
            Path("data/wmt14-en-fr/newstest2014.full.en"),
            Path("data/wmt14-en-fr/newstest2014.full.fr"),
            languages=("en", "fr"),
            form="plain",
            corpus="wmt14-en-fr",
        )
    },
    minutes=720.0,
    sentence=30,
    more={
        "transformer-big": Recipe("configs/wmt14/en-de-big.yaml"),
        "transformer-fr": Recipe("configs/wmt14/en-fr-base.yaml", test=FRENCH),
        "transformer-big-fr": Recipe("configs/wmt14/en-fr-big.yaml", test=FRENCH),
    },
)
