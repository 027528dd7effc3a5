"""`headwise predict`: labels, tags, answers or filled masks for each line."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Annotated

import typer

from headwise import bounds
from headwise.cli.arguments import Device, OutputFile, Precision, TrainedRun


def command(
    run: TrainedRun,
    file: Annotated[
        Path | None, typer.Argument(help="Lines to read, plain or .gz; without, standard input.")
    ] = None,
    out: OutputFile = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write a JSON object for each line, with everything.")
    ] = False,
    device: Device = "auto",
    precision: Precision = "float32",
    chunk: Annotated[
        int, typer.Option(min=1, max=bounds.COUNT, help="Lines read ahead, to batch them by length.")
    ] = 1024,
) -> None:
    """Predict for each line of a file or of standard input, in its order; an empty line stays empty.

    \b
    classification         a text            -> its label, a tab, the label's probability
    tagging                words             -> a tag for each
    question_answering     question TAB text -> the answer (or a JSON object with question and context)
    masked_language_model  text with <mask>  -> the text with the likeliest token there

    Example: echo "a moving and funny film" | headwise predict runs/mr-polarity

    Example: headwise predict runs/ud-ewt-upos sentences.txt --json -o tags.jsonl
    """
    from headwise.chunks import chunks, results
    from headwise.cli.lines import line_writer, read_lines, watched
    from headwise.config import Config
    from headwise.tasks.registry import find_task
    from headwise.text.reading.lines import json_line

    config = Config.of_run(run)
    predict = find_task(config.task).predictor(run, config, device=device, precision=precision)
    name = str(file) if file is not None else "standard input"
    lines = read_lines(file)
    if file is not None and (out is not None or not sys.stdout.isatty()):
        lines = watched(lines, file, "predicting")
    if file is None and sys.stdin.isatty():
        chunk = 1
    with line_writer(out, file) as write:
        for part in chunks(enumerate(lines, start=1), itertools.repeat(chunk)):
            inputs = [(line, f"{name} line {number}") for number, line in part if line.strip()]
            predictions = results(predict, inputs) if inputs else iter(())
            for number, line in part:
                if not line.strip():
                    write(json_line({"line": number}) if as_json else "")
                    continue
                prediction = next(predictions)
                record = {"line": number, **prediction.record}
                write(json_line(record) if as_json else prediction.text)
