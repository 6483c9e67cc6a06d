"""Ctrl-C while hosts work: exit 130, and nothing goes on anywhere."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.testbed.sshd import Sshd


#: A shell starts what runs in the background with SIGINT ignored, and that is inherited: begin as at a terminal.
_HEEDING = (
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); "
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)


def _until(what: str, seconds: float, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if holds():
            return
        time.sleep(0.1)
    pytest.fail(f"not within {seconds} s: {what}")


@pytest.mark.parametrize("hosts", [1, 2])
def test_an_interrupt_ends_the_builds_on_every_host(hosts: int, tmp_path: Path, sshd: Sshd) -> None:
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "docker").write_text(f'#!/bin/sh\ncat >/dev/null\ntouch "{tmp_path}/begun.$$"\nsleep 300\n')
    (fake / "docker").chmod(0o755)
    sshd.set_env({"PATH": f"{fake}:{os.environ['PATH']}"})
    context = tmp_path / "context"
    context.mkdir()
    (context / "Dockerfile").write_text("FROM scratch\n")
    argv = [sys.executable, "-c", _HEEDING, "-m", "provisioner", "build", str(context), "--tag", "x:y"]
    argv += ["--known-hosts", str(sshd.known_hosts), "--ssh-config", str(sshd.client_config)]
    for index in range(hosts):
        argv += ["--on", sshd.host(index)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        _until("every host builds", 30, lambda: len(list(tmp_path.glob("begun.*"))) >= hosts)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "interrupted" in err
    _until("the hosts are quiet", 15, lambda: sshd.left_running() == [])
