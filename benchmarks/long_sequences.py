"""Time and peak memory of a training step by sequence length, for every kind of attention.

The model is a decoder of two layers (d_model 128, 4 heads, d_ff 512) over 256 symbols, with a source of 8 tokens; a
step is the forward pass, the loss, the backward pass and Adam. Each measurement has a process of its own; its memory is
the increase of peak resident memory over that before the first step. Run on a quiet machine, in parts if need be:

    python -m benchmarks long-sequences --kinds window linear --lengths 512 16384 --json figures.jsonl

appends a line for each measurement to the file and prints the table of all measurements in it.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from torch.nn import functional

from benchmarks import command_line
from benchmarks.systems.worker import resident
from headwise.config import ModelConfig
from headwise.models.transformer import Transformer
from headwise.nn.attention import all_registered

LENGTHS = [512, 1024, 2048, 4096, 8192, 16384]
SYMBOLS, SOURCE = 256, 8


@dataclass(frozen=True)
class Measurement:
    kind: str
    length: int
    seconds: float  # the fastest step
    peak_mib: float
    threads: int
    torch: str


def model_for(kind: str, length: int) -> Transformer:
    """Build the model; block-sparse attention gets √n as window and stride, for its cost of n √n."""
    root = round(length**0.5)
    config = ModelConfig.model_validate(
        {
            "encoder_layers": 1,
            "decoder_layers": 2,
            "d_model": 128,
            "d_ff": 512,
            "heads": 4,
            "max_length": length,
            "attention": kind,
            "cross_attention": "fused",
            "attention_options": {"block_sparse": {"local": root, "stride": root}},
        }
    )
    return Transformer(config, SYMBOLS, SYMBOLS)


def step(model: Transformer, optimizer: torch.optim.Optimizer, length: int) -> None:
    """Run one training step on random symbols."""
    source, target = torch.randint(4, SYMBOLS, (1, SOURCE)), torch.randint(4, SYMBOLS, (1, length + 1))
    hidden = model(source, torch.ones_like(source, dtype=torch.bool), target[:, :-1])
    loss = functional.cross_entropy(model.project(hidden)[0], target[0, 1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    assert loss.isfinite()


def measure(pipe: Connection, kind: str, length: int, rounds: int, threads: int) -> None:
    """Measure and send (seconds, MiB) through the pipe; runs in a process of its own."""
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    model = model_for(kind, length)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    step(model, optimizer, 16)  # warm-up, not measured
    before, seconds = resident(peak=True), []
    for _ in range(rounds):
        began = time.perf_counter()
        step(model, optimizer, length)
        seconds.append(time.perf_counter() - began)
    pipe.send((min(seconds), (resident(peak=True) - before) / 2**20))


def apart(kind: str, length: int, rounds: int, threads: int) -> Measurement:
    """Measure in a fork of this process, which has computed nothing, so that no memory is shared or reused."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=measure, args=(sender, kind, length, rounds, threads))
    process.start()
    sender.close()
    try:
        seconds, mib = receiver.recv()
    except EOFError:
        process.join()
        raise SystemExit(f"{kind} at {length}: ended with code {process.exitcode}, out of memory?") from None
    process.join()
    return Measurement(kind, length, seconds, mib, threads, torch.__version__)


def table(measurements: Sequence[Measurement]) -> str:
    """Return a Markdown table of time and memory by kind and length, of each the last measurement; `–` if missing."""
    cells = {(m.kind, m.length): f"{m.seconds:.2f} s, {m.peak_mib:,.0f} MiB" for m in measurements}
    lengths = sorted({m.length for m in measurements})
    lines = [f"| kind | {' | '.join(f'{n:,}' for n in lengths)} |", "|---" + "|--:" * len(lengths) + "|"]
    for kind in sorted({m.kind for m in measurements}):
        lines.append(f"| `{kind}` | {' | '.join(cells.get((kind, n), '–') for n in lengths)} |")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> None:
    parser = command_line("long-sequences", __doc__)
    names = [kind.name for kind in all_registered()]
    parser.add_argument("--kinds", nargs="+", choices=names, default=names)
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--rounds", type=int, default=3, help="steps at each length; the fastest counts")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--reference-up-to", type=int, default=4096, help="it writes all scores out")
    parser.add_argument("--json", type=Path, help="file that measurements are added to, one a line")
    options = parser.parse_args(arguments)
    measurements = []
    if options.json and options.json.exists():
        measurements = [Measurement(**json.loads(line)) for line in options.json.read_text().splitlines()]
    for kind in options.kinds:
        for length in options.lengths:
            if kind == "reference" and length > options.reference_up_to:
                continue
            measured = apart(kind, length, options.rounds, options.threads)
            measurements.append(measured)
            print(
                f"{kind:>17} {length:>6} {measured.seconds:8.2f} s {measured.peak_mib:8.0f} MiB",
                file=sys.stderr,
            )
            if options.json:
                with options.json.open("a") as file:
                    file.write(json.dumps(asdict(measured)) + "\n")
    print(table(measurements))
