"""Text in object stores: servers of moto (S3), gcp-storage-emulator (GCS) and a hub in miniature, on this machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from program import headwise, snapshot
from toy import toy_pairs

pytestmark = pytest.mark.cluster
BUCKET = "bucket"
REPOSITORY = "someone/pairs"
_NO_GRPC = {"GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false"}  # the emulator has no control plane


@dataclass
class Store:
    """A store of files: the URL of its root, what a process needs in its environment, and a function that adds one."""

    root: str
    environment: dict[str, str]
    put: Callable[[str, bytes], object]


@pytest.fixture
def s3() -> Iterator[Store]:
    pytest.importorskip("s3fs", reason="s3fs isn't installed (the extra s3)")
    moto = pytest.importorskip("moto.server", reason="moto isn't installed")
    import boto3

    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
    endpoint = f"http://{host}:{port}"
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id="test",
        aws_secret_access_key="test",
        region_name="us-east-1",
    )
    client.create_bucket(Bucket=BUCKET)
    yield Store(
        f"s3://{BUCKET}",
        {**keys, "AWS_ENDPOINT_URL": endpoint},
        lambda name, data: client.put_object(Bucket=BUCKET, Key=name, Body=data),
    )
    server.stop()


@pytest.fixture
def gs() -> Iterator[Store]:
    pytest.importorskip("gcsfs", reason="gcsfs isn't installed (the extra gs)")
    emulator = pytest.importorskip("gcp_storage_emulator.server", reason="gcp-storage-emulator isn't installed")
    import httpx

    server = emulator.create_server("127.0.0.1", 0, in_memory=True, default_bucket=BUCKET)
    server.start()
    endpoint = f"http://127.0.0.1:{server._api._httpd.server_port}"

    def put(name: str, data: bytes) -> None:
        url = f"{endpoint}/upload/storage/v1/b/{BUCKET}/o"
        httpx.post(
            url,
            params={"uploadType": "media", "name": name},
            content=data,
            headers={"Content-Type": "text/plain"},
        ).raise_for_status()

    yield Store(f"gs://{BUCKET}", {"STORAGE_EMULATOR_HOST": endpoint, "FSSPEC_GCS_TOKEN": "anon", **_NO_GRPC}, put)
    server.stop()


@dataclass
class Hub:
    """The files of one data set, with the answers of the Hugging Face Hub that `huggingface_hub` asks for."""

    files: dict[str, bytes] = field(default_factory=dict)

    def entries(self) -> list[dict[str, object]]:
        folders = {str(Path(name).parent) for name in self.files} - {"."}
        return [
            *({"type": "directory", "path": name, "oid": "0"} for name in sorted(folders)),
            *({"type": "file", "path": name, "size": len(data), "oid": "0"} for name, data in self.files.items()),
        ]

    def answer(self, path: str, body: bytes) -> object | None:
        """Return JSON, the bytes of a file, or None if there is no such thing."""
        api = f"/api/datasets/{REPOSITORY}"
        if path == api or path.startswith(f"{api}/revision/"):
            siblings = [{"rfilename": name} for name in self.files]
            return {"id": REPOSITORY, "sha": "0" * 40, "siblings": siblings, "private": False, "tags": []}
        if path.startswith(f"{api}/tree/"):
            folder = path.removeprefix(f"{api}/tree/").partition("/")[2]
            inside = f"{folder}/" if folder else ""
            return [entry for entry in self.entries() if str(entry["path"]).startswith(inside)]
        if path.startswith(f"{api}/paths-info/"):
            wanted = {name.rstrip("/") for name in json.loads(body)["paths"]}
            return [entry for entry in self.entries() if entry["path"] in wanted]
        return self.files.get(path.rpartition("/resolve/")[2].partition("/")[2])


@pytest.fixture
def hf() -> Iterator[Store]:
    pytest.importorskip("huggingface_hub", reason="huggingface_hub isn't installed (the extra huggingface)")
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            found = hub.answer(unquote(urlsplit(self.path).path), body)
            content = found if isinstance(found, bytes) else json.dumps(found).encode()
            whole = len(content)
            if ranged := self.headers.get("Range"):
                first, _, last = ranged.removeprefix("bytes=").partition("-")
                content = content[int(first) : int(last or whole) + 1]
            self.send_response(404 if found is None else 206 if ranged else 200)
            self.send_header("Content-Length", str(len(content)))
            if ranged:
                self.send_header("Content-Range", f"bytes {first}-{int(first) + len(content) - 1}/{whole}")
            self.send_header("ETag", '"tag"')
            self.send_header("X-Repo-Commit", "0" * 40)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_POST = do_HEAD = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{server.server_port}"
        yield Store(f"hf://datasets/{REPOSITORY}", {"HF_ENDPOINT": endpoint}, hub.files.__setitem__)
        server.shutdown()


@pytest.fixture(params=["s3", "gs", "hf"])
def store(request: pytest.FixtureRequest) -> Store:
    return request.getfixturevalue(request.param)


def test_a_corpus_in_a_store_becomes_the_same_shards(store: Store, tmp_path: Path) -> None:
    pairs = toy_pairs(200, seed=5)
    halves = {"pairs/a.jsonl": pairs[:120], "pairs/b.jsonl": pairs[120:]}
    local = tmp_path / "local"
    for name, part in halves.items():
        text = "".join(f"{json.dumps({'translation': {'en': s, 'de': t}})}\n" for s, t in part)
        store.put(name, text.encode())
        (local / name).parent.mkdir(parents=True, exist_ok=True)
        (local / name).write_text(text)
    store.put("pairs/README.md", b"no pairs")
    fields = ("--source-field", "translation.en", "--target-field", "translation.de")
    command = ("data", "prepare", *fields, "--subwords", 48, "--shard-pairs", 64, "--dev-pairs", 10)
    for folder, place in (("here", local / "pairs"), ("there", f"{store.root}/pairs/")):
        headwise(*command, "--source", place, "-o", tmp_path / folder, **store.environment).ok()
    here, there = (
        {Path(name).name: data for name, data in snapshot(tmp_path / folder).items() if "shard" in name}
        for folder in ("here", "there")
    )
    assert here
    assert here == there


def test_a_file_that_a_store_lacks_is_one_sentence(store: Store, tmp_path: Path) -> None:
    store.put("other.tsv", b"a\tb\n")
    url = f"{store.root}/missing.tsv"
    outcome = headwise("data", "prepare", "--source", url, "-o", tmp_path / "out", **store.environment)
    assert outcome.code == 2
    assert outcome.error == f"{url}: there is no such file"
