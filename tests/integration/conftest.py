"""Fixtures for the real parts: each is there, or the test is skipped with the reason (PROVISIONER_REQUIRE: fails)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.testbed import engine as engines
from tests.testbed import host, images
from tests.testbed import registry as registries
from tests.testbed import slurm as slurms
from tests.testbed import sshd as sshds
from tests.testbed import wheels as indexes
from tests.testbed.require import need

if TYPE_CHECKING:
    from collections.abc import Iterator

# The first test that uses the engine waits for a base image, and a build with PyTorch takes minutes on two cores.
_TEST_SECONDS: Final = 1500
_HERE: Final = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests of this folder their longer deadline."""
    for item in items:
        if item.path.is_relative_to(_HERE) and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(_TEST_SECONDS))


@pytest.fixture(scope="session", autouse=True)
def _swept() -> None:
    """Remove what a killed run left behind."""
    if os.geteuid() == 0:
        host.sweep()


@pytest.fixture(scope="session")
def engine() -> Iterator[engines.Engine]:
    """A Docker Engine with BuildKit: `engine.run("ps")`, and `engine.env` for other programs."""
    with need("docker"), engines.engine() as started:
        yield started


@pytest.fixture
def local_engine(engine: engines.Engine, monkeypatch: pytest.MonkeyPatch) -> engines.Engine:
    """The engine, found by all that this test starts."""
    for name, text in engine.env.items():
        monkeypatch.setenv(name, text)
    return engine


@pytest.fixture(scope="session")
def base_image(engine: engines.Engine) -> str:
    """The reference of the stand-in for a Python base image, in the engine."""
    reference = "python:3.11-slim-bookworm"
    with need("docker"):
        images.provide(engine, reference)
    return reference


@pytest.fixture(scope="session")
def registry() -> Iterator[registries.Registry]:
    """A registry: `registry.push(engine, reference)`."""
    with need("registry"), registries.registry() as started:
        yield started


@pytest.fixture
def sshd() -> Iterator[sshds.Sshd]:
    """A fresh SSH server that answers as two hosts: `sshd.host(0)`, `sshd.known_hosts`, `sshd.rotate_host_key()`."""
    with need("sshd"), sshds.sshd(("127.0.0.2", "127.0.0.3")) as started:
        yield started


@pytest.fixture
def docker_host(sshd: sshds.Sshd, engine: engines.Engine) -> sshds.Sshd:
    """The SSH server, with the engine in its sessions: a host that has Docker."""
    sshd.set_env(engine.env)
    return sshd


@pytest.fixture(scope="session")
def slurm() -> Iterator[slurms.Slurm]:
    """A Slurm cluster of one node with two A100: `slurm.command("sbatch", "--test-only", …)`."""
    with need("slurm"), slurms.slurm() as started:
        yield started


@pytest.fixture(scope="session")
def wheels() -> Iterator[indexes.Index]:
    """A package index with the PyTorch CPU build and all that it needs: `wheels.simple`, `wheels.links`."""
    with need("torch"), indexes.serve(indexes.torch_wheelhouse()) as started:
        yield started
