from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from headwise.errors import DataError, LockedError, TrainingError
from headwise.files import (
    DamagedArchive,
    appending,
    atomic_directory,
    atomic_file,
    disk_errors,
    hold,
    opened_zip,
    partial_path,
    remove_partial,
    write_text,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "sub" / "a.txt"
    write_text(target, "first")

    def fail_halfway() -> None:
        with atomic_file(target) as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_halfway()
    assert target.read_text() == "first"
    write_text(target, "Zweiter ☃")
    assert target.read_text(encoding="utf-8") == "Zweiter ☃"
    assert names(target.parent) == ["a.txt"]


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "store"

    def fail_halfway() -> None:
        with atomic_directory(target) as folder:
            (folder / "half").write_text("x")
            assert not target.exists()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_halfway()
    assert names(tmp_path) == []
    for content in ("old", "new"):
        with atomic_directory(target) as folder:
            (folder / content).write_text(content)
    assert names(tmp_path) == ["store"]
    assert names(target) == ["new"]


def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("")
    write_text(tmp_path / "atomic", "")
    (tmp_path / "folder").mkdir()
    with atomic_directory(tmp_path / "atomic-folder"):
        pass
    assert (tmp_path / "atomic").stat().st_mode == plain.stat().st_mode
    assert (tmp_path / "atomic-folder").stat().st_mode == (tmp_path / "folder").stat().st_mode


@pytest.mark.skipif(os.name != "posix", reason="needs permissions of files")
def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.write_text("")
    private.chmod(0o600)
    write_text(private, "new")
    assert (private.read_text(), private.stat().st_mode & 0o777) == ("new", 0o600)


@pytest.mark.skipif(os.name != "posix", reason="needs symbolic links")
def test_what_a_link_leads_to_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    for name in ("file", "folder"):
        (tmp_path / name).symlink_to(Path("far", name))
    for number in ("1", "2"):
        write_text(tmp_path / "file", number)
        with atomic_directory(tmp_path / "folder") as folder:
            (folder / number).touch()
        assert (tmp_path / "far" / "file").read_text() == number
        assert names(tmp_path / "far" / "folder") == [number]
    (tmp_path / "far" / ".file.partial-x").touch()
    remove_partial(tmp_path / "file")
    assert names(tmp_path / "far") == ["file", "folder"]
    assert all((tmp_path / name).is_symlink() for name in ("file", "folder"))


@pytest.mark.skipif(os.name != "posix", reason="needs a named pipe")
def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    handle = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_text(pipe, "text")
        assert os.read(handle, 10) == b"text"
    finally:
        os.close(handle)
    assert pipe.is_fifo()
    assert names(tmp_path) == ["pipe"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, the device that is always full")
def test_a_full_disk_is_said_in_one_sentence() -> None:
    with (
        pytest.raises(TrainingError, match=r"^/dev/full: can't be written because the disk is full$"),
        disk_errors(Path("/dev/full")),
        open("/dev/full", "wb", buffering=0) as file,
    ):
        file.write(b"x")


def test_a_disk_that_fills_up_while_flushing_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(TrainingError, match="disk is full"), atomic_directory(tmp_path / "d") as folder:
        (folder / "a").write_text("x")
    with pytest.raises(TrainingError, match="disk is full"):
        write_text(tmp_path / "f", "x")
    assert names(tmp_path) == []


def test_an_unwritable_place_names_itself(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    target = tmp_path / "file" / "below"
    with pytest.raises(TrainingError) as caught:
        write_text(target, "x")
    assert str(target) in str(caught.value)
    with pytest.raises(TrainingError), atomic_directory(target):
        pass


def test_kill_leaves_the_old_folder_and_a_leftover_that_can_be_removed(tmp_path: Path) -> None:
    target = tmp_path / "store"
    target.mkdir()
    (target / "old").write_text("whole")
    code = (
        "import sys, time; from headwise.files import atomic_directory\n"
        "with atomic_directory(sys.argv[1]) as folder:\n"
        "    (folder / 'half').write_text('x'); print('ready', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(target)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == b"ready"
        process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 10
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert names(target) == ["old"]
    assert len(names(tmp_path)) == 2
    remove_partial(target)
    assert names(tmp_path) == ["store"]


@pytest.mark.skipif(os.name != "posix", reason="there is no such lock on Windows")
def test_a_folder_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "run"
    with (
        hold(folder),
        pytest.raises(LockedError, match="run: is being written by another process"),
        hold(folder),
    ):
        pass
    with hold(folder), hold(tmp_path):  # the lock was released; another folder has its own
        pass


@pytest.mark.skipif(os.name != "posix", reason="there is no such lock on Windows")
def test_a_file_system_without_locks_is_said_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refused)
    for locking in (hold(tmp_path / "run"), appending(tmp_path / "file", 0)):
        with (
            pytest.raises(TrainingError, match=r"(run|file): can't be written \(No locks available\)"),
            locking,
        ):
            pass


def test_leftovers_of_everything_in_a_folder_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".a.txt.partial-x").touch()
    (tmp_path / ".b.partial-y").mkdir()
    (tmp_path / ".b.partial-y" / "inside").touch()
    (tmp_path / "partial-z").touch()
    remove_partial(tmp_path / "*")
    assert names(tmp_path) == ["partial-z"]


def test_a_name_may_be_as_long_as_the_file_system_has_them(tmp_path: Path) -> None:
    for name in ("n" * 255, "ä" * 127):
        write_text(tmp_path / name, "text")
        assert (tmp_path / name).read_text() == "text"
        assert names(tmp_path) == [name]
        (tmp_path / f".{name[:118]}").touch()
        (tmp_path / name).rename(partial_path(tmp_path / name, "12345678"))
        remove_partial(tmp_path / name)
        (tmp_path / f".{name[:118]}").unlink()
        assert names(tmp_path) == []


def test_brackets_in_a_name_are_no_pattern(tmp_path: Path) -> None:
    for name in ("a", "[ab]?", "[ab]!"):
        (tmp_path / f".{name}.partial-x").touch()
    remove_partial(tmp_path / "[ab]?")
    assert names(tmp_path) == [".[ab]!.partial-x", ".a.partial-x"]


def zipped(flags: int = 0, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return an archive of one file, with flags of encryption or a method in its two headers."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", "text " * 100)
    content = bytearray(out.getvalue())
    for header, at in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        start = content.find(header) + at
        content[start : start + 4] = flags.to_bytes(2, "little") + method.to_bytes(2, "little")
    return bytes(content)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"no archive", "not a zip file"),
        (zipped()[:60] + b"x" * 9 + zipped()[60:], ""),
        (zipped(flags=1), "encrypted"),
        (zipped(method=97), "compression method"),
        (zipped(method=zipfile.ZIP_LZMA), ""),
    ],
)
def test_why_an_archive_cannot_be_read_is_said(content: bytes, reason: str) -> None:
    with pytest.raises(DamagedArchive) as found, opened_zip(io.BytesIO(content)) as archive:
        archive.read("a")
    assert reason in str(found.value)
    assert str(found.value)


def test_what_is_said_of_an_archives_content_stays() -> None:
    with pytest.raises(DataError, match="expected a text"), opened_zip(io.BytesIO(zipped())):
        raise DataError("file: expected a text")
