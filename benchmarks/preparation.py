"""Speed and memory of `headwise data prepare` on generated pairs, beside a plain SentencePiece loop.

    python -m benchmarks preparation --pairs 100000 1000000 --engine processes ray --workers 2

The pairs are random sentences of 5 to 30 words from a Zipfian vocabulary of 50,000 words; one in ten is a duplicate.
The plain loop reads both files and encodes them with the same SentencePiece model in one process, and writes nothing.
Memory is the largest resident set of any process, sampled five times per second; one of Ray's includes its share of
the object store.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import psutil
from sentencepiece import SentencePieceProcessor

from benchmarks import command_line
from headwise.processes import child_environment, python_command

_VOCABULARY = 50_000
_BLOCK = 10_000
_PAUSE = 0.2  # seconds


def generate(folder: Path, pairs: int, seed: int) -> tuple[Path, Path]:
    """Write two files of sentences, line by line translations word by word."""
    random = np.random.default_rng(seed)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = [["".join(random.choice(letters, random.integers(2, 10))) for _ in range(_VOCABULARY)] for _ in "st"]
    paths = folder / "train.src", folder / "train.tgt"
    with open(paths[0], "w") as source, open(paths[1], "w") as target:
        for start in range(0, pairs, _BLOCK):
            count = min(_BLOCK, pairs - start)
            lengths = random.integers(5, 31, count)
            ids = np.minimum(random.zipf(1.2, int(lengths.sum())), _VOCABULARY) - 1
            rows = np.split(ids, np.cumsum(lengths)[:-1])
            for place in random.integers(0, count, count // 10):
                rows[place] = rows[0]
            for row in rows:
                source.write(" ".join(words[0][word] for word in row) + "\n")
                target.write(" ".join(words[1][word] for word in row) + "\n")
    return paths


def plain_loop(paths: tuple[Path, Path], model: Path) -> float:
    """Return the processor seconds in which SentencePiece encodes both files, in blocks of lines, with one thread."""
    processor = SentencePieceProcessor(model_file=str(model))
    started = time.process_time()
    for path in paths:
        with open(path, encoding="utf-8") as file:
            block: list[str] = []
            for line in file:
                block.append(line.rstrip("\n"))
                if len(block) == _BLOCK:
                    processor.encode(block, num_threads=1)
                    block = []
            processor.encode(block, num_threads=1)
    return time.process_time() - started


class Usage:
    """Processor time and memory of a command and of all processes that it has started, sampled while it runs.

    Ray's workers are no children of the command that are waited for, so the kernel doesn't add up their time.
    """

    def __init__(self, command: list[str]) -> None:
        started = time.perf_counter()
        process = subprocess.Popen(command, env=child_environment(), stdout=sys.stderr)
        self.peak_bytes, seconds = 0, dict[int, float]()
        while process.poll() is None:
            for each in _processes_below(process.pid):
                with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                    times = each.cpu_times()
                    seconds[each.pid] = times.user + times.system
                    self.peak_bytes = max(self.peak_bytes, each.memory_info().rss)
            time.sleep(_PAUSE)
        self.seconds = time.perf_counter() - started
        self.processor_seconds = sum(seconds.values())
        if process.returncode:
            raise SystemExit(process.returncode)


def _processes_below(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    return []


def measure(paths: tuple[Path, Path], out: Path, engine: str, workers: int, *, near: bool) -> dict[str, object]:
    """Prepare the pairs of two files in processes of their own; return the figures."""
    usage = Usage(
        python_command(
            *("-m", "headwise", "data", "prepare", "--source", str(paths[0]), "--target", str(paths[1])),
            *("-o", str(out), "--subwords", "8000", "--sample", "50000", "--engine", engine),
            *("--workers", str(workers), *(["--near"] if near else [])),
        )
    )
    return {
        "engine": engine,
        "near": near,
        "seconds": round(usage.seconds, 1),
        "processor_seconds": round(usage.processor_seconds, 1),
        "peak_megabytes": round(usage.peak_bytes / 2**20),
    }


def main(arguments: Sequence[str]) -> None:
    parser = command_line("preparation", __doc__)
    parser.add_argument("--pairs", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--engine", nargs="+", default=["processes"])
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--near", action="store_true")
    options = parser.parse_args(arguments)
    for pairs in options.pairs:
        with tempfile.TemporaryDirectory() as temporary:
            paths = generate(Path(temporary), pairs, seed=1)
            for engine in options.engine:
                out = Path(temporary) / engine
                found = measure(paths, out, engine, options.workers, near=options.near)
                print(json.dumps({"pairs": pairs, **found}), flush=True)
            plain = plain_loop(paths, Path(temporary) / options.engine[0] / "spm.model")
            print(json.dumps({"pairs": pairs, "plain_loop_processor_seconds": round(plain, 1)}), flush=True)
