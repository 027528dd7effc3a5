"""Make a model directory of a translation run, to publish it: weights in int8, scores and a model card.

    python models/publish.py RUN OUT --test SOURCE REFERENCE --data "…" --license "…"

The directory holds what inference needs, the training curves, and README.md, the card. The card has the scores of the
stored model on each test set with their signatures, and the commands that compute them again. With `--development`, the
development set of the run comes along: its first sentences, with their trees and alignments.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from itertools import islice
from pathlib import Path
from typing import Any

from headwise import __version__
from headwise.cli.main import run as headwise
from headwise.config import Config
from headwise.engine.translator import Translator
from headwise.errors import CheckpointError, HeadwiseError
from headwise.evaluation.metrics import check_lines
from headwise.evaluation.translation import score_translations
from headwise.files import atomic_directory, write_text
from headwise.interop.huggingface.card import facts
from headwise.interop.runs import open_trained
from headwise.metrics import read_measured
from headwise.text.reading.lines import read_lines

CURVES = ("metrics.jsonl", "measured.json")
_SCORES = {"BLEU": "bleu", "chrF2": "chrf", "tokenized BLEU": "tokenized_bleu"}


def publish(options: argparse.Namespace) -> None:
    """Make the directory; what is there under its name is replaced. Raises a `HeadwiseError`."""
    out: Path = options.out
    with tempfile.TemporaryDirectory() as scratch, atomic_directory(out) as folder:
        stored = Path(scratch) / "run"
        export = ["export", str(options.run), "--to", "run", "-o", str(stored)]
        export += ["--precision", options.precision, *(["--shortlist"] if options.shortlist else [])]
        if headwise([*export, *(argument for run in options.others for argument in ("--with", run))]):
            raise CheckpointError(f"{options.run}: expected a trained run, found none that can be quantized")
        shutil.copytree(stored, folder, dirs_exist_ok=True)
        for name in CURVES:
            if (options.run / name).is_file():
                shutil.copy(options.run / name, folder / name)
        config = Config.load(options.run / "config.yaml", options.set)
        write_text(folder / "config.yaml", _movable(config, options.development > 0).to_yaml())
        if options.development:
            _copy_development(config, folder / "corpus", options.development)
        if options.examples:
            examples = "".join(f"{line}\n" for line in read_lines(options.examples))
            write_text(folder / "corpus" / options.examples.name, examples)
        write_text(folder / "README.md", _card(options, folder))
    print(f"{out}: {sum(file.stat().st_size for file in out.rglob('*') if file.is_file()) / 1e6:.2f} MB")


def _movable(config: Config, development: bool) -> Config:
    """Return the configuration without paths that only the machine of the training has."""
    data = config.data.with_languages()
    changes: dict[str, Any] = {}
    if development:
        assert data.dev_source is not None
        assert data.dev_target is not None
        changes = {"source": [], "target": [], "weights": []}
        changes["dev_source"] = f"{{run}}/corpus/{Path(data.dev_source).name}"
        changes["dev_target"] = f"{{run}}/corpus/{Path(data.dev_target).name}"
    else:
        changes = {name: [_named(file) for file in getattr(data, name)] for name in ("source", "target")}
        changes |= {name: _named(getattr(data, name)) for name in ("dev_source", "dev_target")}
    training = config.training.model_copy(update={"initialize_from": None, "add_subwords": 0})
    return config.model_copy(update={"data": data.model_copy(update=changes), "training": training})


def _named(file: str | None) -> str | None:
    return Path(file).name if file is not None and Path(file).is_absolute() else file


def _copy_development(config: Config, folder: Path, count: int) -> None:
    """Copy the first sentences of the development set, their trees and alignments, and the file of examples."""
    folder.mkdir()
    for side in (config.data.dev_source, config.data.dev_target):
        assert side is not None
        file = Path(side)
        _copy(file, folder, "\n", count)
        _copy(file.with_name(f"{file.name}.conllu"), folder, "\n\n", count)
        for name in (f"examples{file.suffix}", f"{file.stem}.align"):
            _copy(file.with_name(name), folder, "\n", count)


def _copy(file: Path, folder: Path, end: str, count: int) -> None:
    """Copy the first parts of a file that each end with `end`; a file that doesn't exist is left out."""
    if file.is_file():
        parts = islice(file.read_text("utf-8").split(end), count)
        write_text(folder / file.name, "".join(part + end for part in parts if part))


def _card(options: argparse.Namespace, folder: Path) -> str:
    """Return the model card: facts of the run, data, license, and scores of the stored model."""
    trained = open_trained(options.run)
    source, target = trained.config.data.languages
    hardware = read_measured(options.run).get("hardware", {})
    translator = Translator.load(folder)
    search = {name: value for name in ("beam", "alpha") if (value := getattr(options, name)) is not None}
    used = translator.options_with(**search)
    flags = "".join(f" --{name} {value:g}" for name, value in search.items())
    lines = [
        f"# {options.out.name}",
        "",
        f"A Transformer (Vaswani et al. 2017) that translates {source} to {target}, trained with Headwise "
        f"{__version__} and stored in {options.precision}.",
        "",
        *facts(trained),
        f"- Data: {options.data}",
        f"- License: {options.license}",
        f"- Trained on: {hardware.get('processor', 'not recorded')}, {hardware.get('threads', '?')} threads",
        "",
        f"Scores with beam {used.beam}, α = {used.alpha:g}:",
        "",
        "| test set | sentences | metric | value | signature |",
        "|---|---|---|---|---|",
    ]
    commands = list(options.before)
    for test in options.test:
        sources, references = (list(read_lines(Path(file))) for file in test)
        check_lines(sources, references)
        scores = score_translations([t.text for t in translator.translate(sources, used)], references)
        for shown, name in _SCORES.items():
            score = scores.metrics[name]
            signature = score.signature.replace("|", "\\|")
            size = f"{len(references):,}"
            lines.append(f"| {Path(test[0]).stem} | {size} | {shown} | {score.score:.2f} | `{signature}` |")
        files = f"--source {test[0]} --reference {test[1]}"
        commands.append(f"headwise evaluate {options.name or options.out} {files}{flags}")
    about = [] if options.about is None else ["", *read_lines(options.about)]
    return "\n".join([*lines, "", "```sh", *commands, "```", *about, ""])


def main() -> int:
    """Parse the command line and make the directory; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="A run that was trained to its end.")
    parser.add_argument("out", type=Path, help="The directory to make.")
    parser.add_argument(
        "--test",
        nargs=2,
        action="append",
        required=True,
        metavar=("SOURCE", "REFERENCE"),
        help="A test set for the card's scores; repeatable.",
    )
    parser.add_argument("--data", required=True, help="A sentence on the training text.")
    parser.add_argument("--license", required=True, help="The terms of the model.")
    parser.add_argument("--precision", default="int8", help="int8 or bfloat16.")
    parser.add_argument("--shortlist", action="store_true", help="Learn a shortlist, too.")
    parser.add_argument("--with", dest="others", action="append", default=[], help="A run to average with.")
    parser.add_argument("--about", type=Path, help="Markdown for the end of the card.")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="Of decoding, such as decoding.recase=true.",
    )
    parser.add_argument("--beam", type=int, help="Of the card's scores; the run's unless given.")
    parser.add_argument("--alpha", type=float, help="Likewise.")
    parser.add_argument("--name", help="What the card's command calls the model; OUT unless given.")
    parser.add_argument("--before", action="append", default=[], help="A command that gets the test set.")
    parser.add_argument("--development", type=int, default=0, help="Sentences of the development set to copy.")
    parser.add_argument(
        "--examples", type=Path, help="With it: sentences that the page suggests, in examples.en or so."
    )
    try:
        publish(parser.parse_args())
    except HeadwiseError as error:
        print(f"publish: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
