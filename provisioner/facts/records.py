"""What is known of a host, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from provisioner.findings import Seen
from provisioner.values import value


@value
class SystemFact:
    """/etc/os-release: `id` and `version` as they stand there (debian, 12); `os` is the matrix's name (debian12, ubuntu22.04)."""

    id: str
    version: str
    name: str
    like: tuple[str, ...] = ()

    @property
    def os(self) -> str:
        """The id of the matrix's row for this system."""
        return f"{self.id}{self.version}"


@value
class GpuFact:
    """One GPU as the driver reports it. `memory_mib` None: not supported, as on GB10. `capability` None: nvidia-smi did not say.

    `name` ends with `...` where a table of nvidia-smi had no room for all of it. `mig` is Enabled, Disabled, or None: it cannot.
    """

    index: int
    name: str
    uuid: str = ""
    memory_mib: int | None = None
    driver: str | None = None
    capability: str | None = None
    mig: str | None = None


@value
class DriverFact:
    """The loaded NVIDIA kernel module. `cuda` is the highest CUDA its user-mode part supports, not an installed toolkit."""

    version: str
    flavour: Literal["open", "proprietary"] | None = None
    cuda: str | None = None


@value
class EngineFact:
    """The container engine: the server's version, buildx's where it is there, runtimes, CDI folders. `name`: docker or podman."""

    version: str
    name: str = "docker"
    buildx: str | None = None
    runtimes: tuple[str, ...] = ()
    default_runtime: str = "runc"
    cdi_folders: tuple[str, ...] = ()
    rootless: bool = False


@value
class HostFacts:
    """What a host said, each field the answer to one row of FACTS. A field that nobody asked for is unseen ("not asked")."""

    host: str
    system: Seen[SystemFact]
    kernel: Seen[str]
    machine: Seen[str]  # x86_64, aarch64
    glibc: Seen[str | None]
    boot_id: Seen[str]
    user: Seen[str]
    sudo: Seen[bool]  # root, or root without a password
    gpus: Seen[tuple[GpuFact, ...]]
    pci: Seen[tuple[str, ...]]  # vendor:device of NVIDIA display controllers, without a driver
    driver: Seen[DriverFact | None]
    nouveau: Seen[bool]
    secure_boot: Seen[bool]
    packages: Seen[Mapping[str, str]]  # installed packages of the driver, the toolkit and Docker → version
    holds: Seen[tuple[str, ...]]
    engine: Seen[EngineFact | None]
    toolkit: Seen[str | None]  # nvidia-ctk's version
    cdi: Seen[tuple[str, ...]]  # CDI device names
    device_nodes: Seen[tuple[str, ...]]
    memory_mib: Seen[int]
    disk_free_mib: Seen[int]  # where the engine keeps its data
    slurm: Seen[str | None]  # version of slurmd or srun
    virtualization: Seen[str]  # none, kvm, wsl …
    steps: Mapping[str, Seen[bool]] = field(default_factory=dict)
