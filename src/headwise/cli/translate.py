"""`headwise translate`: translation of a file or standard input, line by line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwise import bounds
from headwise.cli.arguments import (
    CorpusEngine,
    Device,
    EnginePrecision,
    MoreRuns,
    OutputFile,
    TargetLanguage,
    TrainedRun,
    Workers,
    searchable,
)
from headwise.cli.translating import Request, translate_file, translate_stream
from headwise.errors import ConfigError

InputFile = Annotated[
    Path | None,
    typer.Argument(
        help="Text to translate: lines, .jsonl or .parquet; .gz or .zst, too; without, standard input."
    ),
]


def command(
    run: TrainedRun,
    file: InputFile = None,
    out: OutputFile = None,
    also: MoreRuns = None,
    language: TargetLanguage = None,
    beam: Annotated[
        int | None,
        typer.Option(callback=searchable, help="Beam size; 1 is greedy search.", show_default="the run's"),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(
            callback=searchable,
            help="Length penalty ((5+|Y|)/6)^alpha.",
            show_default="the run's",
        ),
    ] = None,
    n_best: Annotated[
        int, typer.Option(callback=searchable, help="Translations a line, or samples with --sample.")
    ] = 1,
    min_length: Annotated[int, typer.Option(callback=searchable, help="Fewest subwords of an output.")] = 0,
    max_length: Annotated[
        int | None,
        typer.Option(
            callback=searchable, help="Most subwords of an output.", show_default="50 more than the input's"
        ),
    ] = None,
    no_repeat_ngram: Annotated[
        int, typer.Option(callback=searchable, help="No n-gram of this size twice; 0: no limit.")
    ] = 0,
    guard: Annotated[
        bool,
        typer.Option(
            "--guard",
            help="Search again for outputs that repeat themselves or are far longer than their input.",
        ),
    ] = False,
    patience: Annotated[
        float,
        typer.Option(
            callback=searchable,
            help="The search ends after this many times --beam finished hypotheses; inf: when no other can win.",
        ),
    ] = 1.0,
    allow_unknown: Annotated[
        bool, typer.Option("--allow-unknown", help="Let ⁇ appear in the output.")
    ] = False,
    sample: Annotated[
        bool, typer.Option("--sample", help="Sample at random instead of beam search.")
    ] = False,
    temperature: Annotated[
        float,
        typer.Option(
            callback=searchable,
            help="With --sample: below 1 sharper, above 1 flatter distribution.",
        ),
    ] = 1.0,
    top_k: Annotated[
        int,
        typer.Option(callback=searchable, help="With --sample: among the k likeliest only; 0: all."),
    ] = 0,
    top_p: Annotated[
        float,
        typer.Option(
            callback=searchable,
            help="With --sample: among the likeliest of this total probability.",
        ),
    ] = 1.0,
    seed: Annotated[
        int, typer.Option(callback=searchable, help="With --sample: another seed, other samples.")
    ] = 1,
    prefix_file: Annotated[
        Path | None, typer.Option(help="A file whose lines begin the translations, one for each line.")
    ] = None,
    glossary: Annotated[
        Path | None,
        typer.Option(
            help="A file of terms whose translations must be in the output: source, tab, translation in each line."
        ),
    ] = None,
    ignore_case: Annotated[
        bool, typer.Option("--ignore-case", help="Find the glossary's source terms in any case.")
    ] = False,
    split: Annotated[
        bool,
        typer.Option(
            "--split", help="Translate lines that are too long in parts instead of truncating them."
        ),
    ] = False,
    scores: Annotated[
        bool, typer.Option("--scores", help="Put the score and a tab before each translation.")
    ] = False,
    alignments: Annotated[
        bool,
        typer.Option("--alignments", help="Put a tab and word alignments (0-0 1-2) behind each translation."),
    ] = False,
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="Write a JSON object for each line, with everything.")
    ] = False,
    device: Device = "auto",
    engine: CorpusEngine = "auto",
    precision: EnginePrecision = None,
    workers: Workers = 0,
    shortlist: Annotated[
        bool,
        typer.Option(
            "--shortlist", help="Search only the subwords of the shortlist from `headwise shortlist`."
        ),
    ] = False,
    threads: Annotated[
        int,
        typer.Option(
            min=0, max=bounds.PROCESSES, help="Threads of a matrix product in PyTorch; 0: PyTorch's choice."
        ),
    ] = 0,
    batch_tokens: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=bounds.COUNT,
            help="Source subwords in a batch, times the beam.",
            show_default="the run's",
        ),
    ] = None,
    chunk: Annotated[
        int, typer.Option(min=1, max=bounds.COUNT, help="Lines read ahead, to batch them by length.")
    ] = 1024,
    source_field: Annotated[
        str, typer.Option(help="Field of a .jsonl or .parquet row with the text.")
    ] = "source",
    target_field: Annotated[str, typer.Option(help="Field of the translation in such an output.")] = "target",
    on_bad_line: Annotated[
        str | None,
        typer.Option(
            metavar="stop|replace|empty",
            help="Lines that aren't UTF-8, lack the field or are too long: an error, what is readable, or empty.",
            show_default="stop; cut if too long",
        ),
    ] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Begin OUT anew, whatever an interrupted command has left.")
    ] = False,
) -> None:
    """Translate a file or standard input, line by line, in its order; an empty line stays empty.

    With --n-best above 1 each translation has a line of its own that begins with its input line's number and a
    tab. Lengths count subwords. The engine and its precision are printed on standard error.

    With FILE and -o OUT, the same command resumes after an interruption. OUT.progress exists until OUT is complete.

    Example: headwise translate runs/de test.en -o test.de --beam 5

    Example: headwise translate runs/de corpus.en.zst -o corpus.de.zst --on-bad-line empty --engine ray
    """
    from headwise.nn.device import use_threads
    from headwise.tasks.corpus.columns import Columns
    from headwise.tasks.corpus.runs import Runs
    from headwise.text.reading.glossary import read_glossary

    overrides = {
        "n_best": n_best,
        "min_length": min_length,
        "max_length": max_length,
        "no_repeat_ngram": no_repeat_ngram,
        "guard": guard,
        "patience": patience,
        "allow_unknown": allow_unknown,
        "sample": sample,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "seed": seed,
    }
    overrides |= {name: value for name, value in (("beam", beam), ("alpha", alpha)) if value is not None}
    if ignore_case and glossary is None:
        raise ConfigError("--ignore-case: expected it together with --glossary, found it alone")
    terms = None if glossary is None else read_glossary(glossary, ignore_case=ignore_case)
    use_threads(threads)
    runs = Runs(
        [run, *(also or [])],
        overrides,
        {
            "device": device,
            "precision": precision,
            "engine": engine,
            "workers": workers,
            "shortlist": shortlist,
            "language": language,
        },
        batch_tokens,
    )
    translation = Request(
        runs,
        Columns(numbers=n_best > 1, scores=scores, alignments=alignments, jsonl=jsonl),
        terms,
        split=split,
        chunk=chunk,
        prefixes=prefix_file,
        inputs=(file, prefix_file, glossary),
    )
    if file is not None and out is not None and _regular(file, out):
        fields = source_field, target_field
        translate_file(translation, file, out, fields, bad_lines=on_bad_line, restart=restart)
    else:
        filed = {"--on-bad-line": on_bad_line, "--restart": restart, "--engine ray": runs.on_cluster}
        for option, given in filed.items():
            if given:
                raise ConfigError(f"{option}: expected a FILE and -o beside it, found a stream")
        translate_stream(translation, file, out, source_field)


def _regular(file: Path, out: Path) -> bool:
    """Whether both are files, so that the translation can be resumed."""
    return file.is_file() and (out.is_file() or not out.exists())
