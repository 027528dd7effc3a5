"""`headwise data prepare`: a corpus that may exceed memory becomes shards of ids."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from headwise import bounds
from headwise.cli.arguments import Languages, count, named
from headwise.cli.streams import say

_SUBWORDS, _SAMPLE, _DEV_PAIRS = 37_000, 1_000_000, 1_000
EXAMPLE = "Example: headwise data prepare --source 'crawl/*.en.gz' --target 'crawl/*.de.gz' --near -o prepared/crawl"


Target = Annotated[list[str] | None, Option("--target", help="The other side of plain text; repeatable.")]
IdentifyLanguages = Annotated[bool, Option("--identify-languages", help="Drop pairs in other languages.")]
Filters = Annotated[
    list[str] | None, Option("--filter", metavar="MODULE:FUNCTION", help="It keeps, drops or changes a pair.")
]
DropUntranslated = Annotated[bool, Option("--drop-untranslated", help="Drop pairs of two equal sentences.")]
HeldOut = Annotated[
    list[str] | None, Option("--held-out", metavar="FILE", help="Drop pairs with a sentence of this test.")
]
Size = Annotated[
    int | None,
    count("--subwords", least=8, most=bounds.VOCABULARY, help="Subwords to learn.", show_default=str(_SUBWORDS)),
]
SubwordsFrom = Annotated[Path | None, Option(callback=named, help="Or those of this run or prepared corpus.")]
DevPairs = Annotated[
    int | None, count(least=0, most=bounds.EXAMPLES, help="Pairs to hold out.", show_default=str(_DEV_PAIRS))
]


def command(
    source: Annotated[list[str], Option("--source", help="Files, patterns, folders, s3://, gs://, hf://.")],
    out: Annotated[Path, Option("-o", "--out", help="Folder for the prepared corpus.")],
    target: Target = None,
    dev_source: Annotated[str | None, Option(help="Development text; else pairs are held out.")] = None,
    dev_target: Annotated[str | None, Option(help="Its other side.")] = None,
    source_field: Annotated[
        str, Option(help="Field of a record: source, or as translation.en.", show_default=False)
    ] = "source",
    target_field: Annotated[str, Option(help="Likewise: target.", show_default=False)] = "target",
    max_words: Annotated[int, count(help="Most words of a side (250).", show_default=False)] = 250,
    max_ratio: Annotated[
        float,
        Option(metavar="R", min=1.0, max=bounds.RATIO, help="Most characters for each of the shorter side."),
    ] = 9.0,
    identify_languages: IdentifyLanguages = False,
    languages: Languages = None,
    filters: Filters = None,
    drop_untranslated: DropUntranslated = False,
    held_out: HeldOut = None,
    keep_duplicates: Annotated[bool, Option("--keep-duplicates", help="Keep exact duplicates.")] = False,
    near: Annotated[bool, Option("--near", help="Drop near duplicates, too (MinHash).")] = False,
    size: Size = None,
    subwords_from: SubwordsFrom = None,
    sample: Annotated[int | None, count(help="Pairs to learn them from.", show_default=str(_SAMPLE))] = None,
    dev_pairs: DevPairs = None,
    max_length: Annotated[int, count(least=2, most=bounds.LENGTH, help="Most subwords of a side.")] = 512,
    shard_pairs: Annotated[int, count(most=bounds.EXAMPLES, help="Most pairs of a shard.")] = 1 << 18,
    seed: Annotated[int, count(least=0, most=bounds.SEED, help="Of all choices.")] = 1,
    engine: Annotated[str, Option(help="processes, or ray: a cluster.")] = "processes",
    workers: Annotated[int, count(least=0, most=bounds.PROCESSES, help="0: one per processor.")] = 0,
    restart: Annotated[bool, Option("--restart", help="Prepare anew, whatever OUT holds.")] = False,
) -> None:
    """Clean, deduplicate and encode a corpus of any size into shards, from which `headwise train` streams.

    The same command resumes after an interruption. Train with headwise train data.prepared=[OUT].
    """
    from headwise.config import Config, SubwordConfig
    from headwise.config.languages import language_of_files, parse_languages
    from headwise.errors import ConfigError
    from headwise.text.preparation.cleaning import Rules
    from headwise.text.preparation.corpus import prepare_corpus
    from headwise.text.preparation.stages import Preparation
    from headwise.text.reading.pairs import pair_files
    from headwise.text.tokens.subwords import Subwords

    if dev_source is not None:
        pair_files(dev_source, dev_target)
    elif dev_target is not None:
        raise ConfigError(f"--dev-source: expected the partner of {dev_target}, found none")
    alternatives = {
        "--subwords": (size, "--subwords-from", subwords_from),
        "--sample": (sample, "--subwords-from", subwords_from),
        "--dev-pairs": (dev_pairs, "--dev-source", dev_source),
    }
    for option, (value, other, given) in alternatives.items():
        if value is not None and given is not None:
            raise ConfigError(f"{option}: expected it without {other}, found both")
    if keep_duplicates and near:
        raise ConfigError("--keep-duplicates: expected none with --near, which drops exact ones, too, found both")
    if languages is not None and not identify_languages:
        raise ConfigError("--languages: expected --identify-languages beside it, found none")
    pair = None
    if identify_languages:
        found = language_of_files(source), language_of_files(target or [])
        if languages is None and None in found:
            raise ConfigError("--identify-languages: expected --languages beside it, such as en-de, found none")
        pair = parse_languages(languages) if languages is not None else (str(found[0]), str(found[1]))
    cleaning = {
        "max_words": max_words,
        "max_ratio": max_ratio,
        "drop_duplicates": not keep_duplicates,
        "drop_untranslated": drop_untranslated,
        "held_out": held_out or [],
    }
    job = Preparation(
        source,
        target or [],
        (source_field, target_field),
        Rules(
            Config.from_tree({"data": {"cleaning": cleaning}}, "command line").data.cleaning,
            pair,
            filters or [],
        ),
        near=near,
        subwords=SubwordConfig(size=size or _SUBWORDS),
        given=None if subwords_from is None else Subwords.load(subwords_from),
        sample=sample or _SAMPLE,
        development=None if dev_source is None else (dev_source, dev_target),
        dev_pairs=0 if dev_source is not None else _DEV_PAIRS if dev_pairs is None else dev_pairs,
        longest=max_length,
        shard_pairs=shard_pairs,
        seed=seed,
        engine=engine,
        workers=workers,
    )
    for line in prepare_corpus(job, out, restart=restart, say=say):
        typer.echo(line)
    typer.echo(f"To train on it: headwise train --preset base data.prepared=[{out}] -o RUN", err=True)
