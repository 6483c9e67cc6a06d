"""A Docker Engine with BuildKit of its own: own socket, data, configuration, bridge and cgroup; nothing is installed.

Debian 12 has engine 20.10 without buildx, so there the 26.1 set of Debian 13 is unpacked into the cache, with Debian
12's runc (13's needs a newer glibc). Where the system has an engine of 23 or newer with buildx, its programs are used.
The engine that the user may have running is never touched.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.testbed import host
from tests.testbed.folders import ENVIRONMENT, scratch
from tests.testbed.packages import release, unpacked
from tests.testbed.processes import Daemon, program, run, running
from tests.testbed.require import MissingPartError

if TYPE_CHECKING:
    from collections.abc import Iterator

_OLDEST: Final = 23  # the first engine whose `docker build` is BuildKit
_PLUGIN_FOLDERS: Final = (
    "/usr/libexec/docker/cli-plugins",
    "/usr/lib/docker/cli-plugins",
    "/usr/local/libexec/docker/cli-plugins",
    "/usr/local/lib/docker/cli-plugins",
)
_TRIXIE: Final = ("docker.io", "docker-cli", "docker-buildx", "containerd", "tini")
_START_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Programs:
    """The programs of one engine release: folders that go first on PATH, and the buildx plugin."""

    path: str
    buildx: Path


@dataclass(frozen=True)
class Engine:
    """A running engine."""

    folder: Path
    programs: Programs

    @property
    def host(self) -> str:
        """Its DOCKER_HOST."""
        return f"unix://{self.folder}/docker.sock"

    @property
    def cdi(self) -> Path:
        """The folder it reads CDI specifications from."""
        return self.folder / "cdi"

    @property
    def env(self) -> dict[str, str]:
        """What a program's environment needs to reach this engine, and to find its client first."""
        return {
            "DOCKER_HOST": self.host,
            "DOCKER_CONFIG": str(self.folder / "config"),
            "PATH": f"{self.programs.path}:{ENVIRONMENT['PATH']}",
        }

    def run(self, *arguments: str, stdin: str = "", timeout: float = 600) -> subprocess.CompletedProcess[str]:
        """`docker ARGUMENTS`; a failure raises with what it printed."""
        docker = program("docker", "docker-cli", self.programs.path)
        return run([docker, *arguments], env={**ENVIRONMENT, **self.env}, stdin=stdin, timeout=timeout)


def programs() -> Programs:
    """The engine that this machine can start, fetched where that is needed and allowed."""
    with contextlib.suppress(MissingPartError):
        daemon, client = program("dockerd", "docker.io"), program("docker", "docker.io")
        plugins = [Path(folder, "docker-buildx") for folder in _PLUGIN_FOLDERS]
        buildx = next(filter(Path.is_file, plugins), None)
        if buildx and min(_major(daemon), _major(client)) >= _OLDEST:
            return Programs(path=str(Path(client).parent), buildx=buildx)
    if release() != ("debian", "bookworm"):
        raise MissingPartError(f"no Docker Engine of {_OLDEST} or newer with buildx: apt-get install docker.io docker-buildx")
    modern = unpacked("docker", "trixie", _TRIXIE)
    runc = unpacked("docker", "bookworm", ["runc"])
    folders = [modern / "usr/sbin", modern / "usr/bin", runc / "usr/sbin"]
    return Programs(path=":".join(map(str, folders)), buildx=modern / "usr/libexec/docker/cli-plugins/docker-buildx")


def _major(path: str) -> int:
    found = re.search(r"version (\d+)\.", run([path, "--version"]).stdout)
    return int(found[1]) if found else 0


@contextlib.contextmanager
def engine() -> Iterator[Engine]:
    """A running engine; all its containers, mounts and data are gone at the end of the block."""
    if os.geteuid() != 0:
        raise MissingPartError("starting an engine needs root")
    found = programs()
    with scratch("docker") as folder, host.bridge() as (bridge, subnet), host.cgroup() as cgroup:
        started = Engine(folder=folder, programs=found)
        started.cdi.mkdir()
        plugins = folder / "config" / "cli-plugins"
        plugins.mkdir(parents=True)
        (plugins / "docker-buildx").symlink_to(found.buildx)
        settings = {
            "bridge": bridge,
            "fixed-cidr": subnet,
            "cgroup-parent": cgroup,
            "data-root": str(folder / "data"),
            "exec-root": str(folder / "exec"),
            "exec-opts": ["native.cgroupdriver=cgroupfs"],  # systemd would look for our processes outside their namespace
            "features": {"cdi": True},
            "cdi-spec-dirs": [str(started.cdi)],
            "hosts": [started.host],
            "pidfile": str(folder / "docker.pid"),
            # The host's packet filter stays as it is: containers reach the host over the bridge, and the world with
            # --network host.
            "iptables": False,
            "ip6tables": False,
            "ip-forward": False,
        }
        (folder / "daemon.json").write_text(json.dumps(settings), encoding="utf-8")
        env = {**ENVIRONMENT, "PATH": f"{found.path}:{ENVIRONMENT['PATH']}:/usr/sbin:/sbin"}
        argv = [program("docker-init", "docker.io", found.path), "--", program("dockerd", "docker.io", found.path)]
        argv += ["--config-file", str(folder / "daemon.json")]
        # No grace: its data go too, and waiting for containers that ignore SIGTERM costs 10 s.
        daemon = Daemon(argv, log=folder / "dockerd.log", env=env, contain=True, grace=0)
        with running(daemon):
            daemon.until(lambda: _answers(started), _START_SECONDS)
            yield started


def _answers(started: Engine) -> bool:
    try:
        started.run("info", timeout=10)
    except (RuntimeError, subprocess.TimeoutExpired):
        return False
    return True
