"""Terms that a search must place: the fraction placed and BLEU beside plain beam search, on real sentences.

    python benchmarks/terminology.py RUN --source test.en --reference test.de --train train.en train.de

The rows `1 word` to `4 words` take so many random words of each reference, and `phrase` four that follow each other, as
in Post and Vilar 2018, section 4; words are drawn with `--seed` and each occurs once. The row `glossary` looks rare
source words up (2 to 200 sentences of the training text): the reference word with the largest Dice coefficient,
2 c(s, t) / (c(s) + c(t)) over the sentences of the training text, where it is at least 0.3. `dictionary` has all target
words of such a coefficient for them, of which any one will do, whatever the reference has.

Texts are tokenized, one sentence a line, plain or .gz; BLEU is on these tokens (sacreBLEU, tokenize=none). A word that
the vocabulary can't write is not asked for. Translations are searched with and without the terms, in the same process.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import sacrebleu

from headwise.cli.lines import read_lines
from headwise.decoding.batching import decode
from headwise.decoding.beam.hypothesis import Hypothesis
from headwise.decoding.sentences import EncodedSentences
from headwise.decoding.terms.glossary import TERM_BEAM, sentence_terms
from headwise.decoding.translator import Translator
from headwise.text.reading.glossary import Entry, Match

RARE = (2, 200)  # sentences of the training text that have the source word
DICE = 0.3
Terms = list[list[Match]]  # of each sentence
Draw = Callable[[str, str], list[Match]]  # source and reference → terms


class Dictionary:
    """The translations of rare words by co-occurrence in training text."""

    def __init__(self, sources: Sequence[str], targets: Sequence[str]) -> None:
        self.sources: Counter[str] = Counter()
        self.targets: Counter[str] = Counter()
        both: dict[str, Counter[str]] = defaultdict(Counter)
        pairs = [(set(one.split()), set(two.split())) for one, two in zip(sources, targets, strict=True)]
        for one, two in pairs:
            self.sources.update(one)
            self.targets.update(two)
        for one, two in pairs:
            for word in one:
                if RARE[0] <= self.sources[word] <= RARE[1] and _is_word(word):
                    both[word].update(filter(_is_word, two))
        self.found = {word: self._translations(word, counts) for word, counts in both.items()}

    def _translations(self, word: str, counts: Counter[str]) -> list[tuple[float, str]]:
        scored = [
            (2 * count / (self.sources[word] + self.targets[target]), target)
            for target, count in counts.items()
        ]
        return sorted((each for each in scored if each[0] >= DICE), key=lambda each: (-each[0], each[1]))

    def of_reference(self, source: str, reference: str) -> list[Match]:
        """Return the terms of a source with the best translation that its reference has."""
        words = set(reference.split())
        matches = []
        for word in dict.fromkeys(source.split()):
            best = next((target for _, target in self.found.get(word, []) if target in words), None)
            if best is not None:
                matches.append(Match(Entry(word, (best,)), 1))
        return matches

    def of_training(self, source: str, reference: str) -> list[Match]:
        """Return the terms of a source with all their translations."""
        words = [word for word in dict.fromkeys(source.split()) if self.found.get(word)]
        return [Match(Entry(word, tuple(target for _, target in self.found[word])), 1) for word in words]


def random_words(count: int, rng: random.Random) -> Draw:
    """Return a function that draws so many words of a reference."""

    def draw(source: str, reference: str) -> list[Match]:
        words = [word for word in dict.fromkeys(reference.split()) if _is_word(word)]
        chosen = rng.sample(range(len(words)), min(count, len(words)))
        return [Match(Entry("", (words[index],)), 1) for index in sorted(chosen)]

    return draw


def random_phrase(length: int, rng: random.Random) -> Draw:
    """Return a function that draws words of a reference that follow each other."""

    def draw(source: str, reference: str) -> list[Match]:
        words = reference.split()
        start = rng.randrange(max(1, len(words) - length + 1))
        return [Match(Entry("", (" ".join(words[start : start + length]),)), 1)]

    return draw


def measure(
    translator: Translator, encoded: EncodedSentences, references: Sequence[str], matches: Terms, beam: int
) -> dict[str, float]:
    """Return figures of a search with terms; a beam of 0 places none. Sentences without terms have the run's beam."""
    longest = translator.search_model.max_length - 1
    terms = [sentence_terms(each if beam else [], translator.subwords, longest) for each in matches]
    wide = dataclasses.replace(encoded.options, beam=beam or 1)
    hypotheses: dict[int, list[Hypothesis]] = {}
    began = time.perf_counter()
    for options, placed in ((encoded.options, False), (wide, True)):
        group = [index for index, each in enumerate(terms) if (each is not None) == placed]
        found = decode(
            translator.search_model,
            [encoded.sources[index] for index in group],
            options,
            translator.symbols,
            batch_tokens=translator.batch_tokens,
            terms=[terms[index] for index in group],
        )
        hypotheses |= dict(zip(group, found, strict=True))
    seconds = time.perf_counter() - began
    ordered = [hypotheses[index] for index in range(len(terms))]
    texts = [translation.text for translation in translator.translations(encoded, ordered)]
    wanted = sum(map(len, matches))
    missing = sum(bool(m.missing(text)) for text, each in zip(texts, matches, strict=True) for m in each)
    bleu = sacrebleu.corpus_bleu(texts, [list(references)], tokenize="none", force=True).score
    return {"terms": wanted, "placed": 1 - missing / max(wanted, 1), "bleu": bleu, "seconds": seconds}


def main() -> None:
    """Print one JSON object for each row, and the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--train", type=Path, nargs=2, required=True)
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--beam", type=int, nargs="+", default=[TERM_BEAM], help="with terms")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    sources, references = list(read_lines(arguments.source)), list(read_lines(arguments.reference))
    translator = Translator.load(arguments.run, device="cpu", engine=arguments.engine)
    encoded = translator.encode(sources, translator.options)
    dictionary = Dictionary(*(list(read_lines(path)) for path in arguments.train))
    draws: dict[str, Draw] = {
        **{f"{n} word{'s' * (n > 1)}": random_words(n, random.Random(arguments.seed)) for n in range(1, 5)},
        "phrase": random_phrase(4, random.Random(arguments.seed)),
        "glossary": dictionary.of_reference,
        "dictionary": dictionary.of_training,
    }
    rows = [
        "| terms | number | beam | placed without | BLEU without | placed | BLEU | seconds without | seconds |"
    ]
    rows.append("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for name, draw in draws.items():
        matches = [
            [match for match in draw(*pair) if sentence_terms([match], translator.subwords, 99)]
            for pair in zip(sources, references, strict=True)
        ]
        plain = measure(translator, encoded, references, matches, 0)
        for beam in arguments.beam:
            found = measure(translator, encoded, references, matches, beam)
            print(json.dumps({"row": name, "beam": beam, "plain": plain, **found}), flush=True)
            rows.append(
                f"| {name} | {found['terms']:,.0f} | {beam} | {plain['placed']:.1%} | {plain['bleu']:.1f} | "
                f"{found['placed']:.1%} | {found['bleu']:.1f} | {plain['seconds']:.1f} | {found['seconds']:.1f} |"
            )
    print("\n".join(rows))


def _is_word(word: str) -> bool:
    return word[0].isalnum()


if __name__ == "__main__":
    main()
