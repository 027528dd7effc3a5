from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.__main__ import BENCHMARKS, run
from benchmarks.browser import chromium
from benchmarks.decode import DecodingJob, _jobs, _spread
from benchmarks.systems import PEERS, find_peer, options
from benchmarks.systems.own import NATIVE
from benchmarks.systems.peer import Decoding, Room, Setting
from benchmarks.systems.pool import Measured
from benchmarks.systems.report import grid, rows_of
from headwise.errors import ConfigError
from headwise.nn import device as devices
from headwise.nn.device import has_fast_bfloat16
from toy import toy_pairs

KEYS = {
    "system": str,
    "task": str,
    "model": str,
    "batch": int,
    "beam": int | None,
    "precision": str,
    "threads": int,
    "workers": int,
    "tokens_per_second": float | None,
    "ratio_to_best_peer": float | None,
}


@pytest.fixture(autouse=True)
def module_path(forked: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore what a run sets for its child processes, and fork them."""
    monkeypatch.setenv("PYTHONPATH", "")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("text")
    for side, lines in zip(("source", "target"), zip(*toy_pairs(200), strict=True), strict=True):
        (folder / side).write_text("".join(f"{line}\n" for line in lines))
    return ["--source", str(folder / "source"), "--target", str(folder / "target")]


def read(file: Path) -> list[dict[str, Any]]:
    record = json.loads(file.read_text())
    assert {"date", "processor", "threads", "versions"} <= set(record["machine"])
    for row in record["rows"]:
        for key, kind in KEYS.items():
            assert isinstance(row[key], kind), (key, row)
    return record["rows"]


def test_what_fails_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["general-pair", "--text", str(tmp_path / "none"), "--out", str(tmp_path)]) == 2
    missing = tmp_path / "none" / "train.en"
    assert capsys.readouterr().err == f"benchmarks: error: {missing}: No such file or directory\n"
    assert run(["estimate", "-o", str(tmp_path), "--models", "tiny", "--tokens", "0"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("benchmarks: error: expected a command to end well, found exit code 2: ")


def test_a_missing_browser_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigError, match=r"Chromium: expected chromium-headless-shell or .*, found none"):
        chromium().__enter__()


def test_training(tmp_path: Path, text: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rows.json"
    small = ["--vocabulary", "100", "--tokens", "64", "--batches", "2", "--rounds", "2", "--threads", "1"]
    assert run(["train", *text, *small, "--against", "ctranslate2", "--json", str(file)]) == 0
    captured = capsys.readouterr()
    rows = read(file)
    fast = has_fast_bfloat16(torch.device("cpu"))
    assert sorted(row["precision"] for row in rows) == (["bfloat16", "float32"] if fast else ["float32"])
    assert ("bfloat16: skipped" in captured.err) != fast
    for row in rows:
        assert (row["system"], row["task"], row["batch"]) == ("headwise", "train", 64)
        assert row["lowest"] <= row["tokens_per_second"] <= row["highest"]
        assert 0 < row["libraries_memory"] < row["peak_memory"]
        assert 0 < row["share_of_peak"] < 1
        assert f"{row['tokens_per_second']:,.0f}" in captured.out
    assert "ctranslate2: skipped" in captured.err


@pytest.mark.slow
def test_training_in_processes(tmp_path: Path, text: list[str]) -> None:
    file = tmp_path / "rows.json"
    small = ["--vocabulary", "100", "--tokens", "64", "--batches", "2", "--rounds", "2", "--threads", "2"]
    assert run(["train", *text, *small, "--only", "headwise:float32 2x1", "--json", str(file)]) == 0
    (row,) = read(file)
    assert (row["workers"], row["threads"]) == (2, 1)
    assert row["peak_memory"] > 2 * row["libraries_memory"]


@pytest.mark.parametrize("fast", [True, False])
def test_what_the_device_emulates_is_not_measured(fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "has_fast_bfloat16", lambda device: fast)
    room = options.make_room("cpu", 2)
    own, other = find_peer("headwise"), find_peer("huggingface")
    measured = [
        *(setting for peer in (own, other) for setting in peer.training_settings(room)),
        *(s for peer in (own, other) for s in peer.decoding_settings(room, Decoding()) if NATIVE not in str(s)),
    ]
    expected = {"bfloat16", "float32"} if fast else {"float32"}
    assert {setting.precision for setting in measured} == expected
    assert [*options.emulated_lines(room)] == ([] if fast else [options.EMULATED.format(device="cpu")])


def test_decoding(tmp_path: Path, text: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rows.json"
    small = ["--vocabulary", "100", "--sentences", "4", "--rounds", "2", "--threads", "1", "--length", "3"]
    only = ["--only", "headwise:float32 1x1 native", "--batch", "1", "--beam", "1"]
    assert run(["decode", *text, *small, *only, "--json", str(file)]) == 0
    rows = read(file)
    assert [(row["batch"], row["beam"]) for row in rows] == [(1, 1)]
    assert all(row["same_outputs"] == 1.0 for row in rows)
    assert all(0 < row["latency_median"] <= row["latency_99"] for row in rows)
    assert "one sentence at a time, beam 1, 3 tokens each" in capsys.readouterr().out


def test_a_beam_for_single_sentences_is_measured_beside_greedy_search() -> None:
    assert list(_jobs("64,1", "4", None)) == [
        Decoding(64, 4, None),
        Decoding(1, 1, None),
        Decoding(1, 4, None),
    ]


@pytest.mark.slow
def test_decoding_with_a_shortlist(tmp_path: Path, text: list[str]) -> None:
    file = tmp_path / "rows.json"
    small = ["--vocabulary", "100", "--sentences", "4", "--rounds", "2", "--threads", "1", "--length", "3"]
    only = ["--only", "headwise:float32 1x1 native", "--batch", "2", "--beam", "2", "--shortlist"]
    assert run(["decode", *text, *small, *only, "--json", str(file)]) == 0
    assert {(row["batch"], row["beam"]) for row in read(file)} == {(2, 2)}
    plain, listed = sorted((str(row["detail"]).split() for row in read(file)), key=len)  # rows: fastest first
    assert listed == [*plain, "shortlist"]


def test_curves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rows.json"
    sizes = [
        "--lengths",
        "16,300000",
        "--vocabularies",
        "50",
        "--tokens",
        "8",
        "--heads",
        "1",
        "--width",
        "4",
    ]
    few = ["--kinds", "reference", "--rounds", "1", "--threads", "1", "--json", str(file)]
    assert run(["attention", *sizes, *few]) == 0
    assert [(row["task"], row["model"], row["length"]) for row in read(file)] == [
        ("attention", "reference", 16),
        ("loss", "plain", 8),
        ("loss", "fused", 8),
    ]
    assert "reference, 1 x 300000: skipped, its scores need" in capsys.readouterr().err
    step = ["--step", "--kinds", "state_space", "--lengths", "3,16"]
    assert run(["attention", *sizes, *few, *step]) == 0
    assert [(row["task"], row["model"], row["length"]) for row in read(file)] == [
        ("step", "state_space", 3),
        ("step", "state_space", 16),
    ]


def test_start(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    assert run(["start", "--rounds", "1", "--json", str(file)]) == 0
    rows = read(file)
    assert [row["task"].removeprefix("start: ") for row in rows] == [
        "--help",
        "train --help",
        "import",
        "first translation",
    ]
    assert all(row["start_seconds"] > 0 for row in rows)


@pytest.mark.parametrize("name", [name for name in PEERS if name != "headwise"])
def test_a_peer_that_is_not_installed_says_how_to_get_it(name: str) -> None:
    peer = find_peer(name)
    peer.packages = ("surely_not_installed", *peer.packages)
    assert peer.absent() == (f"{name}: skipped, surely_not_installed is not installed (pip install 'headwise[{name}]')")


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        run([name, "--help"])
    assert f"usage: python -m benchmarks {name}" in capsys.readouterr().out


def test_an_unknown_benchmark_gets_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fast"]) == 2
    assert capsys.readouterr().err.startswith("benchmarks: error: expected one of decode, train, ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["train", "--against", "fairseq"],
            "expected systems among huggingface, ctranslate2, found 'fairseq'",
        ),
        (["train", "--only", "headwise:int4"], "--only: expected words of a setting of headwise"),
        (["decode", "--batch", "many"], "--batch: expected whole numbers of at least 1"),
        (["attention", "--kinds", "magic"], "magic"),
        (
            ["attention", "--lengths", "9" * 30],
            "--lengths: expected whole numbers of at least 1 and at most 1,048,576",
        ),
        (["train", "--model", "tinny"], "tinny"),
        (["train", "--target", "x"], "--target: expected --source beside it"),
    ],
)
def test_mistakes_get_one_sentence(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*arguments]) == 2
    (line,) = [each for each in capsys.readouterr().err.splitlines() if each.startswith("benchmarks: error")]
    assert message in line


def test_rounds_have_sentences_of_their_own() -> None:
    job = DecodingJob(Decoding(), sentences=12, rounds=3)
    rounds = _spread(100, job)
    assert [len(rows) for rows in rounds] == [4, 4, 4]
    assert len({row for rows in rounds for row in rows}) == 12
    assert max(max(rows) for rows in _spread(5, job)) < 5  # a small text is repeated


def test_ratios_are_to_the_best_peer_by_medians() -> None:
    def measured(name: str, *rates: float) -> Measured:
        rounds = [{"tokens": rate, "seconds": 1.0, "peak": 1} for rate in rates]
        return Measured(name, Setting("float32", 1), 0, 0.0, rounds)

    results = [measured("headwise", 30, 90, 60), measured("slow", 10, 10, 10), measured("fast", 20, 1, 90)]
    rows = rows_of(results, task="train", model="tiny", batch=4096)
    assert [(row.system, row.ratio_to_best_peer) for row in rows] == [
        ("headwise", 3.0),
        ("fast", 1.0),
        ("slow", 0.5),
    ]
    alone = rows_of(results[:1], task="train", model="tiny", batch=4096)
    assert alone[0].ratio_to_best_peer is None


def test_a_table_is_markdown() -> None:
    table = grid([("name", ["a", "bb"]), ("number", ["1", "22"])])
    assert table.splitlines() == [
        "| name | number |",
        "|------|-------:|",
        "| a    |      1 |",
        "| bb   |     22 |",
    ]


def test_a_system_gets_all_threads_and_one_to_choose_from() -> None:
    assert Room("cpu", 4).thread_counts == [4, 1]
    assert Room("cpu", 1).thread_counts == [1]
