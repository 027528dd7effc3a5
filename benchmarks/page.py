"""Latency of the page's requests: `python -m benchmarks page RUN`; the target is under 150 ms.

A 20-token sentence, the run's beam size, all requests that the page sends after a change, over HTTP on this machine.
"""

from __future__ import annotations

import json
import statistics
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from benchmarks import command_line
from benchmarks.browser import served
from headwise.page.runs import PageRun

SENTENCE = "a young man in a blue shirt is riding a brown horse along the beach with two dogs ."
ROUNDS = 30


def main(arguments: Sequence[str]) -> None:
    parser = command_line("page", __doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--text", default=SENTENCE)
    options = parser.parse_args(arguments)
    runs = PageRun.open_all([options.run], "cpu")
    with served(runs) as address:
        measure(f"{address}api/", {"run": next(iter(runs)), "text": options.text, "arrays": "packed"})


def measure(address: str, common: dict[str, object]) -> None:
    """Print the latency of each kind of request; `common` are the fields that all of them have."""

    def ask(path: str, fields: dict[str, object]) -> tuple[float, dict[str, object], int]:
        body = json.dumps({**common, **fields}).encode()
        request = urllib.request.Request(address + path, body, {"Content-Type": "application/json"})
        began = time.perf_counter()
        with urllib.request.urlopen(request) as response:
            content = response.read()
        return 1000 * (time.perf_counter() - began), json.loads(content), len(content)

    _, trace, size = ask("trace", {})
    forced = trace["forced"]
    assert isinstance(forced, dict)
    tokens = len(trace["source"]["ids"])  # type: ignore[index]
    cell = {"target": forced["target"]["ids"], "part": "cross", "layer": 1, "head": 0, "query": 1}
    requests: list[tuple[str, str, dict[str, object]]] = [
        ("trace", "trace", {}),
        ("trace, a head silenced", "trace", {"interventions": ["silence:cross.1.1"]}),
        ("products", "products", cell),
    ]
    for name, path, fields in requests:
        times = sorted(ask(path, fields)[0] for _ in range(ROUNDS))
        print(f"{name:<24} median {statistics.median(times):6.1f} ms   90 % {times[int(0.9 * ROUNDS)]:6.1f} ms")
    print(f"{tokens} source tokens, {size:,} bytes a trace")
