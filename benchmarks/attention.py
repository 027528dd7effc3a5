"""Time and memory as functions of size: attention by sequence length, the loss by vocabulary size.

A point is a forward and a backward pass, or with --step a training step (with Adam) of a model, which has a decoder of
two layers, 256 symbols, and a source of 8: any value of `model.attention`, with layers in its place. Every kind has its
own process, which measures its points in increasing order, so that the peak resident memory is that of the current
point; the memory before the first point is subtracted.

Example: python -m benchmarks attention --kinds all --lengths 1024,4096 --json curves.json
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from benchmarks import command_line
from benchmarks.systems import OWN, find_peer, options, report
from benchmarks.systems.options import whole
from benchmarks.systems.pool import Process, Say
from benchmarks.systems.report import ReportRow, grid
from benchmarks.systems.worker import answering, resident
from headwise import bounds
from headwise.nn import device as devices

_ALL_PAIRS = ("reference", "unscaled")  # kinds of attention that store the scores of all pairs
_MOST_SCORE_BYTES = 6 * 2**30  # of their scores
_ROUND_SECONDS = 0.5  # seconds over which a round repeats a point
_MEBI = 2**20
_TITLES = {"attention": "causal self-attention", "step": "a training step", "loss": "the loss"}
_SYMBOLS, _SOURCE, _LAYERS = 256, 8, 2  # of the model of a training step


@dataclass(frozen=True)
class Point:
    """A point to measure.

    Attributes:
        task: `attention`: causal self-attention over `batch` sequences of `length` tokens; `step`: a training step of a
            model over them; or `loss`, of `length` target tokens.
        kind: the kind of attention; `fused` or `plain` for the loss.
        heads, width: the heads of attention and their dimension; the product is the d_model of loss and model.
    """

    task: str
    kind: str
    batch: int = 1
    length: int = 1
    vocabulary: int = 0
    heads: int = 8
    width: int = 64
    precision: str = "float32"
    device: str = "cpu"
    threads: int = 1

    @property
    def stored(self) -> int:
        """Bytes of all scores and their softmax, 0 for kinds that don't store them."""
        if self.task == "loss" or self.kind not in _ALL_PAIRS:
            return 0
        layers = _LAYERS if self.task == "step" else 1
        return layers * 3 * 4 * self.batch * self.heads * self.length**2


def main(arguments: Sequence[str]) -> None:
    """Measure time and peak memory of attention, or a training step, by length, and of the loss by vocabulary."""
    chosen = _parser().parse_args(arguments)
    room = options.make_room(chosen.device, chosen.threads)
    devices.find_precision(chosen.precision, devices.find_device(room.device))
    machine = options.show_machine(room, [find_peer(OWN)])
    shared = {
        "heads": chosen.heads,
        "width": chosen.width,
        "precision": chosen.precision,
        "device": room.device,
        "threads": room.threads,
    }
    points = [
        Point("step" if chosen.step else "attention", kind, size, length, **shared)
        for size in options.parse_numbers("--batch", chosen.batch, bounds.COUNT)
        for length in sorted(options.parse_numbers("--lengths", chosen.lengths, bounds.LENGTH))
        for kind in _kinds(chosen.kinds, step=chosen.step)
    ]
    points += [
        Point("loss", kind, 1, chosen.tokens, vocabulary, **shared)
        for vocabulary in sorted(options.parse_numbers("--vocabularies", chosen.vocabularies, bounds.VOCABULARY))
        for kind in ("plain", "fused")
        if not chosen.step
    ]
    rows = []
    for task, of_task in itertools.groupby(points, lambda point: point.task):
        results = measure(list(of_task), chosen.rounds, options.tell)
        print(
            f"\n{_TITLES[task]}, forward and backward, {chosen.heads} heads of {chosen.width}, {chosen.precision}, "
            f"{room.device}, {room.threads} threads, median of {chosen.rounds} rounds\n\n{curves_table(results)}",
            flush=True,
        )
        rows += results
    if chosen.json:
        report.write_json(chosen.json, machine, rows)


def _parser() -> ArgumentParser:
    parser = command_line("attention", __doc__)
    parser.add_argument(
        "--kinds",
        default="reference,fused",
        help="kinds of attention, such as reference,fused,window; all: every one",
    )
    parser.add_argument("--step", action="store_true", help="measure a training step of a model, and no loss")
    parser.add_argument("--lengths", default="16,32,64,128,256,512,1024,2048,4096,8192", help="tokens of a sentence")
    parser.add_argument("--batch", default="1", help="sentences at once, such as 1,8")
    parser.add_argument(
        "--vocabularies",
        default="1000,2000,4000,8000,16000,32000,64000",
        help="subwords that the loss is measured with",
    )
    parser.add_argument("--tokens", type=whole(1, bounds.COUNT), default=2048, help="target tokens of the loss")
    parser.add_argument("--heads", type=whole(1, bounds.HEADS), default=8)
    parser.add_argument("--width", type=whole(1, bounds.WIDTH), default=64, help="of a head")
    parser.add_argument("--precision", default="float32", help="float32 or bfloat16")
    options.add_rounds(parser, 3)
    options.add_device(parser)
    return parser


def _kinds(text: str, *, step: bool) -> list[str]:
    """Return the requested kinds of attention, of a `step` also layers; raises `ConfigError` for an unknown one."""
    from headwise.nn.attention import all_registered, attention_kind, attention_kinds, registered

    if text == "all":
        return [kind.name for kind in (all_registered() if step else attention_kinds())]
    find = registered if step else attention_kind
    return [find(name, "--kinds").name for name in options.parse_names(text)]


def measure(points: Sequence[Point], rounds: int, say: Say) -> list[ReportRow]:
    """Measure the points in the given order; those whose scores take too much memory are skipped.

    `say` gets a line for each skipped point. Raises `BenchError` if a process fails.
    """
    skipped = [point for point in points if point.stored > _MOST_SCORE_BYTES]
    for point in skipped:
        say(f"{point.kind}, {point.batch} x {point.length}: skipped, its scores need {point.stored / 2**30:.0f} GiB")
    points = [point for point in points if point not in skipped]
    curves = dict.fromkeys(map(_curve, points))
    processes = {curve: Process("benchmarks.attention", curve.kind) for curve in curves}
    try:
        rows = [_row(point, processes[_curve(point)].ask({**asdict(point), "rounds": rounds})) for point in points]
    finally:
        for process in processes.values():
            process.close()
    return rows


def _curve(point: Point) -> Point:
    """Return the key of a point's curve: the point without the size that varies."""
    return replace(point, vocabulary=0) if point.task == "loss" else replace(point, length=1)


def _row(point: Point, measured: dict[str, Any]) -> ReportRow:
    seconds = statistics.median(measured["seconds"])
    tokens = point.batch * point.length
    return ReportRow(
        system=OWN,
        task=point.task,
        model=point.kind,
        batch=point.batch,
        beam=None,
        precision=point.precision,
        threads=point.threads,
        workers=1,
        tokens_per_second=tokens / seconds,
        ratio_to_best_peer=None,
        length=point.length,
        vocabulary=point.vocabulary or None,
        lowest=tokens / max(measured["seconds"]),
        highest=tokens / min(measured["seconds"]),
        peak_memory=measured["peak"] / _MEBI,
    )


def curves_table(rows: Sequence[ReportRow]) -> str:
    """Return a table with one line per size, and the milliseconds and MiB of each kind."""
    kinds = list(dict.fromkeys(row.model for row in rows))
    sizes = list(dict.fromkeys((row.batch, row.length, row.vocabulary) for row in rows))
    by_point = {(row.model, row.batch, row.length, row.vocabulary): row for row in rows}
    columns = [
        ("batch", [str(batch) for batch, _, _ in sizes]),
        ("length", [str(length) for _, length, _ in sizes]),
    ]
    if any(vocabulary for _, _, vocabulary in sizes):
        columns = [
            ("tokens", [f"{batch * (length or 1):,}" for batch, length, _ in sizes]),
            ("vocabulary", [f"{vocabulary:,}" for _, _, vocabulary in sizes]),
        ]
    for kind in kinds:
        of_kind = [by_point.get((kind, *size)) for size in sizes]
        columns.append((f"{kind} ms", [_milliseconds(row) if row else "" for row in of_kind]))
        columns.append((f"{kind} MiB", [f"{row.peak_memory:,.0f}" if row else "" for row in of_kind]))
    return grid(columns)


def _milliseconds(row: ReportRow) -> str:
    return f"{1e3 * row.batch * (row.length or 1) / (row.tokens_per_second or 1):,.2f}"


def _attention(point: Point) -> Callable[[], None]:
    import torch

    from headwise.nn.attention import attend
    from headwise.nn.device import PRECISIONS

    shape = (point.batch, point.heads, point.length, point.width)
    dtype = PRECISIONS[point.precision]
    q, k, v, out = (torch.randn(shape, dtype=dtype, device=point.device) for _ in range(4))
    leaves = [x.requires_grad_() for x in (q, k, v)]

    def run() -> None:
        result = attend(q, k, v, kind=point.kind, causal=True)
        torch.autograd.grad(result, leaves, out)

    return run


def _step(point: Point) -> Callable[[], None]:
    """Return a training step on random symbols; `block_sparse` has √n as window and stride, for its cost of n √n."""
    import torch
    from torch.nn import functional

    from headwise.config import ModelConfig
    from headwise.models.transformer import Transformer
    from headwise.nn.device import PRECISIONS

    root, d_model = round(point.length**0.5), point.heads * point.width
    config = ModelConfig.model_validate(
        {
            "encoder_layers": 1,
            "decoder_layers": _LAYERS,
            "d_model": d_model,
            "d_ff": 4 * d_model,
            "heads": point.heads,
            "max_length": max(point.length, _SOURCE),
            "attention": point.kind,
            "cross_attention": "fused",
            "attention_options": {"block_sparse": {"local": root, "stride": root}},
        }
    )
    model = Transformer(config, _SYMBOLS, _SYMBOLS).to(point.device)
    model.compute_dtype = PRECISIONS[point.precision]
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    source, target = (
        torch.randint(4, _SYMBOLS, (point.batch, length), device=point.device) for length in (_SOURCE, point.length + 1)
    )

    def run() -> None:
        hidden = model(source, torch.ones_like(source, dtype=torch.bool), target[:, :-1])
        loss = functional.cross_entropy(model.project(hidden).flatten(0, 1), target[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return run


def _loss(point: Point) -> Callable[[], None]:
    import torch
    from torch.nn import functional

    from headwise.nn.device import PRECISIONS
    from headwise.training.loss import smoothed_cross_entropy

    d_model, tokens, dtype = (
        point.heads * point.width,
        point.batch * point.length,
        PRECISIONS[point.precision],
    )
    hidden = torch.randn(tokens, d_model, dtype=dtype, device=point.device, requires_grad=True)
    weight = (torch.randn(point.vocabulary, d_model, device=point.device) * d_model**-0.5).requires_grad_()
    targets = torch.randint(point.vocabulary, (tokens,), device=point.device)

    def run() -> None:
        if point.kind == "fused":
            total, _ = smoothed_cross_entropy(hidden, weight, targets, 0.1)
        else:
            logits = (hidden @ weight.to(dtype).t()).float()
            total = functional.cross_entropy(logits, targets, label_smoothing=0.1, reduction="sum")
        torch.autograd.grad(total, [hidden, weight])

    return run


_TASKS = {"attention": _attention, "step": _step, "loss": _loss}


def _serve(first: dict[str, Any], answer: Callable[[dict[str, Any]], None]) -> None:
    """Measure the point of the first request, and those of the requests on standard input until it ends."""
    import torch

    before = 0
    for request in itertools.chain([first], map(json.loads, sys.stdin)):
        rounds = request.pop("rounds")
        point = Point(**request)
        torch.set_num_threads(point.threads)
        torch.manual_seed(1)
        cuda = point.device != "cpu"
        if not before:
            _TASKS[point.task](replace(point, length=16, vocabulary=min(point.vocabulary, 100)))()
            before = resident()
        if cuda:
            torch.cuda.reset_peak_memory_stats()
        run = _TASKS[point.task](point)
        run()
        seconds = [_seconds(run, cuda) for _ in range(rounds)]
        peak = torch.cuda.max_memory_allocated() if cuda else max(0, resident(peak=True) - before)
        answer({"seconds": seconds, "peak": peak})


def _seconds(run: Callable[[], None], cuda: bool) -> float:
    """Return the mean time of a run, over as many runs as fill a round."""
    import torch

    runs, began = 0, time.perf_counter()
    while not runs or time.perf_counter() - began < _ROUND_SECONDS:
        run()
        if cuda:
            torch.cuda.synchronize()
        runs += 1
    return (time.perf_counter() - began) / runs


if __name__ == "__main__":
    answering(_serve)
