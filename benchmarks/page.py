"""How long the page waits for a trace: `python benchmarks/page.py RUN`; the issue of the page asks for under 150 ms.

A 20-token sentence, the run's beam, everything that the page asks for with each change, over HTTP on this machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import threading
import time
import urllib.request
from pathlib import Path

from headwise.serve.app import create_app
from headwise.serve.runs import open_runs
from headwise.serve.server import listen, server

SENTENCE = "a young man in a blue shirt is riding a brown horse along the beach with two dogs ."
ROUNDS = 30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--text", default=SENTENCE)
    arguments = parser.parse_args()
    listener = listen("127.0.0.1", 0)
    runs = open_runs([arguments.run], "cpu")
    served = server(create_app(runs))
    threading.Thread(target=served.run, kwargs={"sockets": [listener]}, daemon=True).start()
    while not served.started:
        time.sleep(0.05)
    address = f"http://127.0.0.1:{listener.getsockname()[1]}/api/"
    question = {"run": next(iter(runs)), "text": arguments.text, "arrays": "packed"}

    def ask(path: str, more: dict[str, object]) -> tuple[float, dict[str, object], int]:
        body = json.dumps({**question, **more}).encode()
        request = urllib.request.Request(address + path, body, {"Content-Type": "application/json"})
        began = time.perf_counter()
        with urllib.request.urlopen(request) as answer:
            told = answer.read()
        return 1000 * (time.perf_counter() - began), json.loads(told), len(told)

    _, trace, size = ask("trace", {})
    forced = trace["forced"]
    assert isinstance(forced, dict)
    tokens = len(trace["source"]["ids"])  # type: ignore[index]
    cell = {"target": forced["target"]["ids"], "part": "cross", "layer": 1, "head": 0, "query": 1}
    changes: list[tuple[str, str, dict[str, object]]] = [
        ("trace", "trace", {}),
        ("trace, a head silenced", "trace", {"interventions": ["silence:cross.1.1"]}),
        ("products", "products", cell),
    ]
    for name, path, more in changes:
        times = sorted(ask(path, more)[0] for _ in range(ROUNDS))
        print(
            f"{name:<24} median {statistics.median(times):6.1f} ms   90 % {times[int(0.9 * ROUNDS)]:6.1f} ms"
        )
    print(f"{tokens} source tokens, {size:,} bytes a trace")
    served.should_exit = True


if __name__ == "__main__":
    main()
