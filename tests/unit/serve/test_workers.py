"""What several serving processes share: here several connections and places of one process."""

from __future__ import annotations

import asyncio
import copy
import errno
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs pip install 'headwise[serve]'")

import torch
from prometheus_client import values
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from headwise.errors import ConfigError, HeadwiseError
from headwise.serve.protocols import keys
from headwise.serve.protocols.keys import Rates
from headwise.serve.protocols.observation import Metrics
from headwise.serve.shared import Shared
from headwise.serve.translation import document_store
from headwise.serve.translation.document_store import DocumentStore
from headwise.serve.translation.models import ServedModels
from headwise.serve.translation.service import Service
from headwise.serve.translation.shared_load import SharedLoad
from headwise.serve.workers import supervisor, worker
from headwise.web.errors import ServiceError
from headwise.web.server import listen, server


@pytest.fixture
def shared() -> Iterator[Shared]:
    made = Shared.create(3)
    yield made
    made.remove()
    assert made.folder is not None
    assert not made.folder.exists()


def test_the_queue_is_that_of_all_places(shared: Shared) -> None:
    one, other = copy.copy(shared.load), copy.copy(shared.load)  # the same memory, as after a fork
    one.use(1)
    other.use(2)
    assert one.accept(9, 10)
    assert not other.accept(2, 10)
    assert other.accept(1, 10)
    assert (one.own, other.own, one.accepted, other.accepted) == (9, 1, 10, 10)
    one.finish(9)
    assert not one.accept(10, 10)
    other.estimate(2.5)
    assert one.seconds_waiting == 2.5
    shared.forget(2)
    assert (one.accepted, one.seconds_waiting) == (0, 0.0)
    assert one.accept(11, 10)  # as nothing else waits


def test_a_load_of_one_place_needs_no_lock() -> None:
    load = SharedLoad()
    assert load.accept(3, 2)
    assert not load.accept(1, 2)
    load.finish(3)
    assert load.accepted == 0


def test_a_rate_is_kept_by_any_number_of_connections(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.0
    monkeypatch.setattr(keys.time, "monotonic", lambda: now)
    stores = [Rates(shared.database) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        waits = list(pool.map(lambda number: stores[number % 4].seconds_until_allowed("a", 50), range(80)))
    assert sorted(waits) == [0] * 50 + [60] * 30
    assert stores[0].seconds_until_allowed("b", 1) == 0  # another key
    assert stores[1].seconds_until_allowed("a", 51) == 0  # the key's rate was changed
    now += 59.5
    assert stores[2].seconds_until_allowed("a", 50) == 1
    now += 0.5
    assert stores[3].seconds_until_allowed("a", 50) == 0
    for store in stores:
        store.close()


def test_a_document_that_took_long_is_kept_after_it_was_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.0
    monkeypatch.setattr(document_store.time, "monotonic", lambda: now)
    store = DocumentStore()
    document = store.add("a.txt", 5, 50, most=1, most_bytes=100)
    now += 700
    store.interrupt()
    store.remove_old(600)
    assert store.find(document.identifier, document.key).error == "the translation was interrupted"
    now += 601
    store.remove_old(600)
    with pytest.raises(ServiceError):
        store.find(document.identifier, document.key)
    store.close()


def test_documents_are_found_by_all_and_end_with_their_worker(shared: Shared) -> None:
    one, other = DocumentStore(shared.database, 1), DocumentStore(shared.database, 2)
    first = one.add("a.txt", 5, 50, most=2, most_bytes=100)
    second = one.add("b.txt", 6, 40, most=2, most_bytes=100)
    for size, most in ((10, 2), (11, 3)):  # a third one, and one of too many bytes
        with pytest.raises(ServiceError) as caught:
            other.add("c.txt", 7, size, most=most, most_bytes=100)
        assert (caught.value.status, caught.value.retry_after) == (429, 10)
    assert other.find(first.identifier, first.key) == first
    with pytest.raises(ServiceError) as caught:
        other.find(first.identifier, second.key)
    assert caught.value.status == 404
    other.remove_old(0.0)  # nothing is finished
    one.finish(first, b"text")
    other.remove_old(60.0)
    other.interrupt()  # has no documents
    assert other.find(second.identifier, second.key).status == "translating"
    shared.forget(1)
    assert other.find(first.identifier, first.key).content == b"text"
    failed = other.find(second.identifier, second.key)
    assert (failed.status, failed.error) == ("error", "the translation was interrupted")
    other.remove_old(0.0)
    with pytest.raises(ServiceError):
        one.find(first.identifier, first.key)
    one.close()
    other.close()


def test_documents_leave_room_for_the_metrics(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    def usage(folder: Path) -> SimpleNamespace:  # of a file system of 32 MiB
        return SimpleNamespace(free=2**25 - sum(file.stat().st_size for file in folder.iterdir()))

    monkeypatch.setattr(document_store.shutil, "disk_usage", usage)
    store, bounds, size = DocumentStore(shared.database, 1), {"most": 9, "most_bytes": 2**30}, 6 * 2**20
    first, second = (store.add(name, 5, size, **bounds) for name in ("a.txt", "b.txt"))
    store.finish(first, bytes(size))
    for keep in (lambda: store.finish(second, bytes(size)), lambda: store.add("c.txt", 5, size, **bounds)):
        with pytest.raises(ServiceError) as caught:
            keep()
        assert (caught.value.status, caught.value.retry_after) == (503, 10)
    assert usage(shared.folder).free > 2**24
    store.remove(first.identifier)
    store.finish(second, bytes(size))
    assert store.find(second.identifier, second.key).content == bytes(size)
    store.close()


def test_metrics_are_summed_and_a_place_keeps_its_counts(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "ValueClass", values.ValueClass)  # restores it
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "")
    service = Service(ServedModels([]))

    def read(metrics: Metrics, name: str) -> float:
        families = text_string_to_metric_families(metrics.text().decode())
        return sum(sample.value for family in families for sample in family.samples if sample.name == name)

    service.pieces_kept = 4
    one = Metrics(service, shared.folder, 1)
    one.count("libretranslate", "/translate", 200, 0.1, 10)
    one.update()
    other = Metrics(service, shared.folder, 2)
    other.count("libretranslate", "/translate", 200, 0.2, 20)
    other.update()
    for metrics in (one, other):
        assert read(metrics, "headwise_requests_total") == 2
        assert read(metrics, "headwise_request_seconds_sum") == pytest.approx(0.3)
        assert read(metrics, "headwise_characters_total") == 30
        assert read(metrics, "headwise_protected_pieces_total") == 8
        assert read(metrics, "headwise_workers") == 2
    shared.forget(2)
    assert read(one, "headwise_requests_total") == 2
    assert read(one, "headwise_workers") == 1  # the other is gone, what it counted is not
    service.pieces_kept = 0
    again = Metrics(service, shared.folder, 2)
    again.count("libretranslate", "/translate", 200, 0.1, 10)
    assert read(again, "headwise_requests_total") == 3
    assert read(again, "headwise_protected_pieces_total") == 8
    assert read(again, "headwise_workers") == 2


def test_counts_are_added_once_whoever_reads_the_metrics_at_the_same_time() -> None:
    class Counts:
        models, accepted, pieces_repaired = ServedModels([]), 0, 0
        numbers = iter((1, 2, 2))

        @property
        def pieces_kept(self) -> int:
            number = next(self.numbers)
            if number == 1:
                asked.set()
                time.sleep(0.3)  # another thread reads a later number meanwhile
            return number

    asked = threading.Event()
    service: Any = Counts()
    metrics = Metrics(service)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(metrics.update)
        assert asked.wait(60)
        metrics.update()
        first.result()
    assert b'headwise_protected_pieces_total{outcome="kept"} 2.0' in metrics.text()


def test_a_parent_needs_fork_and_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = torch.get_num_threads()
    try:
        assert supervisor.prepare_parent(1_000, "cpu") == 1
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(threads)
    monkeypatch.setattr(supervisor, "device_kind", lambda name: "cuda")
    with pytest.raises(ConfigError, match=r"expected 1 for models on cuda, .* found 2; --device cpu uses"):
        supervisor.prepare_parent(2, "auto")
    monkeypatch.delattr(supervisor.os, "fork")
    with pytest.raises(ConfigError, match="expected 1 on this system"):
        supervisor.prepare_parent(2, "cpu")


def test_a_worker_that_cannot_be_forked_is_tried_again(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_process() -> int:
        forks.append(1)
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    forks: list[int] = []
    said: list[str] = []
    served: Any = SimpleNamespace(runs={})
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    monkeypatch.setattr(supervisor.os, "fork", no_process)
    monkeypatch.setattr(supervisor.threading, "active_count", lambda: 1)
    supervising: Any = supervisor.Supervisor(served, shared, 2, said.append, 1.0)
    with pytest.raises(HeadwiseError, match=r"^serve: no worker could be started \(Resource temporarily"):
        supervising._start_missing()
    supervising._workers.append(SimpleNamespace(place=0, generation=0))  # one that is still there
    for _ in range(3):
        supervising._start_missing()
    assert len(forks) == 2  # then there is a pause
    assert said == ["a worker couldn't be started (Resource temporarily unavailable); it is tried again"]
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == blocked
    supervising._waker.close()
    supervising._woken.close()


def test_a_server_that_has_served_replaces_workers_that_die_together(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    ended: set[int] = set()
    monkeypatch.setattr(supervisor.os, "waitpid", lambda pid, options: (pid if pid in ended else 0, signal.SIGKILL))
    served: Any = SimpleNamespace(runs={})
    supervising: Any = supervisor.Supervisor(served, shared, 1, said.append, 1.0)

    def worker_dies(number: int, *, ready: bool) -> None:
        channel, other_end = socket.socketpair()
        supervising._workers.append(supervisor._Worker(number, 0, 0, channel, time.monotonic()))
        with other_end:
            if ready:
                other_end.send(worker.READY)
                supervising._wait()
            ended.add(number)
            supervising._collect_ended()

    with pytest.raises(HeadwiseError, match=r"^serve: a worker was ended by signal 9 before it took requests$"):
        worker_dies(1, ready=False)
    worker_dies(2, ready=True)
    worker_dies(3, ready=False)
    assert said == [f"worker {number} was ended by signal 9; another one takes its place" for number in (2, 3)]
    supervising._waker.close()
    supervising._woken.close()


IDLE: Any = SimpleNamespace(
    publish=lambda: None,
    documents=SimpleNamespace(translating=0),
    limits=SimpleNamespace(document_seconds=5, seconds=5),
)


def test_a_worker_whose_parent_has_left_before_it_is_ready_ends() -> None:
    parent, channel = socket.socketpair()
    parent.close()
    with listen("127.0.0.1", 0) as listener, channel:
        asyncio.run(worker.serve(server(Starlette()), listener, IDLE, channel))


@pytest.mark.parametrize("is_known_as_ready", [True, False])
def test_a_worker_that_ends_answers_a_connection_of_the_same_moment(is_known_as_ready: bool) -> None:
    app = Starlette(routes=[Route("/", lambda request: PlainTextResponse("answered"))])
    parent, channel = socket.socketpair()

    async def close_and_ask(listener: socket.socket) -> bytes:
        serving = asyncio.ensure_future(worker.serve(server(app), listener, IDLE, channel))
        await asyncio.to_thread(parent.recv, 1, socket.MSG_PEEK)  # it is ready, and waits
        if is_known_as_ready:
            parent.recv(1)
        # The event loop goes on when both have happened: the closed channel first, then the connection.
        parent.close()
        with socket.create_connection(listener.getsockname(), timeout=10) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            await serving
            return b"".join(iter(lambda: client.recv(4096), b""))

    with listen("127.0.0.1", 0) as listener, channel:
        answer = asyncio.run(close_and_ask(listener))
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"\r\n\r\nanswered")
