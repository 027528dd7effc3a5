"""Downloads from a local HTTP server with broken connections, missing ranges, wrong headers and refusals."""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import logging
import random
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from headwise.corpora import download
from headwise.corpora.acquire import MANIFEST, get_corpus
from headwise.corpora.catalog import Corpus, PublicFile
from headwise.corpora.download import ATTEMPTS, fetch
from headwise.corpora.public import CORPORA, find_corpus
from headwise.errors import ConfigError, DataError
from paths import SHARED

TEXT = (
    random.Random(3).randbytes(300_000).hex().encode()
)  # 600,000 bytes, longer than any socket buffer block


class Server(ThreadingHTTPServer):
    """Serves `files`; lists and flags set the faults of the next responses."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.requests: list[str | None] = []  # the Range header of each request
        self.break_after: list[int] = []  # bytes sent before each of the next connections is cut
        self.failures: list[int] = []  # status codes of the next responses
        self.stalls = 0  # number of next responses that stall
        self.ranges = True
        self.wrong_range = False
        self.etags = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server  # pyright: ignore[reportIncompatibleVariableOverride]

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        server, range_header = self.server, self.headers.get("Range")
        server.requests.append(range_header)
        if server.stalls:
            server.stalls -= 1
            time.sleep(0.6)
            return
        if server.failures:
            self.send_error(server.failures.pop(0))
            return
        data = server.files.get(self.path)
        if data is None:
            self.send_error(404)
            return
        etag = f'"{hashlib.sha256(data).hexdigest()}"'
        start = int(re.fullmatch(r"bytes=(\d+)-", range_header)[1]) if range_header and server.ranges else 0  # type: ignore[index]
        if self.headers.get("If-Range", etag) != etag:
            start = 0
        if start >= len(data) > 0:
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(data)}")
            self.end_headers()
            return
        if start and server.wrong_range:
            server.wrong_range = False
            start += 1
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        if server.etags:
            self.send_header("ETag", etag)
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        stop = start + server.break_after.pop(0) if server.break_after else len(data)
        self.wfile.write(data[start:stop])
        if stop < len(data):
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        running.files["/text"] = TEXT
        yield running
        running.shutdown()
        thread.join()


class Sleeps(list[float]):
    """Replacement for `time.sleep` that records its calls."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


@pytest.fixture
def sleeps() -> Sleeps:
    return Sleeps()


@pytest.fixture
def no_sleep(monkeypatch: pytest.MonkeyPatch) -> Sleeps:
    """Keep `get_corpus` from waiting between attempts."""
    sleeps = Sleeps()
    original: Callable[..., None] = fetch

    def quick(url: str, part: Path, *, most: int, progress: download.Progress | None = None) -> None:
        original(url, part, most=most, progress=progress, sleep=sleeps)

    monkeypatch.setattr("headwise.corpora.acquire.fetch", quick)
    return sleeps


# --- fetch ---------------------------------------------------------------------------------------------------


def test_a_file_arrives_whole_and_progress_counts_every_byte(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    part = tmp_path / "text.part"
    fetch(f"{server.url}/text", part, progress=lambda *event: seen.append(event))
    assert part.read_bytes() == TEXT
    assert [done for _, done, _ in seen] == sorted({done for _, done, _ in seen})
    assert seen[-1] == ("text", len(TEXT), len(TEXT))
    assert [path.name for path in tmp_path.iterdir()] == ["text.part"]


def test_a_broken_connection_is_resumed_where_it_stopped(
    server: Server, tmp_path: Path, sleeps: Sleeps
) -> None:
    server.break_after = [100_000, 250_000]
    part = tmp_path / "text.part"
    fetch(f"{server.url}/text", part, sleep=sleeps)
    assert part.read_bytes() == TEXT
    assert server.requests == [None, "bytes=100000-", "bytes=350000-"]
    assert sleeps == [1.0, 1.0]  # both attempts made progress, so the back-off restarts


def test_any_sequence_of_breaks_gives_the_same_bytes(server: Server, tmp_path: Path, sleeps: Sleeps) -> None:
    rng = random.Random(11)
    for round_ in range(10):
        server.break_after = [rng.choice([0, 1, 7, 65_536, rng.randrange(200_000)]) for _ in range(3)]
        part = tmp_path / f"{round_}.part"
        fetch(f"{server.url}/text", part, sleep=sleeps)
        assert part.read_bytes() == TEXT


def test_an_interrupted_call_is_continued_by_the_next(server: Server, tmp_path: Path) -> None:
    part = tmp_path / "text.part"

    def interrupt(name: str, done: int, total: int | None) -> None:
        if done > 200_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(f"{server.url}/text", part, progress=interrupt)
    have = part.stat().st_size
    assert 200_000 < have < len(TEXT)
    fetch(f"{server.url}/text", part)
    assert part.read_bytes() == TEXT
    assert server.requests == [None, f"bytes={have}-"]


def test_a_server_without_ranges_starts_again_with_a_warning(
    server: Server, tmp_path: Path, sleeps: Sleeps, caplog: pytest.LogCaptureFixture
) -> None:
    server.ranges = False
    server.break_after = [100_000]
    part = tmp_path / "text.part"
    fetch(f"{server.url}/text", part, sleep=sleeps)
    assert part.read_bytes() == TEXT
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert any("doesn't resume" in warning for warning in warnings)


def test_a_file_that_changed_since_is_not_joined_to_its_old_beginning(
    server: Server, tmp_path: Path, sleeps: Sleeps
) -> None:
    part = tmp_path / "text.part"
    server.break_after = [100_000, 0, 0, 0]
    with pytest.raises(DataError):
        fetch(f"{server.url}/text", part, sleep=sleeps)
    assert part.read_bytes() == TEXT[:100_000]
    server.files["/text"] = changed = TEXT[::-1]
    fetch(f"{server.url}/text", part, sleep=sleeps)
    assert part.read_bytes() == changed


def test_an_answer_for_another_range_is_not_appended(server: Server, tmp_path: Path, sleeps: Sleeps) -> None:
    server.break_after = [50_000]
    server.wrong_range = True
    part = tmp_path / "text.part"
    fetch(f"{server.url}/text", part, sleep=sleeps)
    assert part.read_bytes() == TEXT


@pytest.mark.parametrize("already", [len(TEXT), len(TEXT) + 5])
def test_a_part_that_is_complete_or_too_long_ends_up_right(
    server: Server, tmp_path: Path, sleeps: Sleeps, already: int
) -> None:
    part = tmp_path / "text.part"
    part.write_bytes((TEXT + b"extra")[:already])
    fetch(f"{server.url}/text", part, sleep=sleeps)
    assert part.read_bytes() == TEXT
    assert len(server.requests) == (1 if already == len(TEXT) else 2)


@pytest.mark.parametrize("status", [403, 404, 410])
def test_a_refusal_is_final_and_names_the_address(
    server: Server, tmp_path: Path, sleeps: Sleeps, status: int
) -> None:
    server.failures = [status]
    with pytest.raises(DataError, match=rf"{server.url}/text: the server answered {status} "):
        fetch(f"{server.url}/text", tmp_path / "text.part", sleep=sleeps)
    assert len(server.requests) == 1
    assert sleeps == []


def test_a_busy_server_is_asked_again(server: Server, tmp_path: Path, sleeps: Sleeps) -> None:
    server.failures = [503, 429]
    fetch(f"{server.url}/text", tmp_path / "text.part", sleep=sleeps)
    assert (tmp_path / "text.part").read_bytes() == TEXT
    assert sleeps == [1.0, 2.0]


def test_a_server_that_falls_silent_is_asked_again(
    server: Server, tmp_path: Path, sleeps: Sleeps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "TIMEOUT", 0.3)
    server.stalls = 1
    fetch(f"{server.url}/text", tmp_path / "text.part", sleep=sleeps)
    assert (tmp_path / "text.part").read_bytes() == TEXT
    assert sleeps == [1.0]


def test_no_server_at_all_is_one_clear_sentence(
    tmp_path: Path, sleeps: Sleeps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/text"  # bound and not listening: refused
        with pytest.raises(DataError) as error:
            fetch(url, tmp_path / "text.part", sleep=sleeps)
    message = str(error.value)
    assert message.startswith(f"{url}: can't be downloaded, {ATTEMPTS} attempts in a row failed")
    assert "Connection refused" in message
    assert "--from DIR" in message
    assert sleeps == [1.0, 2.0, 4.0]


def test_an_unknown_host_is_one_clear_sentence(
    tmp_path: Path, sleeps: Sleeps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "*")

    def fail(*args: object, **kwargs: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(DataError, match="Name or service not known"):
        fetch("http://no-such-host.invalid/text", tmp_path / "text.part", sleep=sleeps)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk that is always full")
def test_a_disk_that_fills_up_is_named(server: Server, tmp_path: Path) -> None:
    part = tmp_path / "text.part"
    part.symlink_to("/dev/full")
    with pytest.raises(DataError, match=r"text\.part: can't be written because the disk is full"):
        fetch(f"{server.url}/text", part)


def test_a_disk_too_small_is_refused_before_the_download(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(DataError, match="600,000 more bytes are needed and 1,000 are free"):
        fetch(f"{server.url}/text", tmp_path / "text.part")
    assert not (tmp_path / "text.part").exists()


def test_a_folder_that_cannot_be_made_is_named(server: Server, corpus: Corpus, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"text\.part: can't be written \(.+\)"):
        fetch(f"{server.url}/text", tmp_path / "file" / "text.part")
    with pytest.raises(DataError, match=r"file/train\.en\.part: can't be written \(.+\)"):
        get_corpus(corpus, tmp_path / "file")


# --- get_corpus ----------------------------------------------------------------------------------------------

ENGLISH, GERMAN = b"a man\na dog\n" * 5000, b"ein Mann\nein Hund\n" * 5000


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def corpus(server: Server) -> Corpus:
    """A plain file without a known checksum, and a compressed one with a known checksum."""
    server.files |= {"/train.en": ENGLISH, "/train.de.gz": gzip.compress(GERMAN)}
    return Corpus(
        name="toy",
        description="two lines, often",
        languages=("en", "de"),
        license="none",
        homepage=server.url,
        megabytes=1,
        files=(
            PublicFile("train.en", f"{server.url}/train.en"),
            PublicFile("train.de", f"{server.url}/train.de.gz", sha256(GERMAN)),
        ),
        pair=("train.en", "train.de"),
    )


def test_a_corpus_is_unpacked_verified_recorded_and_not_fetched_twice(
    server: Server, corpus: Corpus, tmp_path: Path
) -> None:
    folder = tmp_path / "data" / "toy"
    english, german = get_corpus(corpus, folder)
    assert (folder / "train.en").read_bytes() == ENGLISH
    assert (folder / "train.de").read_bytes() == GERMAN
    assert (english.status, english.known, german.status, german.known) == (
        "downloaded",
        False,
        "downloaded",
        True,
    )
    assert sorted(path.name for path in folder.iterdir()) == [MANIFEST, "train.de", "train.en"]
    record = json.loads((folder / MANIFEST).read_text())
    assert record["corpus"] == "toy"
    assert record["files"]["train.en"]["sha256"] == sha256(ENGLISH)
    assert record["files"]["train.de"]["url"] == f"{server.url}/train.de.gz"
    requests = len(server.requests)
    assert [file.status for file in get_corpus(corpus, folder)] == ["present", "present"]
    assert len(server.requests) == requests


def test_a_wrong_checksum_keeps_nothing_and_the_next_try_starts_anew(
    server: Server, corpus: Corpus, tmp_path: Path
) -> None:
    good, server.files["/train.de.gz"] = server.files["/train.de.gz"], gzip.compress(GERMAN[:-1])
    with pytest.raises(DataError) as error:
        get_corpus(corpus, tmp_path)
    assert f"expected SHA-256 {sha256(GERMAN)}" in str(error.value)
    assert f"found {sha256(GERMAN[:-1])}" in str(error.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == [MANIFEST, "train.en"]
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


def test_a_break_between_files_keeps_the_first(
    server: Server, corpus: Corpus, tmp_path: Path, no_sleep: Sleeps
) -> None:
    good = server.files.pop("/train.de.gz")
    with pytest.raises(DataError, match="404"):
        get_corpus(corpus, tmp_path)
    server.files["/train.de.gz"] = good
    server.break_after = [30]
    assert [file.status for file in get_corpus(corpus, tmp_path)] == ["present", "downloaded"]
    assert (tmp_path / "train.de").read_bytes() == GERMAN
    assert server.requests[-1] == "bytes=30-"


@pytest.mark.parametrize("packed", [False, True])
def test_local_files_are_copied_and_verified(
    server: Server, corpus: Corpus, tmp_path: Path, packed: bool
) -> None:
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


def test_only_takes_the_files_that_match(corpus: Corpus, tmp_path: Path) -> None:
    assert [file.name for file in get_corpus(corpus, tmp_path, only=["*.de"])] == ["train.de"]
    with pytest.raises(
        ConfigError, match=r"--only \*\.fr: no file of toy matches; it has train\.en, train\.de"
    ):
        get_corpus(corpus, tmp_path, only=["*.fr"])


def test_a_folder_of_something_else_is_refused(corpus: Corpus, tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text('{"corpus": "tanaka", "files": {}}')
    with pytest.raises(DataError, match="this folder holds tanaka; choose another one for toy with -o"):
        get_corpus(corpus, tmp_path)
    (tmp_path / MANIFEST).write_text("[1, 2]")
    with pytest.raises(DataError, match="expected the record of an earlier"):
        get_corpus(corpus, tmp_path)


def test_a_full_disk_while_unpacking_is_a_data_error(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(DataError, match=r"train\.en: can't be written because the disk is full"):
        get_corpus(corpus, tmp_path)


# --- the catalog ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("corpus", CORPORA.values(), ids=list(CORPORA))
def test_catalog_entries_are_complete(corpus: Corpus) -> None:
    names = [file.name for file in corpus.files]
    assert len(set(names)) == len(names) > 0
    for file in corpus.files:
        assert bool(file.url) != bool(file.parts)
        for url in [file.url] if file.url else [part.archive.url for part in file.parts]:
            assert re.fullmatch(r"https://[\w.-]+/[\w./~-]+", url)
        assert file.parts or file.url.removesuffix(".gz").endswith("/" + file.name)
        assert file.sha256 is None or re.fullmatch(r"[0-9a-f]{64}", file.sha256)
        assert file.md5 is None or re.fullmatch(r"[0-9a-f]{32}", file.md5)
    assert corpus.pair is None or set(corpus.pair) <= set(names)
    assert corpus.license
    assert corpus.homepage.startswith("https://")


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
def test_checksums_are_those_of_the_real_data(
    tmp_path: Path, name: str, folder: str, only: tuple[str, ...]
) -> None:
    if not (SHARED / folder).is_dir():
        pytest.skip(f"needs the real data in {SHARED / folder}")
    files = get_corpus(CORPORA[name], tmp_path / name, source=SHARED / folder, only=only)
    for file in files:
        assert file.path.read_bytes() == gzip.decompress((SHARED / folder / f"{file.name}.gz").read_bytes())


def test_a_publishers_md5_is_verified_before_anything_is_unpacked(server: Server, tmp_path: Path) -> None:
    packed = gzip.compress(ENGLISH)
    server.files["/images.gz"] = packed
    published = hashlib.md5(packed).hexdigest()

    def corpus(md5: str) -> Corpus:
        file = PublicFile("images", f"{server.url}/images.gz", md5=md5)
        return Corpus("toy", "", (), "none", server.url, 1, (file,))

    (file,) = get_corpus(corpus(published), tmp_path / "right")
    assert (file.known, file.path.read_bytes()) == (True, ENGLISH)
    assert get_corpus(corpus(published), tmp_path / "right")[0].status == "present"
    with pytest.raises(DataError, match=f"expected the published MD5 {'0' * 32}, found {published}"):
        get_corpus(corpus("0" * 32), tmp_path / "wrong")
    assert not [path for path in (tmp_path / "wrong").iterdir() if path.name != MANIFEST]
    local = tmp_path / "local"
    local.mkdir()
    (local / "images.gz").write_bytes(packed)
    assert get_corpus(corpus(published), tmp_path / "packed", source=local)[0].known
    with pytest.raises(DataError, match="expected the published MD5"):
        get_corpus(corpus("0" * 32), tmp_path / "bad", source=local)
    (local / "images").write_bytes(ENGLISH)  # unpacked already: nothing to verify it against
    assert not get_corpus(corpus(published), tmp_path / "plain", source=local)[0].known


def test_an_unknown_corpus_gets_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match=r"named 'multi-30k' \(did you mean multi30k\?\)"):
        find_corpus("multi-30k")
    with pytest.raises(ConfigError, match=r"\(known corpora: multi30k, tanaka, "):
        find_corpus("x")


def test_torch_is_not_imported() -> None:
    code = "import sys, headwise.corpora.acquire, headwise.cli.data; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
