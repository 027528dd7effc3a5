"""Annotated sentences for the analysis subcommands, from text files, CoNLL-U files or the built-in corpus."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from headwise.errors import ConfigError, DataError

if TYPE_CHECKING:
    from headwise.analysis.attention import CrossAttention
    from headwise.analysis.heads.measuring import Annotated
    from headwise.engine.translator import Translator

Links = frozenset[tuple[int, int]]


@dataclass(frozen=True)
class AnnotatedSentences:
    """Sentence pairs with their annotations; `gold` holds the gold alignments of the built-in corpus."""

    sources: list[Annotated]
    targets: list[Annotated] | None
    gold: list[Links] | None = None


def read_sentences(
    source: Path | None,
    target: Path | None,
    *,
    miniature: str | None = None,
    tokenized: bool = False,
    lowercase: bool = False,
    limit: int | None = None,
) -> AnnotatedSentences:
    """Read sentence pairs from files, or from the `dev` or `test` set of the built-in corpus.

    Files that end in .conllu or .conllu.gz provide trees. Raises `ConfigError` if neither or both of `source` and
    `miniature` are given, or a file's option with `miniature`, and `DataError` if the files have different numbers of
    sentences, or none.
    """
    if (source is None) == (miniature is None):
        raise ConfigError("expected either --source or --miniature")
    if miniature is not None:
        for option, given in (("target", target), ("tokenized", tokenized), ("lowercase", lowercase)):
            if given:
                raise ConfigError(f"--{option}: expected it with --source, found --miniature")
        return _built_in(miniature, limit)
    assert source is not None
    sources = _read(source, tokenized, lowercase)
    targets = None if target is None else _read(target, tokenized, lowercase)
    if targets is not None and len(targets) != len(sources):
        raise DataError(
            f"{target}: expected a sentence for each of {source}'s {len(sources):,}, found {len(targets):,}"
        )
    if not sources:
        raise DataError(f"{source}: expected at least one sentence, found none")
    return AnnotatedSentences(sources[:limit], None if targets is None else targets[:limit])


def _built_in(part: str, limit: int | None) -> AnnotatedSentences:
    from headwise.corpora.built_in import write_built_in
    from headwise.evaluation.alignment import read_alignments

    with TemporaryDirectory() as folder:
        write_built_in("miniature", Path(folder), f"{part}.*")
        files = [Path(folder) / f"{part}.{side}.conllu" for side in ("en", "de")]
        sources, targets = (_read(file, False, False)[:limit] for file in files)
        gold = [links.sure for links in read_alignments(Path(folder) / f"{part}.align")]
    return AnnotatedSentences(sources, targets, gold[:limit])


def attentions_of(translator: Translator, sentences: AnnotatedSentences, swap: bool = False) -> list[CrossAttention]:
    """Return the cross-attention of each pair; `swap` for a model of the reverse direction."""
    from headwise.analysis.attention import cross_attention

    assert sentences.targets is not None
    sides = ([annotated.sentence for annotated in side] for side in (sentences.sources, sentences.targets))
    source, target = reversed(list(sides)) if swap else sides
    return cross_attention(translator, source, target)


def _read(path: Path, tokenized: bool, lowercase: bool) -> list[Annotated]:
    from headwise.analysis.heads.measuring import Annotated
    from headwise.text.reading.lines import read_lines

    if path.name.endswith((".conllu", ".conllu.gz")):
        from headwise.text.reading.conllu import read_trees

        return [Annotated.of_tree(tree, tokenized=tokenized, lowercase=lowercase) for tree in read_trees(path)]
    return [Annotated.of(line.lower() if lowercase else line) for line in read_lines(path)]
