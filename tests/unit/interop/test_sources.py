from __future__ import annotations

import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from headwise.cli.main import run as headwise
from headwise.errors import CheckpointError, ConfigError
from headwise.interop.sources import locate

pytest.importorskip("huggingface_hub", reason="needs the extra 'huggingface'")

_COMMIT = "0123456789abcdef0123456789abcdef01234567"


def cached_repository(cache: Path) -> Path:
    """Write a repository of the Hub as `huggingface_hub` keeps it in its cache."""
    repository = cache / "models--owner--model"
    snapshot = repository / "snapshots" / _COMMIT
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    (repository / "refs").mkdir()
    for reference in ("main", "v1"):
        (repository / "refs" / reference).write_text(_COMMIT)
    return snapshot


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("name", ["owner/model", "owner/model@v1", f"owner/model@{_COMMIT}"])
def test_the_local_cache_needs_no_network(name: str, tmp_path: Path) -> None:
    snapshot = cached_repository(tmp_path)
    program = f"from headwise.interop.sources import locate\nprint(locate('hf:{name}'))"
    environment = os.environ | {"HF_HUB_CACHE": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == str(snapshot)


@pytest.mark.usefixtures("forked")
def test_what_is_not_there_gets_a_sentence(tmp_path: Path) -> None:
    program = "import sys\nfrom headwise.cli.main import run\nsys.exit(run(['import', 'hf:owner/model', '-o', 'run']))"
    environment = os.environ | {"HF_HUB_CACHE": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    result = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert result.returncode == 2
    assert "hf:owner/model: expected a connection to the Hub or a copy in the local cache" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.usefixtures("forked")
def test_a_proxy_that_refuses_gets_a_sentence(tmp_path: Path) -> None:
    program = "import sys\nfrom headwise.cli.main import run\nsys.exit(run(['import', 'hf:owner/model', '-o', 'run']))"

    class Refusing(BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            self.send_error(403)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        proxy = f"http://127.0.0.1:{server.server_port}"
        environment = {key: value for key, value in os.environ.items() if "proxy" not in key.lower()}
        environment |= {"HF_HUB_CACHE": str(tmp_path), "HF_HUB_OFFLINE": "0", "HTTPS_PROXY": proxy}
        environment["HF_ENDPOINT"] = "https://huggingface.co"
        command = [sys.executable, "-c", program]
        result = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path, check=False)
        server.shutdown()
    assert result.returncode == 2
    assert "hf:owner/model: can't be downloaded (403" in result.stderr


def test_what_is_at_the_new_run_is_found_before_a_download(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwise.interop.sources.locate", lambda _: pytest.fail("downloaded"))
    assert headwise(["import", "hf:owner/model", "-o", str(tmp_path)]) == 2
    assert f"{tmp_path}: expected a new directory's name, found something there" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name", ["hf:", "hf:model", "hf:a/b/c", "hf:../x/y", "hf:a/b@", "hf:ä/b", "hf:a/b--c", "hf:-a/b"]
)
def test_a_malformed_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="expected hf:OWNER/NAME"):
        locate(name)


def test_a_link_to_itself_is_no_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert headwise(["import", str(tmp_path), "-o", str(tmp_path / "run")]) == 2
    assert f"{tmp_path}: expected a model in one of the formats" in capsys.readouterr().err


def test_a_missing_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="expected a model's directory or file"):
        locate(str(tmp_path / "no"))
