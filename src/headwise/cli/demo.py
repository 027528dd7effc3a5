"""`headwise demo`: training, translation, scores and a plot of attention on the built-in corpus."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwise import bounds
from headwise.config import Config

if TYPE_CHECKING:
    from headwise.analysis.attention import Sentence
    from headwise.corpora.miniature import MiniatureCorpus, MiniaturePair

_PAIRS = 60_000  # training pairs, each of which the model sees about twice
_SHOWN = 5  # translations to print
_LONGEST_SHOWN = 14  # most words of the sentence in the picture


def command(
    out: Annotated[Path, typer.Option("--out", "-o", help="The run directory.")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(min=0, max=bounds.SEED, help="Of the corpus and of the training.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Train on the built-in miniature corpus, translate, score, draw attention.

    It takes two to four minutes on two cores; the remaining time is shown during training.

    A demo's earlier results in the run directory are replaced.

    Example: headwise demo --out runs/demo
    """
    began = time.perf_counter()
    from headwise.analysis.alignment import best_rule, error_rate
    from headwise.analysis.attention import cross_attention
    from headwise.analysis.picture import draw_cross_attention
    from headwise.corpora.miniature import generate, write
    from headwise.decoding.translator import Translator
    from headwise.evaluation.translation import bleu
    from headwise.tasks.run import train

    say = typer.secho if not as_json else _nothing
    corpus = generate(train=_PAIRS, seed=seed)
    write(corpus, out / "corpus")
    say(
        f"Generated {len(corpus.train):,} English-German sentence pairs, "
        f"and {len(corpus.test):,} with combinations that training never shows.",
        err=True,
    )
    trained = train(_configuration(out / "corpus", seed), out, restart=True, quiet=as_json)
    if not trained.progress.finished:
        raise KeyboardInterrupt  # training catches a Ctrl-C, saves a checkpoint and stops

    translator = Translator.load(out)
    references = [pair.target for pair in corpus.test]
    translations = [t.text for t in translator.translate([pair.source for pair in corpus.test])]
    score = bleu(translations, references)

    dev, test = ([*map(_sentences, part)] for part in (corpus.dev, corpus.test))
    rule = best_rule(cross_attention(translator, *zip(*dev, strict=True)), _gold(corpus.dev))
    attentions = cross_attention(translator, *zip(*test, strict=True))
    aer = error_rate(attentions, _gold(corpus.test), rule)
    picture = out / "attention.png"
    chosen = _illustrative_sentence(corpus, translations)
    draw_cross_attention(
        attentions[chosen], picture, title="Cross-attention: what each German word looked at"
    )
    seconds = time.perf_counter() - began
    if as_json:
        record = {"bleu": score.score, "alignment_error_rate": aer, "seconds": seconds, "run": str(out)}
        typer.echo(json.dumps(record))
        return
    for pair, translation in list(zip(corpus.test, translations, strict=True))[:_SHOWN]:
        mark = "" if translation == pair.target else f"\n   expected  {pair.target}"
        typer.echo(f"\n   English   {pair.source}\n   German    {translation}{mark}")
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
            },
            "subwords": {"size": 5000},
            "batch": {"tokens": 1024},
            # Adam needs twice the steps (docs/recipes.md).
            "optimizer": {"name": "muon", "momentum": 0.9},
            "schedule": {"name": "linear", "peak": 0.006, "warmup": 150},
            "training": {
                "max_steps": 1200,
                "validate_every": 300,
                "checkpoint_every": 50,
                "average_last": 4,
                "keep_checkpoints": "doubling",  # for the page's slider from random weights to the last
                "log_every": 50,
                "seed": seed,
            },
        }
    )


def _sentences(pair: MiniaturePair) -> tuple[Sentence, Sentence]:
    from headwise.analysis.attention import Sentence

    return Sentence(pair.source, pair.source_tokens), Sentence(pair.target, pair.target_tokens)


def _gold(pairs: list[MiniaturePair]) -> list[frozenset[tuple[int, int]]]:
    return [pair.alignment for pair in pairs]


def _illustrative_sentence(corpus: MiniatureCorpus, translations: list[str]) -> int:
    """Return the index of a correct translation with coreference, the longest one that fits the picture."""

    def interest(index: int) -> tuple[bool, bool, int]:
        pair = corpus.test[index]
        words = len(pair.target_tokens)
        fits = words <= _LONGEST_SHOWN
        return (
            translations[index] == pair.target and fits,
            bool(pair.target_coreference),
            words if fits else 0,
        )

    return max(range(len(corpus.test)), key=interest)


def _nothing(message: str, err: bool = False) -> None:
    """Print nothing (for --json)."""
