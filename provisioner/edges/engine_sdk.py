"""The docker SDK on the local socket: run and inspect without a process for each, and with errors that are values and not texts.

It honours DOCKER_HOST, and the client's current context as the docker command does, so that a build and a run meet the same
daemon. Builds, pulls and saves go through the docker command, see `engine.py`.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Self

from provisioner.commands import Completed
from provisioner.edges.engine import LABEL, NOT_FOUND, TMPFS, CommandEngine, container_name, no_image
from provisioner.edges.engine_text import checked_reference, engine_error, facts_of, missing
from provisioner.engines import NOT_STARTED, BuildOptions, RunOptions
from provisioner.errors import CommandTimedOut

if TYPE_CHECKING:
    from collections.abc import Iterator

    import docker
    from docker.models.containers import Container

    from provisioner.commands import Runner
    from provisioner.engines import Image, ImageFacts, Tell
    from provisioner.errors import EngineError

_BUILD = BuildOptions()
_RUN = RunOptions()
_REQUEST_SECONDS = 60
_DEFAULT_ADDRESS = "unix:///var/run/docker.sock"
_NOT_EXECUTABLE = 126
#: What is kept of a container's output, in bytes, and after how many parts (32 kB at most, as the engine frames them) that is
#: seen to; and of a line that does not end.
_MOST_OUTPUT = 16_000_000
_PARTS = 1024
_LONGEST_LINE = 100_000


def local_address() -> str:
    """Where the docker command of this machine would find its daemon: DOCKER_HOST, else the current context, else the default."""
    if address := os.environ.get("DOCKER_HOST"):
        return address
    with contextlib.suppress(Exception):  # a broken context is told by the command, in its own words, when it is used
        from docker.context import ContextAPI

        return str(ContextAPI.get_current_context().Host)
    return ""


class SdkEngine:
    """The engine behind the local socket."""

    def __init__(self, runner: Runner) -> None:
        """Run and inspect through the SDK; `runner` starts the docker command of this machine for the rest."""
        self._command = CommandEngine(runner)
        self._connection: docker.DockerClient | None = None

    @property
    def host(self) -> str:
        """The host it runs on."""
        return self._command.host

    def build(self, context: bytes, tag: str, options: BuildOptions = _BUILD, *, tell: Tell | None = None) -> Image:
        """Build with buildx; see `engines.Engine`."""
        return self._command.build(context, tag, options, tell=tell)

    def run(self, image: str, argv: tuple[str, ...], options: RunOptions = _RUN, *, tell: Tell | None = None) -> Completed:
        """Run in a container; see `engines.Engine`."""
        import docker.errors

        started = time.monotonic()
        with self._client() as client:
            container: Container | None = None
            try:
                container = client.containers.create(checked_reference(image), **_creation(argv, options))
                return _run(self.host, container, options, tell, started)
            except docker.errors.ImageNotFound as failure:
                raise no_image(self.host, image) from failure
            except docker.errors.APIError as failure:  # the engine will not start it: what the command prints, and its code
                why = f"docker: Error response from daemon: {failure.explanation or failure}"
                return Completed(exit=_code_of(why), stderr=why, seconds=time.monotonic() - started)
            finally:
                if container is not None:
                    with contextlib.suppress(docker.errors.APIError):
                        container.remove(force=True)

    def inspect(self, image: str) -> ImageFacts | None:
        """Look at an image; see `engines.Engine`."""
        import docker.errors

        with self._client() as client:
            try:
                return facts_of(client.images.get(checked_reference(image)).attrs or {})
            except docker.errors.ImageNotFound:
                return None

    def pull(self, reference: str, *, tell: Tell | None = None) -> ImageFacts:
        """Fetch an image; see `engines.Engine`."""
        return self._command.pull(reference, tell=tell)

    def tag(self, image: str, reference: str) -> None:
        """Name an image; see `engines.Engine`."""
        self._command.tag(image, reference)

    def save(self, reference: str, path: str) -> None:
        """Write an image to a file; see `engines.Engine`."""
        self._command.save(reference, path)

    def remove(self, image: str) -> None:
        """Remove an image; see `engines.Engine`."""
        import docker.errors

        with self._client() as client, contextlib.suppress(docker.errors.ImageNotFound):
            client.images.remove(checked_reference(image))

    def close(self) -> None:
        """Close the connections."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._command.close()

    @contextlib.contextmanager
    def _client(self) -> Iterator[docker.DockerClient]:
        """The client, connected; whatever the SDK raises inside becomes an error of ours."""
        import docker
        import requests

        try:
            if self._connection is None:
                address = local_address() or _DEFAULT_ADDRESS
                _knock(address)
                environment = {**os.environ, "DOCKER_HOST": address}
                self._connection = docker.DockerClient.from_env(environment=environment, timeout=_REQUEST_SECONDS)
            yield self._connection
        except (docker.errors.DockerException, docker.errors.StreamParseError, requests.RequestException, OSError) as failure:
            raise as_engine_error(self.host, failure) from failure


def as_engine_error(host: str, failure: Exception) -> EngineError:
    """What an exception of the SDK, or of requests below it, is in our tree; never anything else than an EngineError."""
    import docker.errors

    text = str(getattr(failure, "explanation", None) or failure)
    if isinstance(failure, PermissionError):
        text = f"permission denied while trying to connect: {text}"
    elif isinstance(failure, OSError) and not isinstance(failure, docker.errors.APIError):  # requests' own are OSErrors too
        text = f"Cannot connect to the Docker daemon: {text}"
    if absent := missing(host, "docker", 0, text):
        return absent
    return engine_error(host, "the Docker daemon refuses", text)


def _creation(argv: tuple[str, ...], options: RunOptions) -> dict[str, Any]:
    """The arguments of `containers.create`, the same that `engine.run_argv` writes as options."""
    from docker.types import DeviceRequest, Mount

    requests = {
        "none": [],
        "gpus": [DeviceRequest(count=-1, capabilities=[["gpu"]])],
        "cdi": [DeviceRequest(driver="cdi", device_ids=["nvidia.com/gpu=all"])],
    }
    name = container_name()
    return {
        "command": list(argv[1:]),
        "entrypoint": [argv[0]],
        "name": name,
        "labels": {LABEL: name},
        "network_mode": options.network,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "read_only": True,
        "log_config": {"Type": "none"},  # it is read here; a container that does not stop printing would fill the host's disk
        "pids_limit": options.pids,
        "tmpfs": dict.fromkeys(options.tmpfs, TMPFS),
        "device_requests": requests[options.gpus],
        "user": options.user,
        "working_dir": options.workdir,
        "mem_limit": options.memory,
        "shm_size": options.shm,
        "environment": dict(options.env),
        "mounts": [Mount(mount.target, mount.source, type="bind", read_only=mount.read_only) for mount in options.mounts],
        "stdin_open": bool(options.stdin),
    }


def _run(host: str, container: Container, options: RunOptions, tell: Tell | None, started: float) -> Completed:
    """Start a created container, feed it, and wait for its end; CommandTimedOut when that does not come in time."""
    import requests

    def left() -> float:
        return max(0.1, options.timeout - (time.monotonic() - started))

    with _Output(container, tell) as output, _input(container, options.stdin) as feed:
        container.start()
        try:
            if feed is not None:
                _send(feed, options.stdin, left())
            ended = container.wait(timeout=left())
        except (TimeoutError, requests.exceptions.ReadTimeout, requests.exceptions.ConnectionError) as failure:
            if "timed out" not in str(failure).lower():
                raise
            raise CommandTimedOut(
                host, f"the container did not end in {options.timeout:g} s and was removed", hint="look at what it waits for"
            ) from failure
        output.finish()
    return Completed(
        exit=int(ended["StatusCode"]), stdout=output.stdout, stderr=output.stderr, seconds=time.monotonic() - started
    )


class _Output:
    """What a container prints, read while it runs so that each line can be told as it appears."""

    def __init__(self, container: Container, tell: Tell | None) -> None:
        self._parts: tuple[deque[bytes], deque[bytes]] = (deque(), deque())
        self._tell = tell
        # Attached before the start: nothing that it prints can be missed.
        self._stream = container.attach(stdout=True, stderr=True, stream=True, logs=False, demux=True)
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        _hang_up(self._stream)  # wakes the reader
        self._thread.join(timeout=_REQUEST_SECONDS)

    def _read(self) -> None:
        rest = b""
        with contextlib.suppress(OSError, ValueError):  # a cut stream ends the output; the exit code tells the rest
            for pair in self._stream:
                for part, kept in zip(pair, self._parts, strict=True):
                    if part:
                        keep(kept, part)
                        *lines, rest = (rest[-_LONGEST_LINE:] + part).split(b"\n")
                        for line in lines:
                            self._say(line)
        if rest:
            self._say(rest)

    def _say(self, line: bytes) -> None:
        if self._tell is not None:
            self._tell(line.decode(errors="replace").rstrip("\r"))

    def finish(self) -> None:
        """Wait for the rest of the output of a container that has ended."""
        self._thread.join(timeout=_REQUEST_SECONDS)

    @property
    def stdout(self) -> str:
        return b"".join(self._parts[0]).decode(errors="replace")

    @property
    def stderr(self) -> str:
        return b"".join(self._parts[1]).decode(errors="replace")


def keep(kept: deque[bytes], part: bytes) -> None:
    """Keep a part of the output; of very much the end, where the answer stands."""
    kept.append(part)
    if len(kept) > _PARTS:
        whole = b"".join(kept)
        kept.clear()
        kept.append(whole[-_MOST_OUTPUT:])


@contextlib.contextmanager
def _input(container: Container, data: bytes) -> Iterator[socket.socket | None]:
    """The standard input of a container that is about to start, where there is something to feed."""
    if not data:
        yield None
        return
    attached: Any = container.attach_socket(params={"stdin": 1, "stream": 1})
    feed = getattr(attached, "_sock", attached)  # over a local socket the SDK hands out a file object around it
    try:
        yield feed
    finally:
        _hang_up(attached)
        feed.close()


def _hang_up(stream: object) -> None:
    """Close an attached stream. Its connection was taken over from HTTP, so the SDK's pool does not."""
    for part in (stream, getattr(stream, "_response", None)):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # closing one may have closed the other
            part.close()  # type: ignore[union-attr]  # see AttributeError


def _send(feed: socket.socket, data: bytes, seconds: float) -> None:
    """Feed the attached container and end its input; TimeoutError when it does not take it."""
    feed.settimeout(seconds)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # a program may end before it has read everything
        feed.sendall(data)
        feed.shutdown(socket.SHUT_WR)


def _knock(address: str) -> None:
    """Raise the OSError of a local socket that nobody can connect to. The SDK would say less, and leave its own socket open."""
    if address.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as knock:
            knock.settimeout(_REQUEST_SECONDS)
            knock.connect(address.removeprefix("unix://"))


def _code_of(why: str) -> int:
    """The exit code that `docker run` gives for a container that did not start, by the words that it goes by."""
    if "executable file not found" in why or "no such file or directory" in why:
        return NOT_FOUND
    return _NOT_EXECUTABLE if "permission denied" in why else NOT_STARTED
