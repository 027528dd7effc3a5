"""Which host names the server accepts, and which pages may send requests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs pip install 'headwise[serve]'")

from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers

from headwise.errors import ConfigError
from headwise.page.application import page_app
from headwise.web.hosts import Hosts, parse_authority
from serve_sockets import ask, serving


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving(page_app({})) as port:
        yield port


OURS = [
    *("localhost", "localhost:{port}", "LOCALHOST:1", "localhost.", "127.0.0.1:{port}"),
    *("127.255.3.4", "[::1]", "[::1]:65535", "[0:0:0:0:0:0:0:1]:80", "[::ffff:127.0.0.1]"),
    *("localhost:",),
]
FOREIGN = [
    *("evil.example", "evil.example:{port}", "localhost.evil.example", "127.0.0.1.evil.example"),
    *("localhost:{port}@evil.example", "evil.example@localhost", "user:localhost"),
    *("localhost:99999", "localhost:8080:8080", "localhost..", "127.1", "0.0.0.0", "192.168.1.5"),
    *("[::]", "[fe80::1]", "[::1", "::1", "localhost, evil.example", "localhost/", ""),
]


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("path", ["/", "/api/runs", "/js/main.js"])
def test_the_loopback_names_are_answered(port: int, name: str, path: str) -> None:
    assert ask(port, f"GET {path} HTTP/1.1\nHost: {name.format(port=port)}")[0] == 200


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("path", ["/", "/api/runs", "/nothing", "/api/nothing"])
def test_other_names_are_not(port: int, name: str, path: str) -> None:
    status, answer = ask(port, f"GET {path} HTTP/1.1\nHost: {name.format(port=port)}")
    assert status == 403
    assert b'"Host: expected localhost, found ' in answer
    assert b"content-security-policy" in answer.lower()


def test_a_refusal_says_which_option_lets_the_name_in(port: int) -> None:
    answer = ask(port, "GET / HTTP/1.1\nHost: lab.example:80")[1]
    assert answer.endswith(
        b"""{"error":"Host: expected localhost, found 'lab.example:80'; """
        b"""headwise serve --allow-host lab.example lets it in"}"""
    )
    foreign = "HTTP/1.1\nHost: localhost\nOrigin: https://lab.example:8443"
    assert b"serve --allow-host lab.example lets" in ask(port, f"POST /api/trace {foreign}")[1]  # behind a proxy
    assert b"serve --allow-origin https://lab.example:8443 lets" in ask(port, f"POST /translate {foreign}")[1]


def test_without_a_host_or_with_two_there_is_no_answer(port: int) -> None:
    assert ask(port, "GET /api/runs HTTP/1.0")[0] == 403
    assert ask(port, "GET /api/runs HTTP/1.1\nHost: localhost")[0] == 200
    assert ask(port, "GET /api/runs HTTP/1.0\nOrigin: localhost")[0] == 403  # though a Host may be that
    assert ask(port, "GET /api/runs HTTP/1.1")[0] == 400
    assert ask(port, "GET /api/runs HTTP/1.1\nHost: localhost\nHost: localhost")[0] == 400
    # An absolute-form target overrides Host (RFC 9112, 3.2.2); no route matches it.
    assert ask(port, "GET http://evil.example/api/runs HTTP/1.1\nHost: localhost")[0] == 404


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ("Origin: http://localhost:{port}", 200),
        ("Origin: http://127.0.0.1:9", 200),
        ("Origin: HTTPS://[::1]", 200),
        ("Origin: null", 403),
        ("Origin: http://evil.example", 403),
        ("Origin: http://localhost.evil.example:{port}", 403),
        ("Origin: http://localhost@evil.example", 403),
        ("Origin: http://192.168.1.5", 403),
        ("Origin: file://localhost", 403),
        ("Origin: chrome-extension://localhost", 403),
        ("Origin: localhost", 403),
        ("Origin:", 403),
        ("Origin: http://localhost\nOrigin: http://evil.example", 403),
        ("Sec-Fetch-Site: same-origin", 200),
        ("Sec-Fetch-Site: none\nSec-Fetch-Mode: navigate", 200),
        ("Sec-Fetch-Site: cross-site\nSec-Fetch-Mode: no-cors", 403),
        ("Sec-Fetch-Site: cross-site\nSec-Fetch-Mode: navigate", 403),
    ],
)
def test_who_may_drive_it(port: int, lines: str, status: int) -> None:
    request = f"GET /api/runs HTTP/1.1\nHost: localhost:{port}\n{lines.format(port=port)}"
    assert ask(port, request)[0] == status


def test_a_link_elsewhere_leads_to_the_page_and_its_files_are_not_another_pages(port: int) -> None:
    head = "HTTP/1.1\nHost: localhost\nSec-Fetch-Site: cross-site\nSec-Fetch-Mode:"
    assert ask(port, f"GET / {head} navigate")[0] == 200
    assert ask(port, f"POST / {head} navigate")[0] == 403
    assert ask(port, f"GET /js/main.js {head} no-cors")[0] == 403
    assert b"cross-origin-resource-policy: same-origin" in ask(port, "GET / HTTP/1.1\nHost: localhost")[1]


def refused(hosts: Hosts, host: str, **headers: str) -> bool:
    return hosts.refusal(Headers({"host": host, **headers}), page=False) is not None


def test_the_bound_host_is_known_by_name_and_by_address() -> None:
    hosts = Hosts("Lab.Example", address="192.168.1.5")
    assert not refused(hosts, "lab.example:8080")
    assert not refused(hosts, "192.168.1.5")
    assert not refused(hosts, "localhost")
    assert refused(hosts, "192.168.1.6")
    assert not refused(Hosts("fe80::1%eth0"), "[FE80::1]:8080")


@pytest.mark.parametrize("bound", ["0.0.0.0", "::"])
def test_where_every_address_is_bound_addresses_are_known_and_names_are_not(bound: str) -> None:
    hosts = Hosts(bound, ["lab"])
    assert not refused(hosts, "192.168.1.5:8080")
    assert not refused(hosts, "[2001:db8::1]")
    assert not refused(hosts, "lab:8080")
    assert refused(hosts, "evil.example")
    # A page from a numeric address is foreign, unless that address is the host of the request.
    assert refused(hosts, "192.168.1.5", origin="http://203.0.113.9")
    assert refused(hosts, "localhost", origin="http://203.0.113.9")
    assert not refused(hosts, "192.168.1.5:8080", origin="http://192.168.1.5:8080")


def test_allowing_every_address_by_name_opens_nothing_else() -> None:
    assert refused(Hosts("127.0.0.1", ["0.0.0.0"]), "192.168.1.5")


@pytest.mark.parametrize(
    ("allowed", "host"),
    [
        ("Lab.Example", "lab.example:443"),
        ("[2001:DB8::1]", "[2001:db8:0::1]"),
        ("2001:db8::1", "[2001:db8::1]:80"),
    ],
)
def test_more_names_can_be_allowed(allowed: str, host: str) -> None:
    assert refused(Hosts(), host)
    assert not refused(Hosts(allowed=[allowed]), host)
    assert not refused(Hosts(allowed=[allowed]), "localhost", origin=f"https://{host}")


@pytest.mark.parametrize("wrong", ["", "*", "http://lab", "lab:8080", "a b", "-", "lab/", "lab,other", "ü.example"])
def test_what_is_no_name_is_refused(wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match="--allow-host: expected a name or an address"):
        Hosts(allowed=[wrong])


@given(st.one_of(st.text(max_size=30), st.from_regex(r"[a-z0-9.\[\]:@%-]{0,20}", fullmatch=True)))
def test_whatever_is_asked_for_is_ours_or_refused(written: str) -> None:
    """A host read as a loopback name is one as well when the standard library parses it in a URL."""
    from urllib.parse import urlsplit

    host = parse_authority(written)
    if host is None or not Hosts().known(host):
        return
    read = urlsplit(f"http://{written.strip()}/").hostname
    assert read is not None
    assert read.removesuffix(".") == "localhost" or parse_authority(f"[{read}]" if ":" in read else read) == host
