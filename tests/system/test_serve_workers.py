"""A server of several processes: the same answers whichever of them a request reaches, and no request is lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs pip install 'headwise[serve]'")
if not Path("/proc/self/smaps_rollup").exists():
    pytest.skip("needs Linux", allow_module_level=True)

import httpx
from prometheus_client.parser import text_string_to_metric_families

from headwise.engine.translator import Translator
from headwise.serve.protocols.keys import KeyStore
from program import press_ctrl_c, start
from translation_server import make_pair
from translator_run import ENGLISH
from waiting import until

PAIR = {"source": "en", "target": "de"}
HTML = "<p>A <b>man</b> rides a horse.</p>"


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    threads = Path(f"/proc/{process.pid}/task").glob("*/children")
    return sorted(int(pid) for children in threads for pid in children.read_text().split())


@dataclass
class Served:
    """A running server; `said` is its standard error so far."""

    process: subprocess.Popen[str]
    address: str
    keys: dict[str, str] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    out: list[str] = field(default_factory=list)

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.said if line.startswith("{")]

    def sentences(self) -> list[str]:
        return [line.strip() for line in self.said if line.startswith("headwise: ")]

    def workers(self) -> list[int]:
        """The process ids of the workers."""
        return workers_of(self.process)

    def process_of(self, answer: httpx.Response) -> int:
        """The process that gave an answer, as the log says."""
        identifier = answer.headers["x-request-id"]
        found: list[int] = []

        def logged() -> bool:
            found.extend(entry["process"] for entry in self.log() if entry["request"] == identifier)
            return bool(found)

        until(logged)
        return found[0]

    def client(self, key: str = "alice") -> httpx.Client:
        return httpx.Client(base_url=self.address, headers={"Authorization": f"Bearer {self.keys[key]}"}, timeout=60)

    def everywhere(self, ask: Callable[[httpx.Client], httpx.Response]) -> dict[int, httpx.Response]:
        """Ask over new connections until each of two workers has answered; return the last answer of each."""
        found: dict[int, httpx.Response] = {}

        def once(_: int) -> httpx.Response:
            with self.client() as client:
                return ask(client)

        for _ in range(100):
            with ThreadPoolExecutor(4) as pool:
                for answer in pool.map(once, range(4)):
                    found[self.process_of(answer)] = answer
            if len(found) == 2:
                return found
        raise AssertionError(f"only {set(found)} answered")


@contextmanager
def serving(run: Path, keys: Path, *options: object, workers: int = 2) -> Iterator[Served]:
    """Serve a run."""
    store = KeyStore(keys, create=True)
    secrets = {"alice": store.add("alice"), "bob": store.add("bob", requests_per_minute=6)}
    store.close()
    process = start("serve", run, "--port", 0, "--workers", workers, "--api-keys", keys, "--log", *options)
    served = Served(process, "", secrets)
    assert process.stdout is not None
    assert process.stderr is not None
    reading = [
        threading.Thread(target=lines.extend, args=(stream,), daemon=True)
        for lines, stream in ((served.said, process.stderr), (served.out, process.stdout))
    ]
    for thread in reading:
        thread.start()
    try:
        until(lambda: served.out or process.poll() is not None)
        assert served.out, served.said
        served.address = served.out[0].split()[3].rstrip("/")
        if workers > 1:  # the address is said before they take requests
            served.everywhere(lambda client: client.get("/readyz"))
        yield served
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(60)
        for thread in reading:
            thread.join(60)
        process.stdout.close()
        process.stderr.close()


BIG = {"d_model": 256, "d_ff": 4096, "heads": 4}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose weights have 40 MB, about as much as a process needs besides."""
    return make_pair(tmp_path_factory.mktemp("runs"), "en", "de", **BIG)


@pytest.fixture(scope="module")
def served(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    shutil.copytree(run, folder / "en-de")
    options = ("--limit-queue", 200, "--limit-seconds", 600, "--glossaries", folder / "glossaries.db")
    with serving(folder / "en-de", folder / "keys.db", *options) as served:
        yield served


def metric(answer: httpx.Response, name: str, **labels: str) -> float:
    """The sum of a metric's samples with some labels."""
    families = text_string_to_metric_families(answer.raise_for_status().text)
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    return sum(one.value for one in samples if labels.items() <= one.labels.items())


def test_the_workers_share_the_weights(served: Served, run: Path) -> None:
    marked = {"texts": [HTML], **PAIR, "format": "html"}  # the native engine and PyTorch, which places tags
    workers = served.everywhere(lambda client: client.post("/v1/translate", json=marked))
    # Packed, in PyTorch for the page, and in PyTorch for what reads attention.
    weights = (run / "model.safetensors").stat().st_size
    for pid in workers:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
        sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}
        assert sizes["Shared_Clean"] + sizes["Shared_Dirty"] > 3 * weights
        assert sizes["Private_Clean"] + sizes["Private_Dirty"] < 2 * weights


def test_every_worker_gives_the_translations_of_the_run(served: Served, run: Path) -> None:
    fields = {"texts": ENGLISH, **PAIR, "guard": False, "scores": True, "n_best": 3}
    marked = {"texts": [HTML], **PAIR, "format": "html"}
    answers = served.everywhere(lambda client: client.post("/v1/translate", json=fields))
    expected = Translator.load(run, device="cpu").translate(ENGLISH, n_best=3)
    for answer in answers.values():
        for found, ours in zip(answer.json()["translations"], expected, strict=True):
            (sentence,) = found["sentences"]
            assert [one["text"] for one in sentence["outputs"]] == [one.text for one in ours.outputs]
    # The last two are computed by PyTorch, with threads of its own.
    traced = {"run": "en-de", "text": ENGLISH[0]}
    of_pytorch = [
        served.everywhere(lambda client: client.post("/v1/translate", json=marked)),
        served.everywhere(lambda client: client.post("/api/trace", json=traced)),
    ]
    for found in (answers, *of_pytorch):
        one, other = (answer.json() for answer in found.values())
        assert one == other
        assert "error" not in one


def test_documents_glossaries_and_counts_belong_to_all_workers(served: Served) -> None:
    key = {"Authorization": f"DeepL-Auth-Key {served.keys['alice']}"}
    upload = {"file": ("a.txt", "Two dogs are playing in the snow.\n")}
    with served.client() as client:
        fields = {"source_lang": "EN", "target_lang": "DE"}
        sent = client.post("/v2/document", headers=key, data=fields, files=upload).json()
        path, fields = f"/v2/document/{sent['document_id']}", {"document_key": sent["document_key"]}

        def status(client: httpx.Client) -> httpx.Response:
            return client.post(path, headers=key, json=fields)

        until(lambda: status(client).json()["status"] == "done")
        assert {answer.json()["status"] for answer in served.everywhere(status).values()} == {"done"}
        fetched = client.post(f"{path}/result", headers=key, json=fields)
        assert fetched.status_code == 200
        assert {answer.status_code for answer in served.everywhere(status).values()} == {404}

        data = PAIR | {"api_key": served.keys["alice"]}
        address = client.post("/translate_file", data=data, files=upload).json()["translatedFileUrl"]
        contents = {one.content for one in served.everywhere(lambda client: client.get(address)).values()}
        assert contents == {fetched.content}

        dictionary = {
            "source_lang": "en",
            "target_lang": "de",
            "entries_format": "tsv",
            "entries": "dog\tHund",
        }
        named = {"name": "g", "dictionaries": [dictionary]}
        made = client.post("/v3/glossaries", headers=key, json=named).json()
        lists = served.everywhere(lambda client: client.get("/v3/glossaries", headers=key))
        assert [one.json()["glossaries"] for one in lists.values()] == [[made]] * 2

    counts = served.everywhere(lambda client: client.get("/metrics"))
    for answer in counts.values():
        assert metric(answer, "headwise_requests_total", route="/v2/document") == 1
        assert metric(answer, "headwise_requests_total", route="/v2/document/{identifier}/result") == 1
        assert metric(answer, "headwise_workers") == 2


def test_a_keys_rate_is_that_of_all_workers(served: Served) -> None:
    bob = {"Authorization": f"Bearer {served.keys['bob']}"}

    def ask(client: httpx.Client) -> httpx.Response:
        return client.post("/v1/translate", headers=bob, json={"texts": ["A dog."], **PAIR})

    with ThreadPoolExecutor(4) as pool, served.client() as client:
        answers = list(pool.map(lambda _: ask(client), range(12)))
    assert sorted(answer.status_code for answer in answers) == [200] * 6 + [429] * 6
    for answer in served.everywhere(ask).values():
        assert answer.status_code == 429
        assert 0 < int(answer.headers["retry-after"]) <= 60


@pytest.mark.slow
def test_the_queue_is_bounded_for_all_workers_together(served: Served) -> None:
    many = {"texts": [" ".join(ENGLISH)] * 50, **PAIR, "guard": False}  # 300 sentences, as nothing else waits
    few = {"texts": ["A dog."], **PAIR}
    refused: list[httpx.Response] = []
    with served.client() as client, ThreadPoolExecutor(1) as pool:

        def ask_many() -> httpx.Response:
            while True:  # a short request that comes first fills the queue
                answer = client.post("/v1/translate", json=many)
                if answer.status_code != 429:
                    return answer

        busy = pool.submit(ask_many)
        while not busy.done():
            with served.client() as another:
                answer = another.post("/v1/translate", json=few)
            refused += [answer] if answer.status_code == 429 else []
        assert busy.result().status_code == 200
        assert client.post("/v1/translate", json=few).status_code == 200
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
    assert {served.process_of(answer) for answer in refused} - {served.process_of(busy.result())}


class Load:
    """Clients that keep asking, each request over a connection of its own or over one that is kept."""

    def __init__(self, served: Served, clients: int = 4) -> None:
        self.answers: list[httpx.Response] = []
        self.errors: list[str] = []
        self._served, self._stop = served, threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(n % 2 == 0,)) for n in range(clients)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        until(lambda: len(self.answers) > 10)
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, keeps: bool) -> None:
        fields = {"texts": ENGLISH[:2], **PAIR, "guard": False}
        with self._served.client() as kept:
            while not self._stop.is_set():
                headers = {} if keeps else {"Connection": "close"}
                try:
                    self.answers.append(kept.post("/v1/translate", json=fields, headers=headers))
                except httpx.HTTPError as error:
                    self.errors.append(repr(error))

    def settled(self, more: int = 20) -> None:
        """Wait until some more answers have come."""
        count = len(self.answers)
        until(lambda: len(self.answers) >= count + more)


def test_a_killed_worker_is_replaced(served: Served) -> None:
    killed, other = served.workers()
    os.kill(killed, signal.SIGKILL)
    until(lambda: len(served.workers()) == 2 and killed not in served.workers())
    with Load(served) as load:
        load.settled()
    assert load.errors == []
    assert {answer.status_code for answer in load.answers} == {200}
    said = f"headwise: worker {killed} was ended by signal 9; another one takes its place"
    assert said in served.sentences()
    assert other in served.workers()
    assert set(served.everywhere(lambda client: client.get("/readyz"))) == set(served.workers())


def test_a_changed_run_is_loaded_by_all_workers_and_no_request_fails(served: Served, run: Path, tmp_path: Path) -> None:
    changed = make_pair(tmp_path, "en", "de", seed=1, **BIG)
    texts = [
        [each.text for each in Translator.load(path, device="cpu").translate(ENGLISH[:2])] for path in (run, changed)
    ]
    before = served.workers()
    place = Path(served.process.args[4])  # type: ignore[index]
    with Load(served) as load:
        os.replace(changed / "model.safetensors", place / "model.safetensors")
        said = f"headwise: {place}: has changed, and was loaded again"
        until(lambda: said in served.sentences())
        load.settled()
        until(lambda: not set(before) & set(served.workers()))
        load.settled()
    assert load.errors == []
    assert {answer.status_code for answer in load.answers} == {200}
    found = [[each["text"] for each in answer.json()["translations"]] for answer in load.answers]
    assert found[0] == texts[0]
    assert found[-20:] == [texts[1]] * 20
    assert all(each in texts for each in found)


@pytest.mark.slow
def test_a_damaged_model_of_a_run_in_training_stops_nothing_else(run: Path, tmp_path: Path) -> None:
    other = make_pair(tmp_path, "de", "fr")
    place = other / "model.safetensors"
    whole = place.rename(tmp_path / "whole")
    with serving(run, tmp_path / "keys.db", other) as served:
        place.write_bytes(b"damaged")
        until(lambda: any("because of an error: " in line for line in served.sentences()))
        killed = served.workers()[0]
        os.kill(killed, signal.SIGKILL)
        until(lambda: len(served.workers()) == 2 and killed not in served.workers())
        served.everywhere(lambda client: client.get("/readyz"))
        before = served.workers()
        whole.replace(place)
        until(lambda: f"headwise: {other}: has changed, and was loaded again" in served.sentences())
        until(lambda: not set(before) & set(served.workers()))
        fields = {"texts": ["Ein Hund."], "source": "de", "target": "fr"}
        with served.client() as client:
            assert client.post("/v1/translate", json=fields).status_code == 200
    assert "Traceback" not in "".join(served.said)


def test_hangup_loads_the_runs_at_once_and_no_request_fails(served: Served) -> None:
    before = served.workers()
    place = Path(served.process.args[4])  # type: ignore[index]
    with Load(served) as load:
        served.process.send_signal(signal.SIGHUP)
        until(lambda: f"headwise: {place}: was loaded again" in served.sentences())
        until(lambda: not set(before) & set(served.workers()))
        load.settled()
    assert load.errors == []
    assert {answer.status_code for answer in load.answers} == {200}


def test_hangup_of_a_server_of_one_process(run: Path, tmp_path: Path) -> None:
    with serving(run, tmp_path / "keys.db", workers=1) as served, Load(served, 2) as load:
        said = f"headwise: {run}: was loaded again"
        for times in (1, 2):
            served.process.send_signal(signal.SIGHUP)
            until(lambda times=times: served.sentences().count(said) == times)
        load.settled()
    assert load.errors == []
    assert {answer.status_code for answer in load.answers} == {200}


def metrics_folders(worker: int) -> set[Path]:
    """The folder where a worker counts its requests; empty before it has begun to."""
    files = (Path(line.split()[-1]) for line in Path(f"/proc/{worker}/maps").read_text().splitlines())
    return {file.parent for file in files if file.match("gauge_livesum_*.db")}


def kill_and_terminate_workers(process: subprocess.Popen[str]) -> None:
    """What a service manager does where the process that it started is killed, for want of memory for example."""
    workers = workers_of(process)
    process.kill()
    process.wait(60)
    for pid in workers:
        os.kill(pid, signal.SIGTERM)


@pytest.mark.parametrize(
    "ends",
    [
        subprocess.Popen.terminate,
        pytest.param(press_ctrl_c, marks=pytest.mark.slow),
        pytest.param(subprocess.Popen.kill, marks=pytest.mark.slow),
        pytest.param(kill_and_terminate_workers, marks=pytest.mark.slow),
    ],
)
def test_what_was_accepted_is_finished_at_the_end(
    ends: Callable[[subprocess.Popen[str]], None], run: Path, tmp_path: Path
) -> None:
    """Also where the parent is killed, which its workers see."""
    began = threading.Barrier(5)

    def stream(served: Served) -> list[str]:
        fields = {"text": " ".join(ENGLISH * 5), **PAIR, "guard": False}
        with served.client() as client, client.stream("POST", "/v1/translate/stream", json=fields) as answer:
            lines = answer.iter_lines()
            events = [next(lines)]
            began.wait(60)
            return [*events, *lines]

    with serving(run, tmp_path / "keys.db", "--limit-seconds", 300) as served:
        workers = served.workers()
        until(lambda: all(metrics_folders(pid) for pid in workers))
        (folder,) = set.union(*map(metrics_folders, workers))
        with ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(stream, served) for _ in range(4)]
            began.wait(60)
            ends(served.process)
            for each in asked:
                lines = each.result()
                assert sum(line == "event: sentence" for line in lines) == 30
                assert "event: end" in lines
        code = served.process.wait(60)
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
    assert code == {subprocess.Popen.terminate: 0, press_ctrl_c: 130}.get(ends, -signal.SIGKILL)
    assert "Traceback" not in "".join(served.said)
    assert not folder.exists()
