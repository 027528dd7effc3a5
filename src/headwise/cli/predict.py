"""`headwise predict`: labels, tags, answers, filled masks or text for each line."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from headwise import bounds
from headwise.cli.arguments import Device, Imports, OutputFile, Precision, TrainedRun, refuse_without
from headwise.errors import ConfigError

if TYPE_CHECKING:
    from headwise.decoding.generation import Generator
    from headwise.engine.options import GenerationOptions
    from headwise.tasks.base import Predictor

_CHUNK = 1024  # lines read ahead, to batch them by length


def command(
    run: TrainedRun,
    file: Annotated[Path | None, Argument(help="Lines to read, plain or .gz; without, standard input.")] = None,
    out: OutputFile = None,
    as_json: Annotated[bool, Option("--json", help="Write a JSON object for each line, with everything.")] = False,
    prompt: Annotated[str | None, Option(help="Of a language model: the text to continue, token by token.")] = None,
    n: Annotated[int, Option("-n", min=1, max=bounds.SAMPLES, help="Texts that continue the prompt.")] = 1,
    settings: Annotated[
        list[str] | None,
        Option("-s", metavar="KEY=VALUE", help="temperature (0: the likeliest), top_k, top_p, max_tokens, seed."),
    ] = None,
    device: Device = "auto",
    imports: Imports = None,
    precision: Precision = "float32",
) -> None:
    """Predict for each line of a file or of standard input, in its order; an empty line stays empty.

    \b
    classification         a text            -> its label, a tab, the probability
    tagging                words             -> a tag for each
    question_answering     question TAB text -> the answer
    masked_language_model  text with <mask>  -> the text with the likeliest token
    language_model         a text            -> the text, continued

    A question and its text may also be a JSON object with question and context. --prompt shows a text as it is
    written.

    Example: echo "a moving and funny film" | headwise predict runs/mr-polarity

    Example: headwise predict runs/tiny-shakespeare --prompt "ROMEO:" -s temperature=0.8 -s max_tokens=300
    """
    from headwise.config import Config
    from headwise.engine.options import GenerationOptions
    from headwise.tasks.registry import find_task

    options = GenerationOptions(**GenerationOptions.parse(settings or []))
    config = Config.of_run(run)
    if config.task != "language_model":
        given = {"--prompt": prompt is not None, "-n": n > 1, "-s": bool(settings)}
        for option in (name for name, value in given.items() if value):
            raise ConfigError(f"{option}: expected a run of task language_model, found one of {config.task}")
        predict = find_task(config.task).predictor(run, config, device=device, precision=precision)
        _predict_lines(predict, file, out, as_json, _CHUNK)
        return
    from headwise.decoding.generation import Generator
    from headwise.tasks.language_model import continuing

    if prompt is not None and (file is not None or out is not None):
        found = file if file is not None else f"-o {out}"
        raise ConfigError(f"--prompt: expected it without FILE and -o, found {found}")
    if prompt is None:
        refuse_without("--prompt", {"-n": n > 1})
    generator = Generator.load(run, device=device, precision=precision)
    if prompt is None:
        _predict_lines(continuing(generator, options), file, out, as_json, 1)
    else:
        _stream(generator, prompt, options, n, as_json=as_json)


def _predict_lines(predict: Predictor, file: Path | None, out: Path | None, as_json: bool, chunk: int) -> None:
    from headwise.chunks import chunks, results
    from headwise.cli.lines import line_writer, watched
    from headwise.text.reading.lines import json_line, read_lines

    name = str(file) if file is not None else "standard input"
    lines = watched(read_lines(file), file, out, "predicting")
    if file is None and sys.stdin.isatty():
        chunk = 1
    with line_writer(out, file, live=file is None or not file.is_file()) as write:
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


def _stream(generator: Generator, prompt: str, options: GenerationOptions, n: int, *, as_json: bool) -> None:
    """Print the first text as it is written, then the others after a line `--- 2 ---`; or all as JSON objects."""
    from headwise.cli.streams import show
    from headwise.text.reading.lines import json_line

    texts = [prompt] * n
    stream = generator.stream(prompt, options, samples=n)
    for step, parts in enumerate(stream):
        if step == 0 and not as_json:
            show(f"--- 1 ---\n{prompt}" if n > 1 else prompt)
        texts = [text + part for text, part in zip(texts, parts, strict=True)]
        if not as_json and parts[0]:
            show(parts[0])
    if as_json:
        for text in texts:
            show(json_line({"prompt": prompt, "text": text}) + "\n")
        return
    show("" if texts[0].endswith("\n") else "\n")
    for number, text in enumerate(texts[1:], start=2):
        show(f"--- {number} ---\n{text}" + ("" if text.endswith("\n") else "\n"))
