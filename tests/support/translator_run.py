"""A translation run directory with random weights, for tests of the code around the model."""

from __future__ import annotations

import lzma
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from headwise.config import Config
from headwise.models.build import build_model
from headwise.text.reading.dictionary import FILE, Dictionary
from headwise.text.tokens.subwords import EOS, Subwords

ENGLISH = [
    "A man rides a brown horse along the beach.",
    "Two dogs are playing in the snow.",
    "The old woman reads a newspaper, and her cat sleeps.",
    "Children run through the water of a fountain!",
    "Is the small boy holding a red ball?",
    "A girl in a blue dress jumps over the rope.",
]
GERMAN = [
    "Ein Mann reitet auf einem braunen Pferd am Strand entlang.",
    "Zwei Hunde spielen im Schnee.",
    "Die alte Frau liest eine Zeitung, und ihre Katze schläft.",
    "Kinder rennen durch das Wasser eines Brunnens!",
    "Hält der kleine Junge einen roten Ball?",
    "Ein Mädchen in einem blauen Kleid springt über das Seil.",
]

# The attention modules of each part, by layer.
ATTENTION = {
    "encoder": "encoder.{}.self_attention",
    "decoder": "decoder.{}.self_attention",
    "cross": "decoder.{}.cross_attention",
}


def assert_same_weights(run: Path, other: Path) -> None:
    """Check that two runs have the same tensors, bit for bit."""
    before, after = (load_file(each / "model.safetensors") for each in (run, other))
    assert before.keys() == after.keys()
    assert [name for name in before if not torch.equal(before[name], after[name])] == []


def make_run(
    directory: Path,
    *,
    seed: int = 0,
    size: int = 150,
    joint: bool = True,
    joiners: bool = False,
    max_length: int = 40,
    end_bias: float = 0.0,
    text: Sequence[str] = (),
    **changes: Any,
) -> Path:
    """Write the files that inference needs: config.yaml, spm.model and model.safetensors; `changes` are model keys.

    `end_bias` is added to the logit of the end symbol. With `joiners`, subwords have them, and text has marks. `text`
    are further sentences that the subwords are learned from.
    """
    directory.mkdir(parents=True, exist_ok=True)
    model = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 16, "d_ff": 32, "heads": 2}
    model |= {"max_length": max_length, "share_embeddings": "none", **changes}
    decoding = {"beam": 3, "extra_length": 4}
    config = Config.from_tree(
        {"model": model, "subwords": {"size": size, "joint": joint, "joiners": joiners}, "decoding": decoding}
    )
    more = [*text, *([f'({line} "{line}")' for line in ENGLISH] if joiners else [])]
    subwords = Subwords.train(ENGLISH + more, GERMAN, config.subwords, directory)
    torch.manual_seed(seed)
    network = build_model(config.model, subwords.source_size, subwords.target_size)
    if end_bias:
        with torch.no_grad():
            network.get_parameter("logit_bias")[EOS] += end_bias
    save_file(dict(network.named_parameters()), directory / "model.safetensors")
    (directory / "config.yaml").write_text(config.to_yaml(), encoding="utf-8")
    return directory


def write_dictionary(folder: Path, *lines: str) -> Dictionary:
    """Write the dictionary of a run."""
    (folder / FILE).write_bytes(lzma.compress("".join(f"{line}\n" for line in lines).encode()))
    found = Dictionary.of_run(folder)
    assert found is not None
    return found
