"""`headwise bench`: benchmarks of speed, memory and start-up time, against other systems."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwise import bounds
from headwise.cli.arguments import named
from headwise.cli.bench_setup import (
    Against,
    Device,
    Json,
    Models,
    Only,
    Rounds,
    Source,
    Target,
    Threads,
    Vocabulary,
    able_peers,
    emulated_lines,
    installed_peers,
    make_room,
    only_settings,
    parse_names,
    parse_numbers,
    show_machine,
    tell,
    tell_all,
)

if TYPE_CHECKING:
    from headwise.bench.peer import Decoding


app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    help="Measure speed and memory, against other systems on the same machine in the same run.\n\n"
    "Example: headwise bench decode runs/de --against ctranslate2 --source test.en --target test.de",
)


@app.command("train")
def bench_train(
    against: Against = "",
    models: Models = "tiny",
    source: Source = None,
    target: Target = None,
    vocabulary: Vocabulary = 10_000,
    tokens: Annotated[
        int, typer.Option("--tokens", min=16, max=bounds.COUNT, help="Tokens of a batch, each side.")
    ] = 4096,
    batches: Annotated[
        int, typer.Option("--batches", min=1, max=bounds.COUNT, help="Batches of a round.")
    ] = 8,
    rounds: Rounds = 5,
    threads: Threads = 0,
    device: Device = "auto",
    only: Only = None,
    json_file: Json = None,
) -> None:
    """Measure training: target tokens a second with the same model, batches and loss in every system.

    Example: headwise bench train --model tiny,base --against huggingface --source train.en --target train.de
    """
    from headwise.bench import report
    from headwise.bench.peak import matrix_flops
    from headwise.bench.train import TrainingJob, bench_training
    from headwise.bench.workload import make_workload, read_text

    room, peers = make_room(device, threads), installed_peers(against)
    text = read_text(source, target)
    machine = show_machine(room, peers)
    tell_all(emulated_lines(room))
    peaks = {precision: matrix_flops(room.device, room.threads, precision) for precision in room.precisions}
    rows = []
    for model in parse_names(models):
        with tempfile.TemporaryDirectory() as folder:
            workload = make_workload(model, text, Path(folder), vocabulary=vocabulary)
            chosen = [(peer, only_settings(peer, peer.training_settings(room), only)) for peer in peers]
            able = able_peers(chosen, workload, "training")
            job = TrainingJob(tokens, batches, rounds)
            found = bench_training(workload, able, room, job, tell, peaks)
        typer.echo(
            f"\ntraining, {model}, vocabulary {vocabulary:,}, {workload.text}, batches of {tokens:,} tokens, "
            f"median of {rounds} rounds of {batches}\n\n{report.table(found)}"
        )
        rows += found
    if json_file:
        report.write_json(json_file, machine, rows)


@app.command("decode")
def bench_decode(
    run: Annotated[
        Path | None,
        typer.Argument(
            metavar="[RUN]",
            callback=named,
            help="A trained run; else untrained models of --model sizes.",
        ),
    ] = None,
    against: Against = "",
    models: Models = "tiny",
    source: Source = None,
    target: Target = None,
    vocabulary: Vocabulary = 10_000,
    batch: Annotated[
        str, typer.Option("--batch", help="Sentences of a batch, such as 64,1; 1: one at a time.")
    ] = "64,1",
    beam: Annotated[
        str, typer.Option("--beam", help="Beam sizes; with --batch 1 greedy search is measured too.")
    ] = "4",
    length: Annotated[
        int,
        typer.Option(
            "--length",
            min=0,
            max=bounds.LENGTH,
            help="Forced length of every output in tokens; 0: no forced length.",
        ),
    ] = 25,
    sentences: Annotated[
        int, typer.Option("--sentences", min=1, max=bounds.COUNT, help="Sentences in all rounds together.")
    ] = 1000,
    shortlist: Annotated[
        bool,
        typer.Option(
            "--shortlist",
            help="Measure Headwise with a shortlist, too: the run's, or one learned from --source and --target.",
        ),
    ] = False,
    rounds: Rounds = 5,
    threads: Threads = 0,
    device: Device = "auto",
    only: Only = None,
    json_file: Json = None,
) -> None:
    """Measure decoding: tokens and sentences a second, latency, memory, and whether the outputs agree.

    Example: headwise bench decode runs/de --against huggingface,ctranslate2 --source test.en --target test.de
    """
    from headwise.bench import report
    from headwise.bench.decode import DecodingJob, bench_decoding
    from headwise.bench.peers.own import System
    from headwise.bench.pool import prepare
    from headwise.bench.workload import keep_shortlist, make_workload, read_text, run_workload

    room, peers = make_room(device, threads), installed_peers(against)
    text = read_text(source, target)
    machine = show_machine(room, peers)
    tell_all(emulated_lines(room))
    rows = []
    for model in [None] if run else parse_names(models):
        with tempfile.TemporaryDirectory() as folder:
            if run is not None:
                workload = run_workload(run, text, Path(folder))
            else:
                workload = make_workload(str(model), text, Path(folder), vocabulary=vocabulary)
            able = able_peers([(peer, []) for peer in peers], workload, "decoding")
            for peer, _ in able:
                prepare(peer, workload)
            if shortlist:
                tell(f"shortlist: {keep_shortlist(workload, run)}")
            for job in _jobs(batch, beam, length or None):
                candidates = [(p, p.decoding_settings(room, job)) for p, _ in able]
                if shortlist:
                    candidates += [
                        (own, own.shortlisted(s)) for own, s in candidates if isinstance(own, System)
                    ]
                chosen = [(p, only_settings(p, settings, only)) for p, settings in candidates]
                results = bench_decoding(workload, chosen, room, DecodingJob(job, sentences, rounds), tell)
                how = f"{length} tokens each" if length else "lengths as they come"
                many = f"batches of {job.batch}" if job.batch > 1 else "one sentence at a time"
                typer.echo(
                    f"\ndecoding, {workload.model}, {workload.text}, {many}, beam {job.beam}, {how}, "
                    f"median of {rounds} rounds, {sentences:,} sentences\n\n{report.table(results)}"
                )
                rows += results
    if json_file:
        report.write_json(json_file, machine, rows)


@app.command("attention")
def bench_attention(
    kinds: Annotated[
        str,
        typer.Option("--kinds", help="Kinds of attention, such as reference,fused,window; all: every one."),
    ] = "reference,fused",
    lengths: Annotated[
        str, typer.Option("--lengths", help="Tokens of a sentence.")
    ] = "16,32,64,128,256,512,1024,2048,4096,8192",
    batch: Annotated[str, typer.Option("--batch", help="Sentences at once, such as 1,8.")] = "1",
    vocabularies: Annotated[
        str, typer.Option("--vocabularies", help="Subwords that the loss is measured with.")
    ] = "1000,2000,4000,8000,16000,32000,64000",
    tokens: Annotated[
        int, typer.Option("--tokens", min=1, max=bounds.COUNT, help="Target tokens of the loss.")
    ] = 2048,
    heads: Annotated[int, typer.Option("--heads", min=1, max=bounds.HEADS)] = 8,
    width: Annotated[int, typer.Option("--width", min=1, max=bounds.WIDTH, help="Of a head.")] = 64,
    precision: Annotated[str, typer.Option("--precision", help="float32 or bfloat16.")] = "float32",
    rounds: Rounds = 3,
    threads: Threads = 0,
    device: Device = "auto",
    json_file: Json = None,
) -> None:
    """Measure time and peak memory of attention by sentence length, and of the loss by vocabulary.

    Example: headwise bench attention --kinds all --lengths 1024,4096 --json curves.json
    """
    from headwise.bench import report
    from headwise.bench.curves import Point, curves_table, measure
    from headwise.bench.peers import OWN, find_peer
    from headwise.nn import device as devices

    room = make_room(device, threads)
    devices.find_precision(precision, devices.find_device(room.device))
    machine = show_machine(room, [find_peer(OWN)])
    shared = {
        "heads": heads,
        "width": width,
        "precision": precision,
        "device": room.device,
        "threads": room.threads,
    }
    attention = [
        Point("attention", kind, size, length, **shared)
        for size in parse_numbers("--batch", batch, bounds.COUNT)
        for length in sorted(parse_numbers("--lengths", lengths, bounds.LENGTH))
        for kind in _kinds(kinds)
    ]
    loss = [
        Point("loss", kind, 1, tokens, vocabulary, **shared)
        for vocabulary in sorted(parse_numbers("--vocabularies", vocabularies, bounds.VOCABULARY))
        for kind in ("plain", "fused")
    ]
    rows = []
    for title, points in (("causal self-attention", attention), ("the loss", loss)):
        results = measure(points, rounds, tell)
        typer.echo(
            f"\n{title}, forward and backward, {heads} heads of {width}, {precision}, {room.device}, "
            f"{room.threads} threads, median of {rounds} rounds\n\n{curves_table(results)}"
        )
        rows += results
    if json_file:
        report.write_json(json_file, machine, rows)


@app.command("start")
def bench_start(
    run: Annotated[
        Path | None,
        typer.Argument(
            metavar="[RUN]",
            callback=named,
            help="A trained run; without it, an untrained model of --model size.",
        ),
    ] = None,
    against: Against = "",
    model: Annotated[str, typer.Option("--model", help="A model size (preset).")] = "tiny",
    rounds: Rounds = 5,
    threads: Threads = 1,
    json_file: Json = None,
) -> None:
    """Measure the time to the help text, the import and the first translation, in fresh processes.

    Example: headwise bench start runs/de --against huggingface,ctranslate2
    """
    from headwise.bench import report
    from headwise.bench import start as startup
    from headwise.bench.pool import prepare
    from headwise.bench.workload import make_workload, read_text, run_workload

    room, peers = make_room("cpu", threads), installed_peers(against)
    machine = show_machine(room, peers)
    with tempfile.TemporaryDirectory() as folder:
        text = read_text(None, None)
        path = Path(folder)
        workload = (
            run_workload(run, text, path) if run else make_workload(model, text, path, vocabulary=10_000)
        )
        able = [peer for peer, _ in able_peers([(peer, []) for peer in peers], workload, "decoding")]
        for peer in able:
            prepare(peer, workload)
        rows = startup.bench_start(workload, able, room, rounds)
    typer.echo(f"\nstart, {workload.model}, median of {rounds} rounds\n\n{report.start_table(rows)}")
    if json_file:
        report.write_json(json_file, machine, rows)


def _kinds(text: str) -> list[str]:
    """Return the requested kinds of attention; raises `ConfigError` for an unknown one."""
    from headwise.nn.attention import attention_kind, attention_kinds

    if text == "all":
        return [kind.name for kind in attention_kinds()]
    return [attention_kind(name, "--kinds").name for name in parse_names(text)]


def _jobs(batches: str, beams: str, length: int | None) -> Iterator[Decoding]:
    """Yield the combinations of batch and beam size; with batch size 1 greedy search is added."""
    from headwise.bench.peer import Decoding

    for batch in parse_numbers("--batch", batches, bounds.COUNT):
        beam_sizes = parse_numbers("--beam", beams, bounds.BEAM)
        for beam in sorted({1, *beam_sizes}) if batch == 1 else beam_sizes:
            yield Decoding(batch, beam, length)
