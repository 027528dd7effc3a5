from __future__ import annotations

import json
import random
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import nn

from headwise.checkpoints import average, read_state, state_sha256
from headwise.errors import CheckpointError, TrainingError
from headwise.files import file_sha256
from headwise.training import checkpoint
from headwise.training.checkpoint import Checkpoints, checkpointed
from headwise.training.parallel.replica import optimizer_state
from headwise.training.progress import Progress, read_progress
from headwise.training.randomness import random_state, restore_random, seed_random

IDENTITY = {"data": "0123456789ab", "subwords": "ba9876543210"}


def small_model(seed: int = 0) -> nn.Module:
    """Return a model of two layers that share a weight, as embeddings do."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Tanh(), nn.Linear(3, 3))
    model[2].weight = model[0].weight
    return model


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)


def learn(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
    """Do steps on random batches with dropout, so that the result depends on every random number."""
    for _ in range(steps):
        x = nn.functional.dropout(torch.randn(4, 3), 0.5)
        model(x).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def tensors_of(
    model: nn.Module, optimizer: torch.optim.Optimizer, randoms: list[dict[str, torch.Tensor]]
) -> dict[str, dict[str, torch.Tensor]]:
    return checkpointed(model, optimizer_state(dict(model.named_parameters()), optimizer), randoms)


def saved(run: Path, *steps: int) -> Checkpoints:
    """Save checkpoints of these steps, each of another model."""
    checkpoints = Checkpoints(run)
    for step in steps:
        model = small_model(step)
        optimizer = optimizer_of(model)
        learn(model, optimizer, 1)
        progress = Progress(step=step, best=0.5, best_step=steps[0], positions=[{"epoch": 1}])
        checkpoints.save(tensors_of(model, optimizer, [random_state()]), progress, IDENTITY)
    return checkpoints


def load(checkpoints: Checkpoints, path: Path | None = None, **changes: object) -> Progress:
    model = small_model(99)
    path = path or checkpoints.latest()
    assert path is not None
    return checkpoints.load(path, model, **{"identity": IDENTITY, **changes})[0]  # type: ignore[arg-type]


def test_going_on_from_a_checkpoint_equals_never_having_stopped(tmp_path: Path) -> None:
    model = small_model()
    optimizer = optimizer_of(model)
    learn(model, optimizer, 3)
    progress = Progress(3, 120, 1.5, -0.25, 2, 1, 0.75, 40, positions=[{"epoch": 1, "index": 7}])
    checkpoints = Checkpoints(tmp_path)
    path = checkpoints.save(tensors_of(model, optimizer, [random_state()]), progress, IDENTITY)
    learn(model, optimizer, 5)
    other = small_model(1)
    other_optimizer = optimizer_of(other)
    learn(other, other_optimizer, 1)  # the state before loading must not matter
    assert checkpoints.latest() == path
    found, moments = checkpoints.load(path, other, IDENTITY)
    assert found == progress
    for name, parameter in other.named_parameters():
        other_optimizer.state[parameter] = moments[name]
    learn(other, other_optimizer, 5)
    for ours, theirs in zip(other.parameters(), model.parameters(), strict=True):
        assert torch.equal(ours, theirs)
        assert all(
            torch.equal(value, optimizer.state[theirs][key]) for key, value in other_optimizer.state[ours].items()
        )


def test_shared_parameters_are_stored_once(tmp_path: Path) -> None:
    checkpoints = saved(tmp_path, 1)
    assert sorted(load_file(checkpoints.path(1) / "model.safetensors")) == ["0.weight", "2.bias"]


def draws() -> list[float]:
    """Return numbers of every global generator, including those that cache a second normal number."""
    legacy = np.random.standard_normal(3).tolist()  # noqa: NPY002
    return [random.random(), random.gauss(0, 1), *legacy, *torch.randn(3).tolist()]


def test_every_generator_goes_on_where_it_was() -> None:
    seed_random(1)
    draws()  # leaves a cached normal number in Python's and NumPy's generators
    state = random_state()
    expected = draws()
    assert draws() != expected
    restore_random(state)
    assert draws() == expected


def test_seeding_reaches_every_generator() -> None:
    seed_random(7)
    first = draws()
    seed_random(7)
    assert draws() == first
    seed_random(8)
    assert not set(draws()) & set(first)


def test_each_rank_gets_its_own_generators_back(tmp_path: Path) -> None:
    checkpoints, expected = saved_by_two(tmp_path)
    for rank in (1, 0):
        load(checkpoints, rank=rank)
        assert draws() == expected[rank]


def saved_by_two(run: Path) -> tuple[Checkpoints, list[list[float]]]:
    """Save a checkpoint of two ranks; return also what their generators draw afterwards."""
    states, expected = [], []
    for rank in range(2):
        seed_random(rank)
        states.append(random_state())
        expected.append(draws())
    model = small_model()
    checkpoints = Checkpoints(run)
    progress = Progress(step=1, positions=[{"index": 7}] * 2)
    checkpoints.save(tensors_of(model, optimizer_of(model), states), progress, IDENTITY)
    return checkpoints, expected


@pytest.mark.parametrize("ranks", [1, 3])
def test_another_number_of_processes_resumes(ranks: int, tmp_path: Path) -> None:
    checkpoints, expected = saved_by_two(tmp_path)
    for rank in range(ranks):
        assert load(checkpoints, rank=rank).positions[0] == {"index": 7}
        found = draws()
        assert found == expected[rank] if rank < 2 else found not in expected


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("whole")
    saved(run, 10, 20)
    return run


FILES = ("model.safetensors", "optimizer.safetensors", "random.safetensors", "state.json")


@pytest.mark.parametrize("name", FILES)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_one_flipped_bit_anywhere_is_noticed(whole: Path, tmp_path: Path, name: str, where: float, bit: int) -> None:
    run = tmp_path / "run"
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(whole, run)
    file = run / "checkpoints" / "step-00000020" / name
    content = bytearray(file.read_bytes())
    content[int(where * len(content))] ^= 1 << bit
    file.write_bytes(content)
    try:
        unchanged = json.loads(content) == read_state(whole / "checkpoints" / "step-00000020")
    except ValueError:
        unchanged = False
    if unchanged:  # a space that became a tab, for instance
        load(Checkpoints(run))
    else:
        with pytest.raises(CheckpointError, match=name):
            load(Checkpoints(run))


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("left", [0, 0.5])
def test_a_truncated_file_is_noticed_and_a_way_out_named(name: str, left: float, whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    file = run / "checkpoints" / "step-00000020" / name
    file.write_bytes(file.read_bytes()[: int(left * file.stat().st_size)])
    with pytest.raises(CheckpointError) as raised:
        load(Checkpoints(run))
    assert str(raised.value).startswith(f"{file}: expected ")
    if name != "state.json":
        assert f"write step-00000010 into {run / 'latest'} to go on from there" in str(raised.value)
    (run / "latest").write_text("step-00000010\n")
    assert load(Checkpoints(run)).step == 10


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_noticed(name: str, whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    (run / "checkpoints" / "step-00000020" / name).unlink()
    with pytest.raises(CheckpointError, match=name):
        load(Checkpoints(run))


def test_other_data_is_refused(whole: Path) -> None:
    with pytest.raises(CheckpointError, match="data fedcba987654, found one with 0123456789ab"):
        load(Checkpoints(whole), identity={**IDENTITY, "data": "fedcba987654"})


def test_another_model_is_refused(whole: Path) -> None:
    checkpoints, path = Checkpoints(whole), Checkpoints(whole).path(20)
    for model in (nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 2, bias=False), nn.Tanh(), nn.Linear(2, 3))):
        with pytest.raises(CheckpointError, match="expected the parameters of this model"):
            checkpoints.load(path, model, IDENTITY)


def test_something_else_in_json_is_refused(tmp_path: Path) -> None:
    for content, message in {
        "[]": "expected the state of a Headwise checkpoint",
        json.dumps({"format": 9, "progress": {}, "identity": {}, "sha256": {}}): "of format 1, found 9",
        "\xff": "expected JSON, found a damaged file",
    }.items():
        (tmp_path / "state.json").write_text(content, encoding="latin-1")
        with pytest.raises(CheckpointError, match=message):
            read_state(tmp_path)


@pytest.mark.parametrize("content", ["step-00000030\n", "", "../..", "\xff"])
def test_a_name_that_points_nowhere_is_refused(content: str, whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    (run / "latest").write_text(content, encoding="latin-1")
    with pytest.raises(CheckpointError, match=r"latest: names checkpoint|state.json: there is no"):
        load(Checkpoints(run))


def test_a_run_without_checkpoints_has_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for run in (tmp_path, tmp_path / "nowhere", tmp_path / "file"):
        checkpoints = Checkpoints(run)
        assert (checkpoints.latest(), checkpoints.best(), checkpoints.steps()) == (None, None, [])


def test_the_last_planned_checkpoints_the_best_and_the_newest_are_kept(tmp_path: Path) -> None:
    checkpoints = saved(tmp_path, 4, 8, 10, 12)
    (checkpoints.folder / "step-00000008.bak").mkdir()  # a user's own copy
    (checkpoints.folder / ".step-00000012.partial-x").mkdir()  # left by a kill
    checkpoints.mark_best(4)
    assert checkpoints.to_average(2, every=4) == [8, 12]
    assert checkpoints.to_average(9, every=4) == [4, 8, 12]
    assert checkpoints.to_average(2, every=5) == [10, 12]  # the newest counts, planned or not
    checkpoints.prune(2, every=4)
    assert checkpoints.steps() == [4, 8, 12]
    checkpoints.mark_best(12)
    checkpoints.prune(1, every=4)
    assert sorted(path.name for path in checkpoints.folder.iterdir()) == [
        "step-00000008.bak",
        "step-00000012",
    ]


def test_checkpoints_at_doubled_steps_or_all_are_kept(tmp_path: Path) -> None:
    checkpoints = saved(tmp_path, 3, 5, 6, 9, 12, 15, 18)
    checkpoints.prune(1, every=3, keep="all")
    assert checkpoints.steps() == [3, 5, 6, 9, 12, 15, 18]
    checkpoints.prune(1, every=3, keep="doubling")
    assert checkpoints.steps() == [3, 6, 12, 18]
    checkpoints.prune(1, every=3)
    assert checkpoints.steps() == [18]


def test_going_on_from_an_older_checkpoint_forgets_the_newer_ones(tmp_path: Path) -> None:
    checkpoints = saved(tmp_path, 4, 8, 12)
    checkpoints.mark_best(12)
    checkpoints.rewind(Progress(step=8, best=0.1, best_step=4))
    assert checkpoints.steps() == [4, 8]
    assert checkpoints.best() == checkpoints.path(4)
    checkpoints.rewind(Progress(step=4))
    assert checkpoints.best() is None


def test_removing_leaves_nothing_of_ours(tmp_path: Path) -> None:
    checkpoints = saved(tmp_path, 4, 8)
    checkpoints.mark_best(4)
    (tmp_path / "notes.txt").touch()
    checkpoints.remove()
    assert checkpoints.latest() is None
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["checkpoints", "notes.txt"]


def test_averaging_is_the_mean_of_each_parameter(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    tensors = [
        {"a": draw.normal(size=(3, 2)), "b": 1e8 + draw.normal(size=4), "scale": draw.normal(size=())} for _ in range(7)
    ]
    checkpoints = saved(tmp_path, *range(1, 8))
    for step, parameters in enumerate(tensors, start=1):
        replace(checkpoints.path(step), {k: torch.tensor(v, dtype=torch.float32) for k, v in parameters.items()})
    averaged = average([checkpoints.path(step) for step in range(1, 8)])
    for name in ("a", "b", "scale"):
        expected = np.mean([np.float64(np.float32(p[name])) for p in tensors], axis=0)
        assert isinstance(averaged[name], np.ndarray)
        assert averaged[name].dtype == np.float32
        np.testing.assert_array_equal(averaged[name], expected.astype(np.float32))


def replace(folder: Path, tensors: dict[str, torch.Tensor], name: str = "model.safetensors") -> None:
    """Replace the tensors of a checkpoint's file and update its checksums."""
    record = read_state(folder)
    save_file(tensors, folder / name)
    record["sha256"][name] = file_sha256(folder / name)
    write_state(folder, record)


def test_averaging_refuses_what_does_not_belong_together(tmp_path: Path) -> None:
    checkpoints = saved(tmp_path, 1, 2, 3)
    with pytest.raises(CheckpointError, match="at least one checkpoint"):
        average([])
    replace(checkpoints.path(2), {"0.weight": torch.zeros(3, 3)})
    with pytest.raises(CheckpointError, match=r"step-00000002: expected the same parameters as .*step-00000001"):
        average([checkpoints.path(1), checkpoints.path(2)])
    file = checkpoints.path(3) / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"\x01")
    with pytest.raises(CheckpointError, match=r"step-00000003/model.safetensors: expected the file"):
        average([checkpoints.path(1), checkpoints.path(3)])


@pytest.mark.parametrize(
    ("reason", "sentence"),
    [
        ("No space left on device (os error 28)", "can't be written because the disk is full"),
        ("something strange", r"can't be written \(Input/output error\)"),
    ],
)
def test_a_disk_that_fills_while_tensors_are_written(
    reason: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints = saved(tmp_path, 1)

    def full(*_: object) -> None:
        raise checkpoint.SafetensorError(f"Error while serializing: I/O error: {reason}")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(TrainingError, match=f"step-00000002: {sentence}"):
        saved(tmp_path, 2)
    assert checkpoints.latest() == checkpoints.path(1)
    assert sorted(path.name for path in checkpoints.folder.iterdir()) == ["step-00000001"]


def test_progress_is_plain_json() -> None:
    progress = Progress(3, 120, 1.5, -0.25, 2, positions=[{"epoch": 1, "weights": [0.5]}])
    assert read_progress(Path("state.json"), json.loads(json.dumps(asdict(progress)))) == progress


def change_tensors(folder: Path, name: str, changes: dict[str, torch.Tensor | None]) -> None:
    """Replace or remove tensors of a checkpoint's file and update its checksums."""
    tensors: dict[str, torch.Tensor | None] = dict(load_file(folder / name)) | changes
    replace(folder, {key: value for key, value in tensors.items() if value is not None}, name)


def write_state(folder: Path, record: dict[str, Any]) -> None:
    record["sha256"]["state.json"] = state_sha256(record)
    (folder / "state.json").write_text(json.dumps(record))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"2.bias.exp_avg": torch.zeros(1)}, r"exp_avg of 2.bias, of shape \(3,\) .* found shape \(1,\)"),
        (
            {"2.bias.exp_avg": torch.zeros(2, 3)},
            r"exp_avg of 2.bias, of shape \(3,\) .* found shape \(2, 3\)",
        ),
        (
            {"2.bias.exp_avg_sq": torch.zeros(3, dtype=torch.float64)},
            "exp_avg_sq of 2.bias.*float32.*float64",
        ),
        ({"2.bias.step": torch.zeros(3)}, r"step of 2.bias, of shape \(\) .* found shape \(3,\)"),
        ({"2.bias.exp_avg": None}, "expected exp_avg of 2.bias, found none"),
        (
            {"2.bias.max_exp_avg_sq": torch.zeros(3)},
            "the moments of this model's parameters, found 2.bias.max",
        ),
        ({"9.bias.exp_avg": torch.zeros(3)}, "the moments of this model's parameters, found 9.bias.exp_avg"),
    ],
)
def test_moments_of_another_shape_are_refused(
    changes: dict[str, torch.Tensor | None], message: str, tmp_path: Path
) -> None:
    checkpoints = saved(tmp_path, 1)
    change_tensors(checkpoints.path(1), "optimizer.safetensors", changes)
    with pytest.raises(CheckpointError, match=f"optimizer.safetensors: expected .*{message}|{message}"):
        load(checkpoints)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"2.bias": torch.zeros(3, dtype=torch.float16)}, "2.bias.*type torch.float32.*found.*torch.float16"),
        ({"2.bias": torch.zeros(3, 1)}, r"2.bias, of shape \(3,\) .*found shape \(3, 1\)"),
        ({"3.bias": torch.zeros(3)}, "found 3.bias, too"),
    ],
)
def test_parameters_of_another_type_or_shape_or_name_are_refused(
    changes: dict[str, torch.Tensor | None], message: str, tmp_path: Path
) -> None:
    checkpoints = saved(tmp_path, 1)
    change_tensors(checkpoints.path(1), "model.safetensors", changes)
    with pytest.raises(CheckpointError, match=message):
        load(checkpoints)


def words(name: str, **changes: int) -> dict[str, torch.Tensor | None]:
    """Return this process's state of a generator with changed numbers; `at0=7` sets index 0 to 7."""
    tensor = random_state()[name].clone()
    for index, number in changes.items():
        tensor[int(index.removeprefix("at"))] = number
    return {f"rank0.{name}": tensor}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rank0.torch": None}, "expected the state of torch, found none"),
        ({"rank0.torch": torch.zeros(9, dtype=torch.uint8)}, r"torch of shape \(\d+,\) .*found shape \(9,\)"),
        ({"rank0.python": torch.zeros(3, dtype=torch.int64)}, "python of shape"),
        ({"rank0.numpy_gauss": torch.zeros(1)}, "numpy_gauss .*float64.*found.*float32"),
        (words("python", at0=2), "version 3, found version 2"),
        (words("python", at5=1 << 32), "from 0 to 4294967295 in python, found 4294967296"),
        (words("python", at625=-1), "from 0 to 624 in python, found -1"),
        (
            words("numpy", at0=-1),
            "from 0 to 4294967295 in numpy, found -1",
        ),  # would become another in 32 bits
        (words("numpy_position", at0=625), "from 0 to 624 in numpy_position, found 625"),
        (words("numpy_position", at1=2), "from 0 to 1 in numpy_position, found 2"),
    ],
)
def test_states_of_generators_are_checked_and_none_is_touched(
    changes: dict[str, torch.Tensor | None], message: str, tmp_path: Path
) -> None:
    checkpoints = saved(tmp_path, 1)
    change_tensors(checkpoints.path(1), "random.safetensors", changes)
    before = random_state()
    model = small_model(99)
    weights = [parameter.clone() for parameter in model.parameters()]
    restore_random(before)
    with pytest.raises(CheckpointError, match=f"random.safetensors: rank 0: expected .*{message}|{message}"):
        checkpoints.load(checkpoints.path(1), model, IDENTITY)
    assert all(torch.equal(before[name], tensor) for name, tensor in random_state().items() if "gauss" not in name)
    assert all(map(torch.equal, weights, model.parameters()))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("momentum", 1, "progress.momentum: this version of Headwise doesn't know this field"),
        ("step", "1", "progress.step: input should be a valid integer, found 1"),
        ("step", 2, "expected the step of the folder's name, found 2"),
        ("step", 1.5, "progress.step: "),
        ("tokens", -1, "progress.tokens: input should be greater than or equal to 0, found -1"),
        ("stale", True, "progress.stale: "),
        ("best", [1], "progress.best: "),
        ("finished", None, "progress.finished: "),
        ("positions", {"epoch": 1}, "progress.positions: "),
        ("positions", [3], "progress.positions.0: "),
        ("positions", [], "expected a position in the data for each process, found none"),
        ("timing", {"left": 1.5}, "progress.timing.left: "),
        ("timing", {"costs": {"saving": -1}}, "progress.timing.costs.saving: "),
    ],
)
def test_every_field_of_the_progress_is_checked(field: str, value: Any, message: str, tmp_path: Path) -> None:
    checkpoints = saved(tmp_path, 1)
    record = read_state(checkpoints.path(1))
    record["progress"][field] = value
    write_state(checkpoints.path(1), record)
    with pytest.raises(CheckpointError, match=f"state.json: {message}"):
        load(checkpoints)


@pytest.mark.parametrize(
    ("key", "value"),
    [("identity", []), ("identity", {"data": 1}), ("sha256", {"model.safetensors": None}), ("start", 3)],
)
def test_identifiers_and_checksums_are_texts(key: str, value: Any, whole: Path, tmp_path: Path) -> None:
    record = read_state(Checkpoints(whole).path(10)) | {key: value}
    (tmp_path / "state.json").write_text(json.dumps(record))
    with pytest.raises(CheckpointError, match=r"state\.json: expected"):
        read_state(tmp_path)


def test_a_file_without_a_checksum_is_damaged(tmp_path: Path) -> None:
    checkpoints = saved(tmp_path, 1)
    record = read_state(checkpoints.path(1))
    del record["sha256"]["optimizer.safetensors"]
    write_state(checkpoints.path(1), record)
    with pytest.raises(CheckpointError, match=r"optimizer\.safetensors: expected the file"):
        load(checkpoints)


@pytest.mark.parametrize("key", ["data", "subwords", "start"])
def test_averaging_refuses_checkpoints_of_another_origin(key: str, tmp_path: Path) -> None:
    checkpoints = saved(tmp_path, 1, 2)
    record = read_state(checkpoints.path(2))
    if key == "start":
        record["start"] = "another"
    else:
        record["identity"][key] = "another"
    write_state(checkpoints.path(2), record)
    with pytest.raises(CheckpointError, match=rf"step-00000002: expected a checkpoint with {key} .*another"):
        average([checkpoints.path(1), checkpoints.path(2)])


def test_checkpoints_of_an_earlier_start_are_neither_averaged_nor_kept(tmp_path: Path) -> None:
    saved(tmp_path, 20, 30)
    checkpoints = Checkpoints(tmp_path)
    checkpoints.begin()
    model = small_model()
    optimizer = optimizer_of(model)
    learn(model, optimizer, 1)
    for step in (10, 12):
        checkpoints.save(tensors_of(model, optimizer, [random_state()]), Progress(step=step, positions=[{}]), IDENTITY)
    assert checkpoints.to_average(9, every=10) == [10, 12]
    checkpoints.prune(9, every=10)
    assert checkpoints.steps() == [10, 12]
    again = Checkpoints(tmp_path)
    load(again)
    assert again.start == checkpoints.start != ""
