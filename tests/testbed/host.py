"""What an engine needs of the host's kernel, made for one run and removed after it: a bridge and a cgroup.

Both carry the pid of the run, so several runs at a time do not meet, and a later run can sweep up after a killed one.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.testbed import folders
from tests.testbed.processes import program, run

if TYPE_CHECKING:
    from collections.abc import Iterator

_BRIDGE: Final = "gpt"  # an interface's name has 15 characters at most
_CGROUP: Final = "gpu-provisioner-testbed-"
_CGROUPS: Final = Path("/sys/fs/cgroup")


@contextlib.contextmanager
def bridge() -> Iterator[tuple[str, str]]:
    """A bridge with an address, and its subnet; not docker0, which belongs to the user's own engine."""
    ip = program("ip", "iproute2")
    name = f"{_BRIDGE}{os.getpid()}"
    network = f"10.{200 + os.getpid() % 50}.{os.getpid() // 50 % 256}"
    run([ip, "link", "add", "name", name, "type", "bridge"])
    try:
        run([ip, "address", "add", f"{network}.1/24", "dev", name])
        run([ip, "link", "set", name, "up"])
        yield name, f"{network}.0/24"
    finally:
        run([ip, "link", "delete", name])


@contextlib.contextmanager
def cgroup() -> Iterator[str]:
    """The name of a cgroup that the engine makes, and that is removed after it."""
    name = f"{_CGROUP}{os.getpid()}"
    try:
        yield f"/{name}"
    finally:
        _remove_cgroups(name)


def _remove_cgroups(name: str) -> None:
    """In cgroup v1 there is one below each controller."""
    for top in [*_CGROUPS.glob(name), *_CGROUPS.glob(f"*/{name}")]:
        for folder in sorted((path for path in top.rglob("*") if path.is_dir()), reverse=True):
            _rmdir(folder)
        _rmdir(top)


def _rmdir(folder: Path) -> None:
    with contextlib.suppress(OSError):  # busy: a process of it is still ending, and the next run sweeps it up
        folder.rmdir()


def sweep() -> None:
    """Remove what runs left that were killed."""
    for pid in folders.stale():
        _remove_cgroups(f"{_CGROUP}{pid}")
        if Path(f"/sys/class/net/{_BRIDGE}{pid}").exists():
            run([program("ip", "iproute2"), "link", "delete", f"{_BRIDGE}{pid}"])
