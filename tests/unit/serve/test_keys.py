"""API keys: what the file has, quotas, rates, and the command."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from headwise.cli.main import run as command_line
from headwise.errors import ConfigError, DataError
from headwise.serve.protocols.keys import KeyStore


def test_the_file_has_hashes_only(tmp_path: Path) -> None:
    file = tmp_path / "keys.db"
    store = KeyStore(file, create=True)
    secret = store.add("alice")
    assert store.find(secret) == store.all()[0]
    store.close()
    content = b"".join(part.read_bytes() for part in tmp_path.iterdir())
    assert secret.encode() not in content
    assert hashlib.sha256(secret.encode()).digest() in content
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("wrong", ["", "hw_", "alice", "\ud800", "x" * 100_000])
def test_wrong_keys(tmp_path: Path, wrong: str) -> None:
    store = KeyStore(tmp_path / "keys.db", create=True)
    secret = store.add("alice")
    assert store.find(wrong) is None
    assert store.find(secret[:-1]) is None
    assert store.find(secret + "x") is None
    store.close()


def test_another_process_adds_and_removes_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "keys.db"
    assert command_line(["keys", "add", str(file), "alice", "--characters", "10", "--requests", "2"]) == 0
    secret = capsys.readouterr().out.strip()
    store = KeyStore(file)
    assert store.find(secret) is not None
    assert command_line(["keys", "add", str(file), "bob"]) == 0
    assert store.find(capsys.readouterr().out.strip()) is not None
    assert command_line(["keys", "list", str(file)]) == 0
    assert capsys.readouterr().out == "alice\t0\t10\t2\nbob\t0\tno limit\tno limit\n"
    assert command_line(["keys", "remove", str(file), "alice"]) == 0
    assert store.find(secret) is None
    store.close()


def test_a_copy_of_the_file_has_the_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, copy = tmp_path / "keys.db", tmp_path / "copy.db"
    for arguments in (["add", str(file), "alice"], ["add", str(file), "bob"], ["remove", str(file), "bob"]):
        assert command_line(["keys", *arguments]) == 0
        assert list(tmp_path.iterdir()) == [file]
    secret = capsys.readouterr().out.split()[0]
    shutil.copy(file, copy)
    store = KeyStore(copy)
    assert store.find(secret) is not None
    assert [key.name for key in store.all()] == ["alice"]
    store.close()


def test_quotas_and_rates(tmp_path: Path) -> None:
    store = KeyStore(tmp_path / "keys.db", create=True)
    store.add("alice", characters_per_month=10, requests_per_minute=2)
    (key,) = store.all()
    assert [store.charge(key, n) for n in (11, 6, 5, 4, 1)] == [False, True, False, True, False]
    assert store.used(key) == 10
    assert store.seconds_until_allowed(key) == store.seconds_until_allowed(key) == 0
    assert 0 < store.seconds_until_allowed(key) <= 60
    store.close()


def test_mistakes(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected a file of API keys, made by `headwise keys add`, found none"):
        KeyStore(tmp_path / "none.db")
    text = tmp_path / "text.db"
    text.write_text("a key\n" * 100)
    with pytest.raises(DataError, match="expected a file of API keys, found that"):
        KeyStore(text)
    other = tmp_path / "other.db"
    sqlite3.connect(other).close()
    other.write_bytes(b"")
    with pytest.raises(DataError, match="expected a file of API keys, found that no such table"):
        KeyStore(other)
    store = KeyStore(tmp_path / "keys.db", create=True)
    store.add("alice")
    with pytest.raises(ConfigError, match="expected a new name, found the key alice already"):
        store.add("alice")
    with pytest.raises(ConfigError, match="expected the name of a key"):
        store.remove("bob")
    store.close()


def test_a_file_that_can_only_be_read_is_refused_before_the_first_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "keys.db"
    assert command_line(["keys", "add", str(file), "alice"]) == 0
    connect = sqlite3.connect

    def read_only(path: object, **options: Any) -> sqlite3.Connection:  # root may write any file
        return connect(f"file:{path}?mode=ro", uri=True, **options) if path == file else connect(path, **options)

    monkeypatch.setattr(sqlite3, "connect", read_only)
    capsys.readouterr()
    with pytest.raises(DataError, match=r"expected a file of API keys, found that .* readonly database"):
        KeyStore(file)
    assert command_line(["keys", "remove", str(file), "alice"]) == 2
    assert command_line(["keys", "list", str(file)]) == 0
    assert capsys.readouterr().out == "alice\t0\tno limit\tno limit\n"
