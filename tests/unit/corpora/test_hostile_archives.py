"""Hostile or damaged archives and compressed files: one-sentence errors, and no files left over."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import random
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwise.corpora import archives
from headwise.corpora.acquire import get_corpus
from headwise.corpora.archives import Damaged, damage, open_tar
from headwise.corpora.catalog import Archive, Corpus, CorpusPart, PublicFile
from headwise.errors import DataError
from headwise.images.sets import read_image
from http_servers import Server

BODY = b"a line\n" * 10


def _corpus(server: Server, name: str = "a.txt", path: str = "/a.txt.gz") -> Corpus:
    return Corpus("toy", "", (), "none", server.url, 1, (PublicFile(name, server.url + path),))


@pytest.mark.parametrize("local", [False, True])
def test_a_gzip_bomb_is_not_unpacked(server: Server, tmp_path: Path, local: bool) -> None:
    corpus = _corpus(server)
    bomb = gzip.compress(bytes(2 * corpus.most_bytes))
    server.files["/a.txt.gz"] = bomb
    (tmp_path / "local").mkdir()
    (tmp_path / "local" / "a.txt.gz").write_bytes(bomb)
    with pytest.raises(DataError, match=r"expected at most 3,000,000 bytes, found that it unpacks to more"):
        get_corpus(corpus, tmp_path / "out", source=tmp_path / "local" if local else None)
    assert not list((tmp_path / "out").iterdir())
    server.files["/a.txt.gz"] = gzip.compress(BODY)
    assert get_corpus(corpus, tmp_path / "out")[0].status == "downloaded"


def _damaged(good: bytes) -> Iterator[bytes]:
    rng = random.Random(7)
    for _ in range(40):
        corrupted = bytearray(good)
        for _ in range(rng.choice((1, 3, 30))):
            corrupted[rng.randrange(len(good))] = rng.randrange(256)
        yield bytes(corrupted[: rng.choice((len(good), len(good), rng.randrange(len(good))))])


def test_a_damaged_gzip_file_is_fetched_again(server: Server, tmp_path: Path) -> None:
    corpus, text = _corpus(server), random.Random(1).randbytes(2_000)
    problems: list[str] = []
    for number, corrupted in enumerate(_damaged(gzip.compress(text))):
        if not corrupted.startswith(b"\x1f\x8b"):
            continue  # without the gzip header it is plain text, which has no checksum
        folder, server.files["/a.txt.gz"] = tmp_path / str(number), corrupted
        try:
            get_corpus(corpus, folder)
        except DataError as error:
            problems.append(str(error))
            assert not [path for path in folder.iterdir() if path.name != "a.txt.gz.part"]
            server.files["/a.txt.gz"] = gzip.compress(text)
            get_corpus(corpus, folder)
        assert (folder / "a.txt").read_bytes() == text
    assert len(problems) > 20
    assert all("the .gz file is damaged" in problem for problem in problems)


_PACKERS = {"tar": bytes, "gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


def _tar(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info, data in members:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return packed.getvalue()


def _special(name: str, kind: bytes, target: str = "") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info, b""


def _archived(server: Server, packed: bytes) -> Corpus:
    server.files["/x.tgz"] = packed
    part = CorpusPart(Archive(f"{server.url}/x.tgz"), "text")
    return Corpus("toy", "", (), "none", server.url, 1, (PublicFile("a.txt", parts=(part,)),))


@pytest.mark.parametrize("kind", list(_PACKERS))
def test_a_damaged_archive_is_fetched_again(server: Server, tmp_path: Path, kind: str) -> None:
    text = random.Random(2).randbytes(3_000) + b"\n"
    long_name = tarfile.TarInfo("ä" * 120)  # a member with an extra header for its long name
    long_name.pax_headers = {"comment": "x" * 300}
    problems: list[str] = []
    good = _PACKERS[kind](_tar((long_name, b"other"), (tarfile.TarInfo("text"), text)))
    for number, corrupted in enumerate(_damaged(good)):
        folder = tmp_path / str(number)
        try:
            get_corpus(_archived(server, corrupted), folder)
        except DataError as error:
            problems.append(str(error))
            assert not [path for path in folder.iterdir() if path.name != "archives"]
            get_corpus(_archived(server, good), folder)
            assert (folder / "a.txt").read_bytes() == text
        else:
            assert (folder / "a.txt").exists()
    assert problems
    assert all("\n" not in problem for problem in problems)


@pytest.mark.parametrize(
    "member",
    [
        _special("text", tarfile.SYMTYPE, "/etc/passwd"),
        _special("text", tarfile.SYMTYPE, "text"),  # to itself
        _special("text", tarfile.LNKTYPE, "text"),
        _special("text", tarfile.CHRTYPE),
        _special("text", tarfile.FIFOTYPE),
        _special("text", tarfile.DIRTYPE),
    ],
    ids=["link", "cycle", "hard", "device", "pipe", "folder"],
)
def test_what_is_no_file_in_an_archive_is_not_read(
    server: Server, tmp_path: Path, member: tuple[tarfile.TarInfo, bytes]
) -> None:
    with pytest.raises(DataError, match=r"expected a file text in it, found a folder, link or device$"):
        get_corpus(_archived(server, _tar(member)), tmp_path)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_names_that_lead_elsewhere_are_never_written(server: Server, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    names = (str(outside), "../../outside", "text")
    packed = _tar(*((tarfile.TarInfo(name), b"3\n") for name in names))
    get_corpus(_archived(server, packed), tmp_path / "in" / "here")
    assert not outside.exists()
    assert (tmp_path / "in" / "here" / "a.txt").read_bytes() == b"3\n"


def test_an_archive_that_unpacks_without_end_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "_FLOOR", 1 << 20)
    huge = tarfile.TarInfo("huge")
    path = tmp_path / "x.tgz"
    path.write_bytes(gzip.compress(_tar((huge, bytes(1 << 23)), (tarfile.TarInfo("text"), b"3\n"))))
    with (
        pytest.raises(Damaged, match="it unpacks to more than"),
        damage(path, "damaged"),
        open_tar(path) as tar,
    ):
        list(tar)


def test_a_header_that_fills_the_memory_is_not_read(tmp_path: Path) -> None:
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, 1 << 40
    path = tmp_path / "x.tar"
    path.write_bytes(header.tobuf(tarfile.GNU_FORMAT) + bytes(2048))
    with (
        pytest.raises(Damaged, match="it holds a header of more"),
        damage(path, "damaged"),
        open_tar(path) as tar,
    ):
        list(tar)


def test_an_archive_that_was_harmed_on_the_disk_is_fetched_again(server: Server, tmp_path: Path) -> None:
    good = _tar((tarfile.TarInfo("text"), b"right\n"))
    server.files["/x.tgz"] = good
    archive = Archive(f"{server.url}/x.tgz", hashlib.md5(good).hexdigest())
    files = tuple(PublicFile(name, parts=(CorpusPart(archive, "text"),)) for name in ("a.txt", "b.txt"))
    corpus = Corpus("toy", "", (), "none", server.url, 1, files)
    get_corpus(corpus, tmp_path, only=["a.txt"])
    (tmp_path / "archives" / "x.tgz").write_bytes(_tar((tarfile.TarInfo("text"), b"wrong\n")))
    get_corpus(corpus, tmp_path)
    assert (tmp_path / "b.txt").read_bytes() == b"right\n"


def test_images_that_promise_too_much_are_named(tmp_path: Path) -> None:
    png = tmp_path / "a.png"
    size = (60_000).to_bytes(4, "big") * 2
    head = b"IHDR" + size + b"\x08\0\0\0\0"
    png.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\x0d" + head + zlib.crc32(head).to_bytes(4, "big"))
    with pytest.raises(DataError, match="expected a"):
        read_image(png, (1, 8, 8))
