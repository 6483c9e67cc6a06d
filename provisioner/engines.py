"""Container engines as the core knows them: build an image, run something in it, look at it.

`edges/engine.py` has the two real ones: the docker (or podman) command through a Runner, and the docker SDK on the local socket.
Both give the same answers; one contract test holds them to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Literal, Protocol

from provisioner.commands import TIMEOUTS, Completed
from provisioner.values import value

Tell = Callable[[str], None]
#: How a container gets the GPUs: not at all, `--gpus all` (the NVIDIA runtime hook), or the CDI device `nvidia.com/gpu=all`.
Gpus = Literal["none", "gpus", "cdi"]
Network = Literal["none", "host", "bridge"]

#: The exit code of `docker run` when the engine, not the program in the container, said no. The reason is in `stderr`.
NOT_STARTED = 125


@value
class Image:
    """An image that an engine holds. `id` is its content address; `digest` is what a registry calls it, once it is in one."""

    reference: str
    id: str
    digest: str | None = None


@value
class ImageFacts:
    """What an image says of itself. `size` in bytes, unpacked. `platform` as linux/amd64. `user` empty: root."""

    id: str
    tags: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()  # repository@sha256:…, one for each registry it came from or went to
    platform: str = ""
    user: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    size: int = 0


@value
class Mount:
    """A file or folder of the engine's host, in the container; read-only unless said otherwise."""

    source: str
    target: str
    read_only: bool = True


@value
class BuildOptions:
    """How an image is built. `network` is that of RUN steps; None: the engine's default.

    `secrets` maps an id to its content. It travels with the context, never as an argument or a file, and is mounted for the RUN
    steps that ask for it; it stays in no layer.
    """

    args: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    network: Network | None = None
    platform: str | None = None
    secrets: Mapping[str, str] = field(default_factory=dict)
    push: bool = False
    timeout: float = TIMEOUTS["build"]


@value
class RunOptions:
    """How a container runs. The defaults are the safe ones: no network, no capability, nothing writable but `tmpfs`.

    `user` is `UID:GID`; None: the image's. `stdin` is fed to the program. `memory` and `shm` in bytes. `timeout` in seconds.
    """

    gpus: Gpus = "none"
    network: Network = "none"
    user: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    tmpfs: tuple[str, ...] = ("/tmp",)  # noqa: S108 - the container's own, empty and gone with it
    stdin: bytes = b""
    workdir: str | None = None
    pids: int = 4096  # threads count too, and a framework starts several for each core of a big machine
    memory: int | None = None
    shm: int | None = None
    timeout: float = TIMEOUTS["smoke"]


class Engine(Protocol):
    """A container engine on one host. EngineMissing where it is not there or does not answer; HostError where the host is not."""

    @property
    def host(self) -> str:
        """The host it runs on, by the name that the user gave it."""
        ...

    def build(self, context: bytes, tag: str, options: BuildOptions = ..., *, tell: Tell | None = None) -> Image:
        """Build the Dockerfile at the root of `context`, a tar archive, and name the image `tag`.

        BuildFailed carries the failing step and the end of the output. After a failure, a time-out or an interrupt no process,
        container or file of the build is left on the host; layers that were finished stay in its cache.
        """
        ...

    def run(self, image: str, argv: tuple[str, ...], options: RunOptions = ..., *, tell: Tell | None = None) -> Completed:
        """Run `argv` in a new container of `image`, without its entry point, and remove the container whatever happens.

        The exit code is a value, also 125 (NOT_STARTED). EngineError when the image is not there: it is never pulled by
        accident. CommandTimedOut after `options.timeout`.
        """
        ...

    def inspect(self, image: str) -> ImageFacts | None:
        """The facts of `image`, a reference or an id; None when the engine does not have it."""
        ...

    def pull(self, reference: str, *, tell: Tell | None = None) -> ImageFacts:
        """Fetch an image from its registry; EngineError with the registry's reason otherwise."""
        ...

    def tag(self, image: str, reference: str) -> None:
        """Give an image a further name."""
        ...

    def save(self, reference: str, path: str) -> None:
        """Write an image as a tar archive to `path` on the engine's host."""
        ...

    def remove(self, image: str) -> None:
        """Remove an image; one that is not there is no error."""
        ...

    def close(self) -> None:
        """Give the connection back; the engine can be used again after that."""
        ...
