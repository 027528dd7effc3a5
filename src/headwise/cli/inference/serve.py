"""`headwise serve`: the web page that shows what a model computes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwise import bounds
from headwise.cli.arguments import Device
from headwise.errors import ConfigError


def command(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN…", help="Run directories, trained or in training.")
    ],
    host: Annotated[str, typer.Option(help="0.0.0.0 lets other machines in.")] = "127.0.0.1",
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="Also accept this host name, as a proxy or another machine uses it; repeatable."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8080,
    source: Annotated[
        Path | None,
        typer.Option(
            help="Sentences to measure the heads on, or a .conllu file with trees; plain or .gz.",
            show_default="the run's development data",
        ),
    ] = None,
    target: Annotated[Path | None, typer.Option(help="Their translations, likewise.")] = None,
    gold: Annotated[
        Path | None, typer.Option(help="Their gold word alignments (0-0 1-2), for the alignment error rate.")
    ] = None,
    miniature: Annotated[
        bool, typer.Option("--miniature", help="Measure on the built-in corpus's test set.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, max=bounds.SEED, help="Of the built-in corpus.")] = 1,
    tokenized: Annotated[
        bool, typer.Option("--tokenized", help="Put a space between all words of a .conllu file.")
    ] = False,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Lower-case the text.")] = False,
    device: Device = "auto",
) -> None:
    """Serve a page that shows what a model does: every head, the beam, each product, live.

    Example: headwise serve runs/de --port 8080
    """
    try:
        from headwise.serve.server import serve
    except ImportError as error:
        raise ConfigError(
            f"serve: needs the packages fastapi and uvicorn, found no {error.name}; run `pip install headwise[serve]`"
        ) from None
    from headwise.serve.evaluation_pairs import MOST_SENTENCES, EvaluationPairs
    from headwise.serve.runs import open_runs

    def say(address: str) -> None:
        typer.echo(f"Headwise is at {address}  (Ctrl-C ends it)")

    if (source is None) != (target is None):
        raise ConfigError("serve: expected --source and --target together, found one of them alone")
    if gold is not None and source is None:
        raise ConfigError("serve: expected --gold together with --source and --target, found it alone")
    corpus = None
    if source is not None or miniature:
        from headwise.cli.annotated import read_sentences

        sentences = read_sentences(
            source,
            target,
            miniature="test" if miniature else None,
            seed=seed,
            tokenized=tokenized,
            lowercase=lowercase,
            limit=MOST_SENTENCES,
        )
        name = "the built-in corpus" if source is None else source.name
        assert sentences.targets is not None
        corpus = EvaluationPairs(name, sentences.sources, sentences.targets, sentences.gold)
    if corpus is not None and gold is not None:
        corpus = corpus.with_gold(gold)
    serve(open_runs(runs, device), host, port, say, corpus, allow_host or [])
