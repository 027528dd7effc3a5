"""docs/beside.md: Headwise's lines run, and Transformers sees the same weights in the exported model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import headwise
from docs_walk import walk
from program import Call
from world import write_world


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
def test_the_page(here: Path, monkeypatch: pytest.MonkeyPatch, program: Call) -> None:
    pytest.importorskip("transformers")
    write_world(here, {"train": 300, "test": 1})
    # the shipped model in the place of a training of twenty minutes, without the norms that Marian has no place for
    monkeypatch.setattr(headwise, "train", _tiny)
    _, names = walk("beside.md", here, program)
    run, passed, written = names["run"], names["passed"], names["written"]
    pieces = names["tokenizer"].convert_ids_to_tokens(written[0, 1:9].tolist())  # after the start symbol
    numbers = {piece: i for i, piece in enumerate(run.translator.subwords.target_pieces(range(run.model.target_size)))}
    seen = run.explain("The old cat sleeps.", target=[numbers[piece] for piece in pieces])
    theirs = torch.stack(passed.cross_attentions)[:, 0, :, : len(pieces)].numpy()
    np.testing.assert_allclose(seen.weights, theirs, atol=1e-4)


def _tiny(source: str, target: str, **options: object) -> headwise.Run:
    """Train for four steps a model that Marian can express."""
    import importlib

    train = importlib.import_module("headwise.api.training").train
    model = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 16, "d_ff": 16, "heads": 2, "norm": "post"}
    keys = {"model": model, "training": {"products": "torch", "processes": 1}, "data": {"dev_pairs": 4}}
    return train(source, target, out=options["out"], max_steps=4, decoding={"beam": 2, "extra_length": 4}, **keys)
