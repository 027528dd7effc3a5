"""Add to the pairs that one trains on what two models, one of each direction, make of their sides.

    headwise translate runs/en-de text.en -o made.de
    headwise translate runs/de-en text.de -o made.en
    python examples/diversify.py text.en text.de made.en made.de diverse
    headwise train --from runs/en-de --source diverse.en --target diverse.de -o runs/en-de-2

The files diverse.en and diverse.de, for both directions, have the real pairs, then each distinct line of text.en with
its translation, and each of text.de behind its own (Nguyen et al. 2020, "Data Diversification"). A translation that is
a real one already is left out, and so is one whose chrF2 with each of the real ones is below 40, which is wrong more
often than it says the same in other words.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from sacrebleu.metrics.chrf import CHRF

from headwise.errors import DataError, script_errors
from headwise.files import check_output, write_text
from headwise.text.reading.lines import read_parallel

LEAST = 40  # chrF2


def new_translations(given: list[str], real: list[str], made: list[str]) -> Iterator[tuple[str, str]]:
    """Yield each distinct given line and what a model made of it, where that is another translation than the real."""
    chrf, translations = CHRF(), defaultdict(set)
    for text, translation in zip(given, real, strict=True):
        translations[text].add(translation)
    for text, translation in dict(zip(given, made, strict=True)).items():
        known = translations[text]
        if (
            translation.strip()
            and translation not in (text, *known)
            and max(chrf.sentence_score(translation, [each]).score for each in known) >= LEAST
        ):
            yield text, translation


def main() -> None:
    """Read the command line and write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="The real text.")
    parser.add_argument("target", type=Path, help="Its real translation.")
    parser.add_argument("made_source", type=Path, help="The target's lines, translated into the source's language.")
    parser.add_argument("made_target", type=Path, help="The source's lines, translated.")
    parser.add_argument("out", type=Path, help="The files to write, without the suffixes of source and target.")
    options = parser.parse_args()
    inputs = (options.source, options.target, options.made_source, options.made_target)
    outputs = [options.out.with_name(options.out.name + side.suffix) for side in inputs[:2]]
    if outputs[0] == outputs[1]:
        raise DataError(
            f"{options.target}: expected another suffix than that of {options.source}, which the files to write get, "
            f"found {options.target.suffix or 'none'}"
        )
    for file in outputs:
        check_output(file, *inputs)
    source, target, made_source, made_target = read_parallel(*inputs)
    pairs = [
        *zip(source, target, strict=True),
        *new_translations(source, target, made_target),
        *((made, text) for text, made in new_translations(target, source, made_source)),
    ]
    for side, file in enumerate(outputs):
        write_text(file, "".join(f"{pair[side]}\n" for pair in pairs))
    print(f"{options.out}: {len(pairs):,} pairs")


if __name__ == "__main__":
    with script_errors():
        main()
