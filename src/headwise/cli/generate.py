"""`headwise generate`: text generation with a language model, streamed token by token."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwise import bounds
from headwise.cli.arguments import Device, Precision, drawable, finite, named


def command(
    run: Annotated[
        Path, typer.Argument(callback=named, help="A trained run directory of task language_model.")
    ],
    prompt: Annotated[str, typer.Option(help="Text to continue; without, a new text begins.")] = "",
    temperature: Annotated[
        float,
        typer.Option(
            callback=drawable,
            help="Below 1 sharper, above 1 flatter distribution; 0 takes the likeliest token.",
        ),
    ] = 1.0,
    top_k: Annotated[
        int, typer.Option(min=0, max=bounds.VOCABULARY, help="Among the k likeliest only; 0: all.")
    ] = 0,
    top_p: Annotated[
        float,
        typer.Option(
            min=0.0, max=1.0, callback=finite, help="Among the likeliest of this total probability."
        ),
    ] = 1.0,
    max_tokens: Annotated[
        int, typer.Option(callback=drawable, help="Tokens to add to the prompt, at most.")
    ] = 500,
    seed: Annotated[int, typer.Option(min=0, max=bounds.SEED, help="Another seed, other texts.")] = 1,
    n: Annotated[
        int,
        typer.Option("--n", "-n", min=1, max=bounds.SAMPLES, help="Number of texts, generated as one batch."),
    ] = 1,
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="Write a JSON object for each text, at the end.")
    ] = False,
    device: Device = "auto",
    precision: Precision = "float32",
) -> None:
    """Continue a prompt; the text appears token by token. With --n above 1, a line `--- 2 ---` begins the second.

    Example: headwise generate runs/tiny-shakespeare --prompt "ROMEO:" --temperature 0.8 --max-tokens 300
    """
    from headwise.cli.streams import show
    from headwise.decoding.generation import GenerationOptions, Generator
    from headwise.text.reading.lines import json_line

    options = GenerationOptions(temperature, top_k, top_p, max_tokens, seed)
    stream = Generator.load(run, device=device, precision=precision).stream(prompt, options, samples=n)
    texts = [prompt] * n
    if not jsonl:
        show(f"--- 1 ---\n{prompt}" if n > 1 else prompt)
    for parts in stream:
        texts = [text + part for text, part in zip(texts, parts, strict=True)]
        if not jsonl and parts[0]:
            show(parts[0])
    if jsonl:
        for text in texts:
            show(json_line({"prompt": prompt, "text": text}) + "\n")
        return
    show("" if texts[0].endswith("\n") else "\n")
    for number, text in enumerate(texts[1:], start=2):
        show(f"--- {number} ---\n{text}" + ("" if text.endswith("\n") else "\n"))
