"""Students of several shapes, trained on real translations and on a teacher's: BLEU against decoding speed.

Example: python -m benchmarks distillation runs/teacher --data data/multi30k --test test_2016_flickr \
             --languages en de --suffix .lc.norm.tok --shapes 4+4,6+2,2+1 --steps 400 -o runs/distillation

The folder --data has train, val and the test set for both languages, plain or .gz. All students have the teacher's
vocabulary, the width of the default recipe and as many steps. Decoding is with one worker; the models take turns in
each round, and the speed is in output tokens (subwords and end symbols) per second of processor time, the median of the
rounds, so that other programs on the machine matter little. Prints a table, and writes table.json and plot.png into
OUT. A run that was stopped resumes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import command_line
from headwise.config import DataConfig
from headwise.decoding.translator import Translator
from headwise.evaluation.translation import bleu
from headwise.tasks.corpus.runs import Runs
from headwise.tasks.distillation.source import SourceText
from headwise.tasks.distillation.student import student_recipe
from headwise.tasks.distillation.translations import translate_text
from headwise.tasks.run import train
from headwise.text.reading.lines import open_text, text_lines


@dataclass(frozen=True)
class Corpus:
    folder: Path
    languages: tuple[str, str]
    suffix: str

    def pair(self, part: str) -> tuple[str, str]:
        """Return the files of both languages, plain if they exist, else `.gz`."""
        paths = [self.folder / f"{part}{self.suffix}.{language}" for language in self.languages]
        source, target = (str(path if path.exists() else f"{path}.gz") for path in paths)
        return source, target


def main(arguments: Sequence[str]) -> int:
    parser = command_line("distillation", __doc__)
    parser.add_argument("teachers", type=Path, nargs="+", help="a run, or several as an ensemble")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--test", required=True, help="name of the test set")
    parser.add_argument("--languages", nargs=2, default=["en", "de"])
    parser.add_argument(
        "--suffix", default="", help="between the name and the language, such as .lc.norm.tok"
    )
    parser.add_argument("--shapes", default="4+4,6+2,2+1", help="encoder+decoder layers")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--only", nargs="*", help="train these students alone, such as 6+2-teacher, and stop")
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY.SUB=VALUE", help="of every student")
    options = parser.parse_args(arguments)
    corpus = Corpus(options.data, tuple(options.languages), options.suffix)
    students = train_students(options, corpus)
    if options.only is not None:
        return 0
    rows = measure(options, corpus, {"teacher": options.teachers, **students})
    print_table(rows)
    (options.out / "table.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    draw(rows, options.out / "plot.png")
    return 0


def train_students(options: argparse.Namespace, corpus: Corpus) -> dict[str, list[Path]]:
    """Train every shape on the real and on the teacher's translations; return the runs by name."""
    source, target = corpus.pair("train")
    dev_source, dev_target = corpus.pair("val")
    folder = options.out / "distilled"
    text = SourceText([Path(source)])
    translated = translate_text(
        Runs(options.teachers), text, folder, say=lambda line: print(line, file=sys.stderr)
    )
    runs = {}
    for shape in options.shapes.split(","):
        encoder, decoder = shape.split("+")
        for kind, targets in (("real", target), ("teacher", str(translated.files[0]))):
            name = f"{shape}-{kind}"
            runs[name] = [options.out / name]
            if options.only is not None and name not in options.only:
                continue
            data = DataConfig(source=[source], target=[targets], dev_source=dev_source, dev_target=dev_target)
            every = max(1, options.steps // 25)
            changes = [
                f"model.encoder_layers={encoder}",
                f"model.decoder_layers={decoder}",
                f"training.max_steps={options.steps}",
                f"training.checkpoint_every={every}",
                f"training.validate_every={5 * every}",
                "training.average_last=5",
                f"schedule.warmup={max(1, options.steps // 5)}",
                *options.set,
            ]
            train(student_recipe(data, folder).config.with_overrides(changes), options.out / name)
            if not (options.out / name / "model.safetensors").exists():
                sys.exit(130)  # training was stopped, and saved
    return runs


def measure(
    options: argparse.Namespace, corpus: Corpus, systems: dict[str, list[Path]]
) -> list[dict[str, Any]]:
    """Return BLEU and speed of every system on the test set."""
    sources, references = (read(path) for path in corpus.pair(options.test))
    translators = {name: Translator.load(runs, workers=1) for name, runs in systems.items()}
    rows: dict[str, dict[str, Any]] = {}
    for name, translator in translators.items():
        translations = translator.translate(sources, beam=options.beam)
        score = bleu([t.text for t in translations], references, tokenize="none")
        tokens = sum(len(t.outputs[0].tokens) + 1 for t in translations if t.outputs)
        rows[name] = {"name": name, "bleu": score.score, "signature": score.signature, "tokens": tokens}
    speeds: dict[str, list[float]] = {name: [] for name in translators}
    for _ in range(options.rounds):
        for name, translator in translators.items():
            began = time.process_time()
            translator.translate(sources, beam=options.beam)
            speeds[name].append(rows[name]["tokens"] / (time.process_time() - began))
    for name, values in speeds.items():
        rows[name] |= {"speed": statistics.median(values), "lowest": min(values), "highest": max(values)}
    return list(rows.values())


def read(path: str) -> list[str]:
    with open_text(Path(path)) as file:
        return [line.decode("utf-8") for line in text_lines(Path(path), file)]


def print_table(rows: list[dict[str, Any]]) -> None:
    print("| model | BLEU | tokens/s |\n|---|--:|--:|")
    for row in rows:
        speed = f"{row['speed']:,.0f} ({row['lowest']:,.0f}–{row['highest']:,.0f})"
        print(f"| {row['name']} | {row['bleu']:.1f} | {speed} |")
    print(f"\n{rows[0]['signature']}")


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Plot BLEU against speed; students of one shape are joined by a line."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axis = figure.subplots()
    by_name = {row["name"]: row for row in rows}
    colors = {"real": "0.55", "teacher": "C0"}
    for name, row in by_name.items():
        shape, _, kind = name.rpartition("-")
        axis.plot(row["speed"], row["bleu"], "o" if shape else "s", color=colors[kind])
        if kind == "teacher":
            axis.annotate(shape or "teacher", (row["speed"], row["bleu"]), (5, 5), textcoords="offset points")
        if shape and kind == "teacher":
            real = by_name[f"{shape}-real"]
            axis.plot([real["speed"], row["speed"]], [real["bleu"], row["bleu"]], color="0.8", zorder=0)
    for kind, label in (("real", "trained on real translations"), ("teacher", "trained on the teacher's")):
        axis.plot([], [], "o", color=colors[kind], label=label)
    axis.set(xlabel="output tokens per second of processor time, one worker", ylabel="BLEU")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)
    figure.savefig(path, dpi=150)
