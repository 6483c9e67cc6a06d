"""Where the test bed keeps things: a cache that outlives the run, and scratch folders that do not.

A scratch folder carries the pid of the run that made it, so a later run can tell the remains of a killed one.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

# The environment as the run was started: tests/conftest.py gives each test folders of its own, which must move neither
# the cache nor pip's configuration.
ENVIRONMENT: Final[Mapping[str, str]] = dict(os.environ)

_SCRATCH = Path("/var/tmp")  # not /tmp: that is memory on many machines, and an engine's data are gigabytes
_PREFIX = "gpt"


def cache() -> Path:
    """`$XDG_CACHE_HOME/gpu-provisioner-testbed`."""
    base = Path(ENVIRONMENT.get("XDG_CACHE_HOME") or Path(ENVIRONMENT.get("HOME", "/root"), ".cache"))
    folder = base / "gpu-provisioner-testbed"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def digest(recipe: object) -> str:
    """A short name for a recipe: what is made from another recipe gets another name."""
    return hashlib.sha256(json.dumps(recipe, sort_keys=True, default=str).encode()).hexdigest()[:16]


def cached_path(name: str, recipe: object) -> Path:
    """Where `cached` keeps what it makes from this recipe."""
    return cache() / f"{name}-{digest(recipe)}"


def cached(name: str, recipe: object, make: Callable[[Path], None]) -> Path:
    """The folder that `make` fills once for this recipe; two runs at a time wait for each other."""
    folder = cached_path(name, recipe)
    with (cache() / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            unfinished = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=cache()))
            try:
                unfinished.chmod(0o755)
                make(unfinished)
                unfinished.rename(folder)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)
    return folder


@contextlib.contextmanager
def scratch(part: str) -> Iterator[Path]:
    """A new folder for one part; removed with all that is in it. Its path is short: a socket's has 107 characters."""
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}-{os.getpid()}-{part}-", dir=_SCRATCH))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def stale() -> list[int]:
    """Remove the scratch folders of runs that were killed, and tell their pids."""
    dead = set()
    for folder in _SCRATCH.glob(f"{_PREFIX}-*-*"):
        pid = folder.name.split("-")[1]
        if pid.isdigit() and not Path("/proc", pid).exists():
            dead.add(int(pid))
            shutil.rmtree(folder, ignore_errors=True)
    return sorted(dead)
