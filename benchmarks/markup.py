"""Markup in translations: whether tags go to the right words, and whether protected pieces arrive.

Tags: spans of one to four words of a source are marked; the translation is the reference, read by the model with forced
decoding. Where the words that an aligner links to the span are an interval of the reference without words of others,
that is the interval that the tag should get. Words without a link may be inside or outside.

Pieces: URLs, placeholders and the like are put at random places of the sources, which are translated with and without
protection.

    eflomal-align -s test.en -t test.de -f forward -r reverse --model 3     (pip install eflomal)
    python benchmarks/markup.py RUN --source test.en --target test.de --forward forward --reverse reverse
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import sacrebleu

from headwise.decoding.beam.hypothesis import Hypothesis
from headwise.decoding.translator import Translator
from headwise.decoding.word_weights import Pair, word_weights
from headwise.serve.translation.limits import ServiceLimits
from headwise.serve.translation.models import Model, Models
from headwise.serve.translation.service import Job, Service
from headwise.text.markup.placement import Weights, diagonal, placed
from headwise.text.markup.protected import locate
from headwise.text.markup.sentence import Mark, Piece, Sentence
from headwise.text.markup.words import Range, words

PIECES = {
    "url": ["https://example.org/a?b=1", "www.example.com/x.html"],
    "email": ["a.b@example.org"],
    "placeholder": ["{name}", "${total}", "{{user}}"],
    "format": ["%s", "%(count)d", "%1$s"],
    "number": ["5 km", "3.5 kg", "20 %", "$5.00"],
    "emoji": ["😀", "🎉"],
}


def spaced(text: str) -> list[Range]:
    """Return the words between spaces, as the aligner counts them."""
    starts = itertools.accumulate((len(word) + 1 for word in text.split(" ")), initial=0)
    return [(start, start + len(word)) for start, word in zip(starts, text.split(" "), strict=False)]


def links(line: str) -> set[tuple[int, int]]:
    """Parse a line such as `0-0 1-2`."""
    return {(int(a), int(b)) for a, _, b in (link.partition("-") for link in line.split())}


def cases(
    pairs: Iterable[tuple[str, str, str, str]], generator: random.Random
) -> list[tuple[int, range, set[int], set[int]]]:
    """Return pair, span, its target words and those of other words, three spans a pair where they are clear."""
    found = []
    for number, (source, _, forward, reverse) in enumerate(pairs):
        both = links(forward) & links(reverse)
        length = len(spaced(source))
        for _ in range(3 if length > 4 else 0):
            size = generator.choice([1, 1, 2, 2, 3, 4])
            start = generator.randrange(length - size + 1)
            span = range(start, start + size)
            inside = {b for a, b in both if a in span}
            outside = {b for a, b in both if a not in span}
            if inside and not any(min(inside) <= b <= max(inside) for b in outside):
                found.append((number, span, inside, outside))
    return found


def right(
    source: str, target: str, span: range, inside: set[int], outside: set[int], weights: Weights
) -> bool:
    """Whether a tag around a span gets the words that it should get."""
    ranges = spaced(source)
    start, end = ranges[span[0]][0], ranges[span[-1]][1]
    marks = Mark("open", "\x01", 1), Mark("close", "\x02", 1)
    result = placed(
        Sentence((source[:start], marks[0], source[start:end], marks[1], source[end:])),
        target,
        weights=weights,
    )
    first, last = result.index("\x01"), result.index("\x02") - 1
    got = {number for number, (a, b) in enumerate(spaced(target)) if a < last and b > first}
    return got & (inside | outside) == inside


def attention(translator: Translator, pairs: list[tuple[str, str, str, str]]) -> list[Weights]:
    """Return the weights between the words of sources and references."""
    encoded = translator.encode([pair[0] for pair in pairs], translator.options, split=True)
    hypotheses = [
        [Hypothesis(tuple(translator.subwords.encode_target(target)), 0.0, 0.0, ())]
        for _, target, *_ in pairs
    ]
    asked = [
        Pair(number, 0, source, target, words(source), words(target))
        for number, (source, target, *_) in enumerate(pairs)
    ]
    return word_weights(translator, encoded, hypotheses, asked)


def measure_tags(translator: Translator, pairs: list[tuple[str, str, str, str]]) -> None:
    """Print the share of tags that get the right words."""
    some = cases(pairs, random.Random(1))
    weights = attention(translator, pairs)
    for name, found in (
        ("diagonal", [diagonal(*one.shape) for one in weights]),
        ("attention", weights),
    ):
        count = sum(
            right(*pairs[number][:2], span, inside, outside, found[number])
            for number, span, inside, outside in some
        )
        print(f"tags by {name}: {count / len(some):.3f} of {len(some):,} around the right words")


def measure_pieces(translator: Translator, sources: list[str], references: list[str]) -> None:
    """Print the share of pieces that arrive, and BLEU of the text around them."""
    generator = random.Random(2)
    rows = []
    for source in sources:
        piece, kind = generator.choice([(piece, kind) for kind in PIECES for piece in PIECES[kind]])
        place = generator.randrange(1, len(source.split()))
        rows.append((piece, kind, " ".join([*source.split()[:place], piece, *source.split()[place:]])))
    limits = ServiceLimits(items=10**6, characters=10**8, seconds=3600, queue=10**6)
    service = Service(Models([Model("run", "en", "de", translator)]), limits)

    async def translate(texts: list[str], protect: bool) -> list[str]:
        found = await service.translate(Job(texts, "de", "en", mode="none", protect=protect))
        return [one.text for one in found]

    async def work() -> None:
        plain = await translate(sources, True)
        assert plain == await translate(sources, False)
        print(f"without pieces: BLEU {_bleu(plain, references):.1f}, the same with and without protection")
        for protect in (False, True):
            texts = await translate([row for _, _, row in rows], protect)
            arrived = [
                not locate(Sentence((Piece(p, p, k),)), text)[1]
                for (p, k, _), text in zip(rows, texts, strict=True)
            ]
            around = [
                " ".join(text.replace(p, " ").split()) for (p, _, _), text in zip(rows, texts, strict=True)
            ]
            print(
                f"protect={protect}: {np.mean(arrived):.3f} arrive, BLEU around them {_bleu(around, references):.1f}"
            )
        await service.close()

    asyncio.run(work())


def _bleu(texts: list[str], references: list[str]) -> float:
    return sacrebleu.corpus_bleu(texts, [references], tokenize="none", force=True).score


def main() -> None:
    """Measure a run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    for name in ("source", "target", "forward", "reverse"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=1_000)
    options = parser.parse_args()
    files = (options.source, options.target, options.forward, options.reverse)
    texts = [path.read_text(encoding="utf-8").splitlines()[: options.limit] for path in files]
    pairs = list(zip(*texts, strict=True))
    translator = Translator.load(options.run, device="cpu")
    measure_tags(translator, pairs)
    measure_pieces(translator, texts[0], texts[1])


if __name__ == "__main__":
    main()
