"""Check of the host names and origins of requests: protection from foreign sites (DNS rebinding, cross-site requests).

The same-origin policy lets a page read responses of its own host only. A site that points its name here after it was
loaded (DNS rebinding) counts as the same origin, but its requests still carry its own name in `Host`. So a request is
accepted only if `Host` is a known name. `Origin` and `Sec-Fetch-Site` identify the page that sends the request; a
foreign page can't read the response, but it could keep the models busy.

    name in Host                                   accepted
    localhost, 127.0.0.0/8, [::1]                  always
    the host that was bound (--host)               always, by name and by address
    any numeric address                            if all addresses are bound (0.0.0.0, ::): it needs no DNS lookup
    names given by --allow-host                    always

An origin's host must be one of these names, or equal the request's `Host`; other numeric addresses are not accepted.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from headwise.errors import ConfigError
from headwise.web.failures import failure

_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,254})(?::([0-9]{0,5}))?")
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?")
_ORIGIN = re.compile(r"https?://([^/?#@\\]+)", re.IGNORECASE)
_HEADERS = frozenset((b"host", b"origin", b"sec-fetch-site", b"sec-fetch-mode"))
_MOST_ACCEPTED = 100
_SHOWN = 80  # characters of a header's value in a message

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Hosts:
    """The known host names: those of the loopback interface, the bound host, and the allowed ones."""

    def __init__(self, bound: str = "127.0.0.1", allowed: Sequence[str] = (), address: str | None = None) -> None:
        """Know `bound`, its `address` if it is a name, and the `allowed` names; raises `ConfigError` for others."""
        # Without a scope id, as in fe80::1%eth0.
        own = [_normal(name.partition("%")[0]) for name in (bound, address or bound)]
        self._names = {*own, *map(_checked, allowed)}
        self._any_address = any((parsed := _address(name)) and parsed.is_unspecified for name in own)

    def known(self, host: str) -> bool:
        """Whether a host, as returned by `parse_authority`, is one of the known names."""
        address = _address(host)
        return host == "localhost" or (address is not None and address.is_loopback) or host in self._names

    def refusal(self, headers: Headers, *, page: bool, origins: frozenset[str] | None = None) -> str | None:
        """Return a sentence that says why a request is refused, or None if it is accepted.

        `page` is whether the request is for the page, which other sites may link to, and not for the API. Pages of
        `origins` are accepted whatever their host; None is for what other sites can't be let in to.
        """
        hosts = headers.getlist("host")
        host = parse_authority(hosts[0]) if len(hosts) == 1 else None
        if host is None or not (self.known(host) or (self._any_address and _address(host) is not None)):
            found = repr(", ".join(hosts)[:_SHOWN]) if hosts else "none"
            return f"Host: expected {self._expected()}, found {found}{_advice(host)}"
        for origin in headers.getlist("origin"):
            match = _ORIGIN.fullmatch(origin)
            origin_host = parse_authority(match[1]) if match else None
            if origin in (origins or ()):
                continue
            if origin_host is None or not (origin_host == host or self.known(origin_host)):
                advice = _advice(origin_host) if origins is None else _advice(origin_host and origin, "origin")
                return f"Origin: expected a page of {self._expected()}, found {origin[:_SHOWN]!r}{advice}"
        linked = page and headers.get("sec-fetch-mode", "").strip().lower() == "navigate"
        foreign = headers.get("sec-fetch-site", "").strip().lower() == "cross-site"
        if foreign and not linked and "origin" not in headers:
            return "Sec-Fetch-Site: expected a request of the page's own, found cross-site"
        return None

    def _expected(self) -> str:
        others = sorted(name for name in self._names if not (address := _address(name)) or not _local(address))
        return " or ".join(["localhost", *(["an address in numbers"] if self._any_address else []), *others])


class KnownHosts:
    """Middleware that refuses requests with an unknown host name, or from a foreign page, with 403."""

    def __init__(self, app: ASGIApp, hosts: Hosts, origins: Sequence[str] = ()) -> None:
        """Accept pages of `origins`, too, except for the interface of Headwise's own page."""
        self.app, self.hosts, self._origins = app, hosts, frozenset(origins)
        # What was accepted as the only header about it: a name and its value.
        self._accepted: set[tuple[bytes, bytes]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it to the application."""
        if scope["type"] == "http":
            asked = [header for header in map(tuple, scope["headers"]) if header[0] in _HEADERS]
            if len(asked) == 1 and asked[0] in self._accepted:
                await self.app(scope, receive, send)
                return
            own = scope["path"].startswith("/api/")
            page = scope["method"] in ("GET", "HEAD") and not own
            origins = None if own else self._origins
            if sentence := self.hosts.refusal(Headers(scope=scope), page=page, origins=origins):
                await failure(scope["path"], 403, sentence)(scope, receive, send)
                return
            if len(asked) == 1 and len(self._accepted) < _MOST_ACCEPTED:
                self._accepted.add(asked[0])
        await self.app(scope, receive, send)


def parse_authority(written: str) -> str | None:
    """Return the normalized host of `host:port`, or None if it is invalid.

    A name is lowercased and loses a dot at its end; a numeric address is written as Python writes it.
    """
    match = _AUTHORITY.fullmatch(written.strip(" \t"))
    if match is None or int(match[2] or 0) > 65535:
        return None
    host = match[1]
    if host.startswith("["):
        return None if _address(host[1:-1]) is None else _normal(host[1:-1])
    return _normal(host) if _NAME.fullmatch(host) else None


def checked_origin(origin: str) -> str:
    """Return an origin as browsers send it, `https://lab.example:8443`; raises `ConfigError` for anything else."""
    match = _ORIGIN.fullmatch(origin)
    if match is None or parse_authority(match[1]) is None or origin != origin.lower():
        raise ConfigError(
            f"--allow-origin: expected a scheme and a host, as in https://lab.example, found {origin[:_SHOWN]!r}"
        )
    return origin


def _normal(host: str) -> str:
    address = _address(host)
    return host.lower().removesuffix(".") if address is None else str(address)


def _checked(name: str) -> str:
    """Normalize an entry of --allow-host; IPv6 addresses with or without brackets. Raises `ConfigError`."""
    bare = name[1:-1] if name.startswith("[") and name.endswith("]") else name
    if _address(bare) is None and not (len(bare) < 255 and _NAME.fullmatch(bare)):
        raise ConfigError(
            f"--allow-host: expected a name or an address without scheme and port, as in lab.example, "
            f"found {name[:_SHOWN]!r}"
        )
    return _normal(bare)


def _address(host: str) -> Address | None:
    """Parse a numeric address, None for a name; an IPv4-mapped IPv6 address becomes the IPv4 address."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _local(address: Address) -> bool:
    return address.is_loopback or address.is_unspecified


def _advice(value: str | None, option: str = "host") -> str:
    return "" if value is None else f"; headwise serve --allow-{option} {value} lets it in"
