"""Every exception of the docker SDK, and of what it stands on, is one of ours."""

from __future__ import annotations

import inspect
from collections import deque
from typing import TYPE_CHECKING

import docker
import docker.errors
import pytest
import requests

from provisioner.edges.engine import CommandEngine, engine_on
from provisioner.edges.engine_sdk import SdkEngine, as_engine_error, keep, local_address
from provisioner.errors import EngineError, EngineMissing
from tests.unit.edges.test_engine import Recorded

if TYPE_CHECKING:
    from pathlib import Path

ARGUMENTS: dict[str, tuple[object, ...]] = {
    "ContainerError": ("container", 1, "command", "image", "stderr"),
    "BuildError": ("reason", []),
    "TLSParameterError": ("message",),
    "MissingContextParameter": ("param",),
    "ContextAlreadyExists": ("name",),
    "ContextException": ("message",),
    "ContextNotFound": ("name",),
}
EXCEPTIONS = [found for _, found in inspect.getmembers(docker.errors, inspect.isclass) if issubclass(found, Exception)]


@pytest.mark.parametrize("kind", EXCEPTIONS, ids=lambda kind: kind.__name__)
def test_every_exception_of_the_sdk_maps(kind: type[Exception]) -> None:
    mapped = as_engine_error("local", kind(*ARGUMENTS.get(kind.__name__, ("what it says",))))
    assert isinstance(mapped, EngineError)
    assert mapped.message.startswith("local: ")


def test_the_list_is_of_the_sdk_that_is_installed() -> None:
    assert {"APIError", "ContainerError", "DockerException", "ImageNotFound"} <= {kind.__name__ for kind in EXCEPTIONS}


@pytest.mark.parametrize(
    ("failure", "says"),
    [
        (PermissionError(13, "Permission denied"), "may not use"),
        (FileNotFoundError(2, "No such file or directory"), "does not answer"),
        (ConnectionRefusedError(111, "Connection refused"), "does not answer"),
        (requests.exceptions.ConnectionError("Connection aborted."), "does not answer"),
        (requests.exceptions.ReadTimeout("Read timed out. (read timeout=60)"), "does not answer"),
    ],
    ids=lambda case: type(case).__name__,
)
def test_a_daemon_that_cannot_be_reached_is_a_missing_engine(failure: Exception, says: str) -> None:
    mapped = as_engine_error("local", failure)
    assert isinstance(mapped, EngineMissing)
    assert says in mapped.message
    assert mapped.hint


def test_a_socket_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    engine = SdkEngine(Recorded())
    for act in (engine.inspect, engine.remove, lambda image: engine.run(image, ("true",))):
        with pytest.raises(EngineMissing, match=r"none\.sock|No such file"):
            act("t:1")
    engine.close()


def test_the_address_is_that_of_the_docker_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///run/user/1000/docker.sock")
    assert local_address() == "unix:///run/user/1000/docker.sock"
    monkeypatch.delenv("DOCKER_HOST")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    assert local_address() in {"", "unix:///var/run/docker.sock"}


def test_which_engine_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = Recorded(), Recorded()
    here.host = "local"
    monkeypatch.setenv("DOCKER_HOST", "unix:///var/run/docker.sock")
    assert isinstance(engine_on(here), SdkEngine)
    assert isinstance(engine_on(here, "podman"), CommandEngine)
    assert isinstance(engine_on(there), CommandEngine)
    monkeypatch.setenv("DOCKER_HOST", "ssh://gpu01")
    assert isinstance(engine_on(here), CommandEngine)


def test_of_a_flood_the_end_is_kept() -> None:
    kept: deque[bytes] = deque()
    for number in range(4000):
        keep(kept, b"%06d\n" % number * 4000)
    keep(kept, b"the answer\n")
    whole = b"".join(kept)
    assert whole.endswith(b"003999\nthe answer\n")
    assert len(whole) < 50_000_000
