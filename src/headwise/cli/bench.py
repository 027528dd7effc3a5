"""`headwise bench`: speed, memory and start, against the systems that users would otherwise pick."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise import bounds
from headwise.errors import ConfigError

if TYPE_CHECKING:
    from headwise.bench.peer import Decoding, Peer, Room, Setting
    from headwise.bench.workload import Workload

EMULATED = "bfloat16: skipped in PyTorch, as {device} has no instructions for it and PyTorch emulates it"

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    help="Measure speed and memory, against other systems on the same machine in the same run.\n\n"
    "Example: headwise bench decode runs/de --against ctranslate2 --source test.en --target test.de",
)

Against = Annotated[
    str, typer.Option("--against", help="Systems to compare with, such as huggingface,ctranslate2.")
]
Json = Annotated[Path | None, typer.Option("--json", help="Write machine and rows to this file, too.")]
Models = Annotated[str, typer.Option("--model", help="Model sizes (presets), such as tiny,base.")]
Source = Annotated[
    str | None, typer.Option("--source", help="Text to measure with; the built-in corpus if not given.")
]
Target = Annotated[str | None, typer.Option("--target", help="Its other language, line by line.")]
Vocabulary = Annotated[
    int,
    typer.Option(
        "--vocabulary", min=100, max=bounds.VOCABULARY, help="Subwords of the model, both languages."
    ),
]
Rounds = Annotated[
    int, typer.Option("--rounds", min=1, max=bounds.ROUNDS, help="Rounds; the figures are their medians.")
]
Threads = Annotated[
    int,
    typer.Option(
        "--threads", min=0, max=bounds.PROCESSES, help="Threads that a system may use; 0: all processors."
    ),
]
Device = Annotated[
    str, typer.Option("--device", help="cpu, cuda, cuda:N, or auto for the first GPU there is.")
]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        help="SYSTEM:WORDS, measure only its settings that have all these words, such as "
        "'ctranslate2:int8 2x1'; repeatable.",
    ),
]


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

    room, peers = _room(device, threads), _peers(against)
    text = read_text(source, target)
    machine = _machine(room, peers)
    _say(_emulated(room))
    peaks = {precision: matrix_flops(room.device, room.threads, precision) for precision in room.precisions}
    rows = []
    for model in _names(models):
        with tempfile.TemporaryDirectory() as folder:
            workload = make_workload(model, text, Path(folder), vocabulary=vocabulary)
            chosen = [(peer, _only(peer, peer.training_settings(room), only)) for peer in peers]
            able = _able(chosen, workload, "training")
            job = TrainingJob(tokens, batches, rounds)
            found = bench_training(workload, able, room, job, _tell, peaks)
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
        typer.Argument(metavar="[RUN]", help="A trained run; sizes of --model without weights else."),
    ] = None,
    against: Against = "",
    models: Models = "tiny",
    source: Source = None,
    target: Target = None,
    vocabulary: Vocabulary = 10_000,
    batch: Annotated[
        str, typer.Option("--batch", help="Sentences decoded together, such as 64,1; 1: one at a time.")
    ] = "64,1",
    beam: Annotated[
        str, typer.Option("--beam", help="Beams; with --batch 1 greedy search is measured too.")
    ] = "4",
    length: Annotated[
        int,
        typer.Option(
            "--length",
            min=0,
            max=bounds.LENGTH,
            help="Tokens forced on every output; 0: as long as they come.",
        ),
    ] = 25,
    sentences: Annotated[
        int, typer.Option("--sentences", min=1, max=bounds.COUNT, help="Sentences in all rounds together.")
    ] = 1000,
    shortlist: Annotated[
        bool,
        typer.Option(
            "--shortlist",
            help="Measure ours with the run's shortlist, too; an untrained model's is learned from --source, --target.",
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

    room, peers = _room(device, threads), _peers(against)
    text = read_text(source, target)
    machine = _machine(room, peers)
    _say(_emulated(room))
    rows = []
    for model in [None] if run else _names(models):
        with tempfile.TemporaryDirectory() as folder:
            if run is not None:
                workload = run_workload(run, text, Path(folder))
            else:
                workload = make_workload(str(model), text, Path(folder), vocabulary=vocabulary)
            able = _able([(peer, []) for peer in peers], workload, "decoding")
            for peer, _ in able:
                prepare(peer, workload)
            if shortlist:
                _tell(f"shortlist: {keep_shortlist(workload, run)}")
            for job in _jobs(batch, beam, length or None):
                wanted = [(p, p.decoding_settings(room, job)) for p, _ in able]
                if shortlist:
                    wanted += [(own, own.shortlisted(s)) for own, s in wanted if isinstance(own, System)]
                chosen = [(p, _only(p, settings, only)) for p, settings in wanted]
                found = bench_decoding(workload, chosen, room, DecodingJob(job, sentences, rounds), _tell)
                how = f"{length} tokens each" if length else "lengths as they come"
                many = f"batches of {job.batch}" if job.batch > 1 else "one sentence at a time"
                typer.echo(
                    f"\ndecoding, {workload.model}, {workload.text}, {many}, beam {job.beam}, {how}, "
                    f"median of {rounds} rounds, {sentences:,} sentences\n\n{report.table(found)}"
                )
                rows += found
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

    room = _room(device, threads)
    devices.find_precision(precision, devices.find_device(room.device))
    machine = _machine(room, [find_peer(OWN)])
    shared = {
        "heads": heads,
        "width": width,
        "precision": precision,
        "device": room.device,
        "threads": room.threads,
    }
    attention = [
        Point("attention", kind, size, length, **shared)
        for size in _numbers("--batch", batch, bounds.COUNT)
        for length in sorted(_numbers("--lengths", lengths, bounds.LENGTH))
        for kind in _kinds(kinds)
    ]
    loss = [
        Point("loss", kind, 1, tokens, vocabulary, **shared)
        for vocabulary in sorted(_numbers("--vocabularies", vocabularies, bounds.VOCABULARY))
        for kind in ("plain", "fused")
    ]
    rows = []
    for title, points in (("causal self-attention", attention), ("the loss", loss)):
        found = measure(points, rounds, _tell)
        typer.echo(
            f"\n{title}, forward and backward, {heads} heads of {width}, {precision}, {room.device}, "
            f"{room.threads} threads, median of {rounds} rounds\n\n{curves_table(found)}"
        )
        rows += found
    if json_file:
        report.write_json(json_file, machine, rows)


@app.command("start")
def bench_start(
    run: Annotated[
        Path | None,
        typer.Argument(metavar="[RUN]", help="A trained run; a size of --model without weights else."),
    ] = None,
    against: Against = "",
    model: Annotated[str, typer.Option("--model", help="A model size (preset).")] = "tiny",
    rounds: Rounds = 5,
    threads: Threads = 1,
    json_file: Json = None,
) -> None:
    """Measure how long the help, the import and the first translation take, in fresh processes.

    Example: headwise bench start runs/de --against huggingface,ctranslate2
    """
    from headwise.bench import report
    from headwise.bench import start as starts
    from headwise.bench.pool import prepare
    from headwise.bench.workload import make_workload, read_text, run_workload

    room, peers = _room("cpu", threads), _peers(against)
    machine = _machine(room, peers)
    with tempfile.TemporaryDirectory() as folder:
        text = read_text(None, None)
        place = Path(folder)
        workload = (
            run_workload(run, text, place) if run else make_workload(model, text, place, vocabulary=10_000)
        )
        able = [peer for peer, _ in _able([(peer, []) for peer in peers], workload, "decoding")]
        for peer in able:
            prepare(peer, workload)
        rows = starts.bench_start(workload, able, room, rounds)
    typer.echo(f"\nstart, {workload.model}, median of {rounds} rounds\n\n{report.start_table(rows)}")
    if json_file:
        report.write_json(json_file, machine, rows)


def _kinds(text: str) -> list[str]:
    """Return the kinds asked for; raises `ConfigError` for one that is unknown."""
    from headwise.nn.attention import attention_kind, attention_kinds

    if text == "all":
        return [kind.name for kind in attention_kinds()]
    return [attention_kind(name, "--kinds").name for name in _names(text)]


def _jobs(batches: str, beams: str, length: int | None) -> Iterator[Decoding]:
    from headwise.bench.peer import Decoding

    for batch in _numbers("--batch", batches, bounds.COUNT):
        wanted = _numbers("--beam", beams, bounds.BEAM)
        for beam in sorted({1, *wanted}) if batch == 1 else wanted:
            yield Decoding(batch, beam, length)


def _numbers(option: str, text: str, most: int) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1 or max(numbers) > most:
        raise ConfigError(
            f"{option}: expected whole numbers from 1 to {most:,}, such as 64,1, found {text!r}"
        )
    return numbers


def _names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _room(device: str, threads: int) -> Room:
    from headwise.bench.peer import Room
    from headwise.nn.device import find_device, has_fast_bfloat16, processors

    found = find_device(device)
    precisions = ("bfloat16", "float32") if has_fast_bfloat16(found) else ("float32",)
    return Room(str(found), threads or processors(), precisions)


def _emulated(room: Room) -> Iterator[str]:
    """Say which precisions of PyTorch's products are not measured, and why."""
    if "bfloat16" not in room.precisions:
        yield EMULATED.format(device=room.device)


def _machine(room: Room, peers: Sequence[Peer]) -> dict[str, Any]:
    """Say what is measured on, and return it for the record."""
    from headwise.bench import report

    machine = report.machine(room.device, room.threads, peers)
    _say(report.machine_lines(machine))
    return machine


def _peers(against: str) -> list[Peer]:
    """Return ours and those asked for that are installed; say which aren't."""
    from headwise.bench.peers import OWN, find_peer

    peers = [find_peer(name) for name in dict.fromkeys([OWN, *_names(against)])]
    _say(reason for peer in peers if (reason := peer.absent()))
    return [peer for peer in peers if not peer.absent()]


def _able(
    chosen: Iterable[tuple[Peer, Sequence[Setting]]], workload: Workload, task: str
) -> list[tuple[Peer, Sequence[Setting]]]:
    """Leave out the systems that can't have this model, or do this, saying why."""
    able = []
    for peer, settings in chosen:
        reason = peer.refuses(workload)
        if not reason and task == "training" and not settings:
            reason = f"{peer.name}: skipped, no setting of it trains here"
        if reason:
            _tell(reason)
        else:
            able.append((peer, settings))
    return able


def _only(peer: Peer, settings: list[Setting], only: list[str] | None) -> list[Setting]:
    """Keep the settings that --only names, of the systems that it names."""
    wanted = [words.split() for name, _, words in (o.partition(":") for o in only or []) if name == peer.name]
    if not wanted or not settings:
        return settings
    kept = [s for s in settings if any(set(words) <= set(str(s).split()) for words in wanted)]
    if not kept:
        known = "; ".join(map(str, settings))
        raise ConfigError(
            f"--only: expected words of a setting of {peer.name} ({known}), found none that fits"
        )
    return kept


def _tell(line: str) -> None:
    typer.echo(line, err=True)


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        _tell(line)
