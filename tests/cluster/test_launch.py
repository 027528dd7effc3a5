"""The recipes of deploy/training, each by its own system: Slurm on one node, and the schemas of JobSet and SkyPilot."""

from __future__ import annotations

import random
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from paths import ROOT

pytestmark = pytest.mark.cluster
RECIPES = ROOT / "deploy" / "training"
CONFIGURATION = """
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
SlurmctldPort={port}
SlurmdPort={next}
StateSaveLocation={folder}
SlurmdSpoolDir={folder}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
GresTypes=gpu
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 CPUs=64 CoresPerSocket=64 RealMemory=1000 Gres=gpu:8
PartitionName=all Nodes={host} Default=YES State=UP
"""


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cluster of one node, which claims to have 64 processors and eight GPUs."""
    tools = {
        name: shutil.which(name, path="/usr/sbin:/usr/bin:/usr/local/bin")
        for name in ("slurmctld", "slurmd", "sbatch", "sinfo")
    }
    if missing := [name for name, path in tools.items() if path is None]:
        pytest.skip(f"Slurm could not be started: found no {', '.join(missing)} (Debian's slurm-wlm)")
    port, host = random.randint(20000, 60000), socket.gethostname().split(".")[0]
    settings = {"host": host, "port": port, "next": port + 1, "folder": tmp_path}
    file = tmp_path / "slurm.conf"
    file.write_text(CONFIGURATION.format(**settings))
    for number in range(8):
        (tmp_path / f"gpu{number}").touch()
    (tmp_path / "gres.conf").write_text(f"NodeName={host} Name=gpu File={tmp_path}/gpu[0-7]\n")
    monkeypatch.setenv("SLURM_CONF", str(file))
    daemons = [
        subprocess.Popen([str(tools[name]), "-D", *more, "-f", str(file)], stderr=subprocess.DEVNULL)
        for name, more in (("slurmctld", ["-i"]), ("slurmd", []))
    ]
    try:
        deadline = time.monotonic() + 30
        while (
            "idle"
            not in subprocess.run([str(tools["sinfo"])], capture_output=True, text=True, check=False).stdout
        ):
            if time.monotonic() > deadline or any(daemon.poll() is not None for daemon in daemons):
                log = (tmp_path / "slurmctld.log").read_text().splitlines()[-3:]
                pytest.skip(f"Slurm could not be started: {'; '.join(log)}")
            time.sleep(0.3)
        yield
    finally:
        for daemon in daemons:
            daemon.terminate()
            daemon.wait(30)


def test_slurm_would_start_the_batch_script(slurm: None) -> None:
    """On one node, as the second one of the script isn't here."""
    script = RECIPES / "slurm.sbatch"
    command = ["sbatch", "--test-only", "--nodes=1", str(script), "config.yaml", "run"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert " to start at " in done.stderr
    more = subprocess.run([*command[:2], str(script)], capture_output=True, text=True, check=False)
    assert "node configuration is not available" in more.stderr  # two nodes


def test_the_batch_script_is_sound() -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("the batch script could not be checked: found no shellcheck")
    subprocess.run(["shellcheck", RECIPES / "slurm.sbatch"], check=True)


def test_the_job_set_has_its_schema() -> None:
    """The models of Kubeflow Trainer's API have those of JobSet, made from its definition in Kubernetes."""
    models = pytest.importorskip(
        "kubeflow_trainer_api.models", reason="the JobSet could not be checked: needs kubeflow-trainer-api"
    )
    manifest = yaml.safe_load((RECIPES / "jobset.yaml").read_text(encoding="utf-8"))
    job_set = models.JobsetV1alpha2JobSet.from_dict(manifest)
    assert job_set.to_dict() == manifest  # a field that the schema doesn't know would be missing


def test_sky_pilot_reads_its_task() -> None:
    schemas = pytest.importorskip(
        "sky.utils.schemas", reason="the SkyPilot task could not be checked: needs skypilot"
    )
    jsonschema = pytest.importorskip("jsonschema")
    task = yaml.safe_load((RECIPES / "skypilot.yaml").read_text(encoding="utf-8"))
    jsonschema.validate(task, schemas.get_task_schema())
    jsonschema.validate(task["resources"], schemas.get_resources_schema())
    jsonschema.validate(task["file_mounts"]["/runs"], schemas.get_storage_schema())


def test_the_job_set_starts_what_the_job_starts() -> None:
    job = list(yaml.safe_load_all((RECIPES / "kubernetes.yaml").read_text(encoding="utf-8")))[1]["spec"]
    (ranks,) = yaml.safe_load((RECIPES / "jobset.yaml").read_text(encoding="utf-8"))["spec"]["replicatedJobs"]
    ours = ranks["template"]["spec"]
    names = ("completionMode", "completions", "parallelism")
    assert [ours[name] for name in names] == [job[name] for name in names]
    ours, theirs = ours["template"]["spec"], job["template"]["spec"]
    assert ours["volumes"] == theirs["volumes"]
    (one,), (other,) = ours["containers"], theirs["containers"]
    place = "--rdzv-endpoint=headwise-training"
    assert [a.replace(f"{place}-ranks-0-0.", f"{place}-0.") for a in one.pop("args")] == other.pop("args")
    assert one == other
