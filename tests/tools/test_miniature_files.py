"""The files that the miniature corpus is written to, and that those in the package are the generator's."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from headwise.corpora.built_in import FOLDER, NAMES, write_built_in
from headwise.corpora.catalog import CORPORA
from headwise.text.reading.conllu import read_trees
from tools.miniature import EXAMPLES, generate, write
from tools.miniature.__main__ import SEED, TRAIN
from tools.miniature.corpus import SAID
from tools.miniature.sayings import SAYINGS


def test_written_files_hold_the_corpus(tmp_path: Path) -> None:
    corpus = generate(train=50, dev=20, test=30, seed=9)
    write(corpus, tmp_path / "new" / "corpus")
    folder = tmp_path / "new" / "corpus"
    said = [*SAYINGS] * SAID
    for name, pairs, more in (
        ("train", corpus.train, said),
        ("dev", corpus.dev, []),
        ("test", corpus.test, []),
    ):
        expected = [(pair.source, pair.target) for pair in pairs] + more
        sides = [(folder / f"{name}.{side}").read_text(encoding="utf-8").splitlines() for side in ("en", "de")]
        assert [*zip(*sides, strict=True)] == expected
    assert (folder / "examples.en").read_text(encoding="utf-8").splitlines() == [*EXAMPLES]
    lines = (folder / "test.align").read_text(encoding="utf-8").splitlines()
    read = [frozenset(tuple(map(int, link.split("-"))) for link in line.split()) for line in lines]
    assert read == [pair.alignment for pair in corpus.test]


def test_conllu_files_hold_the_trees_and_the_coreference(tmp_path: Path) -> None:
    corpus = generate(train=0, dev=10, test=60, seed=9)
    write(corpus, tmp_path)
    blocks = (tmp_path / "test.de.conllu").read_text(encoding="utf-8").strip().split("\n\n")
    assert len(blocks) == 60
    for block, pair in zip(blocks, corpus.test, strict=True):
        rows = [line.split("\t") for line in block.splitlines() if not line.startswith("#")]
        assert all(len(row) == 10 for row in rows)
        assert [row[0] for row in rows] == [str(i + 1) for i in range(len(rows))]
        assert tuple(row[1] for row in rows) == pair.target_tokens
        assert tuple(row[3] for row in rows) == pair.target_tags
        assert tuple(int(row[6]) - 1 for row in rows) == pair.target_heads
        assert tuple(row[7] for row in rows) == pair.target_relations
        notes = [dict(note.split("=") for note in row[9].split("|") if "=" in note) for row in rows]
        links = tuple((i, int(note["Antecedent"]) - 1) for i, note in enumerate(notes) if "Antecedent" in note)
        assert links == pair.target_coreference
        text = "".join(row[1] + ("" if "SpaceAfter" in note else " ") for row, note in zip(rows, notes, strict=True))
        assert text.strip() == pair.target
        assert f"# text = {pair.target}" in block


def test_the_miniature_corpus_comes_back_from_its_files(tmp_path: Path) -> None:
    corpus = generate(train=0, dev=20, test=20, seed=2)
    write(corpus, tmp_path)
    for tree, pair in zip(read_trees(tmp_path / "dev.en.conllu"), corpus.dev, strict=True):
        assert (tree.text, tree.words) == (pair.source, pair.source_tokens)
        links = zip(pair.source_heads, pair.source_relations, strict=True)
        assert tree.edges == tuple((word, head, name) for word, (head, name) in enumerate(links) if head >= 0)
        assert sorted(tree.coreference) == sorted(pair.source_coreference)


@pytest.mark.slow
def test_the_package_has_the_text_that_the_generator_writes(tmp_path: Path) -> None:
    files = write(generate(train=TRAIN, seed=SEED), tmp_path)
    assert {file.name: digest(file) for file in files} == catalog("miniature")


def test_the_files_in_the_package_have_the_checksums_of_the_catalog(tmp_path: Path) -> None:
    for name in NAMES:
        files = write_built_in(name, tmp_path / name)
        assert {file.name: digest(file) for file in files} == catalog(name)
    assert sum(file.stat().st_size for file in FOLDER.rglob("*.bz2")) < 1.5e6


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def catalog(name: str) -> dict[str, str | None]:
    return {file.name: file.sha256 for file in CORPORA[name].files}
