"""Files that ranks write together, read with safetensors."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file

from ranks import run_as_ranks

RANK = """
import json, sys
from pathlib import Path
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from headwise.errors import TrainingError
from headwise.training.parallel.sharding import ShardWriter
from headwise.training.parallel.world import World

world, folder = World.join("cpu"), Path(sys.argv[1])
mesh = init_device_mesh("cpu", (world.size,))
whole = {
    "table": torch.arange(35.0).reshape(7, 5),
    "one": torch.tensor([4.0]),
    "nothing": torch.zeros(0, 3),
    "half": torch.arange(6, dtype=torch.bfloat16),
}
shared = {name: distribute_tensor(tensor, mesh, [Shard(0)]) for name, tensor in whole.items()}
writer, seen = ShardWriter(), {}
mine = folder if world.first else None

late = {"step": torch.tensor(7.0), **{f"{name}.copied": tensor.clone() for name, tensor in shared.items()}}
write = writer.writing({"a.safetensors": shared, "b.safetensors": late}, folder / "parts", copy=True)
for tensor in late.values():
    tensor.fill_(-1)
write(mine)

if world.rank == world.size - 1:
    blocked = folder / "other" / "c.safetensors" / "sharded"
    blocked.parent.mkdir(parents=True)
    blocked.touch()
world.gather(None)
try:
    writer.writing({"c.safetensors": shared}, folder / "other", copy=False)(mine)
except TrainingError as error:
    seen["error"] = str(error)
world.leave()
print(json.dumps(seen))
"""


def test_the_joined_files_have_the_whole_tensors_and_every_rank_learns_of_an_error(tmp_path: Path) -> None:
    seen = run_as_ranks(3, RANK, tmp_path)
    expected = {
        "table": torch.arange(35.0).reshape(7, 5),
        "one": torch.tensor([4.0]),
        "nothing": torch.zeros(0, 3),
        "half": torch.arange(6, dtype=torch.bfloat16),
    }
    first, second = (load_file(tmp_path / name) for name in ("a.safetensors", "b.safetensors"))
    assert first.keys() == expected.keys()
    copies = {f"{name}.copied": tensor for name, tensor in expected.items()}
    assert second.keys() == copies.keys() | {"step"}
    for tensors, wanted in ((first, expected), (second, copies | {"step": torch.tensor([7.0])})):
        for name, tensor in wanted.items():
            assert tensors[name].dtype == tensor.dtype, name
            assert torch.equal(tensors[name], tensor), name
    for outcome in seen:
        assert f"{tmp_path / 'other' / 'c.safetensors'}: can't be written" in outcome["error"]
