"""The task of the example in docs/tasks.md trains, resumes and is evaluated like the shipped ones."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from pydantic import BaseModel
from safetensors.torch import load_file

from headwise import plugins
from headwise.cli.main import run as run_program
from headwise.config import Config
from headwise.config.keys import IMAGES, TEXTS, TRANSFORMERS, Models, Tasks
from headwise.errors import ConfigError
from headwise.models.build import ARCHITECTURES
from headwise.tasks import registry, run
from headwise.tasks.registry import TASKS, find_task
from headwise.tasks.run import train
from headwise.training.parallel.world import World
from paths import DOCS

DOCUMENT = DOCS / "tasks.md"
CONFIG = {
    "task": "echo",
    "model": {"encoder_layers": 1, "d_model": 16, "d_ff": 16, "heads": 2, "max_length": 8},
    "schedule": {"name": "constant", "peak": 0.01, "warmup": 1},
    "training": {
        "max_steps": 30, "validate_every": 10, "checkpoint_every": 10, "average_last": 1, "best_by": "accuracy",
        "device": "cpu", "precision": "float32",
    },
}  # fmt: skip


@pytest.fixture(autouse=True)
def echo(monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    module = types.ModuleType("echo_of_the_document")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(block, str(DOCUMENT), "exec"), module.__dict__)
    monkeypatch.setitem(registry.TASKS, "echo", f"{module.__name__}:Echo")
    monkeypatch.setattr(plugins, "_imported", [])  # what children of later tests would import


def test_the_documents_task_trains_resumes_and_is_evaluated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, short = (
        Config.from_tree(CONFIG),
        Config.from_tree(CONFIG).with_overrides(["training.max_steps=7"]),
    )
    whole = train(config, tmp_path / "whole", quiet=True)
    assert whole.scores["accuracy"] > 0.9
    train(short, tmp_path / "parts", quiet=True)
    train(config, tmp_path / "parts", quiet=True)
    resumed, uninterrupted = (load_file(tmp_path / name / "model.safetensors") for name in ("parts", "whole"))
    assert all(resumed[name].equal(uninterrupted[name]) for name in uninterrupted)
    assert run_program(["evaluate", str(tmp_path / "whole"), "--json"]) == 0
    assert '"kind": "averaged"' in capsys.readouterr().out
    assert run_program(["translate", str(tmp_path / "whole")]) == 2
    assert "expected a run of task translation, found one of echo" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("data.text=[a]", "data.text: expected nothing here, as task echo has no use for it"),
        ("training.best_by=bleu", "training.best_by: expected loss or accuracy for task echo, found 'bleu'"),
        ("language_model.window=3", "language_model: expected nothing here, as task echo has no use for it"),
        (
            "model.position_options.rotary.base=3",
            "model.position_options.rotary: expected model.positions=rotary beside it",
        ),
        ("task=ecko", r"task: expected a known task, found 'ecko' \(did you mean echo\?\)"),
        ("task=zzz", r"task: expected a known task, found 'zzz' \(known: translation, .*, echo\)"),
    ],
)
def test_what_a_task_has_no_use_for_is_refused(change: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=sentence):
        train(Config.from_tree(CONFIG).with_overrides([change]), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run" / "config.yaml").exists()


@pytest.mark.parametrize("name", [*TEXTS, *IMAGES])
def test_options_of_a_search_are_refused_where_nothing_is_searched_with_them(name: str) -> None:
    config = Config.from_tree({"task": name, "decoding": {"beam": 2}})
    with pytest.raises(ConfigError, match=rf"decoding\.beam: expected nothing here, as task {name} has no use for it"):
        find_task(name).check(config)


@pytest.mark.parametrize("option", ["optimizer.name=muon", "training.checkpoint_activations=true"])
def test_what_needs_transformer_layers_is_refused_before_text_is_prepared(option: str) -> None:
    task, config = find_task("translation"), Config().with_overrides([option])
    task.check(config)
    with pytest.raises(ConfigError, match="=transformer beside it, without which it has no effect"):
        task.check(config.with_overrides(["model.architecture=recurrent"]))


@pytest.mark.parametrize(
    ("option", "needed"),
    [
        ("model.attention_options.window.size=3", "model.attention=window"),
        ("model.attention_options.memory_efficient.chunk=3", "model.cross_attention=memory_efficient"),
        ("model.position_options.rotary.base=3", "model.positions=rotary"),
        ("training.fsdp.mixed_precision=true", "training.parallel=fsdp"),
    ],
)
def test_an_option_without_the_key_that_it_belongs_to_is_refused(option: str, needed: str) -> None:
    task, config = find_task("translation"), Config().with_overrides([option])
    with pytest.raises(ConfigError, match="beside it, without which it has no effect"):
        task.check(config)
    task.check(config.with_overrides([needed, *(["model.cross_attention=fused"] if "window" in needed else [])]))


def test_the_ranks_of_a_machine_divide_its_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(rank=3, size=4, local_rank=1, local_size=2)
    monkeypatch.setattr(World, "join", lambda device, shares_batches: world)
    config, before = Config.from_tree(CONFIG), torch.get_num_threads()
    try:
        for given, expected in ((7, 3), (1, 1)):
            joined, _ = run._join(
                config.with_overrides([f"training.threads={given}"]), find_task("echo"), torch.device("cpu")
            )
            assert (joined, torch.get_num_threads()) == (world, expected)
    finally:
        torch.set_num_threads(before)


def test_every_registered_task_calls_itself_so() -> None:
    assert "echo" in TASKS
    for name in TASKS:
        assert find_task(name).name == name


def test_the_tasks_and_models_that_keys_name_exist() -> None:
    def named(section: BaseModel) -> Iterator[tuple[type, str]]:
        for name, field in type(section).model_fields.items():
            users = [item for item in field.metadata if isinstance(item, (Tasks, Models))]
            yield from ((type(item), known) for item in users for known in item.names)
            if isinstance(value := getattr(section, name), BaseModel):
                yield from named(value)

    names = set(named(Config()))
    assert {name for kind, name in names if kind is Tasks} <= set(TASKS) - {"echo"}
    assert {name for kind, name in names if kind is Models} == {*ARCHITECTURES, *TRANSFORMERS}
