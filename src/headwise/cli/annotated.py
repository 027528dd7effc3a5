"""Annotated sentences for the analysis subcommands, from text files, CoNLL-U files or the built-in corpus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headwise.errors import ConfigError, DataError

if TYPE_CHECKING:
    from headwise.analysis.heads.measuring import Annotated
    from headwise.corpora.miniature import MiniaturePair

Links = frozenset[tuple[int, int]]


@dataclass(frozen=True)
class Sentences:
    """Sentence pairs with their annotations; `gold` holds the gold alignments of the built-in corpus."""

    sources: list[Annotated]
    targets: list[Annotated] | None
    gold: list[Links] | None = None


def read_sentences(
    source: Path | None,
    target: Path | None,
    *,
    miniature: str | None = None,
    seed: int = 1,
    tokenized: bool = False,
    lowercase: bool = False,
    limit: int | None = None,
) -> Sentences:
    """Read sentence pairs from files, or from the `dev` or `test` set of the built-in corpus.

    Files that end in .conllu or .conllu.gz provide trees. Raises `ConfigError` if neither or both of `source` and
    `miniature` are given, and `DataError` if the files have different numbers of sentences, or none.
    """
    if (source is None) == (miniature is None):
        raise ConfigError("expected either --source or --miniature")
    if miniature is not None:
        from headwise.corpora.miniature import generate

        corpus = generate(train=0, seed=seed)
        pairs = corpus.dev if miniature == "dev" else corpus.test
        return _from_miniature(pairs[:limit])
    assert source is not None
    sources = _read(source, tokenized, lowercase)
    targets = None if target is None else _read(target, tokenized, lowercase)
    if targets is not None and len(targets) != len(sources):
        raise DataError(
            f"{target}: expected a sentence for each of {source}'s {len(sources):,}, found {len(targets):,}"
        )
    if not sources:
        raise DataError(f"{source}: expected at least one sentence, found none")
    return Sentences(sources[:limit], None if targets is None else targets[:limit])


def _from_miniature(pairs: Sequence[MiniaturePair]) -> Sentences:
    from headwise.analysis.attention import Sentence
    from headwise.analysis.heads.measuring import Annotated

    def edges(heads: Sequence[int], relations: Sequence[str]) -> tuple[tuple[int, int, str], ...]:
        return tuple(
            (word, head, relation)
            for word, (head, relation) in enumerate(zip(heads, relations, strict=True))
            if head >= 0
        )

    return Sentences(
        [
            Annotated(
                Sentence(pair.source, pair.source_tokens),
                edges(pair.source_heads, pair.source_relations),
                pair.source_coreference,
            )
            for pair in pairs
        ],
        [
            Annotated(
                Sentence(pair.target, pair.target_tokens),
                edges(pair.target_heads, pair.target_relations),
                pair.target_coreference,
            )
            for pair in pairs
        ],
        [pair.alignment for pair in pairs],
    )


def _read(path: Path, tokenized: bool, lowercase: bool) -> list[Annotated]:
    from headwise.analysis.heads.measuring import Annotated
    from headwise.cli.lines import read_lines

    if path.name.endswith((".conllu", ".conllu.gz")):
        from headwise.text.reading.conllu import read_trees

        return [
            Annotated.of_tree(tree, tokenized=tokenized, lowercase=lowercase) for tree in read_trees(path)
        ]
    return [Annotated.of(line.lower() if lowercase else line) for line in read_lines(path)]
