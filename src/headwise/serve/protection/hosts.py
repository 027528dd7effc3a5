"""Which names a server answers to: what keeps foreign sites from a server on this machine or in this network.

A browser lets a page read the answers of its own host alone. A site whose name is made to point here after it was
loaded (DNS rebinding) would be "its own host", but its requests still carry the site's name in `Host`. So a request is
answered only where `Host` is a name of ours. `Origin` and `Sec-Fetch-Site` say which page asks; a foreign one could
not read the answer, but it could keep the models busy.

    name in Host                                   answered
    localhost, 127.0.0.0/8, [::1]                  always
    the host that was bound (--host)               always, by name and by address
    any address, written in numbers                where all addresses are bound (0.0.0.0, ::): no DNS is asked for it
    what --allow-host names                        always

An origin's host must be one of the names above, or the host that it asks; addresses in general are no origins of ours.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from headwise.errors import ConfigError

_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,254})(?::([0-9]{0,5}))?")
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?")
_ORIGIN = re.compile(r"https?://([^/?#@\\]+)", re.IGNORECASE)
_SHOWN = 80  # characters of what was found

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Hosts:
    """The names that are ours: the loopback's, that of the host bound, and more that a person allows."""

    def __init__(
        self, bound: str = "127.0.0.1", allowed: Sequence[str] = (), address: str | None = None
    ) -> None:
        """Answer to `bound` (a name or an address), to its `address` where it is a name, and to the `allowed`.

        Raises `ConfigError` for an allowed one that is neither a name nor an address.
        """
        own = [
            _normal(name.partition("%")[0]) for name in (bound, address or bound)
        ]  # without fe80::1's %eth0
        self._names = {*own, *map(_checked, allowed)}
        self._any_address = any((found := _address(name)) and found.is_unspecified for name in own)

    def known(self, host: str) -> bool:
        """Whether a host, as `parse_authority` gives it, is one of the names."""
        address = _address(host)
        return host == "localhost" or (address is not None and address.is_loopback) or host in self._names

    def refusal(self, headers: Headers, *, page: bool) -> str | None:
        """Say in a sentence why a request isn't answered; None where it is.

        `page` are requests that a link elsewhere may lead to: for the page and not for the interface.
        """
        given = headers.getlist("host")
        host = parse_authority(given[0]) if len(given) == 1 else None
        if host is None or not (self.known(host) or (self._any_address and _address(host) is not None)):
            found = repr(", ".join(given)[:_SHOWN]) if given else "none"
            return f"Host: expected {self._expected()}, found {found}{_advice(host)}"
        for origin in headers.getlist("origin"):
            written = _ORIGIN.fullmatch(origin)
            asking = parse_authority(written[1]) if written else None
            if asking is None or not (asking == host or self.known(asking)):
                return f"Origin: expected a page of {self._expected()}, found {origin[:_SHOWN]!r}{_advice(asking)}"
        linked = page and headers.get("sec-fetch-mode", "").strip().lower() == "navigate"
        foreign = headers.get("sec-fetch-site", "").strip().lower() == "cross-site"
        if foreign and not linked and "origin" not in headers:
            return "Sec-Fetch-Site: expected a request of the page's own, found cross-site"
        return None

    def _expected(self) -> str:
        others = sorted(
            name for name in self._names if not (address := _address(name)) or not _local(address)
        )
        return " or ".join(["localhost", *(["an address in numbers"] if self._any_address else []), *others])


class KnownHosts:
    """Wraps an application; what comes under a name, or from a page, that isn't ours gets a 403 and no more."""

    def __init__(self, app: ASGIApp, hosts: Hosts) -> None:
        self.app = app
        self.hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on."""
        if scope["type"] == "http":
            page = scope["method"] in ("GET", "HEAD") and not scope["path"].startswith("/api/")
            if sentence := self.hosts.refusal(Headers(scope=scope), page=page):
                await JSONResponse({"error": sentence}, status_code=403)(scope, receive, send)
                return
        await self.app(scope, receive, send)


def parse_authority(written: str) -> str | None:
    """Take the host out of `host:port`, in one form for all its spellings; None where it is none.

    Letters are made small, a dot at a name's end is left out, an address in numbers is written as Python does.
    """
    found = _AUTHORITY.fullmatch(written.strip(" \t"))
    if found is None or int(found[2] or 0) > 65535:
        return None
    host = found[1]
    if host.startswith("["):
        return None if _address(host[1:-1]) is None else _normal(host[1:-1])
    return _normal(host) if _NAME.fullmatch(host) else None


def _normal(host: str) -> str:
    address = _address(host)
    return host.lower().removesuffix(".") if address is None else str(address)


def _checked(name: str) -> str:
    """Read what --allow-host gives; IPv6 addresses with brackets or without."""
    bare = name[1:-1] if name.startswith("[") and name.endswith("]") else name
    if _address(bare) is None and not (len(bare) < 255 and _NAME.fullmatch(bare)):
        raise ConfigError(
            f"--allow-host: expected a name or an address without scheme and port, as in lab.example, "
            f"found {name[:_SHOWN]!r}"
        )
    return _normal(bare)


def _address(host: str) -> Address | None:
    """Read an address in numbers; an IPv4 one in IPv6's clothes is the IPv4 one."""
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def _local(address: Address) -> bool:
    return address.is_loopback or address.is_unspecified


def _advice(host: str | None) -> str:
    return "" if host is None else f"; headwise serve --allow-host {host} lets it in"
