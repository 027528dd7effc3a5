"""Downloading with the standard library alone: resumes, retries, and never leaves a half file behind.

`fetch` brings one address into a `.part` file and resumes where an earlier attempt broke off (HTTP Range,
RFC 9110 section 14). `headwise.corpora.acquire` unpacks, verifies and names what it brought.
"""

from __future__ import annotations

import errno
import http.client
import logging
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from headwise.errors import DataError, HeadwiseError

ATTEMPTS = 4  # in a row without a byte of progress
TIMEOUT = 30.0  # seconds without an answer
BLOCK = 1 << 16  # bytes read at once
MOST_BYTES = 1 << 34  # of a file whose size nobody knows in advance
_VALIDATOR = re.compile(r"[ -~]{1,200}")  # an entity tag or a date that we send back
_TRANSIENT = {408, 425, 429, 500, 502, 503, 504}
_USER_AGENT = "headwise"  # some servers refuse urllib's own
_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}

log = logging.getLogger(__name__)


# Called as bytes arrive: the file's name, how many bytes are here, and how many there will be if that is known.
Progress = Callable[[str, int, int | None], None]


class _BrokenOff(Exception):
    """The connection failed in a way that another attempt may mend."""


def fetch(
    url: str,
    part: Path,
    *,
    most: int = MOST_BYTES,
    progress: Progress | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Download `url` into the file `part`, continuing after the bytes that are already in it.

    A connection that breaks is taken up again, after 1, 2 and 4 seconds, until `ATTEMPTS` in a row bring
    nothing new. A server that can't resume, or whose file has changed since, starts again from the first
    byte, with a warning. An interrupted call leaves `part` for the next one. A file of more than `most` bytes isn't
    taken.

    Raises `DataError` naming the address where the server refuses it (404, 403, …), can't be reached, keeps
    breaking off, sends more than `most` bytes, answers with headers that make no sense or sends elsewhere than to
    http or https; and naming the file where the disk is full or can't be written.
    """
    failures, reached = 0, _size(part)
    while True:
        try:
            _attempt(url, part, most, progress)
        except _BrokenOff as broken:
            failures = 1 if _size(part) > reached else failures + 1
            reached = max(reached, _size(part))  # bytes that come again are no progress
            if failures == ATTEMPTS:
                raise DataError(
                    f"{url}: can't be downloaded, {ATTEMPTS} attempts in a row failed ({broken}); check the "
                    "network and run the command again to go on, or give local files with --from DIR"
                ) from broken
            wait = 2.0 ** (failures - 1)
            log.warning("%s: %s; trying again in %.0f s", url, broken, wait)
            sleep(wait)
        else:
            _validator_file(part).unlink(missing_ok=True)
            return


def discard(part: Path) -> None:
    """Forget an unfinished or faulty download."""
    part.unlink(missing_ok=True)
    _validator_file(part).unlink(missing_ok=True)


def _attempt(url: str, part: Path, most: int, progress: Progress | None) -> None:
    """Make one request and append what it brings; raises `_BrokenOff` where it ends too early."""
    have = _size(part)
    response = _open(url, part, have)
    if response is None:  # nothing is missing
        return
    with response:
        partial = response.status == http.client.PARTIAL_CONTENT
        start = have if partial else 0
        if partial and not _starts_at(response, have):
            discard(part)
            raise _BrokenOff("the server resumed at another byte than asked")
        if have and not start:
            log.warning("%s: the server doesn't resume or its file has changed; starting again", url)
        length = _content_length(url, response)
        total = None if length is None else start + length
        if max(total or 0, start) > most:
            discard(part)
            raise _too_large(url, most)
        with _disk(part):
            part.parent.mkdir(parents=True, exist_ok=True)
            _check_space(part, (total or start) - start)
            _remember_validator(part, response)
            file = open(part, "ab" if start else "wb", buffering=0)  # noqa: SIM115
        done = start
        with file:
            for block in _blocks(response):
                with _disk(part):
                    file.write(block)
                done += len(block)
                if done > most:
                    discard(part)
                    raise _too_large(url, most)
                if progress is not None:
                    progress(part.stem, done, total)
    if total is not None and done < total:
        raise _BrokenOff(f"the connection closed after {done:,} of {total:,} bytes")


def _open(url: str, part: Path, have: int) -> http.client.HTTPResponse | None:
    """Ask for everything after the first `have` bytes; None where the server says there is no more."""
    headers = {"User-Agent": _USER_AGENT, "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
        validator = _validator_file(part)
        if validator.exists():
            headers["If-Range"] = validator.read_text(encoding="latin-1")
    try:
        if urlsplit(url).scheme not in ("http", "https"):
            raise DataError(f"{url}: expected an address that begins with http or https, found another")
        return build_opener(_Redirects).open(Request(url, headers=headers), timeout=TIMEOUT)
    except HTTPError as error:
        with error:
            if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
                whole = re.fullmatch(r"bytes \*/([0-9]{1,18})", error.headers.get("Content-Range", ""))
                if whole and int(whole[1]) == have:
                    return None
                discard(part)
                raise _BrokenOff("the unfinished download doesn't fit the server's file") from error
            answer = f"the server answered {error.code} {_printable(error.reason)}"
            if error.code in _TRANSIENT:
                raise _BrokenOff(answer) from error
            raise DataError(f"{url}: {answer}") from error
    except URLError as error:
        raise _BrokenOff(_reason(error.reason)) from error
    except (OSError, http.client.HTTPException) as error:
        raise _BrokenOff(_reason(error)) from error
    except HeadwiseError:
        raise
    except (ValueError, OverflowError) as error:  # a redirect to what is no address
        raise DataError(f"{url}: the server's answer can't be used ({_reason(error)})") from error


class _Redirects(HTTPRedirectHandler):
    """Follows to http and https alone, and from https never back to http."""

    def http_error_302(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage
    ) -> IO[bytes] | None:
        """Follow, and close the answer where that fails."""
        try:
            return super().http_error_302(req, fp, code, msg, headers)
        except HTTPError:  # it holds the answer
            raise
        except Exception:
            fp.close()
            raise

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage, newurl: str
    ) -> Request | None:
        """Make the next request; raises `DataError` where it would go elsewhere."""
        scheme, before = urlsplit(newurl).scheme, urlsplit(req.full_url).scheme
        if scheme not in ("http", "https") or (before == "https" and scheme == "http"):
            raise DataError(
                f"{req.full_url}: expected a redirect to {before} or https, found one to {_printable(newurl)}"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _content_length(url: str, response: http.client.HTTPResponse) -> int | None:
    """How many bytes the server says it sends; None where it doesn't say."""
    length = response.headers.get("Content-Length")
    if length is None or "Transfer-Encoding" in response.headers:  # which overrides it (RFC 9112 section 6.3)
        return None
    if not re.fullmatch(r"[0-9]{1,18}", length.strip()):
        raise DataError(
            f"{url}: expected a number of bytes in the server's Content-Length, found {_printable(length)!r}"
        )
    return int(length)


def _too_large(url: str, most: int) -> DataError:
    return DataError(
        f"{url}: expected at most {most:,} bytes, found that the server sends more; nothing was kept"
    )


def _blocks(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """Read to the end; raises `_BrokenOff` where the connection fails."""
    block = bytearray(BLOCK)
    while True:
        try:
            count = response.readinto(block)  # never more than a block, whatever a chunk says of its size
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise _BrokenOff(_reason(error)) from error
        if not count:
            return
        yield bytes(block[:count])


def _starts_at(response: http.client.HTTPResponse, byte: int) -> bool:
    return response.headers.get("Content-Range", "").startswith(f"bytes {byte}-")


def _remember_validator(part: Path, response: http.client.HTTPResponse) -> None:
    """Keep what identifies this version of the file, so that a changed one isn't joined to its beginning.

    Only a strong entity tag or a date may be sent as If-Range (RFC 9110 section 13.1.5).
    """
    etag = response.headers.get("ETag", "")
    validator = etag if etag.startswith('"') else response.headers.get("Last-Modified", "")
    if _VALIDATOR.fullmatch(validator):
        _validator_file(part).write_text(validator, encoding="latin-1")
    else:
        _validator_file(part).unlink(missing_ok=True)


def _validator_file(part: Path) -> Path:
    return part.with_name(part.name + ".version")


def _check_space(part: Path, needed: int) -> None:
    free = shutil.disk_usage(part.parent).free
    if needed > free:
        raise DataError(
            f"{part}: the disk is full, {needed:,} more bytes are needed and "
            f"{free:,} are free in {part.parent}"
        )


@contextmanager
def _disk(path: Path) -> Iterator[None]:
    """Turn a failed write into a `DataError` that names the file."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise DataError(f"{path}: can't be written because the disk is full") from error
        raise DataError(f"{path}: can't be written ({error.strerror or error})") from error


def _size(part: Path) -> int:
    try:
        return part.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return 0


def _reason(error: object) -> str:
    if isinstance(error, OSError):
        return _printable(error.strerror or error) or type(error).__name__
    return _printable(error) or type(error).__name__


def _printable(said: object) -> str:
    """What a server says, on one line and without control characters."""
    line = " ".join(str(said)[:200].split())
    return "".join(character if character.isprintable() else "?" for character in line)
