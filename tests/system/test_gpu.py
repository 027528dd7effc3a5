"""What a GPU computes is what the processor does; run with `make test-gpu` on a machine that has one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

import headwise
from headwise.config import AttentionOptions
from headwise.corpora.built_in import read_built_in
from headwise.engine.translator import Translator
from headwise.nn.attention import attend, attention_kinds
from program import Call, assert_same_training, metrics, result, saved_step
from toy import NOTHING_RANDOM, PLAIN_STEPS, Toy

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")

KINDS = [kind.name for kind in attention_kinds()]
SMALL = AttentionOptions.model_validate(
    {"window": {"size": 3, "globals": 1}, "block_sparse": {"local": 2, "stride": 3}, "linear": {"chunk": 4}}
)
SENTENCES = ["The cat sleeps.", "The old dog sees a small bird in the garden.", "Where is the red house?"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-4), (torch.bfloat16, 0.1)])
def test_every_attention_kind_and_its_gradients(kind: str, causal: bool, dtype: torch.dtype, tolerance: float) -> None:
    torch.manual_seed(1)
    inputs = [torch.randn(3, 4, 37, 16, dtype=torch.float64) for _ in range(3)]
    mask = (torch.arange(37) < torch.tensor([[37], [20], [1]]))[:, None, None]
    gradient = torch.randn(3, 4, 37, 16, dtype=torch.float64)

    def computed(device: str, dtype: torch.dtype) -> list[Tensor]:
        q, k, v = (x.to(device, dtype).requires_grad_() for x in inputs)
        out = attend(q, k, v, mask=mask.to(device), kind=kind, causal=causal, options=SMALL)
        out.backward(gradient.to(device, dtype))
        return [x.double().cpu() for x in (out, *(x.grad for x in (q, k, v) if x.grad is not None))]

    for found, expected in zip(computed("cuda", dtype), computed("cpu", torch.float64), strict=True):
        assert_close(found, expected, rtol=tolerance, atol=tolerance)


class Operations(TorchDispatchMode):
    """Records the names of all operations."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(str(function))
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_a_sentence_is_attended_to_by_the_kernel_that_is_fast_for_it(causal: bool, masked: bool) -> None:
    """cuDNN's plans each new shape for longer than a step takes, and FlashAttention computes mostly empty blocks."""
    q, k, v = (torch.randn(8, 4, 33, 64, device="cuda", dtype=torch.bfloat16).requires_grad_() for _ in "qkv")
    mask = torch.ones(8, 1, 1, 33, dtype=torch.bool, device="cuda") if masked else None
    with Operations() as operations:
        attend(q, k, v, mask=mask, kind="fused", causal=causal).sum().backward()
    assert any("attention" in name for name in operations.names)
    assert not any("cudnn" in name or "flash" in name for name in operations.names)


VARIANTS: dict[str, tuple[str, ...]] = {
    "transformer": (),
    "muon": ("optimizer.name=muon",),
    "R-Drop": ("training.r_drop=1",),
    "pre-norm, rotary": ("model.norm=pre", "model.positions=rotary"),
    **{kind: (f"model.attention={kind}", "model.cross_attention=fused") for kind in KINDS if kind != "fused"},
    "recurrent": ("model.architecture=recurrent",),
    "convolutional": ("model.architecture=convolutional",),
}


def trained(program: Call, toy: Toy, run: Path, device: str, *changes: str) -> Path:
    program("train", "-c", toy.config, "-o", run, f"training.device={device}", *changes).ok()
    return run


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_training_computes_what_it_does_on_the_processor(
    variant: str, program: Call, toy: Toy, tmp_path: Path
) -> None:
    adam = () if variant == "muon" else PLAIN_STEPS
    changes = (*NOTHING_RANDOM, *adam, *VARIANTS[variant], "training.max_steps=8")
    runs = [trained(program, toy, tmp_path / device, device, *changes) for device in ("cuda", "cpu")]
    if variant == "muon":  # whose update of a small gradient is as large as any
        ours, expected = ([record["loss"] for record in metrics(run, "train")] for run in runs)
        assert ours == pytest.approx(expected, rel=1e-2)
    else:
        assert_same_training(*runs)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_resumed_training_goes_on_as_an_uninterrupted_one(
    precision: str, program: Call, toy: Toy, tmp_path: Path
) -> None:
    changes = (f"training.precision={precision}", "optimizer.name=muon")
    whole = trained(program, toy, tmp_path / "whole", "cuda", *changes)
    trained(program, toy, tmp_path / "parts", "cuda", *changes, "training.max_steps=12")
    assert saved_step(tmp_path / "parts") == 12
    parts = trained(program, toy, tmp_path / "parts", "cuda", *changes)
    (ours, expected) = (result(run)["state"]["progress"] for run in (parts, whole))
    assert (ours["step"], ours["positions"]) == (expected["step"], expected["positions"])
    losses = [[each["loss"] for each in metrics(run, "train") if each["step"] > 12] for run in (parts, whole)]
    assert losses[0] == pytest.approx(losses[1], rel=0.02)  # a GPU adds in any order, so not the same bits


def test_a_run_of_a_gpu_translates_on_the_processor(program: Call, toy: Toy, tmp_path: Path) -> None:
    changes = ("model.dropout=0", "schedule={name: constant, peak: 0.01}", "training.max_steps=60")
    run = trained(program, toy, tmp_path / "run", "cuda", "training.precision=bfloat16", *changes)
    native, gpu = (
        program("translate", run, toy.source, "--precision", "float32", *options)
        for options in (("--engine", "native"), ("--engine", "pytorch", "--device", "cuda"))
    )
    assert native.code == gpu.code == 0, native.err + gpu.err
    same = [a == b for a, b in zip(native.out.splitlines(), gpu.out.splitlines(), strict=True)]
    assert np.mean(same) > 0.9


@pytest.mark.parametrize("options", [{"beam": 1}, {"beam": 4, "n_best": 3}, {"beam": 8, "alpha": 1.0}])
def test_translations(options: dict[str, Any]) -> None:
    lines = read_built_in("miniature", "test.en")[:100]
    gpu, processor = (
        Translator.load("demo", engine="pytorch", device=device, precision="float32").translate(lines, **options)
        for device in ("cuda", "cpu")
    )
    same = [
        [output.text for output in ours.outputs] == [output.text for output in theirs.outputs]
        for ours, theirs in zip(gpu, processor, strict=True)
    ]
    assert np.mean(same) >= 0.99  # two outputs may be as good as each other, except for rounding
    for ours, theirs in zip(gpu, processor, strict=True):
        assert ours.outputs[0].score == pytest.approx(theirs.outputs[0].score, abs=1e-3)


def test_samples_are_repeated_with_their_seed() -> None:
    translator = Translator.load("demo", engine="pytorch", device="cuda")
    first, again = ([each.text for each in translator.translate(SENTENCES, sample=True, seed=3)] for _ in range(2))
    assert first == again


@pytest.mark.parametrize("sentence", SENTENCES)
def test_explanations(sentence: str) -> None:
    gpu, processor = (
        headwise.load("demo", device=device, engine="pytorch").explain(sentence) for device in ("cuda", "cpu")
    )
    assert gpu.output == processor.output
    assert gpu.alignment == processor.alignment
    for part, weights in gpu.attention.items():
        np.testing.assert_allclose(weights, processor.attention[part], atol=1e-4)
