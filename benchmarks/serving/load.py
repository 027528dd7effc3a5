"""Requests a second and latency of translation servers: Headwise, LibreTranslate, and a server around CTranslate2.

    python -m benchmarks serve RUN --sentences test.en.gz --libretranslate VENV/bin/python

All serve the same model on this machine, in turn in each round, to 1, 8 and 64 clients of wrk that send one sentence a
request and wait for its translation (beam 4). Needs wrk (apt install wrk). The last line has the time of
`Translator.translate` for one sentence, in this process.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import command_line, headwise
from headwise.engine.translator import Translator
from headwise.processes import python_command
from headwise.web.server import listen

HERE = Path(__file__).parent
STARTS_WITHIN = 120.0  # seconds


@dataclass(frozen=True)
class Server:
    """A server: its name and its command, in which PORT stands for the port."""

    name: str
    command: list[str]


@dataclass(frozen=True)
class Load:
    """What wrk measured; latencies in milliseconds."""

    per_second: float
    p50: float
    p95: float
    p99: float
    failures: int


def main(arguments: Sequence[str]) -> None:
    parser = parser_of("serve", __doc__)
    parser.add_argument("--libretranslate", help="Python interpreter of an environment that has it")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--seconds", type=int, default=10, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    languages = options.languages.split("-")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sentences = unpack(options.sentences, folder / "sentences.txt")
        measured: dict[tuple[str, int], list[Load]] = {}
        for number in range(options.rounds):
            for server in servers(options.run, languages, folder, options.libretranslate):
                with started(server) as (address, _):
                    load(address, 8, 3, sentences, languages)  # not measured
                    for clients in options.clients:
                        one = load(address, clients, options.seconds, sentences, languages)
                        measured.setdefault((server.name, clients), []).append(one)
                        print(f"round {number + 1}: {server.name}, {clients} clients: {one}", file=sys.stderr)
        report(measured)
        print(f"`Translator.translate`, one sentence: {alone(options.run, sentences):.1f} ms (median)")


def parser_of(name: str, description: str | None) -> argparse.ArgumentParser:
    """Return a parser of what the measurements of servers need."""
    parser = command_line(name, description)
    parser.add_argument("run", type=Path)
    parser.add_argument("--sentences", type=Path, required=True, help="one a line, plain or .gz")
    parser.add_argument("--languages", default="en-de", help="of the run")
    return parser


def servers(run: Path, languages: Sequence[str], folder: Path, libretranslate: str | None) -> list[Server]:
    """Return the servers, with the run exported for those that need it."""
    pair = "-".join(languages)
    own = serve_command(run, pair)
    found = [Server("Headwise", own), Server("Headwise, 2 workers", [*own, "--workers", "2"])]
    exported = export(run, "ctranslate2", languages, folder / "ctranslate2")
    for workers, threads in ((1, 2), (2, 1)):
        program = [sys.executable, str(HERE / "ctranslate2_server.py"), str(exported), "PORT"]
        found.append(Server(f"CTranslate2, {workers} x {threads} threads", [*program, str(workers), str(threads)]))
    if libretranslate is not None:
        package = export(run, "argos", languages, folder / "package.argosmodel")
        program = [libretranslate, str(HERE / "libretranslate_server.py"), str(package), "PORT", "2"]
        found.append(Server("LibreTranslate", program))
    return found


def serve_command(run: Path, languages: str) -> list[str]:
    """Return the command of Headwise's server for a pair of languages, such as en-de."""
    return python_command("-m", "headwise", "serve", str(run), "--port", "PORT", "--languages", languages)


def unpack(file: Path, out: Path) -> Path:
    """Write the text of a plain or .gz file to another one."""
    opened = gzip.open if file.suffix == ".gz" else open
    with opened(file, "rt", encoding="utf-8") as text:
        out.write_text(text.read(), encoding="utf-8")
    return out


def export(run: Path, form: str, languages: Sequence[str], out: Path) -> Path:
    if not out.exists():
        pair = ("--from-language", languages[0], "--to-language", languages[1])
        headwise("export", run, "--to", form, "--precision", "int8", *pair, "-o", out)
    return out


@contextmanager
def started(server: Server) -> Iterator[tuple[str, int]]:
    """Start a server, wait until it translates, and end it; yields its address and the number of its process."""
    with listen("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}/translate"
    command = [str(port) if part == "PORT" else part for part in server.command]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        body = json.dumps({"q": "A dog runs.", "source": "en", "target": "de"}).encode()
        request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
        until = time.monotonic() + STARTS_WITHIN
        while time.monotonic() < until and process.poll() is None:
            try:
                with urllib.request.urlopen(request, timeout=30):
                    break
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.2)
        else:
            raise SystemExit(f"{server.name} did not start: {' '.join(command)}")
        yield address, process.pid
    finally:
        process.terminate()
        process.wait()


def load(address: str, clients: int, seconds: int, sentences: Path, languages: Sequence[str]) -> Load:
    """Let some clients ask for some seconds."""
    command = wrk(address, clients, seconds, sentences, languages)
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = json.loads(output.splitlines()[-1])
    translated = found["statuses"].pop("200", 0)
    failures = sum(found["statuses"].values()) + found["socket_errors"]
    return Load(translated / found["seconds"], found["p50"], found["p95"], found["p99"], failures)


def wrk(
    address: str, clients: int, seconds: float, sentences: Path, languages: Sequence[str], lines: int = 1
) -> list[str]:
    """Return the command by which clients ask for some seconds, each request for so many sentences."""
    return [
        *(
            "wrk",
            "-t1",
            f"-c{clients}",
            f"-d{seconds:.0f}s",
            "--timeout",
            "60s",
            "-s",
            str(HERE / "requests.lua"),
        ),
        *(address, "--", str(sentences), *languages, str(lines)),
    ]


def report(measured: dict[tuple[str, int], list[Load]]) -> None:
    """Print a table of the medians over rounds."""
    print("| | clients | requests/s (lowest–highest) | p50 ms | p95 ms | p99 ms | failures |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for (name, clients), loads in sorted(measured.items(), key=lambda item: item[0][1]):
        speeds = [one.per_second for one in loads]
        p50, p95, p99 = (statistics.median(getattr(one, part) for one in loads) for part in ("p50", "p95", "p99"))
        print(
            f"| {name} | {clients} | {statistics.median(speeds):.0f} ({min(speeds):.0f}–{max(speeds):.0f}) "
            f"| {p50:.1f} | {p95:.1f} | {p99:.1f} | {sum(one.failures for one in loads)} |"
        )


def alone(run: Path, sentences: Path) -> float:
    """Return the median milliseconds of one sentence in this process."""
    translator = Translator.load(run)
    times = []
    for line in sentences.read_text(encoding="utf-8").splitlines()[:500]:
        began = time.perf_counter()
        translator.translate([line])
        times.append(1000 * (time.perf_counter() - began))
    return statistics.median(times)
