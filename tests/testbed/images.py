"""Stand-ins for base images: there is no registry to pull from, so debootstrap makes a root file system.

It is tagged with the reference that a lock names, so a rendered Dockerfile builds unchanged: a stand-in for the base,
and everything above it is real. Unlike `python:X.Y-slim` it has the distribution's Python, linked into /usr/local/bin
where the real one has its own. The machine's CA bundle is not in it: passing that is what is tested.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from tests.testbed.folders import cached, cached_path
from tests.testbed.packages import KEYRING, mirror
from tests.testbed.processes import contained, program, run
from tests.testbed.require import MissingPartError, may_fetch

if TYPE_CHECKING:
    from pathlib import Path

    from tests.testbed.engine import Engine

_PART: Final = "docker"
_TARBALL: Final = "rootfs.tar"
_DEBOOTSTRAP_SECONDS: Final = 1200.0
# What a base image does not carry: the package lists and caches that debootstrap leaves, and the machine's names.
_UNWANTED: Final = (
    "./var/lib/apt/lists/*",
    "./var/cache/apt/*.bin",
    "./var/cache/apt/archives/*.deb",
    "./var/log/*",
    "./etc/hostname",
    "./etc/resolv.conf",
)


@dataclass(frozen=True)
class Recipe:
    """What a stand-in is made of; another recipe is another tarball in the cache."""

    suite: str
    packages: tuple[str, ...]
    links: tuple[tuple[str, str], ...]  # (path, what it points to)
    changes: tuple[str, ...]  # instructions for the image's configuration


PYTHON_BOOKWORM: Final = Recipe(
    suite="bookworm",
    packages=("ca-certificates", "python3", "python3-venv"),
    links=tuple((f"usr/local/bin/{name}", "/usr/bin/python3.11") for name in ("python", "python3", "python3.11")),
    changes=(
        "ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "ENV LANG=C.UTF-8",
        'CMD ["python3"]',
    ),
)


def rootfs(recipe: Recipe = PYTHON_BOOKWORM) -> Path:
    """The tarball of a stand-in, made once (40 s) where engine tests are required."""
    if not may_fetch(_PART) and not cached_path("rootfs", asdict(recipe)).is_dir():
        raise MissingPartError(f"no stand-in base image made yet: .venv/bin/python -m tests.testbed {_PART}")
    return cached("rootfs", asdict(recipe), lambda folder: _bootstrap(folder, recipe)) / _TARBALL


def _bootstrap(folder: Path, recipe: Recipe) -> None:
    if os.geteuid() != 0:
        raise MissingPartError("debootstrap needs root")
    root = folder / "root"
    argv = [program("debootstrap", "debootstrap"), "--variant=minbase", f"--include={','.join(recipe.packages)}"]
    # Contained: what it mounts in there is gone also when it is killed.
    argv += [f"--keyring={KEYRING}", recipe.suite, str(root), mirror()]
    run(contained(argv), timeout=_DEBOOTSTRAP_SECONDS)
    for path, target in recipe.links:
        (root / path).symlink_to(target)
    exclude = [f"--exclude={pattern}" for pattern in (*_UNWANTED, "./dev/*", "./proc/*", "./sys/*")]
    run(["tar", "--numeric-owner", *exclude, "-C", str(root), "-cf", str(folder / _TARBALL), "."])
    run(["rm", "-rf", "--one-file-system", str(root)])


def provide(engine: Engine, reference: str, recipe: Recipe = PYTHON_BOOKWORM) -> str:
    """Import the stand-in into an engine under a reference such as `python:3.11-slim-bookworm`; tell its id."""
    changes = [word for change in recipe.changes for word in ("--change", change)]
    return engine.run("import", *changes, str(rootfs(recipe)), reference).stdout.strip()
