"""The systems that table 2 compares: what each scale gives to all of them alike, and what is each one's own.

A system's own are its model, at the Transformer's number of parameters, and its learning rate. Everything else is
written out here for all of them at once, so that a configuration that is tuned for itself lends the comparison
nothing. Where a scale is small enough, `headwise reproduce tuning` trains every system with the same learning rates
for the same steps; the rate taken is the one with the lowest development perplexity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# Name of an architecture's row -> how a table calls it.
ARCHITECTURES = {
    "sutskever": "recurrent, no attention (Sutskever)",
    "bahdanau": "recurrent, additive attention (Bahdanau)",
    "luong": "recurrent, multiplicative attention (Luong)",
    "gnmt": "recurrent, residual stack (GNMT)",
    "convs2s": "convolutional (ConvS2S)",
    "transformer": "Transformer",
}


@dataclass(frozen=True)
class Comparison:
    """One scale's contest.

    Attributes:
        alike: what every system is given.
        models: system -> its configuration file, and what its model is changed in.
        rates: system -> peak of its learning rate; none where the configuration's own schedule stays.
        tried: the rates that `tuning` trains each system with, and for how many steps.
        treatment: `alike` in words, for the report.
    """

    alike: tuple[str, ...]
    models: Mapping[str, tuple[str, tuple[str, ...]]]
    rates: Mapping[str, float]
    tried: tuple[float, ...]
    steps: int
    treatment: str

    def systems(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        """Return each system's file and all that is changed in it."""
        return {name: self.system(name, self.rates.get(name)) for name in self.models}

    def system(self, name: str, rate: float | None) -> tuple[str, tuple[str, ...]]:
        """Return a system's file and changes with another rate."""
        file, model = self.models[name]
        return file, (*self.alike, *model, *([] if rate is None else [f"schedule.peak={rate:g}"]))


def _file(name: str) -> str:
    return f"configs/multi30k-en-de{'' if name == 'transformer' else f'-{name}'}.yaml"


MINIATURE = "data/miniature"
TINY_TEXT = (
    f"data.source=[{MINIATURE}/train.en]",
    f"data.target=[{MINIATURE}/train.de]",
    f"data.dev_source={MINIATURE}/dev.en",
    f"data.dev_target={MINIATURE}/dev.de",
    "subwords.size=2000",
    "batch.tokens=1024",
)
_ALIKE = (
    "optimizer.clip_norm=1.0",
    "schedule.name=linear",
    "training.label_smoothing=0.1",
    "training.r_drop=0.0",
    "training.best_by=bleu",
    "decoding.beam=4",
    "decoding.alpha=0.6",
)
_TREATMENT = (
    "label smoothing 0.1, no R-Drop, gradients clipped to norm 1, a rate that rises and falls linearly to zero, beam 4 "
    "with α = 0.6"
)

# 0.9 million parameters with 2,000 subwords; the tests hold all of them to that.
TINY = Comparison(
    alike=(
        *TINY_TEXT,
        *_ALIKE,
        "subwords.dropout=0.0",
        "model.d_model=128",
        "model.dropout=0.0",  # five passes over text that is drawn: there is nothing to overfit
        "schedule.warmup=150",
        "training.max_steps=1200",
        "training.validate_every=200",
        "training.checkpoint_every=50",
        "training.average_last=4",
    ),
    models={
        "sutskever": (_file("sutskever"), ("model.recurrent.size=143",)),
        "bahdanau": (_file("bahdanau"), ("model.recurrent.size=138",)),
        "luong": (_file("luong"), ("model.recurrent.size=93",)),
        "gnmt": (
            _file("gnmt"),
            ("model.encoder_layers=3", "model.decoder_layers=3", "model.recurrent.size=89"),
        ),
        "convs2s": (
            _file("convs2s"),
            ("model.encoder_layers=4", "model.decoder_layers=3", "model.convolutional.channels=104"),
        ),
        "transformer": (
            _file("transformer"),
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
    treatment=f"the same 2,000 subwords, no dropout, {_TREATMENT}",
)

# 2.6 million parameters with 6,000 subwords.
MULTI30K = Comparison(
    alike=(
        *_ALIKE,
        "subwords.size=6000",
        "subwords.dropout=0.0",  # BPE-dropout, of 2020, is in none of the systems' papers, and slow to learn from
        "model.dropout=0.3",
        "batch.tokens=4096",
        "schedule.warmup=400",
        "training.max_steps=4000",
        "training.validate_every=500",
        "training.checkpoint_every=100",
        "training.average_last=10",
    ),
    models={name: (_file(name), ()) for name in ARCHITECTURES},
    rates=dict.fromkeys(ARCHITECTURES, 0.016) | {"transformer": 0.008},
    tried=(0.002, 0.004, 0.008, 0.016),
    steps=400,
    treatment=f"the same 6,000 subwords, dropout 0.3, {_TREATMENT}",
)

WMT14_FILE = "configs/wmt14/en-de-base.yaml"
_RECURRENT = ("model.architecture=recurrent", "optimizer.clip_norm=1.0", "model.dropout=0.2")
_RATE = ("schedule.name=inverse_sqrt",)

# 63 to 64 million parameters with 37,000 subwords, as base has 63.
WMT14 = Comparison(
    alike=(),
    models={
        "sutskever": (
            WMT14_FILE,
            (
                *_RECURRENT,
                *_RATE,
                "model.encoder_layers=4",
                "model.decoder_layers=4",
                "model.recurrent={cell: lstm, size: 850, reading: backward, attention: none, readout: state}",
            ),
        ),
        "bahdanau": (
            WMT14_FILE,
            (
                *_RECURRENT,
                *_RATE,
                "model.encoder_layers=1",
                "model.decoder_layers=1",
                "model.recurrent={cell: gru, size: 1330, reading: both, attention: additive, readout: maxout}",
            ),
        ),
        "luong": (
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
        "gnmt": (
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
        "convs2s": (
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
        "transformer": (WMT14_FILE, ()),
    },
    rates={name: 0.001 for name in ARCHITECTURES if name != "transformer"},
    tried=(),
    steps=0,
    treatment=(
        "the same 37,000 subwords, batches, steps, label smoothing and search; dropout, clipping and rate as each "
        "system's authors and their successors report them, not tuned here"
    ),
)
