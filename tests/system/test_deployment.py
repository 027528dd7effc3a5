"""The files in deploy/: each by its own tool, and the commands that they start."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs pip install 'headwise[serve]'")

import yaml

from headwise.web.hosts import Hosts
from headwise.web.server import listen
from program import environment, wait_for
from translation_server import make_pair, translating

DEPLOY = Path(__file__).parents[2] / "deploy"
CONTAINER = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
UNIT = (DEPLOY / "headwise.service").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "command",
    [
        "hadolint Containerfile",
        "check-jsonschema --builtin-schema vendor.compose-spec compose.yaml",
        "kubernetes-validate --strict kubernetes.yaml",
        "promtool check config prometheus/prometheus.yml",
        "promtool test rules prometheus/alerts_test.yml",
        "systemd-analyze verify --man=no headwise.service",
        "systemd-analyze security --offline=yes --threshold=20 headwise.service",
    ],
)
def test_its_own_tool_accepts_it(command: str, tmp_path: Path) -> None:
    name, *arguments = shlex.split(command)
    tool = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if tool is None:
        pytest.skip(f"needs {name}")
    folder = shutil.copytree(DEPLOY, tmp_path / "deploy")
    # The unit's program isn't installed here.
    unit = UNIT.replace("/opt/headwise/bin/headwise", shutil.which("true") or "/bin/true")
    (folder / "headwise.service").write_text(unit, encoding="utf-8")
    (tmp_path / "runs").mkdir()
    done = subprocess.run([tool, *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_metrics_that_are_watched_exist(tmp_path: Path) -> None:
    with translating([make_pair(tmp_path, "en", "de")]) as address:
        fields = json.dumps({"q": "A dog.", "source": "en", "target": "de"}).encode()
        request = urllib.request.Request(f"{address}/translate", fields, {"Content-Type": "application/json"})
        urllib.request.urlopen(request).read()
        metrics = urllib.request.urlopen(f"{address}/metrics").read().decode()
    known = set(re.findall(r"^(headwise_\w+)", metrics, re.MULTILINE))
    for name in ("prometheus/alerts.yml", "kubernetes.yaml"):
        named = set(re.findall(r"\bheadwise_\w+", (DEPLOY / name).read_text(encoding="utf-8")))
        assert named
        assert named <= known, name


def test_the_compose_file_mounts_files_that_exist() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]
    mounted = [volume.split(":")[0] for service in services.values() for volume in service.get("volumes", [])]
    local = [path for path in mounted if path.startswith("./")]
    assert local == ["./prometheus"]
    assert all((DEPLOY / path).exists() for path in local)


def test_the_pods_accept_every_name_of_their_service() -> None:
    service, deployment, *_ = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8"))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (variable,) = container["env"]
    assert variable["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.namespace"
    option = "--allow-host="
    given = [argument.removeprefix(option) for argument in container["args"] if argument.startswith(option)]
    hosts = Hosts("0.0.0.0", [name.replace(f"$({variable['name']})", "office") for name in given])
    name = service["metadata"]["name"]
    for suffix in ("", ".office", ".office.svc", ".office.svc.cluster.local"):
        assert hosts.known(f"{name}{suffix}")
    assert not hosts.known(f"{name}.other")


def container_command() -> tuple[list[str], list[str]]:
    """Return the start command of the container and its health check."""
    parts = {
        name: json.loads(value)
        for name, value in re.findall(r"^\s*(ENTRYPOINT|CMD) (\[.*\])", CONTAINER, re.MULTILINE)
        if "urllib" not in value
    }
    (check,) = re.findall(r"^\s+CMD (\[.*urllib.*\])", CONTAINER, re.MULTILINE)
    return [*parts["ENTRYPOINT"], *parts["CMD"]], json.loads(check)


def unit_command() -> tuple[list[str], list[str]]:
    """Return the unit's start command, and the container's health check, as systemd has none."""
    (command,) = re.findall(r"^ExecStart=(.*)$", UNIT, re.MULTILINE)
    return shlex.split(command), container_command()[1]


@pytest.mark.parametrize("commands", [container_command, pytest.param(unit_command, marks=pytest.mark.slow)])
def test_the_command_starts_a_server_that_writes_nothing_and_ends_when_told(
    commands: Callable[[], tuple[list[str], list[str]]], tmp_path: Path
) -> None:
    command, check = commands()
    run = make_pair(tmp_path, "en", "de")
    before = {path: path.stat().st_mtime_ns for path in [run, *run.rglob("*")]}
    with listen("127.0.0.1", 0) as free:
        port = str(free.getsockname()[1])
    program = [sys.executable, "-P", "-m", "headwise", *command[1:]]
    placed = [port if part == "8080" else str(run) if part.endswith("/model") else part for part in program]
    assert placed.count(port) == placed.count(str(run)) == 1
    with subprocess.Popen(placed, env=environment(), stderr=subprocess.PIPE, text=True) as server:
        try:
            check = [part.replace(":8080/", f":{port}/") for part in check]
            check[0] = sys.executable
            wait_for(lambda: subprocess.run(check, capture_output=True, check=False).returncode == 0, server)
        finally:
            server.send_signal(signal.SIGTERM)
        assert server.wait(30) in (0, -signal.SIGTERM)
        assert server.stderr is not None
        log = [json.loads(line) for line in server.stderr.read().splitlines() if line.startswith("{")]
    assert {(entry["route"], entry["status"]) for entry in log} == {("/readyz", 200)}
    assert {path: path.stat().st_mtime_ns for path in [run, *run.rglob("*")]} == before
