"""`headwise keys`: the API keys of `headwise serve`."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from headwise import bounds
from headwise.cli.arguments import AsJson, group

app = group("Make and remove the API keys of `headwise serve`.", "Example: headwise keys add keys.db alice")
File = Annotated[Path, Argument(metavar="FILE", help="The file of keys.")]
Name = Annotated[str, Argument(metavar="NAME", help="Whose key it is.")]


@app.command("add", epilog="Example: headwise keys add keys.db alice --characters 1000000 --requests 60")
def add(
    file: File,
    name: Name,
    characters: Annotated[
        int | None, Option(min=0, max=bounds.COUNT, help="Most characters a month.", show_default="no limit")
    ] = None,
    requests: Annotated[
        int | None, Option(min=1, max=10**6, help="Most requests a minute.", show_default="no limit")
    ] = None,
) -> None:
    """Make a key and print it, once: the file has only its hash. A running server knows it at once."""
    from headwise.serve.protocols.keys import KeyStore

    with closing(KeyStore(file, create=True)) as store:
        key = store.add(name, characters, requests)
    typer.echo(key)


@app.command("list", epilog="Example: headwise keys list keys.db")
def list_keys(file: File, as_json: AsJson = False) -> None:
    """List the keys' names, quotas, and the characters used this month."""
    from headwise.serve.protocols.keys import KeyStore

    with closing(KeyStore(file, read_only=True)) as store:
        entries = [
            {
                "name": key.name,
                "characters": store.used(key),
                "characters_per_month": key.characters_per_month,
                "requests_per_minute": key.requests_per_minute,
            }
            for key in store.all()
        ]
    if as_json:
        typer.echo(json.dumps({"keys": entries}))
        return
    for entry in entries:
        typer.echo("\t".join("no limit" if value is None else str(value) for value in entry.values()))


@app.command("remove", epilog="Example: headwise keys remove keys.db alice")
def remove(file: File, name: Name) -> None:
    """Remove a key; a running server refuses it from now on."""
    from headwise.serve.protocols.keys import KeyStore

    with closing(KeyStore(file)) as store:
        store.remove(name)
