"""A toy parallel corpus for training within a test: each word has one translation, and the word order is reversed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import yaml

_WORDS = {
    **{"ba": "mo", "be": "mi", "di": "ka", "do": "ke", "fu": "la", "ga": "lo"},
    **{"ge": "nu", "hi": "pa", "ju": "ro", "ku": "sa", "ly": "te", "ny": "vi"},
}

# Options of `headwise train`. With these, nothing in training is random except the order of the batches:
NOTHING_RANDOM = ("model.dropout=0", "model.attention_dropout=0", "subwords.dropout=0")
# With these, the update is proportional to the gradient; Adam's first steps would turn a rounding error into a whole
# step.
PLAIN_STEPS = ("optimizer.epsilon=1", "optimizer.beta1=0", "optimizer.beta2=0")


def shape(d_model: int, d_ff: int, encoder_layers: int = 1) -> tuple[str, ...]:
    """Return the options of a small model."""
    layers = {"encoder_layers": encoder_layers, "decoder_layers": 1, "heads": 2}
    return tuple(f"model.{key}={value}" for key, value in {**layers, "d_model": d_model, "d_ff": d_ff}.items())


@dataclass(frozen=True)
class Toy:
    """The two text files of a toy corpus, and a configuration that trains on them in milliseconds per step."""

    source: Path
    target: Path
    config: Path

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """All sentence pairs."""
        sides = (path.read_text().splitlines() for path in (self.source, self.target))
        return list(zip(*sides, strict=True))


def toy_pairs(count: int, *, seed: int = 1, shortest: int = 2, longest: int = 6) -> list[tuple[str, str]]:
    """Return distinct sentence pairs in random order, determined by the seed."""
    draw = random.Random(seed)
    sentences: dict[tuple[str, ...], None] = {}
    while len(sentences) < count:
        sentences[tuple(draw.choices(list(_WORDS), k=draw.randint(shortest, longest)))] = None
    return [(" ".join(words), " ".join(_WORDS[word] for word in reversed(words))) for words in sentences]


def write_toy(folder: Path, pairs: list[tuple[str, str]]) -> Toy:
    """Write the pairs and a configuration with all kinds of dropout enabled."""
    toy = Toy(folder / "toy.src", folder / "toy.tgt", folder / "toy.yaml")
    toy.source.write_text("".join(f"{source}\n" for source, _ in pairs))
    toy.target.write_text("".join(f"{target}\n" for _, target in pairs))
    config = {
        "model": {
            **{"encoder_layers": 1, "decoder_layers": 1, "d_model": 16, "d_ff": 32, "heads": 2},
            **{"dropout": 0.1, "attention_dropout": 0.1, "max_length": 64},
        },
        "data": {"source": [str(toy.source)], "target": [str(toy.target)], "dev_pairs": 10, "workers": 1},
        "subwords": {"size": 48, "dropout": 0.1},
        "batch": {"tokens": 200, "accumulate": 2},
        "schedule": {"warmup": 20},
        "training": {
            **{"max_steps": 24, "validate_every": 8, "validate_share": 1.0, "checkpoint_every": 4},
            **{"average_last": 2, "log_every": 1, "threads": 1, "precision": "float32", "device": "cpu"},
            "products": "torch",  # not what a trial finds faster, which may differ between two trainings
        },
    }
    toy.config.write_text(yaml.safe_dump(config))
    return toy
