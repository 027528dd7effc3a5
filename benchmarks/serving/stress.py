"""What a translation server bears: more than it can translate, and clients that misbehave while its model changes.

    python benchmarks/serving/stress.py overload RUN --sentences test.en.gz
    python benchmarks/serving/stress.py soak RUN OTHER_RUN --sentences test.en.gz --minutes 10

`overload`: 100 clients ask for 20 sentences each, while 400 may wait. Expected are the statuses 200 and 429 alone,
memory that stays, and the latency from before within two seconds. `soak`: four clients behave; others connect and
are silent, send half a body, send garbage, hang up, or ask for 100,000 characters; and the run's model is replaced by
another run's and back. Expected are memory that stays, no 5xx status, and nothing left in the scheduler. Needs wrk.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

from load import HERE, Server, headwise, started, unpack

SHORT = 20  # requests whose median latency is compared
KINDS = ("silent", "half a body", "garbage", "hangs up", "too long")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("test", choices=["overload", "soak"])
    parser.add_argument("run", type=Path)
    parser.add_argument("other", type=Path, nargs="?", help="for soak")
    parser.add_argument("--sentences", type=Path, required=True, help="one a line, plain or .gz")
    parser.add_argument("--languages", default="en-de", help="of the runs")
    parser.add_argument("--minutes", type=float, default=1.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = folder / "run"
        shutil.copytree(arguments.run, run, ignore=shutil.ignore_patterns("checkpoints", "prepared"))
        sentences = unpack(arguments.sentences, folder / "sentences.txt")
        command = [*headwise(), "serve", str(run), "--port", "PORT", "--languages", arguments.languages]
        server = Server("Headwise", [*command, "--limit-queue", "400"])
        languages = arguments.languages.split("-")
        with started(server) as (address, process):
            if arguments.test == "overload":
                overload(address, process, sentences, languages, 60 * arguments.minutes)
            else:
                assert arguments.other is not None, "soak needs a second run"
                models = [folder / "first", folder / "second"]
                for source, copy in zip((arguments.run, arguments.other), models, strict=True):
                    shutil.copy(source / "model.safetensors", copy)
                asyncio.run(soak(address, process, sentences, languages, 60 * arguments.minutes, run, models))


def overload(address: str, process: int, sentences: Path, languages: list[str], seconds: float) -> None:
    """Ask for more than the server can translate, and report how it answered and recovered."""
    ask(address, languages)
    before, memory = latency(address, languages), resident(process)
    output = subprocess.run(
        wrk(address, 100, seconds, sentences, languages, 20), check=True, capture_output=True, text=True
    )
    ended = time.monotonic()
    while (now := latency(address, languages, 5)) > 1.5 * before and time.monotonic() < ended + 30:
        pass
    print(
        f"statuses in {seconds:.0f} seconds of overload: {json.loads(output.stdout.splitlines()[-1])['statuses']}"
    )
    print(
        f"latency of one client: {before:.1f} ms before, {now:.1f} ms {time.monotonic() - ended:.1f} s after the end"
    )
    print(f"resident memory: {memory:.0f} MB before, {resident(process):.0f} MB after")


async def soak(
    address: str,
    process: int,
    sentences: Path,
    languages: list[str],
    seconds: float,
    run: Path,
    models: list[Path],
) -> None:
    """Let clients behave and misbehave, and replace the model, for some seconds; report memory, statuses and load."""
    end = time.monotonic() + seconds
    port = int(address.split(":")[2].split("/")[0])
    behaving = await asyncio.create_subprocess_exec(
        *wrk(address, 4, seconds, sentences, languages, 1), stdout=subprocess.PIPE
    )
    counts: Counter[str] = Counter()

    async def repeat(kind: str) -> None:
        while time.monotonic() < end:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await misbehave(kind, port, languages)
            counts[kind] += 1
            await asyncio.sleep(random.uniform(0, 2))

    async def sample() -> None:
        while time.monotonic() < end:
            print(f"{seconds - (end - time.monotonic()):5.0f} s: {resident(process):.0f} MB")
            await asyncio.sleep(seconds / 10)

    async def change() -> None:
        while time.monotonic() < end:
            for model in models:
                shutil.copy(model, run / "new")
                os.replace(run / "new", run / "model.safetensors")
                counts["replaced models"] += 1
                await asyncio.sleep(8)

    tasks: list[Callable[[], Awaitable[None]]] = [sample, change]
    await asyncio.gather(*(task() for task in tasks), *(repeat(kind) for kind in KINDS for _ in range(5)))
    output, _ = await behaving.communicate()
    print(f"clients that behave: {json.loads(output.splitlines()[-1])}")
    print(f"others: {dict(counts)}")
    await asyncio.sleep(5)
    metrics = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    statuses: Counter[str] = Counter()
    for line in metrics.splitlines():
        if line.startswith("headwise_requests_total{"):
            statuses[line.partition('status="')[2][:3]] += int(float(line.split()[-1]))
        elif line.startswith(("headwise_sentences_accepted", "headwise_waiting_sent", "headwise_running")):
            print(line)
    print(f"statuses of all requests: {dict(statuses)}")
    print(f"at the end: {resident(process):.0f} MB")


async def misbehave(kind: str, port: int, languages: list[str]) -> None:
    """Open a connection and do what a kind of client does."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        text = "a dog runs . " * (8_000 if kind == "too long" else 20)
        body = json.dumps({"q": text, "source": languages[0], "target": languages[1]}).encode()
        head = f"POST /translate HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        if kind == "silent":
            await asyncio.sleep(random.uniform(1, 15))
        elif kind == "half a body":
            writer.write(request[: len(request) - len(body) // 2])
            await asyncio.sleep(random.uniform(0.1, 5))
        elif kind == "garbage":
            writer.write(random.randbytes(random.randrange(1, 5_000)))
            await reader.read(1_000)
        elif kind == "hangs up":
            writer.write(request)
            await asyncio.sleep(random.uniform(0, 0.05))
        else:
            writer.write(request)
            await reader.read(1_000)
            await asyncio.sleep(0.2)
        await writer.drain()
    finally:
        writer.close()


def wrk(
    address: str, clients: int, seconds: float, sentences: Path, languages: list[str], lines: int
) -> list[str]:
    command = ["wrk", "-t1", f"-c{clients}", f"-d{seconds:.0f}s", "--timeout", "60s"]
    return [
        *command,
        *("-s", str(HERE / "requests.lua"), address, "--", str(sentences), *languages, str(lines)),
    ]


def ask(address: str, languages: list[str]) -> float:
    """Return the milliseconds of a short request, infinite for one that is refused with 429."""
    body = json.dumps({"q": "a dog runs .", "source": languages[0], "target": languages[1]}).encode()
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
    began = time.perf_counter()
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()
    except urllib.error.HTTPError as error:
        if error.code != 429:
            raise
        return math.inf
    return 1000 * (time.perf_counter() - began)


def latency(address: str, languages: list[str], requests: int = SHORT) -> float:
    return statistics.median(ask(address, languages) for _ in range(requests))


def resident(process: int) -> float:
    """Return the megabytes of a process that are in memory."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    main()
