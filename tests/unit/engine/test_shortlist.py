"""Shortlists against a direct implementation of IBM Model 1, on small sentence pairs."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from headwise.api import other_run
from headwise.cli.main import run as headwise
from headwise.config import DataConfig, SubwordConfig
from headwise.data.ragged import Ragged, RaggedWriter
from headwise.engine import shortlist
from headwise.engine.shortlist import FILE, Shortlist, learn_shortlist, translation_probabilities
from headwise.engine.translator import Translator
from headwise.errors import CheckpointError
from headwise.text.preparation.in_process import prepare
from headwise.text.tokens.subwords import EOS, UNK, Subwords
from translator_run import ENGLISH, GERMAN, make_run

Pairs = list[tuple[list[int], list[int]]]
SIZE = 20


def tables(folder: Path, pairs: Pairs) -> tuple[Ragged, Ragged]:
    for side, name in enumerate(("source", "target")):
        with RaggedWriter(folder / name, np.uint16) as writer:
            for pair in pairs:
                writer.append(np.array(pair[side], np.uint16), np.array([len(pair[side])]))
    return Ragged(folder / "source", np.uint16), Ragged(folder / "target", np.uint16)


def random_pairs(seed: int, count: int = 30) -> Pairs:
    numbers = np.random.default_rng(seed)

    def side(least: int) -> list[int]:
        return numbers.integers(4, SIZE, numbers.integers(least, 7)).tolist()

    return [([*side(0), EOS], side(0)) for _ in range(count)]


def model_1(pairs: Pairs, iterations: int) -> dict[tuple[int, int], float]:
    """Return t(f | e), trained by expectation maximization, word by word (Brown et al. 1993, section 4.1)."""
    t = {(e, f): 1.0 for source, target in pairs for e in source for f in target}
    for _ in range(iterations):
        counts: dict[tuple[int, int], float] = defaultdict(float)
        totals: dict[int, float] = defaultdict(float)
        for source, target in pairs:
            for f in target:
                total = sum(t[e, f] for e in source)
                for e in source:
                    counts[e, f] += t[e, f] / total
                    totals[e] += t[e, f] / total
        t = {(e, f): count / totals[e] for (e, f), count in counts.items()}
    return t


@pytest.mark.parametrize("chunk", [4_000_000, 50, 1])
def test_probabilities_are_those_of_model_1(tmp_path: Path, monkeypatch, chunk: int) -> None:
    monkeypatch.setattr(shortlist, "_CHUNK", chunk)
    pairs = random_pairs(1)
    e, f, probability = translation_probabilities(*tables(tmp_path, pairs), SIZE, 4)
    found = dict(zip(zip(e.tolist(), f.tolist(), strict=True), probability.tolist(), strict=True))
    assert found == pytest.approx(model_1(pairs, 4))


def test_candidates_are_the_likeliest(tmp_path: Path) -> None:
    pairs = random_pairs(2, 60)
    found = learn_shortlist(*tables(tmp_path, pairs), SIZE, SIZE, candidates=3, common=0, joint=False, iterations=4)
    expected = model_1(pairs, 4)
    for e in {e for source, _ in pairs for e in source}:
        likeliest = sorted((f for o, f in expected if o == e), key=lambda f: -expected[e, f])[:3]
        chosen = [expected[e, f] for f in found.candidates[e].tolist()]
        assert chosen == pytest.approx([expected[e, f] for f in likeliest])


def test_a_word_that_explains_another_is_found(tmp_path: Path) -> None:
    """The textbook example: das Haus, the house; das Buch, the book; ein Buch, a book."""
    das, haus, buch, ein = range(4, 8)
    the, house, book, a = range(10, 14)
    pairs = [([das, haus, EOS], [the, house]), ([das, buch, EOS], [the, book]), ([ein, buch, EOS], [a, book])]
    found = learn_shortlist(*tables(tmp_path, pairs), SIZE, SIZE, candidates=1, common=0, joint=False, iterations=20)
    assert found.candidates[[das, buch, ein, haus], 0].tolist() == [the, book, a, house]


def test_a_list_has_common_ids_candidates_and_copies(tmp_path: Path) -> None:
    pairs: Pairs = [([4, EOS], [14, 15, 15]), ([5, EOS], [16, 15, 15, 14])]
    found = learn_shortlist(*tables(tmp_path, pairs), SIZE, SIZE, candidates=2, common=1, joint=True)
    assert found.common.tolist() == [UNK, EOS, 15]
    listed = found([5, 9, EOS])
    assert listed.dtype == np.int32
    assert listed.tolist() == sorted({UNK, EOS, 15, 5, 9, *found.candidates[5], *found.candidates[EOS]})
    assert 9 in found([9])  # an unseen subword may still be copied
    source, target = tables(tmp_path, [([5, EOS], [16, 19])])
    assert found.coverage(source, target) == (len(found([5, EOS])), 0.5)


def test_of_long_text_pairs_from_all_over_are_read(tmp_path: Path, monkeypatch) -> None:
    pairs: Pairs = [([4 + row // 10, EOS], [4 + row // 10]) for row in range(100)]
    monkeypatch.setattr(shortlist, "_LINKS", 40)
    e, _, _ = translation_probabilities(*tables(tmp_path, pairs), SIZE, 1)
    assert set(e.tolist()) == {*range(4, 14), EOS}


def test_it_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    found = learn_shortlist(*tables(tmp_path, random_pairs(3)), SIZE, SIZE, candidates=4, common=3, joint=True)
    found.save(tmp_path / FILE, "abc")
    again = Shortlist.load(tmp_path / FILE, "abc", SIZE, SIZE)
    assert np.array_equal(again([4, 5, EOS]), found([4, 5, EOS]))
    with pytest.raises(CheckpointError, match=r"for the run's subwords \(xyz\), found one for others \(abc\)"):
        Shortlist.load(tmp_path / FILE, "xyz", SIZE, SIZE)
    (tmp_path / FILE).write_bytes((tmp_path / FILE).read_bytes()[:-9])
    with pytest.raises(CheckpointError, match="expected a shortlist, found a damaged file"):
        Shortlist.load(tmp_path / FILE, "abc", SIZE, SIZE)


@pytest.mark.parametrize("size", [2**16, 2**16 + 1])
def test_ids_take_two_bytes_where_they_fit(size: int, tmp_path: Path) -> None:
    candidates, common = np.full((3, 2), size - 1, np.int32), np.array([UNK, EOS, size - 1], np.int32)
    Shortlist(candidates, common, size).save(tmp_path / FILE, "abc")
    again = Shortlist.load(tmp_path / FILE, "abc", 3, size)
    assert again([0]).tolist() == [UNK, EOS, size - 1]
    stored = {table.dtype for table in load_file(tmp_path / FILE).values()}
    assert stored == {np.dtype(np.uint16 if size == 2**16 else np.int32)}


CANDIDATES, COMMON = np.full((SIZE, 2), 5, np.int32), np.array([UNK, EOS, 7], np.int32)
RECORD: dict[str, Any] = {"subwords": "abc", "target_size": SIZE}
# Changed contents of a file, and the expected error message.
DAMAGES: dict[str, tuple[dict[str, Any], str]] = {
    "no candidates": ({"candidates": None}, "expected a shortlist, found a damaged file"),
    "no record": ({"record": None}, "expected a shortlist, found a damaged file"),
    "another record": ({"record": ["abc", SIZE]}, "expected a shortlist, found a damaged file"),
    "another size": ({"record": RECORD | {"target_size": 21}}, "expected 20 target subwords, found 21"),
    "no size": ({"record": RECORD | {"target_size": None}}, "expected 20 target subwords, found None"),
    "floats": (
        {"candidates": CANDIDATES.astype(np.float32)},
        "expected candidates of type U16 or I32, found F32",
    ),
    "wide ids": ({"common": COMMON.astype(np.int64)}, "expected common of type U16 or I32, found I64"),
    "too few rows": ({"candidates": CANDIDATES[1:]}, r"expected candidates of shape \(20, …\), .*\(19, 2\)"),
    "a list": ({"candidates": CANDIDATES[:, 0]}, r"expected candidates of shape \(20, …\), .*\(20,\)"),
    "a table": ({"common": COMMON[None]}, r"expected common of one dimension, found shape \(1, 3\)"),
    "beyond": ({"candidates": CANDIDATES + 15}, "expected candidates with ids from 0 to 19, found 20"),
    "below": ({"common": np.array([-1, EOS], np.int32)}, "expected common with ids from 0 to 19, found -1"),
    "order": ({"common": COMMON[::-1]}, "expected common with ids in ascending order"),
    "twice": ({"common": np.array([EOS, EOS], np.int32)}, "expected common with ids in ascending order"),
    "no end": ({"common": np.array([UNK, 7], np.int32)}, f"expected common with the end symbol {EOS}"),
    "nothing": ({"common": np.zeros(0, np.int32)}, f"expected common with the end symbol {EOS}"),
}


@pytest.mark.parametrize(("changes", "sentence"), DAMAGES.values(), ids=DAMAGES.keys())
def test_a_file_that_holds_anything_else_is_refused(changes: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    tensors = {"candidates": CANDIDATES, "common": COMMON} | changes
    record = tensors.pop("record", RECORD)
    kept = {name: np.ascontiguousarray(table) for name, table in tensors.items() if table is not None}
    save_file(kept, tmp_path / FILE, None if record is None else {"headwise": json.dumps(record)})
    with pytest.raises(CheckpointError, match=sentence) as raised:
        Shortlist.load(tmp_path / FILE, "abc", SIZE, SIZE)
    assert str(raised.value).startswith(f"{tmp_path / FILE}: ")


EXPORT = ("export", "--to", "run")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run directory with its prepared training text."""
    run = make_run(tmp_path / "run")
    for side, lines in (("en", ENGLISH), ("de", GERMAN)):
        (tmp_path / side).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    config = DataConfig(source=[str(tmp_path / "en")], target=[str(tmp_path / "de")], dev_pairs=1)
    prepare(config, SubwordConfig(size=150), run / "prepared", subwords=Subwords.load(run))
    return run


def learn(run: Path) -> int:
    """Put a shortlist of the run's text into it; return the exit code."""
    code = headwise(["export", str(run), "--to", "run", "--shortlist", "-o", str(run / "with")])
    if code == 0:
        (run / "with" / FILE).rename(run / FILE)
    return code


def test_a_run_learns_it_and_translates_with_it(run: Path, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_run, "_CANDIDATES", 2)
    monkeypatch.setattr(other_run, "_COMMON", 5)
    assert learn(run) == 0
    assert "up to 3 target subwords for each source subword, 7 for all, from 5 pairs" in capsys.readouterr().err
    learned = Shortlist.load(run / FILE, Subwords.load(run).digest(), 150, 150)
    translator = Translator.load(run, shortlist=True)
    assert translator.description.endswith("shortlist (up to 3 target subwords for each source subword, 7 for all)")
    subwords = translator.subwords
    for text, translation in zip(ENGLISH, translator.translate(ENGLISH, n_best=3), strict=True):
        listed: NDArray[np.int32] = learned([*subwords.encode_source(text), EOS])
        for output in translation.outputs:
            assert set(output.tokens) <= set(listed.tolist())
    readable = Translator.load(run, shortlist=True, engine="pytorch")
    assert [t.text for t in readable.translate(ENGLISH)] == [t.text for t in translator.translate(ENGLISH)]
    free = Translator.load(run).translate(ENGLISH)
    assert [t.text for t in free] != [t.text for t in readable.translate(ENGLISH)]


def test_a_quantized_run_brings_it_along(run: Path, tmp_path: Path, capsys) -> None:
    assert learn(run) == 0
    assert headwise([*EXPORT, str(run), "-o", str(tmp_path / "small"), "--precision", "bfloat16"]) == 0
    assert Translator.load(tmp_path / "small", shortlist=True).shortlist is not None


@pytest.mark.parametrize("engine", ["auto", "pytorch"])
def test_a_damaged_one_is_said_before_anything_is_translated(run: Path, tmp_path: Path, engine: str, capsys) -> None:
    assert learn(run) == 0
    tables = load_file(run / FILE)
    record = {"subwords": Subwords.load(run).digest(), "target_size": 150}
    save_file(tables | {"candidates": tables["candidates"] + 10_000}, run / FILE, {"headwise": json.dumps(record)})
    (tmp_path / "text").write_text("Two dogs.\n")
    capsys.readouterr()
    code = headwise(["translate", str(run), str(tmp_path / "text"), "--shortlist", "--engine", engine])
    said = capsys.readouterr()
    assert (code, said.out) == (2, "")
    assert f"{run / FILE}: expected candidates with ids from 0 to 149, found 10" in said.err


def test_what_is_missing_is_said(run: Path, tmp_path: Path, capsys) -> None:
    (tmp_path / "text").write_text("Two dogs.\n")
    assert headwise(["translate", str(run), str(tmp_path / "text"), "--shortlist"]) == 2
    assert (
        f"{FILE}: expected a shortlist, found no such file; "
        f"`headwise export {run} --to run --shortlist -o DIR` learns it from the run's text" in capsys.readouterr().err
    )
    bare = make_run(tmp_path / "bare")
    assert learn(bare) == 2
    assert f"{bare}/prepared: expected the text that the run was trained with, found none" in (capsys.readouterr().err)
    (run / "prepared").rename(bare / "prepared")
    make_other = make_run(bare, size=140)
    assert learn(make_other) == 2
    assert "expected text in the run's subwords" in capsys.readouterr().err
