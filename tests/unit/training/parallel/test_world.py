from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import nn

from headwise.errors import DataError
from headwise.training.parallel.world import World

RANK = """
import json, torch
from headwise.errors import DataError
from headwise.training.parallel.world import World

world = World.join("cpu")
seen = {"rank": world.rank, "size": world.size, "first": world.first}
seen["sum"] = world.sum(1 + world.rank, 0.1)
seen["from first"] = world.from_first(1.5 + world.rank, world.first)
seen["any"] = [world.any(False), world.any(world.rank == 1), world.any(True)]
seen["gathered"] = world.gather({"rank": world.rank})
start = torch.full((2,), float(world.rank))
world.broadcast_parameters([start])
seen["broadcast"] = start.tolist()
seen["on first"] = world.on_first(lambda: f"done by {world.rank}")
order = []
seen["in turn"] = world.in_turn(lambda: f"done by {world.rank}")

def fail():
    raise DataError("the file is missing")

for name, way in (("on first", world.on_first), ("in turn", world.in_turn)):
    try:
        way(fail)
    except DataError as error:
        seen[f"error {name}"] = str(error)
world.leave()
print(json.dumps(seen))
"""


@pytest.fixture(scope="module")
def ranks() -> list[dict[str, Any]]:
    """Return the results of `RANK` in two processes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    processes = []
    for rank in range(2):
        announced = {
            "RANK": rank,
            "WORLD_SIZE": 2,
            "LOCAL_RANK": rank,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
        }
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **{k: str(v) for k, v in announced.items()}}
        processes.append(
            subprocess.Popen([sys.executable, "-c", RANK], env=environment, stdout=subprocess.PIPE, text=True)
        )
    outputs = [process.communicate(timeout=600)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    return [json.loads(output) for output in outputs]


def test_ranks_know_their_place(ranks: list[dict[str, Any]]) -> None:
    assert [(r["rank"], r["size"], r["first"]) for r in ranks] == [(0, 2, True), (1, 2, False)]


def test_ranks_compute_together(ranks: list[dict[str, Any]]) -> None:
    for seen in ranks:
        assert seen["sum"] == [3.0, 0.2]
        assert seen["from first"] == [1.5, 1.0]
        assert seen["any"] == [False, True, True]
        assert seen["gathered"] == [{"rank": 0}, {"rank": 1}]
        assert seen["broadcast"] == [0.0, 0.0]


def test_the_first_rank_goes_first(ranks: list[dict[str, Any]]) -> None:
    assert [seen["on first"] for seen in ranks] == ["done by 0", "done by 0"]
    assert [seen["in turn"] for seen in ranks] == ["done by 0", "done by 1"]


def test_a_mistake_found_by_the_first_rank_reaches_all(ranks: list[dict[str, Any]]) -> None:
    for seen in ranks:
        assert seen["error on first"] == seen["error in turn"] == "the file is missing"


@pytest.mark.parametrize("announced", [{}, {"RANK": "0", "WORLD_SIZE": "1"}])
def test_alone_everything_is_what_it_was(announced: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in announced.items():
        monkeypatch.setenv(name, value)
    world = World.join("auto")
    assert world == World()
    assert world.first
    parameter = nn.Parameter(torch.zeros(2))
    world.broadcast_parameters([parameter])
    assert parameter.tolist() == [0, 0]
    assert world.sum(1, 2.5) == world.from_first(1, 2.5) == [1, 2.5]
    assert (world.any(True), world.any(False)) == (True, False)
    assert world.gather("x") == ["x"]
    assert world.on_first(lambda: 3) == world.in_turn(lambda: 3) == 3

    def fail() -> None:
        raise DataError("the file is missing")

    for way in (world.on_first, world.in_turn):
        with pytest.raises(DataError, match="the file is missing"):
            way(fail)
    world.leave()
