"""`headwise data prepare` and training on its shards, killed and resumed."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from program import Call, finish, result, saved_step, snapshot, start, wait_for
from toy import shape, toy_pairs, write_toy

pytestmark = pytest.mark.usefixtures("forked")

MODEL = (
    *shape(16, 32),
    *("model.dropout=0.1", "batch.tokens=200", "schedule.warmup=5"),
    *("training.checkpoint_every=2", "training.validate_every=6", "training.average_last=1"),
    *("training.log_every=1", "training.threads=1", "training.precision=float32", "training.products=torch"),
)


def prepare(folder: Path) -> tuple[object, ...]:
    toy = write_toy(folder, toy_pairs(300, seed=5))
    command = ("data", "prepare", "--source", toy.source, "--target", toy.target, "--near", "--subwords", 48)
    return (*command, "--shard-pairs", 16, "--dev-pairs", 10, "-o")


@pytest.mark.parametrize("kills", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_a_killed_preparation_writes_the_same_bytes(kills: int, tmp_path: Path, program: Call) -> None:
    command, draw, out = prepare(tmp_path), random.Random(kills), tmp_path / "out"
    program(*command, tmp_path / "whole").ok()
    for kill in range(kills):
        process = start(*command, out)
        if kill == 0:
            wait_for(lambda: len(list(out.glob("work/clean-*.json"))) > 2, process)
        else:
            time.sleep(draw.uniform(0, 2))
        process.kill()
        finish(process)
    program(*command, out).ok()
    contents = [
        {name.removeprefix(str(folder)): data for name, data in snapshot(folder).items()}
        for folder in (tmp_path / "whole", out)
    ]
    assert contents[0] == contents[1]


def test_training_on_shards_resumes_exactly(tmp_path: Path, program: Call) -> None:
    prepared = tmp_path / "prepared"
    program(*prepare(tmp_path), prepared).ok()
    command = ("train", f"data.prepared=[{prepared}]", *MODEL, "--max-steps", 30, "-o")
    program(*command, tmp_path / "whole").ok()
    process = start(*command, tmp_path / "run")
    wait_for(lambda: saved_step(tmp_path / "run") >= 8, process)
    process.kill()
    finish(process)
    program(*command, tmp_path / "run").ok()
    assert result(tmp_path / "run") == result(tmp_path / "whole")
    other = tmp_path / "other"
    program(*prepare(tmp_path), other, "--seed", 2).ok()
    again = ("train", f"data.prepared=[{other}]", *MODEL, "--max-steps", 40, "-o", tmp_path / "run")
    assert "data.prepared: expected the corpora that the run was begun with" in program(*again).error
    error = program(*command, tmp_path / "new", "subwords.dropout=0.1").error
    assert error.startswith("subwords.dropout: expected nothing beside data.prepared")
    for key in ("lowercase", "joiners"):
        error = program(*command, tmp_path / "new", f"subwords.{key}=true").error
        assert error == f"subwords.{key}: expected false, as in data.prepared, found true"
    error = program(*command, tmp_path / "new", "subwords.symbols=[<bt>]").error
    assert error == "subwords.symbols: expected subwords of data.prepared, found <bt>, which is none"
