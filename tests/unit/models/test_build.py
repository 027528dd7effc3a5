"""Building models by configuration, and filling them from files that may be wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from headwise.config import Config, ModelConfig
from headwise.errors import CheckpointError, ConfigError
from headwise.models.build import build_model, load_model, load_weights
from headwise.models.counting import parameter_count

SHAPE = ModelConfig(encoder_layers=1, decoder_layers=1, d_model=8, d_ff=8, heads=2)


def test_an_unknown_architecture_is_named_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"model\.architecture: expected one of .*transformer.*found 'transfomer'"):
        build_model(SHAPE.model_copy(update={"architecture": "transfomer"}), 10, 10)


@pytest.mark.parametrize(
    ("architecture", "change", "key"),
    [
        ("transformer", {"recurrent": {"cell": "lstm"}}, "recurrent.cell"),
        ("recurrent", {"norm": "pre"}, "norm"),
        ("recurrent", {"convolutional": {"kernel": 5}}, "convolutional.kernel"),
        ("convolutional", {"positions": "none"}, "positions"),
        ("convolutional", {"attention": "reference"}, "attention"),
    ],
)
def test_what_an_architecture_has_no_use_for_is_refused(architecture: str, change: dict[str, object], key: str) -> None:
    config = ModelConfig.model_validate({**SHAPE.model_dump(), "architecture": architecture})
    assert parameter_count(build_model(config, 10, 10))
    changed = ModelConfig.model_validate({**config.model_dump(), **change})
    with pytest.raises(ConfigError, match=rf"model\.{re.escape(key)}: expected nothing here, .* {architecture} "):
        build_model(changed, 10, 10)


def test_sharing_all_embeddings_needs_one_vocabulary() -> None:
    with pytest.raises(ConfigError, match="found 10 source and 11 target subwords"):
        build_model(SHAPE, 10, 11)
    assert build_model(SHAPE.model_copy(update={"share_embeddings": "target"}), 10, 11).target_size == 11


def test_a_saved_model_is_loaded_to_the_last_bit(tmp_path: Path) -> None:
    config = Config(model=SHAPE)
    (tmp_path / "config.yaml").write_text(config.to_yaml())
    model = build_model(SHAPE, 10, 10)
    save_file(dict(model.named_parameters()), tmp_path / "model.safetensors")
    loaded = load_model(tmp_path, 10, 10)
    assert not loaded.training
    expected = model.state_dict()
    assert expected.keys() == loaded.state_dict().keys()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in loaded.state_dict().items())


def problem(path: Path) -> str:
    model = build_model(SHAPE, 10, 10)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(CheckpointError) as caught:
        load_weights(model, path)
    # A file that doesn't fit leaves the model as it was, not half filled.
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message


def test_files_that_do_not_fit_are_named_with_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    assert "there is no such file" in problem(path)

    tensors = {name: p.detach().clone() for name, p in build_model(SHAPE, 10, 10).named_parameters()}
    name = "encoder.0.feed_forward.w1.weight"
    save_file({k: v for k, v in tensors.items() if k != name}, path)
    assert f"expected tensor {name}, found none" in problem(path)

    save_file({**tensors, name: torch.zeros(8, 9)}, path)
    assert f"expected {name} of shape (8, 8), found (8, 9)" in problem(path)

    save_file({**tensors, "encoder.1.feed_forward.w1.weight": torch.zeros(1)}, path)
    assert "found tensor encoder.1.feed_forward.w1.weight, which this configuration has no place for" in problem(path)


@pytest.mark.parametrize("damage", ["truncated", "empty", "text", "folder"])
def test_damaged_files_are_named(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    if damage == "folder":
        path.mkdir()
    else:
        save_file(dict(build_model(SHAPE, 10, 10).named_parameters()), path)
        whole = path.read_bytes()
        path.write_bytes({"truncated": whole[:-7], "empty": b"", "text": b"step: 800\n" * 100}[damage])
    assert "expected a safetensors file, found a damaged one" in problem(path)
