"""probe against real parts: over SSH to a host with the engine, to a user who is not root, to a host whose nvidia-smi hangs."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provisioner.commands import Address
from provisioner.edges.ssh import SshOptions, SshRunner
from provisioner.facts import FACTS
from provisioner.findings import Seen
from provisioner.hosts.probe import probe
from provisioner.hosts.recording import RecordingRunner, ReplayRunner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.testbed.sshd import Sshd


def _ssh(sshd: Sshd) -> SshRunner:
    where = dataclasses.replace(Address.parse(sshd.host(0)), key=str(sshd.client_key))
    return SshRunner(sshd.host(0), where, SshOptions(known_hosts=sshd.known_hosts))


@pytest.fixture
def host(sshd: Sshd) -> Iterator[SshRunner]:
    runner = _ssh(sshd)
    yield runner
    runner.close()


def test_all_facts_of_a_host_over_ssh_and_the_same_from_its_recording(host: SshRunner, sshd: Sshd, tmp_path: Path) -> None:
    recorder = RecordingRunner(host, tmp_path / "recording")
    facts = probe(recorder, steps={"yes": ("true",)})
    assert facts.host == sshd.host(0)
    for name in ("system", "kernel", "machine", "glibc", "boot_id", "user", "memory_mib", "disk_free_mib", "packages", "holds"):
        assert getattr(facts, name).known, name
    assert facts.boot_id.found == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert (facts.user.found, facts.sudo.found, facts.steps["yes"]) == ("root", True, Seen(True))
    assert probe(ReplayRunner(tmp_path / "recording", host=sshd.host(0)), steps={"yes": ("true",)}) == facts
    host.close()
    _nothing_left(sshd)


def test_a_real_engine_is_seen(docker_host: Sshd) -> None:
    runner = _ssh(docker_host)
    engine = probe(runner, ("engine", "disk_free_mib")).engine.found
    runner.close()
    assert engine is not None
    assert engine.version
    assert "runc" in engine.runtimes
    assert engine.buildx
    assert engine.default_runtime == "runc"


def test_a_hung_nvidia_smi_costs_only_what_it_alone_can_tell(sshd: Sshd, tmp_path: Path) -> None:
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\ntrap '' TERM\nsleep 600 & sleep 601\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    sshd.set_env({"PATH": f"{tmp_path}:/usr/bin:/bin"})
    runner = _ssh(sshd)
    started = time.monotonic()
    facts = probe(runner, [name for name in FACTS if name != "engine"])
    assert time.monotonic() - started < 40
    assert facts.gpus == Seen.unseen("it did not answer within 10 s")
    assert facts.driver == Seen(None)  # no module is loaded, whatever nvidia-smi does
    assert facts.virtualization.known
    runner.close()
    _nothing_left(sshd)


def _nothing_left(sshd: Sshd) -> None:
    deadline = time.monotonic() + 10
    while sshd.left_running() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert sshd.left_running() == []
