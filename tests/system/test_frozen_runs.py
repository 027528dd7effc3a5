"""Runs, configurations and prepared data that earlier versions made still load, resume and translate as there.

`tests/frozen/freeze.sh` made them, each by the version's own command; `expected.json` has what that version computed
from them.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from headwise.config import Config
from headwise.nn.device import describe_hardware
from paths import ROOT
from program import Call, saved_step
from toy import Toy

FROZEN = ROOT / "tests" / "frozen"
RUNS = [
    (folder.name, name)
    for folder in sorted(FROZEN.glob("*/"))
    if (folder / "expected.json").exists()
    for name in ("translation", "recurrent", "language", "streamed")
    if (folder / name).exists()
]


@pytest.fixture
def expected(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Copy a version's runs, enter their folder, and return what that version computed."""
    version = request.param
    shutil.copytree(FROZEN / "text", tmp_path / "text")
    shutil.copytree(FROZEN / version, tmp_path / version)
    monkeypatch.chdir(tmp_path / version)
    return json.loads(Path("expected.json").read_text(encoding="utf-8"))


def digest(tensors: dict[str, torch.Tensor]) -> str:
    total = hashlib.sha256()
    for name in sorted(tensors):
        total.update(name.encode() + tensors[name].numpy().tobytes())
    return total.hexdigest()


@pytest.mark.parametrize(("expected", "run"), RUNS, indirect=["expected"])
def test_a_run_resumes_with_the_same_bits(expected: dict[str, Any], run: str, program: Call) -> None:
    outcome = program("train", "-c", f"{run}.yaml", "-o", run, "--max-steps", 820).ok()
    assert f"resuming from {run}/checkpoints/step-00000800" in outcome.err
    assert saved_step(Path(run)) == 820
    found = load_file(f"{run}/checkpoints/step-00000820/model.safetensors")
    norms = {name: tensor.norm().item() for name, tensor in found.items()}
    assert norms == pytest.approx(expected[run]["norms"], rel=1e-2, abs=1e-2)
    here = [torch.__version__, torch.backends.cpu.get_cpu_capability(), describe_hardware()["processor"]]
    if here == expected["made with"]:
        assert digest(found) == expected[run]["sha256"]


@pytest.mark.parametrize(("expected", "run"), [each for each in RUNS if each[1] != "language"], indirect=["expected"])
@pytest.mark.parametrize("beam", [1, 4])
def test_a_run_translates_the_same(expected: dict[str, Any], run: str, beam: int, program: Call) -> None:
    """Empty translations, which are no longer given by themselves, included."""
    outcome = program("translate", run, "../text/test.en", "--beam", beam, "-s", "allow_empty=true").ok()
    assert outcome.out.splitlines() == expected[run][f"beam {beam}"]


@pytest.mark.parametrize("expected", ["4b8056b"], indirect=True)
def test_a_prepared_corpus_is_trained_on(expected: dict[str, Any], program: Call, tmp_path: Path) -> None:
    program("train", "-c", "streamed.yaml", "-o", tmp_path / "new", "--max-steps", 2).ok()


@pytest.mark.parametrize(
    ("key", "value", "unused"),
    [
        ("training.lora.rank", 4, 0),
        ("training.freeze", ["encoder"], []),
        ("training.validate_beam", 4, 1),
        ("data.temperature", 5.0, 1.0),
        ("data.buffer", 1000, 262144),
    ],
)
def test_a_removed_key_is_dropped_unused_and_refused_by_training_alone(
    key: str, value: object, unused: object, trained: Path, toy: Toy, program: Call, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(trained, tmp_path / "run"))
    plain = Config.load(run / "config.yaml")
    assert Config.load(run / "config.yaml", [f"{key}={json.dumps(unused)}"]) == plain

    tree = plain.model_dump(mode="json")
    *sections, name = key.split(".")
    node = tree
    for section in sections:
        node = node.setdefault(section, {})
    node[name] = value
    (run / "config.yaml").write_text(json.dumps(tree))
    sentence = f"{key}: expected {unused}, as this key was removed (the tag before-less has it), found {value}"
    program("translate", run, toy.source, "-o", tmp_path / "out").ok()
    assert program("train", "-o", run, "--max-steps", 9).error == f"{run}/config.yaml: {sentence}"
    assert program("train", "-c", toy.config, "-o", run, "--max-steps", 9).error.endswith(sentence)
    given = ("train", "-c", toy.config, f"{key}={json.dumps(value)}", "-o", tmp_path / "new")
    assert program(*given).error == f"command line: {sentence}"
    assert not (tmp_path / "new").exists()
