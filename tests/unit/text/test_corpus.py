from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.config import CleaningConfig, DataConfig
from headwise.engine.corpus.rows import TextFile
from headwise.errors import ConfigError, DataError
from headwise.text.reading.pairs import (
    CleaningReport,
    Pair,
    RawPair,
    check_cleaning,
    clean_pairs,
    development_files,
    pair_files,
    pair_hash,
    read_pairs,
    training_files,
)

PAIRS = [("A man rides.", "Ein Mann reitet."), ("", "leer"), ("Two dogs", "Zwei Hunde"), ("ü ☃", "日本語")]


def read(source: Path, target: Path | None = None, **options: object) -> list[RawPair]:
    config = DataConfig.model_validate({"source": [str(source)], **options})
    return list(read_pairs(pair_files(source, target), config.source_field, config.target_field))


def cleaned(raw: list[tuple[bytes, bytes]], **rules: object) -> tuple[list[Pair], CleaningReport]:
    report = CleaningReport()
    pairs = (RawPair(a, b, line) for line, (a, b) in enumerate(raw, start=1))
    return list(clean_pairs(pairs, CleaningConfig.model_validate(rules), report)), report


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("end", ["", ".gz"])
@pytest.mark.parametrize("kind", ["txt", "tsv", "jsonl"])
def test_every_format_gives_the_same_pairs(tmp_path: Path, kind: str, end: str) -> None:
    expected = [RawPair(a.encode(), b.encode(), line) for line, (a, b) in enumerate(PAIRS, start=1)]
    if kind == "txt":
        source = write(tmp_path / f"a.en{end}", "".join(f"{a}\n" for a, _ in PAIRS).encode())
        target = write(tmp_path / f"a.de{end}", "\n".join(b for _, b in PAIRS).encode())  # no last line end
        assert read(source, target) == expected
    elif kind == "tsv":
        file = write(tmp_path / f"a.tsv{end}", "".join(f"{a}\t{b}\r\n" for a, b in PAIRS).encode())
        assert read(file) == expected
    else:
        lines = [json.dumps({"en": a, "n": 1, "de": b}, ensure_ascii=False) for a, b in PAIRS]
        file = write(tmp_path / f"a.jsonl{end}", "\n".join(lines).encode())
        assert read(file, source_field="en", target_field="de") == expected


def test_only_newlines_end_a_line(tmp_path: Path) -> None:
    text = "a\u2028b\x85c\rd\x0be\x0cf\x1cg"
    source = write(tmp_path / "a", f"\ufeff{text}\nsecond\r\n".encode())
    target = write(tmp_path / "b", b"1\n2\n")
    assert [pair.source.decode() for pair in read(source, target)] == [text, "second"]


def flat(text: str) -> str:
    """A space for every character at which Python would cut the text into lines."""
    return "".join(" " if len(f"a{character}b".splitlines()) > 1 else character for character in text)


@given(st.lists(st.tuples(*[st.text(st.characters(exclude_characters="\n\0"), max_size=8)] * 2), max_size=8))
def test_cleaning_alters_nothing_and_loses_nothing(raw: list[tuple[str, str]]) -> None:
    def encode(text: str) -> bytes:
        return text.encode("utf-8", "surrogatepass")

    pairs, report = cleaned([(encode(a), encode(b)) for a, b in raw], max_words=2, max_ratio=2.0)
    assert report.total == len(raw)
    assert report.kept == len(pairs)
    removed = report.empty + report.too_long + report.ratio + report.not_utf8 + report.duplicates
    assert report.total == report.kept + removed
    for pair in pairs:
        a, b = raw[pair.line - 1]
        assert (pair.source, pair.target) == (flat(a).strip(), flat(b).strip())


@pytest.mark.parametrize(
    ("pair", "rule"),
    [
        ((b"", b"x"), "empty"),
        ((b"x", b" \t "), "empty"),
        ((b"1 2 3 4", b"1 2 3"), "too_long"),
        ((b"123456789", b"1234"), "ratio"),
        ((b"1234", b"123456789"), "ratio"),
        ((b"gr\xfc\xdfe", b"x"), "not_utf8"),
        ((b"x", b"\xed\xa0\x80"), "not_utf8"),
        ((b"x\0y", b"x"), "not_utf8"),
    ],
)
def test_each_rule_counts_what_it_removes(pair: tuple[bytes, bytes], rule: str) -> None:
    good = (b"1 2 3", b"123456")
    pairs, report = cleaned([good, pair, good], max_words=3, max_ratio=2.0)
    assert [p.line for p in pairs] == [1, 3]
    counts = {name: getattr(report, name) for name in ("empty", "too_long", "ratio", "not_utf8", "duplicates")}
    assert counts == {name: int(name == rule) for name in counts}
    assert report.total == 3


def test_the_report_is_one_line_with_every_count() -> None:
    limits = CleaningConfig(max_words=7, max_ratio=2.5, drop_duplicates=True)
    removed = {"not_utf8": 1, "empty": 2, "too_long": 3, "ratio": 4, "duplicates": 5}
    text = str(CleaningReport(1000, 985, **removed, limits=limits))
    assert text == (
        "1,000 pairs read, 985 kept; removed: 2 with an empty side, 3 over 7 words, 4 with a length ratio over "
        "2.5, 1 not UTF-8, 5 duplicates"
    )


def test_pair_hash_sees_where_the_sides_meet() -> None:
    assert pair_hash("a", "b") == pair_hash("a", "b")
    assert len({pair_hash("a", "b"), pair_hash("b", "a"), pair_hash("ab", ""), pair_hash("", "ab")}) == 4
    assert 0 <= pair_hash("a", "b") < 1 << 64


def test_several_files_pair_up_in_order() -> None:
    config = DataConfig(source=["a.en", "b.tsv", "c.en.gz"], target=["a.de", "c.de"], weights=[1, 2, 0.5])
    files = [(str(f.source), f.target and str(f.target)) for f in training_files(config)]
    assert files == [("a.en", "a.de"), ("b.tsv", None), ("c.en.gz", "c.de")]
    assert development_files(config) is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "data.source: expected at least one file"),
        ({"source": ["a"]}, r"file in data.source \(--source\) \(1 beside 0 .*\), found 0"),
        ({"source": ["a", "b.tsv"], "target": ["c", "d"]}, r"\(1 beside 1 with both sides\), found 2"),
        ({"source": ["a.tsv"], "weights": [1, 2]}, "one weight for each of the 1 files .*, found 2"),
        ({"source": ["a.tsv", "b.tsv"], "weights": [1, 0]}, "expected positive numbers"),
        ({"source": ["a.tsv"], "dev_target": "x"}, "data.dev_source: expected the partner of x"),
        ({"source": ["a.tsv"], "dev_source": "x"}, "x: expected a target file beside it"),
        ({"source": ["a.tsv"], "dev_source": "x.tsv", "dev_target": "y"}, "holds both sides.*found y"),
    ],
)
def test_lists_of_files_that_do_not_fit(fields: dict[str, object], message: str) -> None:
    config = DataConfig.model_validate(fields)
    with pytest.raises(ConfigError, match=message):
        (training_files(config), development_files(config))


@pytest.mark.parametrize("end", ["", ".gz"])
@pytest.mark.parametrize(("left", "right"), [(3, 2), (2, 3), (1, 9)])
def test_files_of_different_length(tmp_path: Path, left: int, right: int, end: str) -> None:
    source = write(tmp_path / f"a{end}", b"x\n" * left)
    target = write(tmp_path / f"b{end}", b"x\n" * right)
    with pytest.raises(DataError) as caught:
        read(source, target)
    assert str(caught.value) == (
        f"expected two files with the same number of lines, found {left} in {source} and {right} in {target}"
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "there is no such file"),
        (lambda path: path.mkdir(), "expected a text file, found a directory"),
        (lambda path: path.touch(), "expected lines of text, found an empty file"),
        (lambda path: path.write_bytes(gzip.compress(b"")), "found a binary file|found an empty file"),
        (lambda path: path.write_bytes(bytes(range(256)) * 9), r"expected UTF-8 text, found a binary file$"),
        (lambda path: path.write_text("Hallo", encoding="utf-16"), r"binary file \(UTF-16\?\)$"),
    ],
)
@pytest.mark.parametrize("side", [0, 1])
def test_files_that_hold_no_text(tmp_path: Path, make: Callable[[Path], None], message: str, side: int) -> None:
    good, bad = write(tmp_path / "good", b"x\n"), tmp_path / "bad"
    make(bad)
    with pytest.raises(DataError, match=message) as caught:
        read(*((good, bad) if side else (bad, good)))
    assert str(caught.value).startswith(str(bad))


@pytest.mark.parametrize("damage", [lambda data: data[:-20], lambda data: data[:50] + b"?" * 50 + data[100:]])
def test_a_damaged_gzip_file(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    text = "\n".join(str(number**3) for number in range(10_000)).encode()
    source = tmp_path / "a.gz"
    source.write_bytes(damage(gzip.compress(text)))
    with pytest.raises(DataError, match="expected a whole gzip file, found a damaged one") as caught:
        read(source, write(tmp_path / "b", text))
    assert str(source) in str(caught.value)
    not_gzip = tmp_path / "c.gz"
    not_gzip.write_bytes(b"plain text\n")
    with pytest.raises(DataError, match="damaged"):
        read(not_gzip, write(tmp_path / "d", b"x\n"))


@pytest.mark.parametrize(("line", "columns"), [("one column", 1), ("a\tb\tc", 3), ("", 1)])
def test_tsv_lines_without_two_columns(tmp_path: Path, line: str, columns: int) -> None:
    file = write(tmp_path / "a.tsv", f"x\ty\n{line}\n".encode())
    with pytest.raises(DataError, match=rf"a\.tsv line 2: expected 2 columns .*, found {columns}$"):
        read(file)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"source": "a"}', "expected text in field 'target', found source$"),
        ('{"source": "a", "target": 3}', "expected text in field 'target', found a number$"),
        ('{"source": "a", "target": {"de": "b"}}', "expected text in field 'target', found an object$"),
        ('["a", "b"]', "expected a JSON object, found a list$"),
        ("{not json", "expected a JSON object, found Expecting"),
        ("", "expected a JSON object, found Expecting"),
    ],
)
def test_jsonl_lines_that_do_not_fit(tmp_path: Path, line: str, message: str) -> None:
    file = write(tmp_path / "a.jsonl", f'{{"source": "a", "target": "b"}}\n{line}\n'.encode())
    with pytest.raises(DataError, match=rf"a\.jsonl line 2: {message}"):
        read(file)


def test_jsonl_fields_of_objects_have_names_with_dots(tmp_path: Path) -> None:
    nested, plain = {"translation": {"en": "a", "de": "b"}}, {"translation.en": "c", "translation.de": "d"}
    file = write(tmp_path / "a.jsonl", "".join(f"{json.dumps(each)}\n" for each in (nested, plain)).encode())
    fields = {"source_field": "translation.en", "target_field": "translation.de"}
    assert [(pair.source, pair.target) for pair in read(file, **fields)] == [(b"a", b"b"), (b"c", b"d")]
    for name, found in (("translation.fr", "en, de"), ("translation.en.x", "text"), ("x.y", "translation")):
        with pytest.raises(DataError, match=rf"line 1: expected text in field '{name}', found {found}$"):
            read(file, **{**fields, "source_field": name})


def test_jsonl_text_that_is_not_unicode_is_counted(tmp_path: Path) -> None:
    lines = [rb'{"source": "\ud800", "target": "b"}', b'{"source": "\xff", "target": "b"}']
    raw = read(write(tmp_path / "a.jsonl", b"\n".join(lines)))
    pairs, report = cleaned([(a, b) for a, b, _ in raw])
    assert (pairs, report.not_utf8) == ([], 2)


def test_parquet_text_that_is_not_unicode_is_counted(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    raw = [b"M\xfcll", "Müll".encode(), None]
    for kind in (arrow.string(), arrow.large_string()):
        column = arrow.array(raw, arrow.large_binary() if kind == arrow.large_string() else arrow.binary())
        text = type(arrow.array([], kind)).from_buffers(3, *column.buffers()[1:], column.buffers()[0])
        parquet.write_table(arrow.table({"source": text, "target": ["a", "b", "c"]}), tmp_path / "a.parquet")
        found = read(tmp_path / "a.parquet")
        assert [pair.source for pair in found] == [each or b"" for each in raw]
        pairs, report = cleaned([(a, b) for a, b, _ in found])
        assert ([pair.source for pair in pairs], report.not_utf8, report.empty) == (["Müll"], 1, 1)
        rows = TextFile(tmp_path / "a.parquet", rule="replace").rows()  # as it is translated
        assert [(row.text, row.problem) for row in rows] == [
            ("M\ufffdll", "not_utf8"), ("Müll", ""), ("", "malformed"),
        ]  # fmt: skip


def test_every_type_of_text_in_parquet_is_read(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for kind in (arrow.string(), arrow.large_string(), arrow.string_view()):
        column = arrow.array(["a dog", None], kind)
        parquet.write_table(arrow.table({"source": column, "target": column}), tmp_path / "a.parquet")
        assert read(tmp_path / "a.parquet") == [(b"a dog", b"a dog", 1), (b"", b"", 2)]


def test_columns_of_parquet_with_dots_in_their_names_and_with_one_name(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {"text.en": ["a dog"], "text": [{"de": "ein Hund"}]}
    parquet.write_table(arrow.table(columns), tmp_path / "a.parquet")
    files = pair_files(tmp_path / "a.parquet", None)
    assert list(read_pairs(files, "text.en", "text.de")) == [(b"a dog", b"ein Hund", 1)]
    twice = arrow.Table.from_arrays([arrow.array(["a"])] * 3, names=["source", "target", "target"])
    parquet.write_table(twice, tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet: expected one column 'target', found 2"):
        list(read_pairs(files))


def test_nothing_left_and_mostly_undecodable() -> None:
    files = pair_files("a.en", "a.de")
    _, report = cleaned([(b"", b"x")])
    with pytest.raises(DataError, match=r"a\.en and a\.de: cleaning left nothing .* 1 with an empty side"):
        check_cleaning(report, *files.paths)
    _, report = cleaned([(b"\xfc", b"x")] * 2 + [(b"x", b"x")])
    with pytest.raises(DataError, match="expected UTF-8 text, found 2 of 3 pairs that aren't"):
        check_cleaning(report, *files.paths)
    _, report = cleaned([(b"\xfc", b"x"), (b"x", b"x")])
    check_cleaning(report, *files.paths)
