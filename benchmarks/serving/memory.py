"""Memory of `headwise serve` with 1, 2, 4, … workers, which share the models' pages.

    python -m benchmarks serve-memory RUN --sentences test.en.gz

For each number of workers the server is started and translates sentences, as texts and as HTML (whose tags are placed
by alignments, which PyTorch computes), until every worker has answered. Then /proc/PID/smaps_rollup of all its
processes is read: a process's private memory is what would be free without it, and its proportional set size (PSS)
counts a page that n processes share as 1/n of a page, so that the sum over all processes is what the server takes. Of
the workers, the one with the most private memory is shown.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.serving.load import Server, parser_of, serve_command, started, unpack

ASKED = 200  # requests of each kind
CLIENTS = 8
MIB = 2**20


@dataclass(frozen=True)
class Memory:
    """Memory of a process in bytes."""

    proportional: int
    private: int
    shared: int


def main(arguments: Sequence[str]) -> None:
    parser = parser_of("serve-memory", __doc__)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    options = parser.parse_args(arguments)
    weights = (options.run / "model.safetensors").stat().st_size
    print(f"model.safetensors: {weights / MIB:.0f} MiB\n")
    print("| workers | server | private to a worker | shared |\n|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as name:
        sentences = unpack(options.sentences, Path(name) / "sentences.txt").read_text().splitlines()[:ASKED]
        for count in options.workers:
            command = serve_command(options.run, options.languages)
            server = Server(str(count), [*command, "--workers", str(count)])
            with started(server) as (address, process):
                use(address, sentences, options.languages.split("-"))
                children = children_of(process)
                assert len(children) == (count if count > 1 else 0), children
                workers = [memory_of(pid) for pid in children or [process]]
                total = sum(each.proportional for each in workers)
                total += memory_of(process).proportional if children else 0
            private, shared = max(one.private for one in workers), max(one.shared for one in workers)
            row = [total, private, shared]
            print(f"| {count} | {' | '.join(f'{size / MIB:.0f} MiB' for size in row)} |")


def use(address: str, sentences: list[str], languages: list[str]) -> None:
    """Translate sentences, with and without tags, over new connections."""
    fields = {"source": languages[0], "target": languages[1]}
    bodies = [
        json.dumps({"q": text, "format": form, **fields}).encode()
        for sentence in sentences
        for text, form in ((sentence, "text"), (f"<p><b>{sentence.partition(' ')[0]}</b> …</p>", "html"))
    ]

    def ask(body: bytes) -> None:
        request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as answer:
            answer.read()

    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(ask, bodies))


def children_of(process: int) -> list[int]:
    """Return the processes that a process has started."""
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process)], capture_output=True, text=True, check=False)
    return [int(pid) for pid in listed.stdout.split()]


def memory_of(process: int) -> Memory:
    """Return the memory of a process."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]
    sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}
    private = sizes["Private_Clean"] + sizes["Private_Dirty"]
    shared = sizes["Shared_Clean"] + sizes["Shared_Dirty"]
    return Memory(sizes["Pss"], private, shared)
