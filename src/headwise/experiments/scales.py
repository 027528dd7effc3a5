"""How large an experiment is: which text, which model is its base, and how long it trains.

`tiny` is the built-in miniature corpus and takes minutes; `multi30k` is 29,000 captions and takes hours on a laptop;
`wmt14` is the paper's own recipe (configs/wmt14).
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headwise.config import ModelConfig
from headwise.errors import ConfigError, DataError
from headwise.presets import TRAINING_DIFFERENCES, preset

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
class Scale:
    """Text, configurations and budgets of one scale.

    Attributes:
        systems: row of table 2 -> configuration file and what is changed in it.
        base: the configuration that table 3 and the claims vary, and what is changed in it.
        test_source, test_target: scored once, at the end.
        minutes: the training time that all systems get where time is what is equal.
        compounds: whether the paper's BLEU splits compounds at hyphens here.
        most_dropout: what P_drop is held below when a row scales it.
        sentence: subwords of a typical sentence, end symbol included; for estimates.
    """

    name: str
    about: str
    systems: Mapping[str, tuple[str, tuple[str, ...]]]
    base: tuple[str, tuple[str, ...]]
    test_source: Path
    test_target: Path
    minutes: float
    compounds: bool = False
    most_dropout: float = 0.5
    sentence: int = 16
    corpus: str = ""  # name for `headwise data get`
    more: Mapping[str, tuple[str, tuple[str, ...]]] = field(
        default_factory=dict
    )  # rows of table 2 of this scale only

    def prepare(self) -> None:
        """Make sure that the text is there; raises `DataError` saying how to get it."""
        if self.name == "tiny":
            _write_miniature(self.test_source.parent)
        for file in (self.test_source, self.test_target):
            if not file.exists():
                raise DataError(f"{file}: there is no such file; `headwise data get {self.corpus}` brings it")


def _write_miniature(folder: Path) -> None:
    from headwise.text.miniature import generate, write

    if not (folder / "test.de").exists():
        write(generate(train=20_000, dev=500, test=500, seed=1), folder)


def _small(name: str) -> tuple[str, tuple[str, ...]]:
    return (f"configs/multi30k-en-de{'' if name == 'transformer' else f'-{name}'}.yaml", ())


_TINY = "data/miniature"
_TINY_CHANGES = (
    f"data.source=[{_TINY}/train.en]",
    f"data.target=[{_TINY}/train.de]",
    f"data.dev_source={_TINY}/dev.en",
    f"data.dev_target={_TINY}/dev.de",
    "subwords.size=2000",
    "batch.tokens=1024",
)
_TINY_SYSTEMS = (
    *_TINY_CHANGES,
    "subwords.dropout=0.0",
    "model.dropout=0.1",
    "schedule.warmup=150",
    "training.max_steps=700",
    "training.validate_every=175",
    "training.checkpoint_every=50",
    "training.average_last=4",
)
_TINY_BASE = (
    *_TINY_CHANGES,
    "model.d_model=64",
    "model.d_ff=256",
    "model.dropout=0.1",
    "schedule.warmup=400",
    "training.max_steps=1000",
    "training.validate_every=250",
    "training.checkpoint_every=50",
)

_WMT = "configs/wmt14/en-de-base.yaml"
_RECURRENT = ("model.architecture=recurrent", "optimizer.clip_norm=1.0", "model.dropout=0.2")
_RATE = ("schedule.name=inverse_sqrt", "schedule.peak=0.001")
_TESTS = {"tiny": "test", "multi30k": "test_2016_flickr.lc.norm.tok", "wmt14": "newstest2014"}

# The baselines at 63 to 64 million parameters with 37,000 subwords, as base has 63; the tests hold them to that.
_WMT_SYSTEMS = {
    "sutskever": (
        *_RECURRENT,
        *_RATE,
        "model.encoder_layers=4",
        "model.decoder_layers=4",
        "model.recurrent={cell: lstm, size: 850, reading: backward, attention: none, readout: state}",
    ),
    "bahdanau": (
        *_RECURRENT,
        *_RATE,
        "model.encoder_layers=1",
        "model.decoder_layers=1",
        "model.recurrent={cell: gru, size: 1330, reading: both, attention: additive, readout: maxout}",
    ),
    "luong": (
        *_RECURRENT,
        *_RATE,
        "model.encoder_layers=2",
        "model.decoder_layers=2",
        "model.recurrent={cell: lstm, size: 850, reading: both, attention: multiplicative, query: current, "
        "readout: tanh, input_feeding: true}",
    ),
    "gnmt": (
        *_RECURRENT,
        *_RATE,
        "model.encoder_layers=8",
        "model.decoder_layers=8",
        "model.recurrent={cell: lstm, size: 500, reading: both-first, residual: true, attention: additive, "
        "readout: state}",
    ),
    "convs2s": (
        *_RATE,
        "model.architecture=convolutional",
        "optimizer.clip_norm=0.1",
        "model.dropout=0.2",
        "model.encoder_layers=15",
        "model.decoder_layers=15",
        "model.convolutional={channels: 450, kernel: 3}",
    ),
    "transformer": (),
}

SCALES = {
    scale.name: scale
    for scale in (
        Scale(
            name="tiny",
            about="the built-in miniature corpus, 20,000 pairs; minutes",
            systems={name: (_small(name)[0], _TINY_SYSTEMS) for name in ARCHITECTURES},
            base=("configs/multi30k-en-de-table3.yaml", _TINY_BASE),
            test_source=Path(_TINY) / "test.en",
            test_target=Path(_TINY) / "test.de",
            minutes=0.5,
            sentence=12,
            most_dropout=0.3,
        ),
        Scale(
            name="multi30k",
            about="Multi30k English→German, 29,000 pairs, lower-cased and tokenized; hours on two cores",
            systems={name: _small(name) for name in ARCHITECTURES},
            base=("configs/multi30k-en-de-table3.yaml", ()),
            test_source=Path("data/multi30k/test_2016_flickr.lc.norm.tok.en"),
            test_target=Path("data/multi30k/test_2016_flickr.lc.norm.tok.de"),
            minutes=30.0,
            most_dropout=0.4,
            corpus="multi30k",
        ),
        Scale(
            name="wmt14",
            about="the paper's recipe: 4.5 million pairs English→German (36 million English→French); days on 8 GPUs",
            systems={name: (_WMT, changes) for name, changes in _WMT_SYSTEMS.items()},
            base=(_WMT, ()),
            test_source=Path("data/wmt14-en-de/newstest2014.en"),
            test_target=Path("data/wmt14-en-de/newstest2014.de"),
            minutes=720.0,
            compounds=True,
            sentence=30,
            corpus="wmt14-en-de",
            more={
                "transformer-big": ("configs/wmt14/en-de-big.yaml", ()),
                "transformer-fr": ("configs/wmt14/en-fr-base.yaml", ()),
                "transformer-big-fr": ("configs/wmt14/en-fr-big.yaml", ()),
            },
        ),
    )
}


def find_scale(name: str) -> Scale:
    """Return the scale of that name; raises `ConfigError` naming the known ones."""
    if name in SCALES:
        return SCALES[name]
    near = difflib.get_close_matches(name, SCALES, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(SCALES)}"
    raise ConfigError(f"--scale: expected the name of a scale, found {name!r} ({hint})")


def scaled_changes(name: str, base: ModelConfig, steps: int, most_dropout: float) -> list[str]:
    """Return what row `name` of Table 3 changes in a base of another size: what the paper doubles is doubled.

    Label smoothing keeps its value and P_drop its ratio, up to `most_dropout`. Raises `ConfigError` where a ratio
    gives no whole number.
    """
    paper, row = preset("base"), preset(name)
    changes = []
    for key in ("encoder_layers", "decoder_layers", "d_model", "d_ff", "heads"):
        if getattr(row, key) != getattr(paper, key):
            value = _ratio(name, key, getattr(base, key), getattr(row, key), getattr(paper, key))
            changes.append(f"model.{key}={value}")
    for key, size in (("d_k", "key_size"), ("d_v", "value_size")):
        if getattr(row, key) is not None:
            value = _ratio(name, key, getattr(base, size), getattr(row, size), getattr(paper, size))
            changes.append(f"model.{key}={value}")
    if row.dropout != paper.dropout:
        changes.append(
            f"model.dropout={min(most_dropout, round(base.dropout * row.dropout / paper.dropout, 3)):g}"
        )
    if row.positions != paper.positions:
        changes.append(f"model.positions={row.positions}")
    training = TRAINING_DIFFERENCES.get(name, {})
    if "label_smoothing" in training:
        changes.append(f"training.label_smoothing={training['label_smoothing']}")
    if "max_steps" in training:
        changes.append(f"training.max_steps={steps * training['max_steps'] // 100_000}")
    return changes


def _ratio(name: str, key: str, ours: int, row: int, paper: int) -> int:
    value, rest = divmod(ours * row, paper)
    if rest or not value:
        raise ConfigError(
            f"{name}: expected a base whose {key} can be scaled by {row}/{paper} to a whole number, found {ours}"
        )
    return value
