"""Worker process of one system with one setting: it loads the model, warms up, and runs rounds on request.

Requests are JSON lines on standard input, responses JSON lines on standard output. The end of the input ends the
process.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.systems import find_peer
from benchmarks.systems.peer import Decoding, Peer, Setting
from benchmarks.systems.workload import Workload
from headwise.errors import HeadwiseError

Round = Callable[[dict[str, Any]], dict[str, Any]]


def resident(peak: bool = False) -> int:
    """Return the resident memory of this process in bytes, current or peak."""
    field = "VmHWM:" if peak else "VmRSS:"
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))
    except (OSError, StopIteration):  # not Linux, which has the peak only
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def open_training(peer: Peer, workload: Workload, setting: Setting, arguments: dict[str, Any]) -> Round:
    """Open a model for training; return the function that runs a round, with the same batches each time."""
    from benchmarks.systems.training_group import TrainingGroup

    device = arguments["device"]
    group = TrainingGroup(peer, workload, setting, device, arguments["tokens"], arguments["batches"])

    def wait() -> None:
        if device != "cpu":
            import torch

            torch.cuda.synchronize(device)

    def run(request: dict[str, Any]) -> dict[str, Any]:
        if request.get("loss"):
            return {"loss": group.loss()}
        began = time.perf_counter()
        tokens = group.round()
        wait()
        seconds = time.perf_counter() - began
        return {"tokens": tokens, "seconds": seconds, "peak": group.memory(resident(peak=True))}

    return run


def open_decoding(peer: Peer, workload: Workload, setting: Setting, arguments: dict[str, Any]) -> Round:
    """Open a decoder; return the function that runs a round: the request holds sentence numbers and the job."""
    decode = peer.open_decoding(workload, setting, arguments["device"])

    def run(request: dict[str, Any]) -> dict[str, Any]:
        job = Decoding(**request["job"])
        sources = [workload.sources[row] for row in request["rows"]]
        calls = [[source] for source in sources] if job.batch == 1 else [sources]
        outputs, times = [], []
        for call in calls:
            began = time.perf_counter()
            outputs += decode(call, job)
            times.append(time.perf_counter() - began)
        tokens = len(sources) * job.length if job.length else sum(len(output) + 1 for output in outputs)
        result = {"tokens": tokens, "seconds": sum(times), "sentences": len(sources), "times": times}
        return {**result, "outputs": outputs} if request.get("outputs") else result

    return run


OPEN = {"train": open_training, "decode": open_decoding}


def serve(request: dict[str, Any], answer: Callable[[dict[str, Any]], None]) -> None:
    """Handle the first request, which opens a system, then run rounds until the input ends."""
    peer = find_peer(request["peer"])
    workload = Workload.open(Path(request["workload"]))
    if request["task"] == "prepare":
        peer.prepare(workload, workload.folder)
        return answer({})
    peer.load()
    setting = Setting(**request["setting"])
    libraries = resident()
    began = time.perf_counter()
    run = OPEN[request["task"]](peer, workload, setting, request)
    if request["warm_up"]:
        run(request["warm_up"])
    answer({"libraries": libraries, "seconds": time.perf_counter() - began})
    for line in sys.stdin:
        answer({"peak": resident(peak=True), **run(json.loads(line))})


def answering(serve: Callable[[dict[str, Any], Callable[[dict[str, Any]], None]], None]) -> None:
    """Run `serve` with responses on the original standard output; what libraries print goes to standard error."""
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(record: dict[str, Any]) -> None:
        channel.write(json.dumps(record) + "\n")
        channel.flush()

    try:
        serve(json.loads(sys.stdin.readline()), answer)
    except HeadwiseError as error:
        answer({"error": str(error)})


if __name__ == "__main__":
    answering(serve)
