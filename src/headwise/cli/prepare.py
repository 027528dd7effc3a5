"""`headwise data prepare`: a corpus that may exceed memory becomes shards of ids."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwise import bounds
from headwise.cli.arguments import Languages

EXAMPLE = "Example: headwise data prepare --source 'crawl/*.en.gz' --target 'crawl/*.de.gz' --near -o prepared/crawl"


def command(
    source: Annotated[
        list[str],
        typer.Option(
            "--source",
            help="Files, patterns, folders, s3://, gs://, hf://.",
        ),
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for the prepared corpus.")],
    target: Annotated[
        list[str] | None, typer.Option("--target", help="The other side of plain text; repeatable.")
    ] = None,
    source_field: Annotated[
        str, typer.Option(help="Field of a record: source, or as translation.en.", show_default=False)
    ] = "source",
    target_field: Annotated[str, typer.Option(help="Likewise: target.", show_default=False)] = "target",
    max_words: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, max=bounds.COUNT, help="Most words of a side (250).", show_default=False
        ),
    ] = 250,
    min_words: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, max=bounds.COUNT, help="Fewest words of a side (1).", show_default=False
        ),
    ] = 1,
    max_ratio: Annotated[
        float,
        typer.Option(
            metavar="R", min=1.0, max=bounds.RATIO, help="Most characters for each of the shorter side."
        ),
    ] = 9.0,
    max_word_ratio: Annotated[
        float,
        typer.Option(metavar="R", min=0.0, max=bounds.RATIO, help="Most words for each of it; 0: no limit."),
    ] = 0.0,
    identify_languages: Annotated[
        bool, typer.Option("--identify-languages", help="Drop pairs in other languages.")
    ] = False,
    languages: Languages = None,
    filters: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            metavar="MODULE:FUNCTION",
            help="It keeps, drops or changes a pair.",
        ),
    ] = None,
    keep_duplicates: Annotated[
        bool, typer.Option("--keep-duplicates", help="Keep exact duplicates.")
    ] = False,
    near: Annotated[bool, typer.Option("--near", help="Drop near duplicates, too (MinHash).")] = False,
    size: Annotated[
        int, typer.Option("--subwords", metavar="N", min=8, max=bounds.VOCABULARY, help="Subwords to learn.")
    ] = 37000,
    subwords_from: Annotated[
        Path | None, typer.Option(help="Or those of this run or prepared corpus.")
    ] = None,
    sample: Annotated[
        int, typer.Option(metavar="N", min=1, max=bounds.COUNT, help="Pairs to learn them from.")
    ] = 1_000_000,
    dev_pairs: Annotated[
        int, typer.Option(metavar="N", min=0, max=bounds.EXAMPLES, help="Pairs to hold out.")
    ] = 1000,
    max_length: Annotated[
        int, typer.Option(metavar="N", min=2, max=bounds.LENGTH, help="Most subwords of a side.")
    ] = 512,
    shard_pairs: Annotated[
        int, typer.Option(metavar="N", min=1, max=bounds.EXAMPLES, help="Most pairs of a shard.")
    ] = 1 << 18,
    seed: Annotated[int, typer.Option(metavar="N", min=0, max=bounds.SEED, help="Of all choices.")] = 1,
    engine: Annotated[str, typer.Option(help="processes, or ray: a cluster.")] = "processes",
    workers: Annotated[
        int, typer.Option(metavar="N", min=0, max=bounds.PROCESSES, help="0: one per processor.")
    ] = 0,
    restart: Annotated[bool, typer.Option("--restart", help="Prepare anew, whatever OUT holds.")] = False,
) -> None:
    """Clean, deduplicate and encode a corpus of any size into shards, from which `headwise train` streams.

    The same command resumes after an interruption. Train with headwise train data.prepared=[OUT].
    """
    from headwise.config import CleaningConfig, SubwordConfig
    from headwise.config.languages import language_of_files, parse_languages
    from headwise.errors import ConfigError
    from headwise.text.preparation.cleaning import Rules
    from headwise.text.preparation.corpus import prepare_corpus
    from headwise.text.preparation.stages import Preparation
    from headwise.text.tokens.subwords import Subwords

    pair = None
    if identify_languages:
        found = language_of_files(source), language_of_files(target or [])
        if languages is None and None in found:
            raise ConfigError(
                "--identify-languages: expected --languages beside it, such as en-de, found none"
            )
        pair = parse_languages(languages) if languages is not None else (str(found[0]), str(found[1]))
    job = Preparation(
        source,
        target or [],
        (source_field, target_field),
        Rules(
            CleaningConfig(
                max_words=max_words, max_ratio=max_ratio, drop_duplicates=not keep_duplicates or near
            ),
            min_words,
            max_word_ratio,
            pair,
            filters or [],
        ),
        near=near,
        subwords=SubwordConfig(size=size),
        given=None if subwords_from is None else Subwords.load(subwords_from),
        sample=sample,
        dev_pairs=dev_pairs,
        longest=max_length,
        shard_pairs=shard_pairs,
        seed=seed,
        engine=engine,
        workers=workers,
    )
    for line in prepare_corpus(
        job, out, restart=restart, say=lambda line: typer.echo(f"headwise: {line}", err=True)
    ):
        typer.echo(line)
    typer.echo(f"To train on it: headwise train --preset base data.prepared=[{out}] -o RUN", err=True)
