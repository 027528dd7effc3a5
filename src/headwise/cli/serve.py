"""`headwise serve`: the web page that shows what a model computes, and a translation server for clients."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from headwise import bounds
from headwise.cli.arguments import (
    AlreadyTranslated,
    Device,
    Imports,
    Lowercase,
    Port,
    Recase,
    Tokenized,
    finite,
    named,
    search_settings,
)
from headwise.cli.streams import say
from headwise.errors import ConfigError
from headwise.extras import installed, not_installed
from headwise.serve.translation.limits import MOST_CHARACTERS, MOST_ITEMS, MOST_SECONDS, ServiceLimits
from headwise.shipped.runs import GENERAL

if TYPE_CHECKING:
    from headwise.page.evaluation_pairs import EvaluationPairs
    from headwise.web.app import ApplicationPart
    from headwise.web.run_directories import RunDirectory

LIMITS = ServiceLimits()


ApiKeys = Annotated[Path | None, Option("--api-keys", help="Ask clients for a key of `headwise keys`.")]
AllowOrigin = Annotated[list[str] | None, Option(help="Let pages of this site translate; repeatable.")]
LimitCharacters = Annotated[int, Option(min=1, max=MOST_CHARACTERS, help="Most characters of a request.")]
LimitItems = Annotated[int, Option(min=1, max=MOST_ITEMS, help="Most texts of a request.")]
LimitQueue = Annotated[int, Option(min=1, max=bounds.COUNT, help="Most sentences that wait.")]


def command(
    runs: Annotated[
        list[Path] | None,
        Argument(
            metavar="RUN…",
            callback=named,
            show_default=False,
            help="Runs or their names; else open-en-de and open-de-en.",
        ),
    ] = None,
    host: Annotated[str, Option(help="0.0.0.0 lets other machines in.")] = "127.0.0.1",
    allow_host: Annotated[list[str] | None, Option(help="Another name of this host; repeatable.")] = None,
    port: Port = 8080,
    source: Annotated[Path | None, Option(help="To measure the heads on; .conllu, too; .gz.")] = None,
    target: Annotated[Path | None, Option(help="Their translations, likewise.")] = None,
    gold: Annotated[Path | None, Option(help="Their word alignments (0-0 1-2).")] = None,
    miniature: Annotated[bool, Option("--miniature", help="Measure on the built-in test set.")] = False,
    tokenized: Tokenized = False,
    lowercase: Lowercase = False,
    device: Device = "auto",
    imports: Imports = None,
    languages: Annotated[
        list[str] | None, Option(metavar="[RUN=]FROM-TO", help="Such as en-de, where a run doesn't tell.")
    ] = None,
    api_keys: ApiKeys = None,
    glossaries: Annotated[Path | None, Option(help="Keep clients' glossaries in this file.")] = None,
    settings: Annotated[
        list[str] | None,
        Option("-s", metavar="KEY=VALUE", help="Of every search, such as beam=2; guard=true unless set."),
    ] = None,
    recase: Recase = False,
    already_translated: AlreadyTranslated = "keep",
    allow_origin: AllowOrigin = None,
    limit_characters: LimitCharacters = LIMITS.characters,
    limit_items: LimitItems = LIMITS.items,
    limit_seconds: Annotated[
        float, Option(min=0.1, max=MOST_SECONDS, callback=finite, help="Deadline of a request.")
    ] = LIMITS.seconds,
    limit_queue: LimitQueue = LIMITS.queue,
    workers: Annotated[int, Option(min=1, max=bounds.WORKERS, help="Processes, which share the models.")] = 1,
    log: Annotated[bool, Option("--log", help="Log each request as JSON, without texts.")] = False,
) -> None:
    """Serve a page that shows what a model does, and translate for clients of LibreTranslate and DeepL.

    Example: headwise serve --port 8080

    Example: headwise serve runs/en-de runs/de-en --host 0.0.0.0 --api-keys keys.db --log
    """
    search = _served_search(settings, recase, already_translated)
    from headwise.serve.production import Production, given_languages, served_languages
    from headwise.serve.protocols.keys import KeyStore
    from headwise.serve.protocols.observation import log_line
    from headwise.serve.shared import Shared
    from headwise.serve.translation.glossaries import GlossaryStore
    from headwise.serve.workers.supervisor import prepare_parent, supervise
    from headwise.serve.workers.worker import Served
    from headwise.web.hangup import ignore_hangup
    from headwise.web.hosts import checked_origin
    from headwise.web.server import listening, serve

    corpus = _measured(source, target, gold, miniature, tokenized=tokenized, lowercase=lowercase)
    threads = prepare_parent(workers, device) if workers > 1 else 0
    ignore_hangup()
    opened, page = _opened(runs or named(list(GENERAL)), device, threads, corpus)
    origins = [checked_origin(origin) for origin in allow_origin or []]
    most = {"characters": limit_characters, "items": limit_items, "seconds": limit_seconds}
    limits = dataclasses.replace(LIMITS, **most, queue=limit_queue)

    def production(shared: Shared) -> Production:
        return Production(
            opened,
            languages or [],
            limits,
            say=say if workers == 1 else lambda sentence: None,  # the parent has said it
            keys=None if api_keys is None else KeyStore(api_keys, shared.database),
            origins=origins,
            log=log_line if log else None,
            glossaries=None if glossaries is None else GlossaryStore(glossaries),
            search=search,
            shared=shared,
        )

    if workers == 1:
        opened_here = production(Shared())
        with listening(host, port, allow_host or [], _show_address) as (listener, hosts):
            serve(opened_here.app(page(), hosts), listener, limits.seconds_to_finish)
        return
    for path, store in ((api_keys, KeyStore), (glossaries, GlossaryStore)):
        if path is not None:
            store(path).close()  # raises now where it is none; a connection can't be carried across a fork
    for run in opened.values():
        served_languages(run, given_languages(languages or [], opened), say)
    with listening(host, port, allow_host or [], _show_address) as (listener, hosts):
        supervise(Served(opened, listener, hosts, page, production, threads), workers, say, limits)


def _show_address(address: str) -> None:
    typer.echo(f"Headwise is at {address}  (Ctrl-C ends it)")


def _served_search(settings: list[str] | None, recase: bool, already_translated: str | None) -> dict[str, Any]:
    """Return the search options of all requests; raises `ConfigError`."""
    search = search_settings(settings, recase=recase or None)
    if "n_best" in search:
        raise ConfigError("-s n_best: expected it in a request, found it for the whole server")
    defaults = {
        "guard": not search.get("sample", False),  # sampling has no second search
        "keep_translated": already_translated == "keep",
    }
    return defaults | search


def _measured(
    source: Path | None, target: Path | None, gold: Path | None, miniature: bool, **options: bool
) -> EvaluationPairs | None:
    """Return the sentence pairs to measure the heads on, if any; the options are those of `read_sentences`."""
    if (source is None) != (target is None):
        raise ConfigError("serve: expected --source and --target together, found one of them alone")
    for name, given in {"gold": gold is not None, **options}.items():
        if given and source is None:
            raise ConfigError(f"serve: expected --{name} together with --source and --target, found it alone")
    if source is None and not miniature:
        return None
    if not installed("torch"):
        raise not_installed("--miniature" if source is None else "--source", "torch")
    from headwise.cli.annotated import read_sentences
    from headwise.page.evaluation_pairs import MOST_SENTENCES, EvaluationPairs

    subset = "test" if miniature else None
    sentences = read_sentences(source, target, miniature=subset, limit=MOST_SENTENCES, **options)
    name = "the built-in corpus" if source is None else source.name
    assert sentences.targets is not None
    corpus = EvaluationPairs(name, sentences.sources, sentences.targets, sentences.gold)
    return corpus if gold is None else corpus.with_gold(gold)


def _opened(
    paths: Sequence[Path], device: str, threads: int, corpus: EvaluationPairs | None
) -> tuple[Mapping[str, RunDirectory], Callable[[], ApplicationPart]]:
    """Open runs; return them with the function that makes their page, or what says how to get it without PyTorch.

    Raises `ConfigError` for a run that is given twice.
    """
    folders = set[Path]()
    for path in paths:
        if path.resolve() in folders:
            raise ConfigError(f"serve: expected each run once, found {path} twice")
        folders.add(path.resolve())
    if not installed("torch"):
        from headwise.serve import without_page

        return without_page.TranslationRun.open_all(paths, device, threads), without_page.PageMissing
    from headwise.page.application import Page
    from headwise.page.runs import PageRun

    runs = PageRun.open_all(paths, device, threads)
    return runs, lambda: Page(runs, corpus)
