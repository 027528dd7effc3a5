"""torchrun over two network namespaces, as over two hosts, with the latency of a machine room and of a continent."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from delayed_link import DelayedLink
from program import assert_same_training, environment, finish, headwise
from ranks import launch
from toy import NOTHING_RANDOM, PLAIN_STEPS, Toy

pytestmark = pytest.mark.cluster
STEPS = 50


def command(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, text=True)


class Hosts:
    """Two network namespaces, with the addresses 10.77.0.1 and 10.77.0.2, and a link between them."""

    def __init__(self) -> None:
        tag = uuid.uuid4().hex[:6]
        self.names = (f"hw{tag}a", f"hw{tag}b")
        self._link: DelayedLink | None = None

    def start(self) -> None:
        """Create the namespaces; raises OSError or CalledProcessError."""
        a, b = self.names
        for name in self.names:
            command("ip", "netns", "add", name)
        command("ip", "link", "add", a, "netns", a, "type", "veth", "peer", b, "netns", b)
        try:
            command("tc", "-n", a, "qdisc", "add", "dev", a, "root", "netem")
        except subprocess.CalledProcessError:  # this kernel has no netem
            command("ip", "-n", a, "link", "del", a)
            self._link = DelayedLink(self.names)
        for number, name in enumerate(self.names, start=1):
            command("ip", "-n", name, "address", "add", f"10.77.0.{number}/24", "dev", name)
            command("ip", "-n", name, "link", "set", "lo", "up")
            command("ip", "-n", name, "link", "set", name, "up")

    def stop(self) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

    def delay(self, milliseconds: float) -> None:
        """Set the latency of a way and back, half of it in each direction."""
        if self._link is not None:
            self._link.delay = milliseconds / 2000
            return
        for name in self.names:
            netem = ("netem", "delay", f"{milliseconds / 2}ms")
            command("tc", "-n", name, "qdisc", "replace", "dev", name, "root", *netem)


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    if os.name != "posix" or os.geteuid() != 0:
        pytest.skip("two hosts could not be started: network namespaces need root")
    if missing := [name for name in ("ip", "tc") if shutil.which(name) is None]:
        pytest.skip(f"two hosts could not be started: expected iproute2, found no {' and no '.join(missing)}")
    hosts = Hosts()
    try:
        hosts.start()
    except (OSError, subprocess.CalledProcessError) as error:
        hosts.stop()
        pytest.skip(f"two hosts could not be started: {getattr(error, 'stderr', error)}")
    yield hosts
    hosts.stop()


@pytest.fixture(scope="module")
def alone(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("alone") / "run"
    headwise("train", "-c", toy.config, *changes(), "-o", run).ok()
    return run


def changes() -> list[str]:
    rare = ("training.validate_every=1000", "training.checkpoint_every=25")
    return [*NOTHING_RANDOM, *PLAIN_STEPS, *rare, f"--max-steps={STEPS}"]


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
@pytest.mark.parametrize("milliseconds", [1, 50])
def test_two_hosts_train_as_one_process(
    milliseconds: int, parallel: str, toy: Toy, alone: Path, hosts: Hosts, tmp_path: Path
) -> None:
    """Both hosts see the same files."""
    hosts.delay(milliseconds)
    run = tmp_path / "run"
    processes = []
    for node, name in enumerate(hosts.names):
        address = ("--master-addr", "10.77.0.1", "--master-port", "29477")
        launcher = launch(1, "--nnodes", "2", "--node-rank", str(node), *address)
        options = ("train", "-c", toy.config, *changes(), f"training.parallel={parallel}", "-o", run)
        processes.append(
            subprocess.Popen(
                ["ip", "netns", "exec", name, *launcher, "headwise", *map(str, options)],
                env=environment(GLOO_SOCKET_IFNAME=name),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    outcomes = [finish(process) for process in processes]
    assert [outcome.code for outcome in outcomes] == [0, 0], "\n".join(outcome.err for outcome in outcomes)
    assert_same_training(run, alone)
