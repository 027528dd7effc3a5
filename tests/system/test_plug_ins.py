"""Parts of one's own, in modules that `--import` names: docs/plug-ins.md, in two processes."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import headwise
from docs_walk import walk
from headwise import plugins
from headwise.config import Config
from headwise.errors import ConfigError
from headwise.evaluation.metrics import METRICS
from headwise.models import build
from headwise.models.transformer import Transformer
from headwise.nn import attention, positions
from headwise.processes import Child
from headwise.tasks.registry import TASKS
from paths import DOCS
from program import Call
from world import write_world

MODULE = "cosine_attention"


@pytest.fixture
def clean(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory, and registries that are put back."""
    monkeypatch.setattr(plugins, "_imported", [])
    monkeypatch.setattr(attention, "_KINDS", dict(attention._KINDS))
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    return here


@pytest.mark.slow
def test_the_page(clean: Path, program: Call) -> None:
    write_world(clean, {"train": 300, "test": 20})
    small = "model.encoder_layers=1 model.decoder_layers=1 model.d_model=16 model.d_ff=16 model.max_length=24"
    cheap = "batch.tokens=512 data.dev_pairs=4 decoding.beam=1 decoding.extra_length=0 training.products=torch"
    changes = {"--max-steps 200": f"--max-steps 2 {small} {cheap}"}
    printed, names = walk("plug-ins.md", clean, program, changes)
    run = names["run"]
    assert (run.config.imports, run.config.model.attention) == ([MODULE], "cosine")
    assert "2 processes" in printed[0]
    assert printed[1].splitlines()[-1] == run.translate(["The old cat sleeps."])[0].text
    # without the option, in a process that hasn't imported the module
    del sys.modules[MODULE]
    sentence = (
        f"runs/cosine/config.yaml: imports: expected --import {MODULE}, as its parts are used, found it not imported"
    )
    assert program("translate", "runs/cosine").error == sentence
    assert program("export", "runs/cosine", "--to=run", "--average=1", "-o", "copy").error == sentence
    with pytest.raises(ConfigError, match=r"expected imports=\['cosine_attention'\], as its parts"):
        headwise.load("runs/cosine")
    assert f"headwise: error: {sentence}" in (DOCS / "plug-ins.md").read_text(encoding="utf-8")


def test_a_module_is_found_by_its_name_alone(clean: Path, program: Call) -> None:
    for name, problem in (
        ("no_such_module", "or no_such_module.py in the working directory, found neither"),
        ("headwise.none", "expected a module on Python's path, found none for headwise.none"),
        ("./cosine.py", "expected the name of a Python module, such as my_attention, found './cosine.py'"),
    ):
        error = program("translate", "--import", name, "demo").error
        assert error.startswith("--import: ")
        assert error.endswith(problem)
    (clean / "broken.py").write_text("import no_such_package\n")
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        plugins.import_modules(["broken"])
    assert "broken" not in sys.modules


def test_an_architecture_positions_and_a_task_of_ones_own(clean: Path, program: Call) -> None:
    """The task is that of docs/tasks.md."""
    (clean / "parts.py").write_text(
        "import torch\n"
        "from headwise.models.build import ARCHITECTURES\n"
        "from headwise.models.transformer import Transformer\n"
        "from headwise.nn import register_table\n"
        "@register_table('zeros')\n"
        "def zeros(length, d_model):\n    return torch.zeros(length, d_model)\n"
        "class Mine(Transformer):\n    pass\n"
        "ARCHITECTURES['mine'] = Mine\n"
    )
    (block,) = re.findall(r"```python\n(.*?)```", (DOCS / "tasks.md").read_text("utf-8"), re.DOTALL)
    registered = "from headwise.tasks.registry import TASKS\nTASKS['echo'] = f'{__name__}:Echo'\n"
    (clean / "echo_task.py").write_text(block + registered, "utf-8")
    (clean / "echo.yaml").write_text(
        "task: echo\nmodel: {encoder_layers: 1, d_model: 16, d_ff: 16, heads: 2}\ntraining: {processes: 2}\n"
    )
    write_world(clean, {"train": 200})
    files = ("--source", "train.en", "--target", "train.de")
    model = [f"model.{key}" for key in ("architecture=mine", "positions=zeros", "heads=2", "d_model=16", "d_ff=16")]
    keys = ("training.processes=1", "training.products=torch", "data.dev_pairs=4", "decoding.beam=1")
    try:
        for module, *what in (("parts", *files, *model, *keys), ("echo_task", "-c", "echo.yaml")):
            program("train", "--import", module, *what, "--max-steps=1", "-o", f"runs/{module}").ok()
            assert Config.load(Path("runs", module, "config.yaml")).imports == [module]
        assert len(headwise.load("runs/parts").translate(["The old cat sleeps."])) == 1
        program("evaluate", "runs/echo_task").ok()
    finally:
        for name, registry in (
            ("mine", build.ARCHITECTURES),
            ("zeros", positions._ENCODINGS),
            ("echo", TASKS),
        ):
            registry.pop(name, None)
        for module in ("parts", "echo_task"):
            sys.modules.pop(module, None)


_MEAN = """
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headwise.models.base import Memory, Seq2Seq, State
from headwise.models.build import ARCHITECTURES


@dataclass
class Hidden(State):
    hidden: Tensor
    beams: int

    def reorder(self, rows):
        return Hidden(self.hidden[rows], self.beams)

    def keep(self, sentences):
        return Hidden(self.hidden[self.rows_of(sentences)], self.beams)


class Mean(Seq2Seq):
    def __init__(self, config, source_size, target_size):
        super().__init__()
        self.source_size, self.target_size, self.max_length = source_size, target_size, config.max_length
        self.read, self.written = (nn.Embedding(size, config.d_model) for size in (source_size, target_size))
        self.network = nn.GRU(config.d_model, config.d_model, batch_first=True)
        ramp = torch.ones(config.d_model) * torch.linspace(0, 1, config.d_model)
        self.register_buffer("ramp", ramp / ramp.sum().item())

    @property
    def output_weight(self):
        return self.written.weight

    def encode(self, source, mask):
        mean = (self.read(source) * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        return Memory((mean + self.ramp)[:, None], mask[:, :1])

    def start(self, memory, beams=1):
        return Hidden(memory.states[:, 0].repeat_interleave(beams, 0), beams)

    def step(self, tokens, state):
        output, hidden = self.network(self.written(tokens)[:, None], state.hidden[None])
        return self.log_probabilities(output[:, 0]), Hidden(hidden[0], state.beams)

    def decode(self, memory, target_input):
        return self.network(self.written(target_input), memory.states[None, :, 0].contiguous())[0]


ARCHITECTURES["mean"] = Mean
"""


def test_an_architecture_without_layers_of_headwise_is_looked_into_as_far_as_it_can_be(
    clean: Path, program: Call
) -> None:
    (clean / "mean.py").write_text(_MEAN)
    write_world(clean, {"train": 200})
    small = ("model.architecture=mean", "model.d_model=16", "model.max_length=24", "data.dev_pairs=4")
    cheap = ("training.processes=1", "training.products=torch", "decoding.beam=1")
    imports = ("--import", "mean")
    files = ("--source", "train.en", "--target", "train.de")
    try:
        program("train", *imports, *files, *small, *cheap, "--max-steps=2", "-o", "runs/mean").ok()
        run = headwise.load("runs/mean")
        translation = run.translate(["The old cat sleeps."])[0]
        seen = run.explain("The old cat sleeps.")
        assert (seen.output, seen.attention) == (translation.text, {})
        assert seen.trace.hypotheses[0].log_probability == pytest.approx(translation.outputs[0].log_probability)
        for command in (("explain", "--text=A cat.", "--recurrence"), ("analyze", "heads", "--miniature", "--limit=2")):
            words = [*command[:2], "runs/mean", *command[2:]] if command[0] == "analyze" else [*command, "runs/mean"]
            assert "expected a model with source embeddings, found another" in program(*words, *imports).error
    finally:
        build.ARCHITECTURES.pop("mean", None)
        sys.modules.pop("mean", None)


def test_a_metric_of_ones_own_is_scored(clean: Path, program: Call) -> None:
    (clean / "char_metric.py").write_text(
        "from headwise.evaluation.metrics import METRICS, Bleu\n"
        "METRICS['char'] = lambda tokenize: Bleu('char', name='char', title='BLEU of characters')\n"
    )
    write_world(clean, {"train": 1, "test": 3})
    sides = "--source", "test.en", "--reference", "test.de"
    try:
        scores = program("evaluate", "--import", "char_metric", "demo", *sides, "--json").json
    finally:
        METRICS.pop("char", None)
        sys.modules.pop("char_metric", None)
    assert "tok:char" in scores["char"]["signature"]
    assert scores["char"]["score"] >= scores["bleu"]["score"]


def test_children_import_what_their_parent_has_imported(clean: Path) -> None:
    (clean / "counted.py").write_text(
        "from headwise.evaluation.metrics import METRICS\n"
        "METRICS['one'] = METRICS['bleu']\n"
        "def known(values):\n    yield sorted(METRICS)\n"
    )
    before = dict(METRICS)
    try:
        plugins.import_modules(["counted"])
        child = Child("counted:known")
        try:
            assert "one" in child.receive()
        finally:
            child.end()
    finally:
        METRICS.clear()
        METRICS.update(before)
        del sys.modules["counted"]


def test_a_part_of_the_script_itself_trains_in_one_process(clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Mine(Transformer):
        """A Transformer under another name."""

    Mine.__module__ = "__main__"
    monkeypatch.setitem(build.ARCHITECTURES, "mine", Mine)
    write_world(clean, {"train": 200})
    model = {"architecture": "mine", "encoder_layers": 1, "decoder_layers": 1, "d_model": 16, "d_ff": 16}
    run = headwise.train("train.en", "train.de", out="runs/mine", max_steps=1, model=model)
    assert run.config.training.processes == 1
    assert run.config.imports == []
    assert len(run.translate(["The old cat sleeps."])) == 1
    with pytest.raises(ConfigError, match="registered by the script itself"):
        headwise.train("train.en", "train.de", out="runs/two", training={"processes": 2}, model=model)
