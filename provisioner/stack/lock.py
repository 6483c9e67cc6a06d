"""The answer and how it is carried: Stack, Lock, and `stack.lock.yaml`.

A lock holds no address, no secret and no timestamp: indexes are symbolic (`pypi`, `pytorch/cu128`) and site.yaml maps them to
addresses. What could not be had is null with `why_not`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Literal

from provisioner.findings import Because, Remedy
from provisioner.stack.gpus import Capability
from provisioner.stack.request import Job
from provisioner.stack.rows import Flavour, ModuleFlavour, Platform, Published
from provisioner.values import Problem, value
from provisioner.versions import Version

if TYPE_CHECKING:
    from pathlib import Path

    from provisioner.stack.matrix import Matrix
    from provisioner.stack.request import Request

Compatibility = Literal["native", "minor-version", "forward", "none"]


@value
class Image:
    """The base image of a stack, with the catalogue's reference (`python:3.12-slim-bookworm`)."""

    reference: str
    flavour: Flavour
    os: str
    digest: str | None = None


@value
class Size:
    """The predicted download in bytes of the packages, and their size on disk; `basis` says how they are known.

    `cuda`: the bytes of the download that are NVIDIA's libraries, which a CUDA base image (runtime, devel) holds a second time.
    """

    download: int
    unpacked: int | None = None
    cuda: int | None = None
    basis: str


@value
class Stack:
    """What fits together.

    `compatibility` is how the build meets the driver that was asked, or where it is free the lowest that does (`min_driver`);
    `none`: a CPU build, or a driver rule that `--allow` overrode. `driver_branch`: the branch of the driver, for `upgrade` the
    one to install. `build_image` has the compiler where the request's purpose is to build, else None.
    `gpus` are product names, `capabilities` what the build must run on, `packages` requirement strings with the framework's build
    first, `because` the row and the source that made each choice, `excludes` what the compatibility mode excludes and what not.
    """

    framework: str
    version: Version
    variant: str
    index: str
    published: Published
    cuda: Version | None = None
    cudnn: Version | None = None
    nccl: Version | None = None
    python: str
    platform: Platform
    image: Image
    build_image: Image | None = None
    gpus: tuple[str, ...] = ()
    capabilities: tuple[Capability, ...] = ()
    driver: str = "any"  # as asked
    driver_branch: str | None = None
    min_driver: Version | None = None
    last_driver: str | None = None  # the last branch that drives these GPUs
    kernel_modules: tuple[ModuleFlavour, ...] = ()  # the flavours that drive these GPUs; empty for a CPU stack
    compatibility: Compatibility
    sass: tuple[Capability, ...] = ()
    packages: tuple[str, ...]
    size: Size | None = None
    command: str  # the one command to type, default indexes
    because: tuple[Because, ...] = ()
    excludes: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()  # rules overridden by --allow
    notes: tuple[str, ...] = ()  # what is not known of this stack


@value
class Refusal:
    """A rule that said no. `rule` and `finding` are stable ids (`arch-not-in-build`), `fact` is one sentence with the numbers.

    `certain` is False where the request goes beyond the data (a release newer than the matrix): unknown, and no conflict.
    """

    rule: str
    finding: str
    fact: str
    because: tuple[Because, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    certain: bool = True


@value
class Candidate:
    """One build that was considered: what kept it (`because`), or which rules refused it."""

    version: Version
    variant: str
    kept: bool
    refused_by: tuple[Refusal, ...] = ()
    platform: Platform = "linux/amd64"
    index: str = ""
    published: Published = "seen"
    compatibility: Compatibility | None = None  # None: refused
    because: tuple[Because, ...] = ()


@value
class Pin:
    """One package of the lock. `index` is symbolic. `hashes` are `sha256:…`."""

    name: str
    version: str
    hashes: tuple[str, ...] = ()
    index: str = "pypi"


@value
class Pins:
    """The whole dependency set, or `why_not`."""

    packages: tuple[Pin, ...] = ()
    hashed: bool = False
    why_not: str | None = None


@value
class Lock:
    """stack.lock.yaml: one stack, what surrounds it in the image, the jobs, and the pins."""

    format: Literal[1] = 1
    generator: str  # provisioner 0.1.0
    matrix: str  # SHA-256 of the matrix that answered
    stack: Stack
    pins: Pins
    os: str | None = None  # of the hosts, as the request names it
    apt: tuple[str, ...] = ()
    project: str | None = None
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    jobs: tuple[Job, ...] = ()


def lock(stack: Stack, request: Request, pins: Pins, matrix: Matrix) -> Lock:
    """The lock of `stack`: what surrounds it in `request` goes along unchanged."""
    from provisioner import __version__

    return Lock(
        generator=f"provisioner {__version__}",
        matrix=matrix.sha256,
        stack=stack,
        pins=pins,
        os=request.os,
        apt=request.apt,
        project=request.project,
        command=request.command,
        env=request.env,
        secrets=request.secrets,
        options=request.options,
        jobs=request.jobs,
    )


def lock_text(lock: Lock) -> str:
    """stack.lock.yaml; the same lock gives the same bytes."""
    from provisioner.decode import dump_yaml

    return dump_yaml(lock)


def lock_hash(lock: Lock) -> str:
    """The SHA-256 of the lock's text, in hexadecimal digits: what generated files name."""
    import hashlib

    return hashlib.sha256(lock_text(lock).encode()).hexdigest()


def read_lock(path: Path) -> Lock:
    """The lock at `path`; LockError with every mistake and its place, also for one that a newer provisioner made."""
    from provisioner.decode import decode, read_text
    from provisioner.errors import LockError

    text = read_text(path, LockError)
    _refuse_newer(text, str(path))
    return decode(text, str(path), Lock, LockError)


def _refuse_newer(text: str, source: str) -> None:
    from provisioner.decode import is_newer
    from provisioner.errors import LockError

    for line, content in enumerate(text.splitlines(), start=1):
        name, _, number = content.partition(":")
        if name == "format" and is_newer(number.strip()):
            message = f"made by a newer provisioner (format {number.strip()[:9]}; this one reads format 1)"
            raise LockError([Problem(file=source, line=line, column=1, message=message)], hint="install the newer provisioner")
