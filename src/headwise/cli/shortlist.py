"""`headwise shortlist`: a lexical shortlist of target subwords, learned from a run's training text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwise import bounds
from headwise.cli.arguments import named
from headwise.errors import CheckpointError


def command(
    run: Annotated[
        Path, typer.Argument(callback=named, help="A trained run directory, with its prepared text.")
    ],
    candidates: Annotated[
        int,
        typer.Option(
            min=1, max=bounds.VOCABULARY, help="Target subwords of each source subword, by IBM Model 1."
        ),
    ] = 200,
    common: Annotated[
        int, typer.Option(min=0, max=bounds.VOCABULARY, help="Most frequent target subwords, in every list.")
    ] = 500,
) -> None:
    """Learn a shortlist of target subwords for each source; `translate --shortlist` restricts the search to it.

    Large vocabularies gain most. Translations may differ if a needed word isn't listed: `headwise evaluate RUN
    --shortlist …` measures the cost. The list is stored in RUN/shortlist.safetensors.

    Example: headwise shortlist runs/de
    """
    from headwise.config import Config
    from headwise.decoding.shortlist import FILE, learn_shortlist
    from headwise.text.datasets.parallel import PreparedData
    from headwise.text.tokens.subwords import Subwords

    config = Config.of_run(run, "translation")
    if not (run / "prepared").is_dir():
        raise CheckpointError(
            f"{run}/prepared: expected the text that the run was trained with, found none; "
            f"`headwise train` makes it, and a copied run has to bring it along"
        )
    data = PreparedData.open(run / "prepared")
    subwords = Subwords.load(run, config.subwords)
    if data.subwords.digest() != subwords.digest():
        raise CheckpointError(
            f"{run}/prepared: expected text in the run's subwords ({subwords.digest()}), found others "
            f"({data.subwords.digest()})"
        )
    shortlist = learn_shortlist(
        data.train.source_table,
        data.train.target_table,
        subwords.source_size,
        subwords.target_size,
        candidates=candidates,
        common=common,
        joint=subwords.joint,
    )
    shortlist.save(run / FILE, subwords.digest())
    message = f"headwise: {run / FILE}: {shortlist}, from {len(data.train):,} pairs"
    if len(data.dev):
        length, covered = shortlist.coverage(data.dev.source_table, data.dev.target_table)
        message += (
            f"; in the development text a sentence's list has {length:.0f} of the {subwords.target_size:,} target "
            f"subwords, and {100 * covered:.1f} % of those in its translation"
        )
    typer.echo(message, err=True)
