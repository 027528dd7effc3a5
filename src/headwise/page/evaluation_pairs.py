"""Sentence pairs for measurements, with the dependency trees, coreferences and gold alignments known for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headwise.analysis.heads.measuring import Annotated
from headwise.engine.translator import Translator
from headwise.errors import DataError
from headwise.evaluation.alignment import check_words, read_alignments
from headwise.page.development_set import development_pairs
from headwise.page.runs import PageRun
from headwise.text.reading.conllu import read_trees

MOST_SENTENCES = 500


@dataclass(frozen=True)
class EvaluationPairs:
    """Annotated sentence pairs; `gold` holds their gold word alignments, if there are any."""

    name: str
    sources: Sequence[Annotated]
    targets: Sequence[Annotated]
    gold: Sequence[frozenset[tuple[int, int]]] | None = None

    def texts(self, most: int) -> tuple[list[str], list[str]]:
        """Return the source and target texts of the first `most` pairs."""
        sources, targets = (
            [annotated.sentence.text for annotated in side[:most]] for side in (self.sources, self.targets)
        )
        return sources, targets

    def within(self, translator: Translator) -> EvaluationPairs:
        """Return only the pairs that fit the model's maximum length."""
        subwords, max_length = translator.subwords, translator.engine.max_length
        kept = [
            number
            for number, (source, target) in enumerate(zip(self.sources, self.targets, strict=True))
            if len(subwords.encode_source(source.sentence.text)) < max_length
            and len(subwords.encode_target(target.sentence.text)) < max_length
        ]
        sources, targets = ([side[number] for number in kept] for side in (self.sources, self.targets))
        gold = None if self.gold is None else [self.gold[number] for number in kept]
        return EvaluationPairs(self.name, sources, targets, gold)

    def with_gold(self, alignments: Path) -> EvaluationPairs:
        """Add gold alignments from a Pharaoh file; raises `DataError` for too few lines or a link that doesn't fit."""
        return self._aligned(alignments, range(1, len(self.sources) + 1))

    def _aligned(self, alignments: Path, lines: Sequence[int]) -> EvaluationPairs:
        """Add the gold alignments of these lines, counted from 1; raises as `with_gold` does."""
        links = read_alignments(alignments)
        if max(lines, default=0) > len(links):
            raise DataError(f"{alignments}: expected at least {max(lines)} lines, one a pair, found {len(links)}")
        gold = [links[line - 1] for line in lines]
        for line, alignment, source, target in zip(lines, gold, self.sources, self.targets, strict=True):
            check_words(alignment, source.sentence.words, target.sentence.words, f"{alignments} line {line}")
        return replace(self, gold=[alignment.sure for alignment in gold])

    @classmethod
    def of(cls, run: PageRun) -> EvaluationPairs | None:
        """Return the run's development set, or None if it no longer exists.

        Trees are read from CoNLL-U files beside it (`dev.en.conllu` beside `dev.en`) and alignments from a Pharaoh
        file (`dev.align`), as `headwise demo` writes them. Raises `DataError` if one of these is damaged.
        """
        translates = run.config.task == "translation"
        pairs = development_pairs(run.path, run.config.data, MOST_SENTENCES) if translates else []
        if not pairs:
            return None
        source, target = run.config.data.dev_source, run.config.data.dev_target
        trees = [_trees(Path(f"{file}.conllu")) if file else {} for file in (source, target)]
        sources = _annotated((pair.source for pair in pairs), trees[0])
        targets = _annotated((pair.target for pair in pairs), trees[1])
        corpus = cls("its development data", sources, targets)
        alignments = None if source is None else Path(source).with_suffix(".align")
        if alignments is None or not alignments.is_file():
            return corpus
        return corpus._aligned(alignments, [pair.line for pair in pairs])


def _trees(file: Path) -> dict[str, Annotated]:
    """Return a file's annotated sentences by their text; empty if there is no such file."""
    if not file.is_file():
        return {}
    return {tree.text: Annotated.of_tree(tree) for tree in read_trees(file)}


def _annotated(texts: Iterable[str], trees: dict[str, Annotated]) -> list[Annotated]:
    return [trees.get(text) or Annotated.of(text) for text in texts]
