"""`headwise serve`: the web page that shows what a model computes, and a translation server for clients."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise import bounds
from headwise.cli.arguments import Device, Imports, finite, named, search_settings
from headwise.errors import ConfigError
from headwise.extras import installed, not_installed
from headwise.serve.translation.limits import MOST_CHARACTERS, MOST_ITEMS, MOST_SECONDS, ServiceLimits

if TYPE_CHECKING:
    from headwise.page.evaluation_pairs import EvaluationPairs
    from headwise.serve.production import ServedRun
    from headwise.web.app import ApplicationPart

LIMITS = ServiceLimits()


def command(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN…", callback=named, help="Runs, also in training, or demo."),
    ],
    host: Annotated[str, typer.Option(help="0.0.0.0 lets other machines in.")] = "127.0.0.1",
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="Another name of this host; repeatable."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8080,
    source: Annotated[
        Path | None,
        typer.Option(
            help="To measure the heads on; .conllu, too; .gz.",
        ),
    ] = None,
    target: Annotated[Path | None, typer.Option(help="Their translations, likewise.")] = None,
    gold: Annotated[Path | None, typer.Option(help="Their word alignments (0-0 1-2).")] = None,
    miniature: Annotated[bool, typer.Option("--miniature", help="Measure on the built-in test set.")] = False,
    tokenized: Annotated[
        bool, typer.Option("--tokenized", help="Separate all words of a .conllu file.")
    ] = False,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Lower-case the text.")] = False,
    device: Device = "auto",
    imports: Imports = None,
    languages: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[RUN=]FROM-TO",
            help="Such as en-de, where a run doesn't tell.",
        ),
    ] = None,
    api_keys: Annotated[
        Path | None, typer.Option("--api-keys", help="Ask clients for a key of `headwise keys`.")
    ] = None,
    glossaries: Annotated[Path | None, typer.Option(help="Keep clients' glossaries in this file.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "-s", metavar="KEY=VALUE", help="Of every search, such as beam=2; guard=true unless set."
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(help="Let pages of this site translate; repeatable."),
    ] = None,
    limit_characters: Annotated[
        int, typer.Option(min=1, max=MOST_CHARACTERS, help="Most characters of a request.")
    ] = LIMITS.characters,
    limit_items: Annotated[
        int, typer.Option(min=1, max=MOST_ITEMS, help="Most texts of a request.")
    ] = LIMITS.items,
    limit_seconds: Annotated[
        float, typer.Option(min=0.1, max=MOST_SECONDS, callback=finite, help="Deadline of a request.")
    ] = LIMITS.seconds,
    limit_queue: Annotated[
        int, typer.Option(min=1, max=bounds.COUNT, help="Most sentences that wait.")
    ] = LIMITS.queue,
    workers: Annotated[
        int, typer.Option(min=1, max=bounds.WORKERS, help="Processes, which share the models.")
    ] = 1,
    log: Annotated[
        bool,
        typer.Option("--log", help="Log each request as JSON, without texts."),
    ] = False,
) -> None:
    """Serve a page that shows what a model does, and translate for clients of LibreTranslate and DeepL.

    Example: headwise serve runs/de --port 8080

    Example: headwise serve runs/en-de runs/de-en --host 0.0.0.0 --api-keys keys.db --log
    """
    search = search_settings(settings)
    if "n_best" in search:
        raise ConfigError("-s n_best: expected it in a request, found it for the whole server")
    search = {"guard": not search.get("sample", False), **search}  # sampling has no second search
    from headwise.serve.production import Production, given_languages, open_production, served_languages
    from headwise.serve.protocols.keys import KeyStore
    from headwise.serve.protocols.observation import log_line
    from headwise.serve.protocols.rates import Rates
    from headwise.serve.shared import Shared
    from headwise.serve.translation.glossaries import GlossaryStore
    from headwise.serve.workers.supervisor import prepare_parent, supervise
    from headwise.serve.workers.worker import Served
    from headwise.web.hangup import ignore_hangup
    from headwise.web.hosts import checked_origin
    from headwise.web.server import listening, serve

    def say(address: str) -> None:
        typer.echo(f"Headwise is at {address}  (Ctrl-C ends it)")

    def tell(sentence: str) -> None:
        typer.echo(f"headwise: {sentence}", err=True)

    if (source is None) != (target is None):
        raise ConfigError("serve: expected --source and --target together, found one of them alone")
    if gold is not None and source is None:
        raise ConfigError("serve: expected --gold together with --source and --target, found it alone")
    corpus = None
    if source is not None or miniature:
        if not installed("torch"):
            raise not_installed("--miniature" if source is None else "--source", "torch")
        sentences = {
            "miniature": "test" if miniature else None,
            "tokenized": tokenized,
            "lowercase": lowercase,
        }
        corpus = _measured(source, target, gold, **sentences)
    threads = 0
    if workers > 1:
        threads = prepare_parent(workers, device)
    ignore_hangup()
    opened, page = _opened(runs, device, threads, corpus)
    origins = [checked_origin(origin) for origin in allow_origin or []]
    limits = dataclasses.replace(
        LIMITS,
        characters=limit_characters,
        items=limit_items,
        seconds=limit_seconds,
        queue=limit_queue,
    )

    def production(shared: Shared) -> Production:
        return open_production(
            opened,
            languages or [],
            limits,
            say=tell if workers == 1 else lambda sentence: None,  # the parent has said it
            keys=None if api_keys is None else KeyStore(api_keys, Rates(shared.database)),
            origins=origins,
            log=log_line if log else None,
            glossaries=None if glossaries is None else GlossaryStore(glossaries),
            search=search,
            shared=shared,
        )

    if workers == 1:
        opened_here = production(Shared())
        with listening(host, port, allow_host or [], say) as (listener, hosts):
            serve(opened_here.app(page(), hosts), listener, limits.seconds_to_finish)
        return
    if api_keys is not None:
        KeyStore(api_keys).close()  # raises now where it is none; a connection can't be carried across a fork
    if glossaries is not None:
        GlossaryStore(glossaries).close()
    given = given_languages(languages or [], opened)
    for run in opened.values():
        served_languages(run, given, tell)
    with listening(host, port, allow_host or [], say) as (listener, hosts):
        supervise(
            Served(opened, listener, hosts, page, production, threads),
            workers,
            tell,
            limits,
        )


def _measured(source: Path | None, target: Path | None, gold: Path | None, **options: Any) -> EvaluationPairs:
    """Return the sentence pairs to measure the heads on; `options` are those of `read_sentences`."""
    from headwise.cli.annotated import read_sentences
    from headwise.page.evaluation_pairs import MOST_SENTENCES, EvaluationPairs

    sentences = read_sentences(source, target, limit=MOST_SENTENCES, **options)
    name = "the built-in corpus" if source is None else source.name
    assert sentences.targets is not None
    corpus = EvaluationPairs(name, sentences.sources, sentences.targets, sentences.gold)
    return corpus if gold is None else corpus.with_gold(gold)


def _opened(
    paths: Sequence[Path], device: str, threads: int, corpus: EvaluationPairs | None
) -> tuple[Mapping[str, ServedRun], Callable[[], ApplicationPart]]:
    """Open runs; return them with the function that makes their page, or what says how to get it without PyTorch."""
    if not installed("torch"):
        from headwise.serve import without_page

        return without_page.open_runs(paths, device, threads), without_page.PageMissing
    from headwise.page.application import Page
    from headwise.page.runs import open_runs

    runs = open_runs(paths, device, threads)
    return runs, lambda: Page(runs, corpus)
