"""Fuzzing of model files: numbered cases of damaged runs, in worker processes, so that a crash is only a finding.

    python tests/faults/fuzz.py --cases 200000 --workers 1 --log fuzz.log     (or make fuzz CASES=200000)
    python tests/faults/fuzz.py --only 1234                                   one case again, with its traceback

Case n is the same on every machine. --first continues a range. Each line of the log is a finding; the last line counts
the outcomes, such as `sentence`, `same` or `tied` (see `judge`). The exit code is 1 if there are findings.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import os
import resource
import selectors
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]

MEMORY = 2 << 30  # memory limit of a case, in bytes above the program's own; no case needs a tenth of it
CPU_SECONDS = 60  # time limit of a case, which usually takes a tenth of a second


@dataclass
class Report:
    """outcomes: count of each; findings: case number and description; slowest: CPU seconds and case number."""

    outcomes: collections.Counter[str] = field(default_factory=collections.Counter)
    findings: list[tuple[int, str]] = field(default_factory=list)
    slowest: tuple[float, int] = (0.0, -1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--only", type=int, help="run this case alone, in this process")
    parser.add_argument("--worker", nargs=5, help=argparse.SUPPRESS)  # three numbers, two folders
    arguments = parser.parse_args()
    if arguments.worker:
        *numbers, bases, native = arguments.worker
        work(range(*map(int, numbers)), Path(bases), Path(native))
        return 0
    if arguments.only is not None:
        return run_one(arguments.only)
    report = supervise(arguments.first, arguments.cases, arguments.workers, log=arguments.log)
    return 1 if report.findings else 0


def run_one(number: int) -> int:
    """Run a case in this process, for debugging, and keep its folder."""
    import judge

    root = Path(tempfile.mkdtemp(prefix=f"case-{number}-"))
    write_bases(root / "bases")
    print(judge.damage(root / "bases", root / "case", number), root / "case", sep="\n")
    print(judge.judge(root / "case"))
    return 0


def write_bases(folder: Path) -> None:
    """Write the valid runs, which the cases damage."""
    from bases import BASES, write_base

    for name, base in BASES.items():
        write_base(base, folder / name)


def work(numbers: Sequence[int], bases: Path, native: Path) -> None:
    """Run cases and print for each its number, the description of its damage, and its outcome, one per line.

    `native` is the folder of the native engine's libraries.
    """
    import torch

    import judge
    from headwise.native import library

    library.FOLDER = native
    faulthandler.enable()
    torch.set_num_threads(1)
    limit_memory()
    with tempfile.TemporaryDirectory() as scratch:
        for number in numbers:
            print("case", number, flush=True)
            description = judge.damage(bases, Path(scratch, "case"), number)
            print("edit", description.encode("ascii", "backslashreplace").decode(), flush=True)
            started = time.process_time()
            try:
                outcome = judge.judge(Path(scratch, "case"))
            except Exception as error:  # any unexpected exception is a finding and must not affect the next case
                frame = traceback.extract_tb(error.__traceback__)[-1]
                location = f"{Path(frame.filename).name}:{frame.lineno}"
                outcome = f"finding {type(error).__name__} at {location}: {error}"[:1500]
                outcome = repr(outcome)[1:-1].encode("ascii", "backslashreplace").decode()
            print("done", f"{time.process_time() - started:.2f}", outcome, flush=True)


def limit_memory() -> None:
    """Limit the memory of a case to `MEMORY` above the current size of the process."""
    if not Path("/proc/self/statm").exists() or "libasan" in os.environ.get("LD_PRELOAD", ""):
        return
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def supervise(
    first: int, cases: int, workers: int, *, log: Path | None = None, program: Path = Path(__file__)
) -> Report:
    """Run cases first, first + 1, … in `workers` processes; a process that dies or hangs is replaced.

    `program` is the script that the processes run, with the hidden option of `main`.
    """
    report = Report()
    with tempfile.TemporaryDirectory() as folder, selectors.DefaultSelector() as selector:
        write_bases(Path(folder, "bases"))
        for number in range(workers):
            Worker(program, range(first + number, first + cases, workers), Path(folder)).start(selector)
        while selector.get_map():
            for key, _ in selector.select(timeout=1):
                key.data.read(selector, report, log)
            for key in list(selector.get_map().values()):
                key.data.check_time()
    say(f"{sum(report.outcomes.values())} cases: {dict(report.outcomes)}; slowest {report.slowest}", log)
    return report


def say(line: str, log: Path | None) -> None:
    print(line, flush=True)
    if log:
        with log.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


class Worker:
    """Supervisor of a process that runs every n-th of the cases; starts a new process after a crash."""

    def __init__(self, program: Path, cases: range, folder: Path) -> None:
        self.program, self.folder = program, folder
        self.next, self.end, self.stride = cases.start, cases.stop, cases.step
        self.description, self.cpu_at_start, self.partial_line = "", 0.0, b""
        self.count, self.hung = 0, False

    def start(self, selector: selectors.BaseSelector) -> None:
        """Start a process with the next case, if any is left."""
        if self.next >= self.end:
            return
        from headwise.native import library

        numbers = [str(self.next), str(self.end), str(self.stride)]
        errors = (self.folder / f"errors-{self.next % self.stride}").open("wb")
        folders = [str(self.folder / "bases"), str(library.FOLDER)]
        command = [sys.executable, "-P", str(self.program), "--worker", *numbers, *folders]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
        errors.close()
        self.errors, self.partial_line, self.cpu_at_start, self.hung = Path(errors.name), b"", 0.0, False
        assert self.process.stdout is not None
        selector.register(self.process.stdout, selectors.EVENT_READ, self)

    def read(self, selector: selectors.BaseSelector, report: Report, log: Path | None) -> None:
        """Read the output of the process, or handle its end."""
        assert self.process.stdout is not None
        content = os.read(self.process.stdout.fileno(), 1 << 16)
        if content:
            *lines, self.partial_line = (self.partial_line + content).split(b"\n")
            for line in lines:
                self.take(line.decode(), report, log)
            return
        selector.unregister(self.process.stdout)
        self.process.stdout.close()
        code = self.process.wait()
        if self.next < self.end:  # it died during a case
            what = f"hung for {CPU_SECONDS} CPU seconds" if self.hung else f"died of {ending(code)}"
            tail = self.errors.read_bytes()[-1500:].decode(errors="replace")
            self.take(f"done 0 finding {what}: {' | '.join(tail.splitlines())}", report, log)
            self.start(selector)

    def take(self, line: str, report: Report, log: Path | None) -> None:
        word, _, rest = line.partition(" ")
        if word == "case":
            self.next, self.description, self.cpu_at_start = int(rest), "", cpu_seconds(self.process.pid)
        elif word == "edit":
            self.description = rest
        elif word == "done":
            seconds, _, outcome = rest.partition(" ")
            report.outcomes[outcome.split()[0]] += 1
            report.slowest = max(report.slowest, (float(seconds), self.next))
            if outcome.startswith("finding"):
                report.findings.append((self.next, f"{outcome[8:]} [{self.description}]"))
                say(f"case {self.next}: {outcome[8:]} [{self.description}]", log)
            self.next += self.stride
            self.count += 1
            if log and self.count % 500 == 0:
                say(f"at case {self.next}: {dict(report.outcomes)}", log)

    def check_time(self) -> None:
        """Kill a process whose case takes too long, in CPU seconds, so that a busy machine doesn't matter."""
        if not self.description or self.hung:
            return
        if cpu_seconds(self.process.pid) - self.cpu_at_start > CPU_SECONDS:
            self.hung = True
            self.process.kill()


def cpu_seconds(process: int) -> float:
    """Return the CPU time of a process in seconds."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ending(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


if __name__ == "__main__":
    sys.exit(main())
