"""`python -m benchmarks NAME …`: it looks a benchmark up by name and imports only that one."""

from __future__ import annotations

import importlib
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from headwise.errors import HeadwiseError

ROOT = Path(__file__).resolve().parent.parent

# Name -> (module with a function `main`, one line of help).
BENCHMARKS = {
    "decode": ("benchmarks.decode", "Decoding, against other systems: speed, latency, memory, outputs."),
    "train": ("benchmarks.train", "Training, against other systems: speed, memory, share of the peak."),
    "attention": ("benchmarks.attention", "Attention or a step by length, the loss by vocabulary."),
    "start": ("benchmarks.start", "Time to the help, the import and the first translation."),
    "serve": ("benchmarks.serving.load", "Requests a second and latency, against other servers."),
    "serve-memory": ("benchmarks.serving.memory", "Memory of the server by its number of workers."),
    "serve-stress": ("benchmarks.serving.stress", "What the server bears: overload, and bad clients."),
    "page": ("benchmarks.page", "Latency of the page's requests."),
    "static-page": ("benchmarks.static_page", "Time of a translation on the page without a server."),
    "screenshots": ("benchmarks.screenshots", "Screenshots of the page, to look at after every change."),
    "products": ("benchmarks.products", "Matrix products of a training step, by each way to compute them."),
    "estimate": ("benchmarks.estimate", "`headwise train --estimate` beside what training really needs."),
    "preparation": ("benchmarks.preparation", "`headwise data prepare`, beside a plain SentencePiece loop."),
    "robustness": ("benchmarks.robustness", "Translations of text as people type it: capitals, typos, …"),
    "general-pair": ("benchmarks.general_pair", "What each ingredient of the general pair gives."),
    "adaptation": ("benchmarks.adaptation", "Adaptation to another domain, with and without replay."),
}


def run(arguments: Sequence[str]) -> int:
    """Run a benchmark and return the exit code: 0 success, 1 a limit exceeded, 2 a user's error."""
    name, rest = (arguments[0], arguments[1:]) if arguments else ("--help", [])
    if name in {"-h", "--help"}:
        print("Usage: python -m benchmarks NAME [OPTIONS]\n")
        print(*(f"  {known:<15} {text}" for known, (_, text) in BENCHMARKS.items()), sep="\n")
        return 0
    if name not in BENCHMARKS:
        print(f"benchmarks: error: expected one of {', '.join(BENCHMARKS)}, found {name!r}", file=sys.stderr)
        return 2
    # Child processes run modules of this package, too.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    try:
        return importlib.import_module(BENCHMARKS[name][0]).main(rest) or 0
    except HeadwiseError as error:
        problem = str(error)
    except subprocess.CalledProcessError as error:
        problem = f"expected a command to end well, found exit code {error.returncode}: {shlex.join(error.cmd)}"
    except FileNotFoundError as error:  # a file, or a program that isn't installed
        problem = f"{error.filename}: {error.strerror}"
    print(f"benchmarks: error: {problem}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
