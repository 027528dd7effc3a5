"""HTTP downloads with the standard library alone, with retries and resumption.

`fetch` downloads one URL into a `.part` file and resumes where an earlier attempt was interrupted (HTTP Range,
RFC 9110 section 14). `headwise.corpora.acquire` decompresses and verifies the file and gives it its final name.
"""

from __future__ import annotations

import http.client
import logging
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from time import sleep
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from headwise.errors import DataError, HeadwiseError, TrainingError
from headwise.files import appending, disk_errors

ATTEMPTS = 4  # in a row without progress
TIMEOUT = 30.0  # seconds without a response
BLOCK = 1 << 16  # bytes per read
MOST_BYTES = 1 << 34  # limit for a file whose size isn't known in advance
_VALIDATOR = re.compile(r"[ -~]{1,200}")  # an entity tag or a date, sent back as If-Range
_TRANSIENT = {408, 425, 429, 500, 502, 503, 504}
_USER_AGENT = "headwise"  # some servers refuse urllib's default

log = logging.getLogger(__name__)


# Progress callback: the file's name, the bytes received, and the total number of bytes if it is known.
Progress = Callable[[str, int, int | None], None]


class _Interrupted(Exception):
    """A transient failure of a download, worth another attempt."""


def fetch(
    url: str,
    part: Path,
    *,
    most: int = MOST_BYTES,
    progress: Progress | None = None,
) -> None:
    """Download `url` into the file `part`, resuming after the bytes that it already holds.

    A broken connection is retried after 1, 2 and 4 seconds, until `ATTEMPTS` attempts in a row bring no new bytes.
    Where the server can't resume, or its file has changed, the download restarts from the first byte, with a
    warning. An interrupted call leaves `part` for the next one.

    Raises `DataError` naming the URL where the server refuses it (404, 403, …), can't be reached, repeatedly breaks
    the connection, sends more than `most` bytes, sends invalid headers or redirects to another scheme than http or
    https. Raises `TrainingError`, which names the file, where it can't be written, the disk is full, or another process
    writes it.
    """
    failures, reached = 0, _size(part)
    while True:
        try:
            _attempt(url, part, most, progress)
        except _Interrupted as broken:
            failures = 1 if _size(part) > reached else failures + 1
            reached = max(reached, _size(part))  # bytes that were downloaded before are no progress
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
    """Delete an unfinished or damaged download."""
    part.unlink(missing_ok=True)
    _validator_file(part).unlink(missing_ok=True)


def _attempt(url: str, part: Path, most: int, progress: Progress | None) -> None:
    """Make one request and append the response to `part`; raises `_Interrupted` where it ends early."""
    received = _size(part)
    response = _open(url, part, received)
    if response is None:  # `part` is complete
        return
    with response:
        partial = response.status == http.client.PARTIAL_CONTENT
        start = received if partial else 0
        if partial and not response.headers.get("Content-Range", "").startswith(f"bytes {received}-"):
            discard(part)
            raise _Interrupted("the server resumed at another byte than asked")
        if received and not start:
            log.warning("%s: the server doesn't resume or its file has changed; starting again", url)
        length = _content_length(url, response)
        total = None if length is None else start + length
        if max(total or 0, start) > most:
            discard(part)
            raise _too_large(url, most)
        with disk_errors(part):
            part.parent.mkdir(parents=True, exist_ok=True)
            _check_space(part, (total or start) - start)
        if _size(part) != received:
            raise _Interrupted("another process has written or taken the file meanwhile")
        done = start
        with appending(part, start) as file:
            with disk_errors(part):
                _save_validator(part, response)
            for block in _response_blocks(response):
                with disk_errors(part):
                    file.write(block)
                    file.flush()
                done += len(block)
                if done > most:
                    discard(part)
                    raise _too_large(url, most)
                if progress is not None:
                    progress(part.stem, done, total)
    if total is not None and done < total:
        raise _Interrupted(f"the connection closed after {done:,} of {total:,} bytes")


def _open(url: str, part: Path, received: int) -> http.client.HTTPResponse | None:
    """Request everything after the first `received` bytes; returns None where the server says there is no more."""
    headers = {"User-Agent": _USER_AGENT, "Accept-Encoding": "identity"}
    if received:
        headers["Range"] = f"bytes={received}-"
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
                if whole and int(whole[1]) == received:
                    return None
                discard(part)
                raise _Interrupted("the unfinished download doesn't fit the server's file") from error
            answer = f"the server answered {error.code} {_printable(error.reason)}"
            if error.code in _TRANSIENT:
                raise _Interrupted(answer) from error
            raise DataError(f"{url}: {answer}") from error
    except URLError as error:
        raise _Interrupted(_reason(error.reason)) from error
    except (OSError, http.client.HTTPException) as error:
        raise _Interrupted(_reason(error)) from error
    except HeadwiseError:
        raise
    except (ValueError, OverflowError) as error:  # a redirect to an invalid URL
        raise DataError(f"{url}: the server's answer can't be used ({_reason(error)})") from error


class _Redirects(HTTPRedirectHandler):
    """Redirect handler that follows http and https only, and never from https to http."""

    def http_error_302(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage
    ) -> IO[bytes] | None:
        """Follow the redirect, and close the response where that fails."""
        try:
            return super().http_error_302(req, fp, code, msg, headers)
        except HTTPError:  # it holds the response
            raise
        except Exception:
            fp.close()
            raise

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage, newurl: str
    ) -> Request | None:
        """Return the request to follow; raises `DataError` for another scheme, or for https to http."""
        scheme, old_scheme = urlsplit(newurl).scheme, urlsplit(req.full_url).scheme
        if scheme not in ("http", "https") or (old_scheme == "https" and scheme == "http"):
            raise DataError(
                f"{req.full_url}: expected a redirect to {old_scheme} or https, found one to {_printable(newurl)}"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _content_length(url: str, response: http.client.HTTPResponse) -> int | None:
    """Return the announced length of the response in bytes; None where the server doesn't announce it."""
    length = response.headers.get("Content-Length")
    if length is None or "Transfer-Encoding" in response.headers:  # which overrides it (RFC 9112 section 6.3)
        return None
    if not re.fullmatch(r"[0-9]{1,18}", length.strip()):
        raise DataError(
            f"{url}: expected a number of bytes in the server's Content-Length, found {_printable(length)!r}"
        )
    return int(length)


def _too_large(url: str, most: int) -> DataError:
    return DataError(f"{url}: expected at most {most:,} bytes, found that the server sends more; nothing was kept")


def _response_blocks(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """Yield the response in blocks; raises `_Interrupted` where the connection fails."""
    block = bytearray(BLOCK)
    while True:
        try:
            count = response.readinto(block)  # at most a block, whatever size a chunk announces
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise _Interrupted(_reason(error)) from error
        if not count:
            return
        yield bytes(block[:count])


def _save_validator(part: Path, response: http.client.HTTPResponse) -> None:
    """Save the validator of this version of the file, so that a changed file isn't appended to the old beginning.

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
        raise TrainingError(
            f"{part}: the disk is full, {needed:,} more bytes are needed and {free:,} are free in {part.parent}"
        )


def _size(part: Path) -> int:
    try:
        return part.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return 0


def _reason(error: object) -> str:
    if isinstance(error, OSError):
        return _printable(error.strerror or error) or type(error).__name__
    return _printable(error) or type(error).__name__


def _printable(message: object) -> str:
    """Return text from a server on one line of at most 200 characters, without control characters."""
    line = " ".join(str(message)[:200].split())
    return "".join(character if character.isprintable() else "?" for character in line)
