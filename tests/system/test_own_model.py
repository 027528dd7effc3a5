"""docs/own-model.md runs, and what it says holds: the walk of somebody who writes a loop and a model of their own."""

from __future__ import annotations

from pathlib import Path

import torch

import headwise
from docs_walk import walk
from program import Call
from world import write_world


def test_the_page(here: Path, program: Call) -> None:
    write_world(here, {"train": 300, "test": 4})
    one = 'training={"products": "torch", "processes": 1}'
    small = f'decoding={{"beam": 1, "extra_length": 2}}, {one}, data={{"dev_pairs": 4}}'
    changes = {
        "max_minutes=20)": f"max_steps=2, model={{'d_model': 16, 'heads': 2, 'd_ff': 16}}, {small})",
        "max_steps=300,": f"max_steps=4, {small},",
        "STEPS = 2000": "STEPS = 80",
    }
    printed, names = walk("own-model.md", here, program, changes)
    history = names["history"]
    assert sum(history[-5:]) < 0.8 * sum(history[:5])
    own, subwords = names["own"], names["subwords"]
    text = own.translate(["The old cat sleeps."])[0].text
    assert text in printed[-1].splitlines()
    assert text == subwords.decode_target(names["found"].tokens)
    torch.testing.assert_close(
        torch.from_numpy(names["recording"].weights).sum(-1), torch.ones(2, 4, len(names["found"].tokens) + 1)
    )
    assert names["run"].config.model.d_model == 64
    assert names["losses"] == []  # fewer steps than between two records
    for file in ("attention.html", "exported/ctranslate2/model.bin", "runs/own/model.safetensors"):
        assert (here / file).is_file()
    assert isinstance(names["scores"].metrics["bleu"].score, float)
    assert issubclass(type(names["translation"]), headwise.Translation)
