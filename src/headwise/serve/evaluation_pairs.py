"""Sentence pairs to measure on, with the trees, pronouns' nouns and alignments that are known of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headwise.analysis.heads.measuring import Annotated
from headwise.decoding.translator import Translator
from headwise.errors import DataError
from headwise.evaluation.alignment import read_alignments
from headwise.serve.runs import Run
from headwise.text.reading.conllu import read_trees

MOST_SENTENCES = 500


@dataclass(frozen=True)
class EvaluationPairs:
    """Sentence pairs; `gold` are their word alignments, where there are some."""

    name: str
    sources: Sequence[Annotated]
    targets: Sequence[Annotated]
    gold: Sequence[frozenset[tuple[int, int]]] | None = None

    def texts(self, most: int) -> tuple[list[str], list[str]]:
        """Return the first pairs as they are written."""
        sources, targets = (
            [one.sentence.text for one in side[:most]] for side in (self.sources, self.targets)
        )
        return sources, targets

    def within(self, translator: Translator) -> EvaluationPairs:
        """Leave out the pairs that are longer than the model reads."""
        subwords, room = translator.subwords, translator.model.max_length
        kept = [
            number
            for number, (source, target) in enumerate(zip(self.sources, self.targets, strict=True))
            if len(subwords.encode_source(source.sentence.text)) < room
            and len(subwords.encode_target(target.sentence.text)) < room
        ]
        sources, targets = ([side[number] for number in kept] for side in (self.sources, self.targets))
        gold = None if self.gold is None else [self.gold[number] for number in kept]
        return EvaluationPairs(self.name, sources, targets, gold)

    def with_gold(self, alignments: Path) -> EvaluationPairs:
        """Add alignments from a Pharaoh file; raises `DataError` where it has too few lines."""
        gold = [one.sure for one in read_alignments(alignments)][: len(self.sources)]
        if len(gold) < len(self.sources):
            raise DataError(
                f"{alignments}: expected a line for each of {len(self.sources)} pairs, found {len(gold)}"
            )
        return EvaluationPairs(self.name, self.sources, self.targets, gold)

    @classmethod
    def of(cls, run: Run) -> EvaluationPairs | None:
        """Take the run's development data, where it is still there.

        Trees are taken from CoNLL-U files beside it (`dev.en.conllu` beside `dev.en`) and alignments from a Pharaoh
        file (`dev.align`), as `headwise demo` writes them. Raises `DataError` for one of these that is damaged.
        """
        pairs = run.pairs(MOST_SENTENCES)
        if not pairs:
            return None
        source, target = run.config.data.dev_source, run.config.data.dev_target
        known = [_trees(Path(f"{file}.conllu")) if file else {} for file in (source, target)]
        sources = _annotated((pair.source for pair in pairs), known[0])
        targets = _annotated((pair.target for pair in pairs), known[1])
        corpus = cls("its development data", sources, targets)
        alignments = None if source is None else Path(source).with_suffix(".align")
        if alignments is None or not alignments.is_file():
            return corpus
        links = read_alignments(alignments)
        if max(pair.line for pair in pairs) > len(links):
            raise DataError(f"{alignments}: expected a line for each of {source}, found {len(links)}")
        return cls(corpus.name, sources, targets, [links[pair.line - 1].sure for pair in pairs])


def _trees(file: Path) -> dict[str, Annotated]:
    """Read trees by the text of their sentence; none where there is no such file."""
    if not file.is_file():
        return {}
    return {tree.text: Annotated.of_tree(tree) for tree in read_trees(file)}


def _annotated(texts: Iterable[str], known: dict[str, Annotated]) -> list[Annotated]:
    return [known.get(text) or Annotated.of(text) for text in texts]
