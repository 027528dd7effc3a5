"""Every reader of a model's file compares it with the configuration before it uses a tensor."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from headwise.cli.main import run as headwise
from headwise.config import Config, ModelConfig
from headwise.engine.loading import EngineOptions, open_run
from headwise.errors import CheckpointError, ConfigError
from headwise.models.build import build_decoder_only, build_encoder_only, load_filled
from headwise.models.vision import ImageClassifier
from headwise.native.library import find_library
from headwise.weights import Weights, quantized, saved, write_quantized
from translator_run import make_run

W1 = "encoder.0.feed_forward.w1.weight"  # (32, 16)
Edit = Callable[[dict[str, Tensor]], None]


def replaced(name: str, tensor: Tensor | None) -> Edit:
    def edit(tensors: dict[str, Tensor]) -> None:
        del tensors[name]
        if tensor is not None:
            tensors[name] = tensor

    return edit


# An error in a file of int8 matrices -> its message.
DAMAGES: dict[str, tuple[Edit, str]] = {
    "one scale": (
        replaced(f"{W1}.scale", torch.ones(1)),
        f"expected {W1}.scale of type F32 and shape (32,), one for each row of {W1}, found F32 and (1,)",
    ),
    "too many scales": (
        replaced(f"{W1}.scale", torch.ones(33)),
        f"expected {W1}.scale of type F32 and shape (32,), one for each row of {W1}, found F32 and (33,)",
    ),
    "a table of scales": (
        replaced(f"{W1}.scale", torch.ones(32, 16)),
        f"expected {W1}.scale of type F32 and shape (32,), one for each row of {W1}, found F32 and (32, 16)",
    ),
    "whole scales": (
        replaced(f"{W1}.scale", torch.ones(32, dtype=torch.int64)),
        f"expected {W1}.scale of type F32 and shape (32,), one for each row of {W1}, found I64 and (32,)",
    ),
    "no scales": (
        replaced(f"{W1}.scale", None),
        f"expected tensor {W1}.scale, found none of that name",
    ),
    "a vector of bytes": (
        replaced("encoder.0.feed_forward.w1.bias", torch.ones(32, dtype=torch.int8)),
        "expected encoder.0.feed_forward.w1.bias, which is in int8, to be a matrix, found shape (32,)",
    ),
    "other types": (
        replaced("encoder.0.feed_forward.w1.bias", torch.ones(32, dtype=torch.int32)),
        "expected encoder.0.feed_forward.w1.bias in int8 or one of F32, BF16, F16, F64, found I32",
    ),
    "another shape": (
        replaced(W1, torch.ones(32, 17, dtype=torch.int8)),
        f"expected {W1} of shape (32, 16), found (32, 17)",
    ),
    "a tensor too many": (
        lambda tensors: tensors.update(more=torch.ones(1)),
        "found tensor more, which this configuration has no place for",
    ),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs") / "de")


def damaged(run: Path, target: Path, edit: Edit, precision: str = "int8") -> Path:
    """Copy a run, with its model quantized to `precision` and edited."""
    target.mkdir()
    for file in run.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    path = target / "model.safetensors"
    write_quantized(run / "model.safetensors", path, precision)
    tensors = load_file(path)
    edit(tensors)
    save_file(tensors, path)
    return path


@pytest.mark.parametrize("engine", ["pytorch", "auto"])
@pytest.mark.parametrize(("edit", "sentence"), DAMAGES.values(), ids=DAMAGES.keys())
def test_tensors_that_do_not_fit_are_named_by_every_engine(
    run: Path, tmp_path: Path, edit: Edit, sentence: str, engine: str
) -> None:
    path = damaged(run, tmp_path / "run", edit)
    with pytest.raises(CheckpointError) as raised:
        open_run(path.parent, EngineOptions(engine, device="cpu"))
    assert str(raised.value) == f"{path}: {sentence}"


QUANTIZE = ("export", "--to", "run", "--precision", "int8")


def test_a_file_that_does_not_fit_is_not_quantized_again(run: Path, tmp_path: Path, capsys) -> None:
    edit, sentence = DAMAGES["one scale"]
    path = damaged(run, tmp_path / "run", edit)
    assert headwise([*QUANTIZE, str(path.parent), "-o", str(tmp_path / "new")]) == 2
    assert capsys.readouterr().err == f"headwise: error: {path}: {sentence}\n"
    assert not (tmp_path / "new").exists()


def small(**changes: Any) -> ModelConfig:
    return ModelConfig.model_validate({"d_model": 16, "d_ff": 32, "heads": 2, "max_length": 16, **changes})


OTHERS: dict[str, Callable[[ModelConfig], nn.Module]] = {
    "language model": lambda config: build_decoder_only(config, 20),
    "encoder": lambda config: build_encoder_only(config, 20),
    "images": lambda config: ImageClassifier(config, (1, 8, 8), 4, 3, class_token=True),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_models_of_every_task_are_compared_with_their_files(kind: str, tmp_path: Path) -> None:
    config, build = small(), OTHERS[kind]
    model = build(config)
    tensors = {name: parameter.detach() for name, parameter in model.named_parameters()}
    path, bytes_ = tmp_path / "model.safetensors", tmp_path / "int8.safetensors"
    save_file(tensors, path)
    write_quantized(path, bytes_, "int8")
    again = load_filled(lambda: build(config), path)
    assert all(torch.equal(value, tensors[name]) for name, value in again.named_parameters())
    load_filled(lambda: build(config), bytes_)
    stored = load_file(bytes_)
    scale = next(name for name in sorted(stored) if name.endswith(".scale"))
    save_file(stored | {scale: stored[scale][:1].clone()}, bytes_)
    with pytest.raises(CheckpointError, match=f"expected {scale} of type F32 and shape"):
        load_filled(lambda: build(config), bytes_)
    wide = small(d_ff=33)
    with pytest.raises(CheckpointError, match=r"of shape \(.*33.*\), found \("):
        load_filled(lambda: build(wide), path)


def test_what_is_written_is_what_the_format_s_own_library_and_pytorch_write(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    matrix = draw.normal(size=(5, 7)).astype(np.float32)
    matrix[0, :3] = 1 + 2**-8, 1 + 3 * 2**-8, -(1 + 2**-8)  # ties between two numbers in bfloat16
    named = {"b": matrix, "a": draw.normal(size=3).astype(np.float32)} | quantized("c", matrix, "int8")
    recipe = {"headwise": "{}"}
    assert saved(named, recipe) == safetensors.numpy.save(named, recipe)
    path = tmp_path / "bfloat16.safetensors"
    path.write_bytes(saved(quantized("b", matrix, "bfloat16")))
    assert torch.equal(load_file(path)["b"], torch.from_numpy(matrix).to(torch.bfloat16))


def test_memory_is_taken_only_for_what_the_file_holds(tmp_path: Path) -> None:
    """A configuration of four terabytes, and a file without these tensors."""
    path = tmp_path / "model.safetensors"
    save_file({name: p.detach() for name, p in build_decoder_only(small(), 20).named_parameters()}, path)
    huge = small(d_model=2**20, d_ff=2**20)
    with pytest.raises(CheckpointError, match=r"expected .* of shape \(.*1048576.*\), found"):
        load_filled(lambda: build_decoder_only(huge, 20), path)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"d_ff": 10**12}, "model.d_ff: input should be less than or equal to 1048576, found 1000000000000"),
        ({"encoder_layers": 10**9}, "model.encoder_layers: input should be less than or equal to 1000"),
        ({"heads": 4096, "d_k": 4096, "d_v": 1}, "heads times d_k must be at most 1048576, found 16777216"),
        ({"heads": 4096, "d_k": 1, "d_v": 4096}, "heads times d_v must be at most 1048576, found 16777216"),
        ({"max_length": 2**20}, "max_length times d_model must be at most 268435456"),
    ],
)
def test_sizes_that_no_memory_has_are_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Config.from_tree({"model": changes})
    assert sentence in str(raised.value)


def test_half_precision_of_others_is_read(run: Path, tmp_path: Path) -> None:
    def halve(tensors: dict[str, Tensor]) -> None:
        tensors.update({name: tensor.half() for name, tensor in tensors.items()})

    path = damaged(run, tmp_path / "run", halve, "float32")
    found = Weights(path).get(W1)
    assert found is not None
    assert found.dtype == np.float32


PLACES = (
    "source_embedding.weight",
    "output_projection.weight",
    "positions.table",
    "encoder.0.self_attention.query.bias",
    "encoder.0.feed_forward.w2.bias",
    "decoder.1.around_cross_attention.norm.weight",
    "decoder_norm.bias",
    "decoder.0.cross_attention.key.weight",
)


@pytest.fixture(scope="module")
def biased(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with every kind of parameter."""
    changes = {"positions": "learned", "attention_bias": True, "norm": "pre"}
    return make_run(tmp_path_factory.mktemp("runs") / "biased", **changes)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", PLACES)
def test_numbers_that_are_not_finite_are_named_by_every_engine_in_every_precision(
    biased: Path, tmp_path: Path, name: str, value: float
) -> None:
    def harm(tensors: dict[str, Tensor]) -> None:
        tensors[name].view(-1)[-1] = value

    path = damaged(biased, tmp_path / "run", harm, "bfloat16")
    for options in (
        EngineOptions("pytorch", device="cpu"),
        *(EngineOptions(precision=precision, device="cpu") for precision in (None, "float32", "int8")),
    ):
        if options.precision == "int8" and isinstance(find_library(), str):
            continue
        with pytest.raises(CheckpointError) as raised:
            open_run(path.parent, options)
        assert str(raised.value) == (
            f"{path}: {name}: expected finite numbers, found {value}; the parameters are damaged"
        )


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e38])
def test_scales_that_are_not_finite_or_make_others_so(run: Path, tmp_path: Path, value: float) -> None:
    def harm(tensors: dict[str, Tensor]) -> None:
        tensors[f"{W1}.scale"][3] = value

    path = damaged(run, tmp_path / "run", harm)
    for engine in ("pytorch", "auto"):
        with pytest.raises(CheckpointError, match=f"{path}: {W1}: expected finite numbers, found "):
            open_run(path.parent, EngineOptions(engine, device="cpu"))


@pytest.mark.parametrize("kind", OTHERS)
def test_numbers_that_are_not_finite_are_named_for_every_task(kind: str, tmp_path: Path) -> None:
    path, config = tmp_path / "model.safetensors", small()
    tensors = {name: parameter.detach() for name, parameter in OTHERS[kind](config).named_parameters()}
    name = next(name for name in tensors if name.endswith("bias"))
    tensors[name][0] = math.nan
    save_file(tensors, path)
    with pytest.raises(CheckpointError, match=f"{path}: {name}: expected finite numbers, found nan"):
        load_filled(lambda: OTHERS[kind](config), path)


IMPORTED = """
import sys
from pathlib import Path
from headwise.config import ModelConfig
from headwise.models.build import build_model, fitting
config = ModelConfig(d_model=16, d_ff=32, heads=2, architecture=sys.argv[2])
try:
    fitting(lambda: build_model(config, 20, 20), Path(sys.argv[1]))
except ValueError as error:
    print(error)
print(sorted({"sympy"} & set(sys.modules)))
"""


@pytest.mark.parametrize("architecture", ["transformer", "recurrent"])
def test_comparing_takes_no_compiler(architecture: str, tmp_path: Path) -> None:
    """PyTorch imports it for the meta device as a context, which takes seconds."""
    path = tmp_path / "model.safetensors"
    save_file({"another": torch.ones(1)}, path)
    command = [sys.executable, "-c", IMPORTED, str(path), architecture]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    assert ended.stdout.splitlines()[-1] == "[]"
    assert "expected tensor" in ended.stdout


@pytest.mark.parametrize("name", ["a\nb", "x" * 301])
def test_a_name_that_is_no_line_is_shortened_and_quoted(tmp_path: Path, name: str) -> None:
    save_file({name: torch.ones(2)}, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"expected names of tensors in print, found '") as caught:
        Weights(tmp_path / "model.safetensors")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300
