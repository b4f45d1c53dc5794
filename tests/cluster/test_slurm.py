"""The study's jobs under a real Slurm of one node on this machine; `make test-slurm` runs it, and nothing else does."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from small_repo import ROOT, done, files

LIMIT = 7200  # seconds for what takes minutes: a run that hangs is a failure

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("MAPFLAKE_SLURM" not in os.environ, reason="needs a Slurm of its own: make test-slurm"),
    pytest.mark.skipif(
        os.geteuid() != 0 or not shutil.which("slurmctld"),
        reason="needs root and Slurm: apt-get install slurm-wlm && make test-slurm",
    ),
]

CONF = """
ClusterName=mapflake
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=10
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
MinJobAge=86400
"""


def until(condition: Callable[[], object], logs: Path, limit: float = LIMIT) -> None:
    """Waits until a condition holds; past the limit, the test fails with the ends of the logs of a folder."""
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, "\n".join(path.read_text()[-2000:] for path in logs.glob("*.log"))
        time.sleep(0.2)


def jobs(form: str, *options: str) -> list[str]:
    """Returns a line for each job or task of an array, in squeue's format: of those that have not ended."""
    return done("squeue", "--noheader", "--array", f"--format={form}", *options).splitlines()


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A controller and a node with two processors, on 127.0.0.1 and with a key of their own, stopped at the end."""
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))  # for what killed processes leave
    folder, host = tmp_path / "slurm", socket.gethostname().split(".")[0]
    (folder / "state").mkdir(parents=True)
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        ports = [first.getsockname()[1], second.getsockname()[1]]
    (folder / "slurm.conf").write_text(CONF.format(host=host, ports=ports, folder=folder))
    (folder / "munge.key").touch(0o600)
    (folder / "munge.key").write_bytes(os.urandom(128))
    monkeypatch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
    munge = [f"--{kind}-file={folder}/munge.{kind}" for kind in ("key", "pid", "seed", "log")]
    # `--force`: pytest's folders are closed to other users, who could not ask for credentials: none is to.
    daemons = {
        "munged": ["munged", "--foreground", "--force", *munge, f"--socket={folder}/munge.socket"],
        "slurmctld": ["slurmctld", "-D"],
        "slurmd": ["slurmd", "-D", "-N", host],
    }
    with contextlib.ExitStack() as stack:
        for name, words in daemons.items():
            log = stack.enter_context((folder / f"{name}.log").open("w"))
            daemon = subprocess.Popen(words, stdout=log, stderr=log)
            stack.callback(daemon.wait)
            stack.callback(daemon.terminate)
            until((folder / "munge.socket").exists, folder, 60)
        sinfo = ["sinfo", "--noheader", "--format=%t"]
        until(lambda: subprocess.run(sinfo, capture_output=True, text=True).stdout == "idle\n", folder, 60)
        yield
        done("scancel", "--user=root")  # a test that failed leaves some
        until(lambda: not jobs("%i"), folder)


def clone(folder: Path) -> Path:
    """Clones the last commit and chooses the smoke profile."""
    done("git", "clone", "--quiet", str(ROOT), str(folder))
    done(sys.executable, "-m", "mapflake.nb", "choose", "smoke", cwd=folder)
    return folder


@pytest.mark.usefixtures("slurm")
def test_the_study_under_slurm_is_that_of_dvc_repro(tmp_path: Path) -> None:
    """The jobs of study.sh, two at once; the engineer's cell is killed after its first round and requeued."""
    folder = clone(tmp_path / "by_slurm")
    before, logs = files(folder / "reports"), folder / "runs"
    done("bash", "docs/examples/cluster/study.sh", cwd=folder)
    _, _, _, third, _, _ = sorted({int(job) for job in jobs("%F")})  # four arrays between the first job and the last

    cell = folder / "runs/smoke/engineer_loop/0"
    until(lambda: (cell / "rounds.jsonl").is_file() or not jobs("%i"), logs)
    running = jobs("%i", "--states=running")
    done("scontrol", "requeue", f"{third}_1")
    assert len(running) == 2
    assert f"{third}_1" in running
    trained = (cell / "round-1/checkpoint/model.safetensors").stat().st_mtime_ns
    assert "Restarts=1" in done("scontrol", "show", "job", f"{third}_1")

    until(lambda: not jobs("%i"), logs)
    states = dict(line.split() for line in jobs("%i %T", "--states=all"))
    assert set(states.values()) == {"COMPLETED"}, states
    assert len(states) == 2 + done("dvc", "stage", "list", "--name-only", cwd=folder).count("@")
    log = (logs / f"slurm-{third}-1.log").read_text()
    assert "DUE TO JOB REQUEUE" in log
    assert log.count("Running stage 'engineer_loop@0'") == 2
    assert trained == (cell / "round-1/checkpoint/model.safetensors").stat().st_mtime_ns  # not trained again

    undisturbed = clone(tmp_path / "by_dvc_repro")
    done("dvc", "repro", cwd=undisturbed)
    ours, theirs = files(folder / "reports"), files(undisturbed / "reports")
    arms = ("fixed", "engineer", "engineer_trained", "heuristic")
    assert {f"cells/smoke/{arm}-0.json" for arm in arms} <= set(ours) - set(before)
    assert set(ours) == set(theirs)
    assert [name for name in ours if ours[name] != theirs[name]] == []
    by_slurm, by_dvc = (yaml.safe_load((root / "dvc.lock").read_text())["stages"] for root in (folder, undisturbed))
    assert by_slurm == by_dvc  # hashes of inputs, parameters and results of each stage
