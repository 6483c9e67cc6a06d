"""Debian's docker-registry on a loopback port; Docker trusts 127.0.0.0/8 without TLS."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.testbed.folders import scratch
from tests.testbed.packages import release, unpacked
from tests.testbed.processes import Daemon, answers, free_port, program, running
from tests.testbed.require import MissingPartError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.testbed.engine import Engine

_ADDRESS: Final = "127.0.0.1"
_CONFIG: Final = """\
version: 0.1
log: {{level: info, accesslog: {{disabled: false}}}}
storage: {{filesystem: {{rootdirectory: {data}}}, delete: {{enabled: true}}}}
http: {{addr: '{address}:{port}'}}
"""


@dataclass(frozen=True)
class Registry:
    """A running registry; its log says what was asked for."""

    port: int
    log: Path

    @property
    def name(self) -> str:
        """The host part of its references, `127.0.0.1:PORT`."""
        return f"{_ADDRESS}:{self.port}"

    @property
    def url(self) -> str:
        """Its address for HTTP."""
        return f"http://{self.name}"

    def mirrored(self, reference: str) -> str:
        """The reference under which this registry, as a mirror of Docker Hub, has an image."""
        return f"{self.name}/{reference if '/' in reference else f'library/{reference}'}"

    def push(self, engine: Engine, reference: str) -> str:
        """Push an image that the engine has, as a mirror of Docker Hub would have it; tell its `sha256:…` digest."""
        target = self.mirrored(reference)
        engine.run("tag", reference, target)
        engine.run("push", target)
        digests = engine.run("image", "inspect", "--format", "{{range .RepoDigests}}{{println .}}{{end}}", target)
        engine.run("image", "rm", "--no-prune", target)
        repository = target.rpartition(":")[0]
        return next(d for d in digests.stdout.split() if d.startswith(f"{repository}@")).partition("@")[2]


def find() -> str:
    """The registry's program: the system's, or Debian's, fetched where that is allowed."""
    with contextlib.suppress(MissingPartError):
        return program("docker-registry", "docker-registry")
    distribution, suite = release()
    if distribution != "debian":
        raise MissingPartError("no docker-registry here: apt-get install docker-registry")
    return str(unpacked("registry", suite, ["docker-registry"]) / "usr/bin/docker-registry")


@contextlib.contextmanager
def registry() -> Iterator[Registry]:
    """An empty registry."""
    found = find()
    with scratch("registry") as folder:
        started = Registry(port=free_port(_ADDRESS), log=folder / "registry.log")
        config = folder / "config.yml"
        text = _CONFIG.format(data=folder / "data", address=_ADDRESS, port=started.port)
        config.write_text(text, encoding="utf-8")
        daemon = Daemon([found, "serve", str(config)], log=started.log)
        with running(daemon):
            daemon.until(lambda: answers(_ADDRESS, started.port))
            yield started
