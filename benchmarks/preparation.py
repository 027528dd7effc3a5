"""Speed and memory of `headwise data prepare` on generated pairs, beside a plain SentencePiece loop.

    python benchmarks/preparation.py --pairs 100000 1000000 --engine processes --workers 2

The pairs are random sentences of 5 to 30 words from a Zipfian vocabulary of 50,000 words; one in ten is a duplicate.
The plain loop reads both files and encodes them with the same SentencePiece model in one process, and writes nothing.
Memory is the largest resident set of any process, as the kernel counted it.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from sentencepiece import SentencePieceProcessor

from headwise.processes import child_environment, python_command

_VOCABULARY = 50_000
_BLOCK = 10_000


def generate(folder: Path, pairs: int, seed: int) -> tuple[Path, Path]:
    """Write two files of sentences, line by line translations word by word."""
    random = np.random.default_rng(seed)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = [
        ["".join(random.choice(letters, random.integers(2, 10))) for _ in range(_VOCABULARY)] for _ in "st"
    ]
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


def measure(pairs: int, engine: str, workers: int, *, near: bool) -> dict[str, object]:
    """Prepare so many pairs in processes of their own; returns the figures."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        paths = generate(folder, pairs, seed=1)
        command = python_command(
            *("-m", "headwise", "data", "prepare", "--source", str(paths[0]), "--target", str(paths[1])),
            *("-o", str(folder / "out"), "--subwords", "8000", "--sample", "50000", "--engine", engine),
            *("--workers", str(workers), *(["--near"] if near else [])),
        )
        started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, env=child_environment(), check=True, stdout=sys.stderr)
        wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
        processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        plain = plain_loop(paths, folder / "out" / "spm.model")
    return {
        "pairs": pairs,
        "engine": engine,
        "near": near,
        "seconds": round(wall, 1),
        "processor_seconds": round(processor, 1),
        "peak_megabytes": after.ru_maxrss // 1024,
        "pairs_per_processor_second": round(pairs / processor),
        "plain_loop_pairs_per_processor_second": round(pairs / plain),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--engine", default="processes")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--near", action="store_true")
    options = parser.parse_args()
    for pairs in options.pairs:
        print(json.dumps(measure(pairs, options.engine, options.workers, near=options.near)), flush=True)


if __name__ == "__main__":
    main()
