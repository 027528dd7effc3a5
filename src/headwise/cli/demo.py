"""`headwise demo`: training, translation, scores and a plot of attention on the built-in corpus."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from headwise import bounds
from headwise.config import Config
from headwise.config.keys import changed_keys
from headwise.errors import ConfigError

if TYPE_CHECKING:
    from headwise.cli.annotated import AnnotatedSentences

_SHOWN = 5  # translations to print
_LONGEST_SHOWN = 14  # most words of the sentence in the picture


def command(
    out: Annotated[Path, Option("--out", "-o", help="The run directory.")] = Path("runs/demo"),
    seed: Annotated[int, Option(min=0, max=bounds.SEED, help="Of the training.")] = 1,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Train on the built-in miniature corpus, translate, score, draw attention.

    It takes two to four minutes on two cores; the remaining time is shown during training.

    Interrupted, the same command resumes; the results of a demo that has ended are replaced.

    Example: headwise demo --out runs/demo
    """
    began = time.perf_counter()
    from headwise.analysis.alignment import best_rule, error_rate
    from headwise.analysis.picture import draw_cross_attention
    from headwise.cli.annotated import attentions_of, read_sentences
    from headwise.corpora.built_in import write_built_in
    from headwise.engine.translator import Translator
    from headwise.evaluation.translation import bleu
    from headwise.tasks.run import train

    config = _configuration(out / "corpus", seed)
    resumes = _resumes(out, config)
    write_built_in("miniature", out / "corpus")
    dev, test = (read_sentences(None, None, miniature=part) for part in ("dev", "test"))
    assert test.targets is not None
    assert dev.gold is not None
    assert test.gold is not None
    if not as_json:
        typer.echo(
            "60,000 English-German sentence pairs, "
            f"and {len(test.sources):,} with combinations that training never shows.",
            err=True,
        )
    trained = train(config, out, restart=not resumes, quiet=as_json)
    if not trained.progress.finished:
        raise KeyboardInterrupt  # training catches a Ctrl-C, saves a checkpoint and stops

    translator = Translator.load(out)
    sources, references = ([one.sentence.text for one in side] for side in (test.sources, test.targets))
    translations = [t.text for t in translator.translate(sources)]
    score = bleu(translations, references)

    rule = best_rule(attentions_of(translator, dev), dev.gold)
    attentions = attentions_of(translator, test)
    aer = error_rate(attentions, test.gold, rule)
    picture = out / "attention.png"
    chosen = _illustrative_sentence(test, references, translations)
    draw_cross_attention(attentions[chosen], picture, title="Cross-attention: what each German word looked at")
    seconds = time.perf_counter() - began
    if as_json:
        record = {"bleu": score.score, "alignment_error_rate": aer, "seconds": seconds, "run": str(out)}
        typer.echo(json.dumps(record))
        return
    for source, reference, translation in list(zip(sources, references, translations, strict=True))[:_SHOWN]:
        mark = "" if translation == reference else f"\n   expected  {reference}"
        typer.echo(f"\n   English   {source}\n   German    {translation}{mark}")
    typer.echo(f"\nBLEU on {len(references)} unseen sentences  {score.score:.1f}   ({score.signature})")
    typer.echo(f"alignment error rate           {aer:.3f}   (cross-attention, {rule}, chosen on dev)")
    typer.echo(f"attention                      {picture}")
    typer.echo(f"curves                         {out / 'curves.png'}")
    typer.echo(f"seconds                        {seconds:.0f}")
    typer.echo(f'\nNext: echo "The old cat sleeps because it is tired." | headwise translate {out}')
    typer.echo(f"      headwise learn {out}")


def _configuration(corpus: Path, seed: int) -> Config:
    """Return the configuration of a small Transformer for the miniature corpus."""
    return Config.from_tree(
        {
            "model": {
                "encoder_layers": 2,
                "decoder_layers": 2,
                "d_model": 128,
                "d_ff": 256,
                "heads": 4,
                "norm": "pre",
                "dropout": 0.0,  # each sentence is seen about twice
            },
            "data": {
                "source": [str(corpus / "train.en")],
                "target": [str(corpus / "train.de")],
                "dev_source": str(corpus / "dev.en"),
                "dev_target": str(corpus / "dev.de"),
                "augment": {"no_punctuation": 0.12, "first_letter": 0.12},  # as people type
            },
            "subwords": {"size": 5000},
            "batch": {"tokens": 1024},
            "decoding": {"recase": True},  # capitals aren't in the training text
            # Adam needs twice the steps (docs/train.md).
            "optimizer": {"name": "muon", "momentum": 0.9},
            "schedule": {"name": "linear", "peak": 0.006, "warmup": 150},
            "training": {
                "max_steps": 1500,
                "validate_every": 300,
                "checkpoint_every": 50,
                "average_last": 4,
                "keep_checkpoints": "doubling",  # for the page's slider from random weights to the last
                "log_every": 50,
                "seed": seed,
            },
        }
    )


def _resumes(out: Path, config: Config) -> bool:
    """Whether the directory has an interrupted demo of this configuration; raises `ConfigError` for another run."""
    if not (out / "config.yaml").exists():
        return False
    if not (out / "corpus" / "train.en").exists():
        raise ConfigError(f"--out: expected a new directory or that of an earlier demo, found another run in {out}")
    interrupted = (out / "latest").exists() and not (out / "model.safetensors").exists()
    return interrupted and not changed_keys(Config.load(out / "config.yaml", trained=True), config)


def _illustrative_sentence(test: AnnotatedSentences, references: list[str], translations: list[str]) -> int:
    """Return the index of a correct translation with coreference, the longest one that fits the picture."""
    targets = test.targets or []

    def interest(index: int) -> tuple[bool, bool, int]:
        target = targets[index]
        words = len(target.sentence.words)
        correct = translations[index] == references[index] and words <= _LONGEST_SHOWN
        return correct, bool(target.coreference), words if words <= _LONGEST_SHOWN else 0

    return max(range(len(references)), key=interest)
