"""`headwise train --estimate` beside what training really needs: memory, and target tokens per second.

    python -m benchmarks estimate --models tiny medium base --tokens 2048 8192 -o build/estimate

For each model and batch size, the estimate is printed by `headwise train --estimate`, and then some steps are trained
in one process with float32 on the CPU. The memory of a training is its largest resident set, as the kernel counted it.
The speed is the median over steps, without the first two. The text is the beginning of the built-in world's.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import command_line
from headwise.corpora.built_in import read_built_in
from headwise.files import write_text
from headwise.processes import child_environment, python_command

MODELS = {
    "tiny": (4, 128, 256, 4),  # layers in encoder and decoder, d_model, d_ff, heads
    "medium": (6, 256, 1024, 4),
    "base": (6, 512, 2048, 8),
}
_PAIRS = 3000  # of the text
_STEPS = 60  # the memory still grows in the first dozens, as every new shape of a batch adds something
_TOLERANCE = 0.15


def command(corpus: Path, model: str, tokens: int, more: list[str]) -> list[str]:
    """Return the command that trains, or estimates."""
    layers, width, inner, heads = MODELS[model]
    keys = {
        "model.encoder_layers": layers,
        "model.decoder_layers": layers,
        "model.d_model": width,
        "model.d_ff": inner,
        "model.heads": heads,
        "batch.tokens": tokens,
        "batch.accumulate": 1,
        "subwords.size": 1000,
        "data.dev_pairs": 0,
        "training.processes": 1,
        "training.products": "torch",
        "training.precision": "float32",
        "training.device": "cpu",
        "training.log_every": 1,
        "training.checkpoint_every": _STEPS,
        "training.average_last": 1,
        "training.checkpoint_activations": "false",
    }
    return python_command(
        *(
            "-m",
            "headwise",
            "train",
            "--source",
            str(corpus / "train.en"),
            "--target",
            str(corpus / "train.de"),
        ),
        *("--max-steps", str(_STEPS), *(f"{key}={value}" for key, value in keys.items()), *more),
    )


def peak(arguments: list[str]) -> int:
    """Run a command; returns its largest resident set in bytes."""
    with subprocess.Popen(arguments, env=child_environment(), stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, arguments)
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def speed(run: Path) -> float:
    """Return the median of the steps' target tokens per second, without the first two."""
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    speeds = [record["target_tokens_per_second"] for record in records if record["kind"] == "train"]
    return statistics.median(speeds[2:])


def main(arguments: Sequence[str]) -> int:
    parser = command_line("estimate", __doc__)
    parser.add_argument("-o", "--out", type=Path, required=True, help="a new folder")
    parser.add_argument("--models", nargs="+", default=["tiny", "medium", "base"], choices=MODELS)
    parser.add_argument("--tokens", type=int, nargs="+", default=[2048, 8192])
    options = parser.parse_args(arguments)
    corpus = options.out / "corpus"
    for side in ("en", "de"):
        lines = read_built_in("miniature", f"train.{side}")[:_PAIRS]
        write_text(corpus / f"train.{side}", "".join(f"{line}\n" for line in lines))
    print("| model | batch.tokens | memory: estimate, MB | training | ratio | tokens/s: estimate | training | ratio |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|", flush=True)
    failed = False
    for model in options.models:
        for tokens in options.tokens:
            name = f"{model}-{tokens}"
            estimate = command(
                corpus, model, tokens, ["--estimate", "--json", "-o", str(options.out / f"estimate-{name}")]
            )
            done = subprocess.run(estimate, env=child_environment(), check=True, capture_output=True, text=True)
            record = json.loads(done.stdout.splitlines()[-1])
            used = peak(command(corpus, model, tokens, ["-o", str(options.out / name)]))
            expected, fast = record["memory"]["total"], speed(options.out / name)
            memory, rate = expected / used, record["tokens_per_second"] / fast
            failed = failed or abs(memory - 1) > _TOLERANCE
            print(
                f"| {model} | {tokens:,} | {expected / 1e6:,.0f} | {used / 1e6:,.0f} | {memory:.2f} "
                f"| {record['tokens_per_second']:,.0f} | {fast:,.0f} | {rate:.2f} |",
                flush=True,
            )
    return int(failed)
