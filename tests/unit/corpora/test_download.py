"""Corpora from a local HTTP server or a folder: unpacked, verified, recorded; and the catalog."""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headwise.corpora import acquire
from headwise.corpora.acquire import MANIFEST, Acquired, get_corpus
from headwise.corpora.catalog import CORPORA, Corpus, PublicFile, find_corpus
from headwise.errors import ConfigError, DataError, TrainingError
from headwise.files import appending
from http_servers import Server
from paths import SHARED

ENGLISH, GERMAN = b"a man\na dog\n" * 5000, b"ein Mann\nein Hund\n" * 5000


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def corpus(server: Server) -> Corpus:
    """A plain file without a known checksum, and a compressed one with a known checksum."""
    server.files |= {"/train.en": ENGLISH, "/train.de.gz": gzip.compress(GERMAN)}
    english = PublicFile("train.en", f"{server.url}/train.en")
    german = PublicFile("train.de", f"{server.url}/train.de.gz", sha256(GERMAN))
    return Corpus("toy", "", ("en", "de"), "none", server.url, 1, (english, german), ("train.en", "train.de"))


def test_a_corpus_is_unpacked_verified_recorded_and_not_fetched_twice(
    server: Server, corpus: Corpus, tmp_path: Path
) -> None:
    folder = tmp_path / "data" / "toy"
    english, german = get_corpus(corpus, folder)
    assert (folder / "train.en").read_bytes() == ENGLISH
    assert (folder / "train.de").read_bytes() == GERMAN
    assert (english.status, english.known) == ("downloaded", False)
    assert (german.status, german.known) == ("downloaded", True)
    assert sorted(path.name for path in folder.iterdir()) == [".lock", MANIFEST, "train.de", "train.en"]
    record = json.loads((folder / MANIFEST).read_text())
    assert record["corpus"] == "toy"
    assert record["files"]["train.en"]["sha256"] == sha256(ENGLISH)
    assert record["files"]["train.de"]["url"] == f"{server.url}/train.de.gz"
    requests = len(server.requests)
    assert [file.status for file in get_corpus(corpus, folder)] == ["present", "present"]
    assert len(server.requests) == requests


@pytest.mark.skipif(os.name != "posix", reason="there is no such lock on Windows")
def test_a_download_that_another_process_writes_is_left_to_it(corpus: Corpus, tmp_path: Path) -> None:
    part = tmp_path / "train.en.part"
    with appending(part, 0) as file:
        file.write(ENGLISH[:100])
        file.flush()
        with pytest.raises(TrainingError, match=r"train\.en\.part: is being written by another process"):
            get_corpus(corpus, tmp_path)
        assert part.read_bytes() == ENGLISH[:100]
    assert len(get_corpus(corpus, tmp_path)) == 2


def test_the_records_of_two_calls_at_the_same_time_are_kept(corpus: Corpus, tmp_path: Path) -> None:
    others: list[Acquired] = []

    def meanwhile(name: str, done: int, total: int | None) -> None:
        if not others:
            others.extend(get_corpus(corpus, tmp_path, only=["train.en"]))

    get_corpus(corpus, tmp_path, only=["train.de"], progress=meanwhile)
    assert [file.status for file in get_corpus(corpus, tmp_path)] == ["present", "present"]


def test_a_call_that_is_interrupted_when_a_file_has_arrived_is_continued_by_the_next(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(acquire, "write_text", interrupt)
        with pytest.raises(KeyboardInterrupt):
            get_corpus(corpus, tmp_path)
    assert len(get_corpus(corpus, tmp_path)) == 2


def test_a_wrong_checksum_keeps_nothing_and_the_next_try_starts_anew(
    server: Server, corpus: Corpus, tmp_path: Path
) -> None:
    good, server.files["/train.de.gz"] = server.files["/train.de.gz"], gzip.compress(GERMAN[:-1])
    with pytest.raises(DataError) as error:
        get_corpus(corpus, tmp_path)
    assert f"expected SHA-256 {sha256(GERMAN)}" in str(error.value)
    assert f"found {sha256(GERMAN[:-1])}" in str(error.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", MANIFEST, "train.en"]
    server.files["/train.de.gz"] = good
    assert [file.status for file in get_corpus(corpus, tmp_path)] == ["present", "downloaded"]


def test_a_damaged_archive_is_named(server: Server, corpus: Corpus, tmp_path: Path) -> None:
    server.files["/train.de.gz"] = server.files["/train.de.gz"][:-20]
    with pytest.raises(DataError, match=r"train\.de\.gz: .*the \.gz file is damaged"):
        get_corpus(corpus, tmp_path)


def test_what_is_recorded_first_is_verified_later(server: Server, corpus: Corpus, tmp_path: Path) -> None:
    get_corpus(corpus, tmp_path)
    (tmp_path / "train.en").write_bytes(ENGLISH + b"one more\n")
    with pytest.raises(DataError, match=r"train\.en: another file is already here \(its SHA-256 is"):
        get_corpus(corpus, tmp_path)
    server.files["/train.en"] = b"the publisher changed it\n"
    with pytest.raises(DataError, match="the checksum is wrong"):
        get_corpus(corpus, tmp_path, force=True)
    server.files["/train.en"] = ENGLISH
    assert get_corpus(corpus, tmp_path, force=True)[0].status == "downloaded"
    assert (tmp_path / "train.en").read_bytes() == ENGLISH


def test_a_file_of_the_users_own_is_not_replaced_without_force(corpus: Corpus, tmp_path: Path) -> None:
    (tmp_path / "train.en").write_bytes(b"my own text\n")
    with pytest.raises(DataError, match=r"another file is already here \(no record of it\).*--force"):
        get_corpus(corpus, tmp_path)
    assert (tmp_path / "train.en").read_bytes() == b"my own text\n"
    get_corpus(corpus, tmp_path, force=True)
    assert (tmp_path / "train.en").read_bytes() == ENGLISH


def test_a_break_between_files_keeps_the_first(server: Server, corpus: Corpus, tmp_path: Path) -> None:
    good = server.files.pop("/train.de.gz")
    with pytest.raises(DataError, match="404"):
        get_corpus(corpus, tmp_path)
    server.files["/train.de.gz"] = good
    server.break_after = [30]
    assert [file.status for file in get_corpus(corpus, tmp_path)] == ["present", "downloaded"]
    assert (tmp_path / "train.de").read_bytes() == GERMAN
    assert server.requests[-1] == "bytes=30-"


@pytest.mark.parametrize("packed", [False, True])
def test_local_files_are_copied_and_verified(server: Server, corpus: Corpus, tmp_path: Path, packed: bool) -> None:
    local = tmp_path / "local"
    local.mkdir()
    for name, data in (("train.en", ENGLISH), ("train.de", GERMAN)):
        (local / (name + ".gz" * packed)).write_bytes(gzip.compress(data) if packed else data)
    files = get_corpus(corpus, tmp_path / "out", source=local)
    assert [file.status for file in files] == ["copied", "copied"]
    assert (tmp_path / "out" / "train.de").read_bytes() == GERMAN
    assert server.requests == []
    (local / ("train.de" + ".gz" * packed)).write_bytes(gzip.compress(b"other") if packed else b"other")
    with pytest.raises(DataError, match=r"local/train\.de.*: the checksum is wrong"):
        get_corpus(corpus, tmp_path / "again", source=local)
    assert not (tmp_path / "again" / "train.de").exists()


def test_missing_local_files_are_all_named_before_anything_is_written(corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected a folder"):
        get_corpus(corpus, tmp_path / "out", source=tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"expected train\.en, train\.de there, plain or \.gz"):
        get_corpus(corpus, tmp_path / "out", source=tmp_path)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_made_is_named(corpus: Corpus, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TrainingError, match=r"file/train\.en\.part: can't be written \(.+\)"):
        get_corpus(corpus, tmp_path / "file")


def test_only_takes_the_files_that_match(corpus: Corpus, tmp_path: Path) -> None:
    assert [file.name for file in get_corpus(corpus, tmp_path, only=["*.de"])] == ["train.de"]
    with pytest.raises(ConfigError, match=r"--only \*\.fr: no file of toy matches; it has train\.en, train\.de"):
        get_corpus(corpus, tmp_path, only=["*.fr"])


def test_a_folder_of_something_else_is_refused(corpus: Corpus, tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text('{"corpus": "tanaka", "files": {}}')
    with pytest.raises(DataError, match="this folder holds tanaka; choose another one for toy with -o"):
        get_corpus(corpus, tmp_path)
    (tmp_path / MANIFEST).write_text("[1, 2]")
    with pytest.raises(DataError, match="expected the record of an earlier"):
        get_corpus(corpus, tmp_path)


def test_a_full_disk_is_named(corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(TrainingError, match=r"manifest\.json: can't be written because the disk is full"):
        get_corpus(corpus, tmp_path)


# --- the catalog ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("corpus", CORPORA.values(), ids=list(CORPORA))
def test_catalog_entries_are_complete(corpus: Corpus) -> None:
    names = [file.name for file in corpus.files]
    assert len(set(names)) == len(names) > 0
    for file in corpus.files:
        assert (corpus.write is not None, bool(file.url), bool(file.parts)).count(True) == 1
        for url in [file.url] if file.url else [part.archive.url for part in file.parts]:
            assert re.fullmatch(r"https://[\w.-]+/[\w./~-]+", url)
        name = file.name.rpartition("/")[2]  # assets of a release have no folders
        assert not file.url or file.url.removesuffix(".gz").endswith("/" + name)
        assert file.sha256 is None or re.fullmatch(r"[0-9a-f]{64}", file.sha256)
        assert file.sha256 or not corpus.model
        for part in file.parts:
            assert part.archive.md5 is None or re.fullmatch(r"[0-9a-f]{32}", part.archive.md5)
    assert corpus.pair is None or set(corpus.pair) <= set(names)
    assert corpus.license
    assert corpus.homepage.startswith("https://") or corpus.write is not None


@pytest.mark.parametrize(
    ("name", "folder", "only"),
    [
        ("multi30k", "multi30k", ()),
        ("tanaka", "tanaka-enja", ()),
        ("tinyshakespeare", "tinyshakespeare", ()),
        ("mr-polarity", "mr-polarity", ()),
        ("ud-pud", "ud-pud", ()),
        ("ud-ewt", "ud-ewt", ("*-dev.conllu", "*-test.conllu")),
    ],
)
def test_checksums_are_those_of_the_real_data(tmp_path: Path, name: str, folder: str, only: tuple[str, ...]) -> None:
    if not (SHARED / folder).is_dir():
        pytest.skip(f"needs the real data in {SHARED / folder}")
    files = get_corpus(CORPORA[name], tmp_path / name, source=SHARED / folder, only=only)
    for file in files:
        assert file.path.read_bytes() == gzip.decompress((SHARED / folder / f"{file.name}.gz").read_bytes())


def test_an_unknown_corpus_gets_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match=r"named 'multi-30k' \(did you mean multi30k\?\)"):
        find_corpus("multi-30k")
    with pytest.raises(ConfigError, match=r"\(known: multi30k, tanaka, "):
        find_corpus("x")


def test_torch_is_not_imported() -> None:
    code = "import sys, headwise.corpora.acquire, headwise.cli.data; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
