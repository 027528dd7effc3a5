"""Cross-validated accuracy of classification: one training per fold, with or without pretraining on its texts.

Example: python benchmarks/folds.py -c configs/mr-polarity.yaml -o runs/folds
Example: python benchmarks/folds.py -c configs/mr-polarity.yaml --pretrain configs/mr-polarity-mlm.yaml -o runs/folds

Every fold's model is the final one (an average of checkpoints) after the configured number of steps: nothing is
selected on the held-out part. With --pretrain, each fold is initialized by masked-language-model training on the texts
of its training part only; the held-out part isn't read there either, not even without labels.

Prints a line for each fold, and the mean with its standard error. A run that was stopped resumes.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from pathlib import Path

from headwise.config import Config
from headwise.errors import HeadwiseError
from headwise.tasks.run import train
from headwise.text.datasets.classification import LabelledTexts
from headwise.text.reading.plain import text_files


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-c", "--config", type=Path, required=True, help="of task classification")
    parser.add_argument("--pretrain", type=Path, help="of task masked_language_model")
    parser.add_argument("-o", "--out", type=Path, required=True, help="folder for a run for each fold")
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--only", type=int, nargs="*", help="these folds alone")
    parser.add_argument("changes", nargs="*", metavar="KEY.SUB=VALUE", help="of --config")
    options = parser.parse_args()
    base = Config.load(options.config, [*options.changes, f"classification.folds={options.folds}"])
    pretraining = Config.load(options.pretrain) if options.pretrain else None
    accuracies = []
    for fold in options.only or range(1, options.folds + 1):
        config = base.with_overrides([f"classification.fold={fold}"])
        if pretraining is not None:
            start = pretrain(pretraining, config, options.out / f"fold-{fold}-mlm")
            config = config.with_overrides([f"training.initialize_from={json.dumps(str(start))}"])
        scores = train(config, options.out / f"fold-{fold}", quiet=True).scores
        if not scores:
            sys.exit(f"folds: stopped in fold {fold}; the same command resumes there")
        accuracies.append(scores["accuracy"])
        print(
            f"fold {fold:>2}  accuracy {scores['accuracy']:6.2f}  macro F1 {scores['macro_f1']:6.2f}",
            flush=True,
        )
    if len(accuracies) > 1:
        error = statistics.stdev(accuracies) / math.sqrt(len(accuracies))
        print(f"mean of {len(accuracies)} folds  {statistics.mean(accuracies):.2f} ± {error:.2f}")
    return 0


def pretrain(pretraining: Config, config: Config, run: Path) -> Path:
    """Pretrain on the texts of a fold's training part, one per line; return the run."""
    text_format = LabelledTexts(config.classification, config.data.dev_share)
    examples = text_format.read(text_files(config.data))
    held_out = text_format.hold_out(examples).tolist()
    run.mkdir(parents=True, exist_ok=True)
    text = run / "text"
    lines = [example.text + "\n" for example, out in zip(examples, held_out, strict=True) if not out]
    if not text.exists():
        text.write_text("".join(lines), encoding="utf-8")
    train(pretraining.with_overrides([f"data.text={json.dumps([str(text)])}"]), run / "run", quiet=True)
    return run / "run"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except HeadwiseError as error:
        sys.exit(f"folds: error: {error}")
