from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed import TCPStore

from forked import Popen
from headwise.errors import DataError, TrainingError
from headwise.training.parallel.world import World, store_of_this_start
from ranks import run_as_ranks

RANK = """
import json, torch
from headwise.errors import DataError
from headwise.training.parallel.world import World

world = World.join("cpu")
seen = {"rank": world.rank, "size": world.size, "first": world.first, "here": world.local_size}
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
    return run_as_ranks(2, RANK)


def test_ranks_know_their_place(ranks: list[dict[str, Any]]) -> None:
    assert [(r["rank"], r["size"], r["first"], r["here"]) for r in ranks] == [
        (0, 2, True, 2),
        (1, 2, False, 2),
    ]


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


@pytest.mark.parametrize(
    ("announced", "sentence"),
    [
        ({}, "expected a number in the environment variable LOCAL_RANK, found none"),
        ({"LOCAL_RANK": "first"}, "expected a number in the environment variable LOCAL_RANK, found first"),
        ({"LOCAL_RANK": "0"}, "expected 2 processes to meet, found that they can't .*MASTER_ADDR expected"),
        (
            {"LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"},
            "expected 2 processes to meet, found that they can't .*timed out",
        ),
    ],
)
def test_ranks_without_torchrun_or_without_the_first_one_are_told(
    announced: dict[str, str], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwise.training.parallel.world._JOINING", timedelta(seconds=1))
    for name in ("LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ({"RANK": "1", "WORLD_SIZE": "2"} | announced).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(TrainingError, match=f"torchrun: {sentence}"):
        World.join("cpu")


# Starts of the same ranks with one store, as torchrun has it.

RESTARTED = """
import sys, time
from headwise.training.parallel.world import World

time.sleep(float(sys.argv[1]))
print(World.join("cpu").sum(1)[0], flush=True)
sys.stdin.read()
"""


def test_a_rank_that_comes_first_after_a_restart_waits_for_the_new_ones() -> None:
    """A rank before the restart has left its address in the store."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    store = TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False)
    announced = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    for start in ("0", "3"):  # seconds by which the first rank comes later
        processes = [
            Popen(
                [sys.executable, "-c", RESTARTED, start if rank == 0 else "0"],
                env={
                    **os.environ,
                    **announced,
                    "RANK": str(rank),
                    "LOCAL_RANK": str(rank),
                    "WORLD_SIZE": "2",
                },
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        sums = [process.stdout.readline() for process in processes if process.stdout]
        for process in processes:
            process.kill()
            process.communicate()
        assert sums == ["2.0\n", "2.0\n"]
    assert store.num_keys() > 0


@pytest.fixture
def kept() -> TCPStore:
    return TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)


def names(kept: TCPStore, delays: Sequence[float]) -> list[str]:
    """Let a rank for each of the delays agree on a store; returns what each finds of what the first writes."""

    def agree(rank: int) -> str:
        time.sleep(delays[rank])
        store = store_of_this_start(kept.clone(), rank, len(delays), timedelta(seconds=30))
        if rank == 0:
            store.set("name", uuid.uuid4().hex)
        return store.get("name").decode()

    with ThreadPoolExecutor(len(delays)) as pool:
        return list(pool.map(agree, range(len(delays))))


def test_the_ranks_of_each_start_agree_on_a_store_of_their_own(kept: TCPStore) -> None:
    orders = [(0, 0, 0), (0.3, 0, 0.1), (0, 0.3, 0), (0.2, 0, 0.4)]
    found = [names(kept, delays) for delays in orders]
    assert all(len(set(start)) == 1 for start in found)
    assert len({start[0] for start in found}) == len(orders)


def test_a_start_that_was_killed_on_the_way_is_none_to_agree_on(kept: TCPStore) -> None:
    soon = timedelta(seconds=0.2)
    with pytest.raises(TrainingError, match=r"expected 3 processes .* 0\.2 seconds, found none of rank 1, 2$"):
        store_of_this_start(kept, 0, 3, soon)
    with pytest.raises(TrainingError, match="found none of rank 0"):
        store_of_this_start(kept, 1, 3, soon)
    assert len(set(names(kept, (0.3, 0, 0.1)))) == 1


TIMEOUT = """
import sys
import torch
from torch import distributed
from headwise.training.parallel.world import CONNECTION_TIMEOUT, World

world = World.join("cpu")
board = world.board()
board.set(f"rank {world.rank}", "here")
board.wait(["rank 0", "rank 1"])
kept = distributed.group.WORLD._get_backend(torch.device("cpu")).options._timeout
world.leave()
print(int(kept == CONNECTION_TIMEOUT))
"""


def test_connected_ranks_wait_for_days_and_have_a_board() -> None:
    """`ProcessGroup.set_timeout` and `Store.clone` of PyTorch are public, but in none of its documents."""
    assert run_as_ranks(2, TIMEOUT) == [1, 1]
