"""Untrusted JSON and YAML: any bytes give a value or an error of one sentence; valid files parse as elsewhere."""

from __future__ import annotations

import contextlib
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from headwise.config import Config
from headwise.errors import CheckpointError, ConfigError, DataError, HeadwiseError
from headwise.metrics import read_metrics
from headwise.parsing import (
    MOST_DEPTH,
    MOST_DIGITS,
    MOST_YAML_BYTES,
    Malformed,
    parse_json,
    parse_object,
    read_json,
    read_yaml,
    yaml_value,
)
from headwise.text.reading.records import read_records
from paths import CONFIGS

_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
_PLAIN = st.none() | st.booleans() | st.integers(-(10**60), 10**60) | st.floats(allow_nan=False, allow_infinity=False)
_VALUES = st.recursive(_PLAIN | _TEXT, lambda inner: st.lists(inner) | st.dictionaries(_TEXT, inner), max_leaves=20)
# Difficult fragments for parsers, combined at random.
_PIECES = st.sampled_from(
    ['{"a":', "[", "]", "}", ",", '"', "\\u", "d800", "\\", "NaN", "-Infinity", "1e999", "9" * 5000, "\n", "null",
     "&a ", "*a", "- ", "? ", ": ", "<<: ", "!!binary ", "!!python/name:os.system ", "| \n", ">-\n", "'", "#", "%YAML ",
     "---\n", "2024-01-01", "0x_", "1:30", ".inf", "=", "~", "\t", "\0", "\x85", "\u2028", "\ufeff", "\\U00110000", "."]
)  # fmt: skip
_STRANGE = st.lists(_PIECES | _TEXT, max_size=30).map("".join)
_BYTES = st.binary() | _STRANGE.map(str.encode)


def _one_sentence(problem: HeadwiseError) -> None:
    assert "\n" not in str(problem)
    assert ": expected " in str(problem)
    assert ", found " in str(problem)


@given(_BYTES)
@example(b"[" * 100_000)
@example(b'{"a":' * 3_000)
@example(b"9" * 5_000)
@example(b'["' + b'\\"["' * 20_000)
@example(b"\xef\xbb\xbf[1]")
def test_any_bytes_are_a_json_value_or_a_mistake(content: bytes) -> None:
    try:
        value = parse_json(content, "a.json")
    except DataError as problem:
        _one_sentence(problem)
    else:
        assert json.loads(content.decode("utf-8-sig")) == value
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


@given(_BYTES)
@example(b"[" * 10_000)
@example(b"- " * 10_000)
@example(b"? " * 1_000)
@example(b"a: &a [*a]")
@example(b"%YAML " + b"9" * 5_000 + b".1\n--- 1")
@example(b'a: "\\uFFFFFFFF \\UFFFFFFFF"')
@example(b"!!int ''")
@example(b"!<tag:yaml.org,2002:bool> x")
def test_any_bytes_are_a_yaml_value_or_a_mistake(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(content)
    try:
        value = read_yaml(path)
    except ConfigError as problem:
        _one_sentence(problem)
    else:
        json.dumps(value, ensure_ascii=False).encode()  # a tree of plain values, without cycles


@given(_VALUES)
def test_json_reads_as_it_was_written(value: Any) -> None:
    assert parse_json(json.dumps(value), "a") == value
    assert parse_json(json.dumps(value, ensure_ascii=False).encode(), "a") == value


@pytest.fixture(params=sorted({False, yaml.__with_libyaml__}))
def libyaml(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without the parser of libyaml, which PyYAML may have been built without."""
    monkeypatch.setattr(yaml, "__with_libyaml__", request.param)


@pytest.mark.usefixtures("libyaml")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_VALUES, st.booleans(), st.booleans())
def test_yaml_reads_as_it_was_written(value: Any, flow: bool, plain: bool) -> None:
    text = yaml.safe_dump(value, default_flow_style=flow, allow_unicode=plain)
    assume(not {*"\x85\u2028\u2029"} & {*text})  # written as they are, and read as line breaks
    assert yaml_value(text) == value


@pytest.mark.usefixtures("libyaml")
def test_every_configuration_that_ships_reads_as_the_usual_reader_reads_it() -> None:
    files = sorted(CONFIGS.rglob("*.yaml"))
    assert files
    for file in files:
        assert read_yaml(file) == yaml.safe_load(file.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": 1,\n "b": {"x": 1, "y": [],\n "x": 2}}', "the name 'x' twice in one object (line 3)"),
        ("[1,\nNaN]", "NaN, which is no finite number (line 2)"),
        ("[1,\n-Infinity]", "-Infinity, which is no finite number (line 2)"),
        ("[1,\n1e999]", "1e999, which is no finite number (line 2)"),
        ("[\n\n" + "1" * 4_301 + "]", "a number of 4,301 digits (line 3)"),
        ('["fine",\n"\\ud83d\\ude00", "\\ud83d"]', "half of a surrogate pair, which is no character (line 2)"),
        ("[\n" * 100, "lists or objects more than 64 deep inside each other (line 65)"),
        ('{"a": "]]]]",\n"b": \'c\'}', "Expecting value at column 6 (line 2)"),
        ("", "Expecting value (it is empty) (line 1)"),
    ],
)  # fmt: skip
def test_a_json_mistake_is_named_with_its_line(tmp_path: Path, text: str, found: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        read_json(path)
    assert str(caught.value) == f"{path}: expected JSON, found {found}"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a: 1\nb:\n  x: 1\n  x: 2\n", "the key 'x' twice (line 4)"),
        ("a: &x [1]\nb: *x\n", "the alias *x; write the value itself (line 2)"),
        ("a: &x\n  b: *x\n", "the alias *x; write the value itself (line 2)"),
        ("a:\n  b: " + "[" * 70, "lists or keys more than 64 deep inside each other (line 2)"),
        ("a: 1\nb: " + "7" * 5_000, "a number of 5,000 digits (line 2)"),
        ("a: 0x_\n", "'0x_', which is no number (line 1)"),
        ("a: ! 1\n", "the tag '!'; write a plain value (line 1)"),
        ("a: 1\nb: !!set {x}\n", "the tag 'tag:yaml.org,2002:set'; write a plain value (line 2)"),
        ("? [a]\n: b\n", "a key that is not text (line 1)"),
        ('a: "\\ud83d"\n', "half of a surrogate pair, which is no character (line 1)"),
        ('a: 1\nb: "x\\0"\n', "a NUL character (line 2)"),
        ("a: 1\nb: \x07\n", "the character U+0007, which YAML hasn't (line 2)"),
    ],
)
def test_a_yaml_mistake_is_named_with_its_line(tmp_path: Path, text: str, found: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        Config.load(path)
    assert str(caught.value) == f"{path}: expected a YAML file, found {found}"


def test_depth_and_digits_are_taken_up_to_the_bound() -> None:
    deep = "[" * MOST_DEPTH + "]" * MOST_DEPTH
    assert yaml_value(deep) == parse_json(deep, "a")
    digits = "7" * MOST_DIGITS
    assert yaml_value(digits) == parse_json(digits, "a") == int(digits)
    for one_more in (f"[{deep}]", digits + "7"):
        with pytest.raises(Malformed):
            yaml_value(one_more)
        with pytest.raises(HeadwiseError):
            parse_json(one_more, "a")
    assert parse_json("[" + "[[]]," * 5_000 + "1]", "a")[-1] == 1  # long isn't deep


def test_a_date_is_named_with_its_key(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("model:\n  d_model: 2024-01-01\n")
    with pytest.raises(ConfigError) as caught:
        Config.load(path)
    assert str(caught.value).startswith(f"{path}: model.d_model: ")
    assert str(caught.value).endswith("found '2024-01-01'")
    assert Config().with_overrides(["data.dev_text=2024-01-01"]).data.dev_text == "2024-01-01"


def test_a_file_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"#" * (MOST_YAML_BYTES + 1))
    with pytest.raises(ConfigError, match=r"a YAML file of at most 1,048,576 bytes, found a larger file$"):
        read_yaml(path)
    with pytest.raises(CheckpointError, match=r"JSON of at most 10 bytes, found a larger file$"):
        read_json(path, error=CheckpointError, most=10)


def test_aliases_are_not_expanded(tmp_path: Path) -> None:
    """330 bytes once took 315 MiB, and two levels more never ended."""
    pytest.importorskip("torch", reason="`headwise train` needs it")
    levels = [f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 9)}]" for i in range(1, 10)]
    path = tmp_path / "laughs.yaml"
    path.write_text("\n".join(["l0: &l0 [lol]", *levels]))
    done = subprocess.run(
        [sys.executable, "-m", "headwise", "train", "-c", str(path), "-o", str(tmp_path / "run")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == (
        f"headwise: error: {path}: expected a YAML file, found the alias *l0; write the value itself (line 2)\n"
    )


def test_numbers_that_are_not_finite_are_read_where_they_are_our_own(tmp_path: Path) -> None:
    assert math.isnan(parse_object('{"a": NaN}', "a", finite=False)["a"])
    file = tmp_path / "metrics.jsonl"
    file.write_bytes(
        b'{"kind": "train", "step": 1, "loss": NaN}\n["no record"]\n{"step": ' + b"9" * 5_000 + b"}\n{\xff\n{"
    )
    assert [record["step"] for record in read_metrics(file)] == [1]


@given(st.lists(st.text() | st.binary().map(lambda b: b.decode("latin-1")), max_size=5))
def test_any_jsonl_file_is_records_or_a_mistake(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))
    with contextlib.suppress(HeadwiseError):
        assert all(isinstance(record.fields, dict) for record in read_records(path))


def test_two_halves_that_json_spells_apart_are_one_character() -> None:
    """An option given as JSON, as `headwise train` does with file names."""
    assert yaml_value(json.dumps("😀.en")) == "😀.en"
