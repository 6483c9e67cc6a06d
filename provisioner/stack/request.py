"""What the user asked for: request.yaml, the flags of `resolve`, or the facts of hosts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from provisioner.stack.matrix import Platform
from provisioner.values import value
from provisioner.versions import Version

JobKind = Literal["single"]
Launcher = Literal["apptainer", "pyxis", "venv"]


@value
class Job:
    """A job that a scheduler runs with the stack. `mem` as Slurm writes it (64G), `time` as [D-]HH:MM:SS, `command` an argv."""

    name: str = "job"
    kind: JobKind = "single"
    nodes: int = 1
    gpus_per_node: int | None = None  # None: one where the stack has GPUs, else none
    cpus_per_gpu: int = 4
    mem: str = "16G"
    time: str = "01:00:00"
    command: tuple[str, ...] = ()
    launcher: Launcher = "apptainer"
    mounts: tuple[str, ...] = ()


@value
class PoolMember:
    """Machines of one kind in a mixed pool."""

    name: str
    gpu: str
    driver: str = "any"
    hosts: str = ""
    count: int | None = None


@value
class Request:
    """What is wanted (`contracts.md`, request.yaml). Empty fields are free; filled ones are pins that the answer must hold.

    `gpus` are names as the driver reports them, short names, sm_XX, `none` (a CPU stack) or `any`. `driver` is a version, a
    branch, `any` or `upgrade`.
    """

    format: Literal[1] = 1
    gpus: tuple[str, ...] = ()
    driver: str = "any"
    pool: tuple[PoolMember, ...] = ()
    python: str | None = None
    os: str | None = None
    image_os: str | None = None
    platform: Platform = "linux/amd64"
    packages: tuple[str, ...] = ()
    purpose: Literal["run", "build"] = "run"
    project: str | None = None
    apt: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    jobs: tuple[Job, ...] = ()
    variant: str | None = None
    index: tuple[str, ...] | str | None = None
    image: str | None = None
    cuda: Version | None = None
    cudnn: Version | None = None
    nccl: Version | None = None
    glibc: Version | None = None
    libc: Literal["glibc", "musl"] | None = None
    kernel_modules: Literal["open", "proprietary"] | None = None
    cuda_compat: bool | None = None
    compiler: str | None = None
    toolkit: Version | None = None
    jetpack: str | None = None
    fabric_manager: Version | None = None
    nvswitch: bool | None = None
    nvlsm: bool | None = None
    code: Literal["sass", "sass+ptx"] | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    allow: tuple[str, ...] = ()
    prefer: Literal["native"] | None = None
