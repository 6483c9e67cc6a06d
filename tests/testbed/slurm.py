"""A throw-away Slurm cluster of one node on loopback: munged, slurmctld and slurmd by hand, device nodes as GPUs.

It is the release that the distribution packages (22.05 on Debian 12), enough for `sbatch --test-only` and small jobs.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import stat
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.testbed.folders import ENVIRONMENT, scratch
from tests.testbed.processes import Daemon, free_port, program, run, running
from tests.testbed.require import MissingPartError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NODE: Final = "gpu01"
_PARTITION: Final = "gpu"
_NVIDIA_MAJOR: Final = 195
_CONFIG: Final = """\
ClusterName=testbed
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmctldPort={controller_port}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmdSpoolDir={folder}/spool
StateSaveLocation={folder}/state
SlurmctldTimeout=30
ReturnToService=2
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={node_port} CPUs={cpus} RealMemory={memory} Gres=gpu:{gpu}:{count}
PartitionName={partition} Nodes={node} Default=YES MaxTime=INFINITE State=UP
"""


@dataclass(frozen=True)
class Slurm:
    """A running cluster."""

    folder: Path
    node: str = _NODE
    partition: str = _PARTITION

    @property
    def env(self) -> dict[str, str]:
        """What a program's environment needs to reach this cluster."""
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def command(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run a Slurm command, such as `sbatch --test-only FILE`, and give its answer whatever it is."""
        path = program(argv[0], "slurm-client")
        env = {**ENVIRONMENT, **self.env}
        return subprocess.run(
            [path, *argv[1:]], env=env, cwd=self.folder, capture_output=True, text=True, timeout=60, check=False
        )


@contextlib.contextmanager
def slurm(gpu: str = "a100", count: int = 2, cpus: int = 64, memory: int = 256_000) -> Iterator[Slurm]:
    """A cluster whose one node says that it has these GPUs, CPUs and MB of memory."""
    if os.geteuid() != 0:
        raise MissingPartError("starting Slurm needs root")
    packages = {"munged": "munge", "slurmctld": "slurmctld", "slurmd": "slurmd", "sbatch": "slurm-client"}
    found = {name: program(name, package) for name, package in packages.items()}
    with scratch("slurm") as folder, contextlib.ExitStack() as daemons:
        started = Slurm(folder=folder)
        for index in range(count):
            # A node without a driver: nobody opens it, but Slurm wants a device.
            os.mknod(folder / f"nvidia{index}", stat.S_IFCHR | 0o600, os.makedev(_NVIDIA_MAJOR, index))
        for name in ("state", "spool"):
            (folder / name).mkdir()
        text = _CONFIG.format(
            host=socket.gethostname().partition(".")[0],
            folder=folder,
            controller_port=free_port(),
            node_port=free_port(),
            node=_NODE,
            partition=_PARTITION,
            cpus=cpus,
            memory=memory,
            gpu=gpu,
            count=count,
        )
        (folder / "slurm.conf").write_text(text, encoding="utf-8")
        files = f"{folder}/nvidia[0-{count - 1}]" if count > 1 else f"{folder}/nvidia0"
        (folder / "gres.conf").write_text(f"Name=gpu Type={gpu} File={files}\n", encoding="utf-8")
        # Slurm looks for cgroup.conf in any case; without systemd or a delegated tree it must not look further.
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n", encoding="utf-8")
        env = {**ENVIRONMENT, **started.env}
        munged = _munged(folder, found["munged"])
        daemons.enter_context(running(munged))
        munged.until((folder / "munge.socket").exists)
        controller = Daemon([found["slurmctld"], "-D", "-c"], log=folder / "slurmctld.log", env=env, contain=True, grace=3)
        daemons.enter_context(running(controller))
        node = Daemon([found["slurmd"], "-D", "-N", _NODE], log=folder / "slurmd.log", env=env, contain=True, grace=3)
        daemons.enter_context(running(node))
        node.until(lambda: "idle" in started.command("sinfo", "-h", "-o", "%T").stdout)
        yield started


def _munged(folder: Path, path: str) -> Daemon:
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(128))
    names = ("key", "socket", "pid", "log", "seed")
    files = [f"--{name if name == 'socket' else f'{name}-file'}={folder}/munge.{name}" for name in names]
    return Daemon([path, "--foreground", "--force", *files], log=folder / "munged.log", contain=True, grace=3)


def describe(started: Slurm) -> str:
    """The cluster's own word on its release."""
    return run([program("sinfo", "slurm-client"), "--version"], env={**ENVIRONMENT, **started.env}).stdout.strip()
