"""Corpora whose files are inside archives: assembly, verification and clean-up."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest
from sacrebleu.dataset.fake_sgml import FakeSGMLDataset

from headwise.corpora.acquire import MANIFEST, get_corpus
from headwise.corpora.catalog import Archive, Corpus, CorpusPart, PublicFile
from headwise.errors import DataError
from http_servers import Server

SGM = """<srcset setid="newstest2014" srclang="any">
<doc sysid="ref" docid="a" genre="news" origlang="en">
<p>
<seg id="1">A  &quot;man&quot; &amp; a dog. </seg>
<seg id="2">Two men</seg>
</p>
</doc>
</srcset>
"""


def tar(members: dict[str, bytes], mode: str = "w:gz") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:  # type: ignore[call-overload]
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return packed.getvalue()


@pytest.fixture
def corpus(server: Server) -> Corpus:
    """Two archives with training text, compressed again in one of them, and a third with a test set in SGML."""
    news = tar({"training/news.en": b"one\ntwo", "training/news.fr": b"un\ndeux\n"})
    giga = tar({f"giga.{side}.gz": gzip.compress(text) for side, text in (("en", b"3\n"), ("fr", b"III\n"))}, "w")
    test = tar({"test/src.en.sgm": SGM.encode()})
    server.files |= {"/news.tgz": news, "/giga.tar": giga, "/test.tgz": test}
    first, second = Archive(f"{server.url}/news.tgz"), Archive(f"{server.url}/giga.tar")
    third = Archive(f"{server.url}/test.tgz", hashlib.md5(test).hexdigest())
    train = (
        PublicFile(
            f"train.{side}",
            parts=(CorpusPart(first, f"training/news.{side}"), CorpusPart(second, f"giga.{side}.gz")),
        )
        for side in ("en", "fr")
    )
    files = (*train, PublicFile("test.en", parts=(CorpusPart(third, "test/src.en.sgm"),)))
    return Corpus("toy", "", ("en", "fr"), "none", server.url, 1, files, ("train.en", "train.fr"))


def test_parts_follow_each_other_line_by_line(server: Server, corpus: Corpus, tmp_path: Path) -> None:
    files = get_corpus(corpus, tmp_path)
    assert [file.status for file in files] == ["downloaded"] * 3
    assert (tmp_path / "train.en").read_bytes() == b"one\ntwo\n3\n"  # the first part didn't end its last line
    assert (tmp_path / "train.fr").read_bytes() == b"un\ndeux\nIII\n"
    assert len(server.requests) == 3  # an archive is fetched once for both sides
    assert not (tmp_path / "archives").exists()
    record = json.loads((tmp_path / MANIFEST).read_text())["files"]["train.en"]
    assert "news.tgz (training/news.en), " in record["url"]
    assert {file.status for file in get_corpus(corpus, tmp_path)} == {"present"}
    assert len(server.requests) == 3


def test_archives_wait_for_the_files_that_are_still_to_be_made(server: Server, corpus: Corpus, tmp_path: Path) -> None:
    get_corpus(corpus, tmp_path, only=["train.en"])
    assert {path.name for path in (tmp_path / "archives").iterdir()} == {"news.tgz", "giga.tar"}
    get_corpus(corpus, tmp_path, only=["train.fr"])
    assert len(server.requests) == 2
    assert not (tmp_path / "archives").exists()


def test_a_test_set_is_sacrebleus(corpus: Corpus, tmp_path: Path) -> None:
    get_corpus(corpus, tmp_path, only=["test.en"])
    (tmp_path / "test.sgm").write_text(SGM)
    FakeSGMLDataset("toy", data=[], md5=[], langpairs={})._convert_format(
        str(tmp_path / "test.sgm"), str(tmp_path / "theirs")
    )
    assert (tmp_path / "test.en").read_bytes() == (tmp_path / "theirs").read_bytes()


def test_local_archives_are_used_and_kept(server: Server, corpus: Corpus, tmp_path: Path) -> None:
    local = tmp_path / "local"
    local.mkdir()
    with pytest.raises(DataError, match=r"expected news\.tgz, giga\.tar, test\.tgz there"):
        get_corpus(corpus, tmp_path / "out", source=local)
    for name, data in server.files.items():
        (local / name[1:]).write_bytes(data)
    files = get_corpus(corpus, tmp_path / "out", source=local)
    assert {file.status for file in files} == {"copied"}
    assert server.requests == []
    assert len(list(local.iterdir())) == 4


def test_an_archive_that_cannot_be_read_is_named(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(hashlib, "file_digest", unreadable)
    with pytest.raises(DataError, match=r"test\.tgz\.part: can't be read \(Input/output error\)"):
        get_corpus(corpus, tmp_path, only=["test.en"])


def test_a_wrong_archive_is_named_and_not_kept(server: Server, corpus: Corpus, tmp_path: Path) -> None:
    server.files["/test.tgz"] = tar({"test/src.en.sgm": b"something else"})
    with pytest.raises(DataError, match=r"test\.tgz\.part: the checksum is wrong, expected the published MD5"):
        get_corpus(corpus, tmp_path, only=["test.en"])
    assert not list((tmp_path / "archives").iterdir())
    server.files["/news.tgz"] = tar({"training/news.fr": b"un\n"})
    with pytest.raises(DataError, match=r"news\.tgz: expected training/news\.en in it, found nothing"):
        get_corpus(corpus, tmp_path, only=["train.en"])
    server.files["/giga.tar"] = server.files["/giga.tar"][:300]
    server.files["/news.tgz"] = tar({"training/news.en": b"one\n"})
    with pytest.raises(DataError, match=r"giga\.tar: the archive is damaged"):
        get_corpus(corpus, tmp_path, only=["train.en"])
    assert not (tmp_path / "train.en").exists()
