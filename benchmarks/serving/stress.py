"""What a translation server bears: more than it can translate, and clients that misbehave while its model changes.

    python -m benchmarks serve-stress overload RUN --sentences test.en.gz
    python -m benchmarks serve-stress soak RUN [OTHER_RUN] --sentences test.en.gz --minutes 10

`overload`: 100 clients ask for 20 sentences each, while 400 may wait. Expected are the statuses 200 and 429 alone,
memory that stays, and the latency from before within two seconds. `soak`: four clients behave; others connect and
are silent, send half a body, send garbage, hang up, or ask for 100,000 characters; and the run's model is replaced by
another run's and back, or by a copy of it, or loaded again by SIGHUP. The exit status is 1 where memory has grown by
more than `--most-growth`, where a request had a 5xx status other than 503 and 504, where a client that behaves wasn't
answered, and where something is left in the scheduler. Needs wrk.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import command_line
from benchmarks.serving.load import Server, serve_command, started, unpack, wrk

SHORT = 20  # requests whose median latency is compared
SAMPLED = 2.0  # seconds between two looks at the memory
ENDS_WITHIN = 40.0  # seconds, more than the deadline of a request
LEFT = (
    "headwise_sentences_accepted",
    "headwise_waiting_sentences",
    "headwise_running_sentences",
    "headwise_batch_rows",
)
KINDS = ("silent", "half a body", "garbage", "hangs up", "too long")


def main(arguments: Sequence[str]) -> None:
    parser = command_line("serve-stress", __doc__)
    parser.add_argument("test", choices=["overload", "soak"])
    parser.add_argument("run", type=Path)
    parser.add_argument("other", type=Path, nargs="?", help="for soak; by default RUN")
    parser.add_argument("--sentences", type=Path, required=True, help="one a line, plain or .gz")
    parser.add_argument("--languages", default="en-de", help="of the runs")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--most-growth", type=float, default=50.0, help="megabytes, from the first minute on")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = folder / "run"
        shutil.copytree(options.run, run, ignore=shutil.ignore_patterns("checkpoints", "prepared"))
        sentences = unpack(options.sentences, folder / "sentences.txt")
        server = Server("Headwise", [*serve_command(run, options.languages), "--limit-queue", "400"])
        languages = options.languages.split("-")
        with started(server) as (address, process):
            if options.test == "overload":
                overload(address, process, sentences, languages, 60 * options.minutes)
            else:
                models = [folder / "first", folder / "second"]
                for source, copy in zip((options.run, options.other or options.run), models, strict=True):
                    shutil.copy(source / "model.safetensors", copy)
                soaked = Soak(address, process, sentences, languages, 60 * options.minutes)
                asyncio.run(soaked.run(run, models))
                problems = soaked.problems(options.most_growth)
                print("\n".join(problems), file=sys.stderr)
                sys.exit(1 if problems else 0)


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
    print(f"statuses in {seconds:.0f} seconds of overload: {json.loads(output.stdout.splitlines()[-1])['statuses']}")
    print(f"latency of one client: {before:.1f} ms before, {now:.1f} ms {time.monotonic() - ended:.1f} s after the end")
    print(f"resident memory: {memory:.0f} MB before, {resident(process):.0f} MB after")


@dataclass
class Soak:
    """Clients that behave and misbehave for some seconds, while the model is replaced."""

    address: str
    process: int
    sentences: Path
    languages: list[str]
    seconds: float
    memory: list[float] = field(default_factory=list)  # megabytes, every `SAMPLED` seconds
    counts: Counter[str] = field(default_factory=Counter)  # of what was done
    behaving: dict[str, Any] = field(default_factory=dict)  # what wrk says of the clients that behave
    statuses: Counter[str] = field(default_factory=Counter)  # of all requests
    left: dict[str, float] = field(default_factory=dict)  # in the scheduler at the end

    async def run(self, run: Path, models: list[Path]) -> None:
        """Soak the server of a run, whose model is replaced by each of `models` in turn; print what is found."""
        end = time.monotonic() + self.seconds
        wrk_process = await asyncio.create_subprocess_exec(
            *wrk(self.address, 4, self.seconds, self.sentences, self.languages), stdout=subprocess.PIPE
        )
        tasks = [self._sample(end), self._change(end, run, models)]
        tasks += [self._repeat(end, kind) for kind in KINDS for _ in range(5)]
        await asyncio.gather(*tasks)
        output, _ = await wrk_process.communicate()
        self.behaving = json.loads(output.splitlines()[-1])
        print(f"clients that behave: {self.behaving}")
        print(f"others: {dict(self.counts)}")
        until = time.monotonic() + ENDS_WITHIN
        while self._read_metrics() and time.monotonic() < until:
            await asyncio.sleep(1)
        print(f"statuses of all requests: {dict(self.statuses)}")
        print(f"left in the scheduler: {self.left}")
        print(f"at the end: {resident(self.process):.0f} MB")

    def problems(self, most_growth: float) -> list[str]:
        """Return a sentence for each thing that must not be."""
        found: list[str] = []
        part = min(int(60 / SAMPLED), max(1, len(self.memory) // 4))
        first, last = max(self.memory[:part]), statistics.median(self.memory[-part:])
        if last - first > most_growth:
            found.append(
                f"memory: expected at most {most_growth:.0f} MB more, found {first:.0f} MB, then {last:.0f} MB"
            )
        for status, count in self.statuses.items():
            if status[0] == "5" and status not in ("503", "504"):
                found.append(f"statuses: expected none of {status}, found {count}")
        refused = {status for status in self.behaving["statuses"] if status not in ("200", "429")}
        if refused or self.behaving["socket_errors"] or not self.behaving["statuses"].get("200"):
            found.append(f"clients that behave: expected answers, found {self.behaving}")
        if any(self.left.values()):
            found.append(f"scheduler: expected nothing left after {ENDS_WITHIN:.0f} s, found {self.left}")
        return found

    async def _sample(self, end: float) -> None:
        each = max(1, int(min(60, self.seconds / 10) / SAMPLED))
        while time.monotonic() < end:
            if len(self.memory) % each == 0:
                print(
                    f"{self.seconds - (end - time.monotonic()):5.0f} s: {resident(self.process):.0f} MB",
                    flush=True,
                )
            self.memory.append(resident(self.process))
            await asyncio.sleep(SAMPLED)

    async def _change(self, end: float, run: Path, models: list[Path]) -> None:
        while time.monotonic() < end:
            for model in models:
                shutil.copy(model, run / "new")
                os.replace(run / "new", run / "model.safetensors")
                self.counts["replaced models"] += 1
                await asyncio.sleep(8)
            os.kill(self.process, signal.SIGHUP)
            self.counts["SIGHUP"] += 1
            await asyncio.sleep(4)

    async def _repeat(self, end: float, kind: str) -> None:
        port = int(self.address.split(":")[2].split("/")[0])
        while time.monotonic() < end:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await misbehave(kind, port, self.languages)
            self.counts[kind] += 1
            await asyncio.sleep(random.uniform(0, 2))

    def _read_metrics(self) -> bool:
        """Read the statuses and what is left; return whether something is."""
        address = self.address.removesuffix("/translate") + "/metrics"
        self.statuses.clear()
        for line in urllib.request.urlopen(address).read().decode().splitlines():
            if line.startswith("headwise_requests_total{"):
                self.statuses[line.partition('status="')[2][:3]] += int(float(line.split()[-1]))
            elif line.startswith(LEFT):
                self.left[line.split()[0]] = float(line.split()[-1])
        return any(self.left.values())


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
