"""What the user asked for: request.yaml, the flags of `resolve`, or the facts of hosts."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal

from provisioner.errors import HostError
from provisioner.ranges import expand_range
from provisioner.stack.rows import Platform
from provisioner.values import replace, value
from provisioner.versions import Version

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from provisioner.facts import GpuFact, HostFacts
    from provisioner.stack.matrix import Matrix

# Patterns are texts and not compiled: most requests have no job, and they must not wait for what they do not use.
_JOB = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
# sbatch(1), --time: minutes, minutes:seconds, hours:minutes:seconds, and the same with days. One spelling is enough for us, the
# one that nobody misreads: 1:30 would be a minute and a half.
_TIME = r"(\d+-)?\d{1,2}:[0-5]\d:[0-5]\d"
_MEMORY = r"\d+[KMGT]?"
_MOUNT = r"[^:,\x00-\x1f\x7f]+:/[^:,\x00-\x1f\x7f]*(:(ro|rw))?"

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

    def __post_init__(self) -> None:
        """ValueError with every mistake: a job is wrong where it is written, and not first where a script is made from it."""
        if wrong := "; ".join(self._mistakes()):
            raise ValueError(f"job {self.name[:64]!r}: {wrong}")

    def _mistakes(self) -> Iterator[str]:
        if not re.fullmatch(_JOB, self.name):
            yield "a job's name is a file name too: 1 to 64 letters, digits, . _ -, the first a letter or digit (train)"
        if self.nodes != 1:
            yield f"nodes: a job of kind {self.kind} runs on one node, not on {self.nodes}"
        if self.gpus_per_node is not None and self.gpus_per_node < 0:
            yield f"gpus_per_node: {self.gpus_per_node} is not a number of GPUs (1)"
        if self.cpus_per_gpu < 1:
            yield f"cpus_per_gpu: {self.cpus_per_gpu} is not a number of CPUs (8)"
        if not re.fullmatch(_TIME, self.time):
            yield f"time: {self.time[:40]!r} is not [DAYS-]HH:MM:SS (12:00:00, 2-00:00:00)"
        if not re.fullmatch(_MEMORY, self.mem):
            yield f"mem: {self.mem[:40]!r} is not a whole number with K, M, G or T (64G); without a letter it is MiB"
        yield from (
            f"mounts: {mount[:80]!r} is not FOLDER:/FOLDER-INSIDE, with :ro or :rw after it, without a comma (/data:/data:ro)"
            for mount in self.mounts
            if not re.fullmatch(_MOUNT, mount)
        )


@value
class PoolMember:
    """Machines of one kind in a mixed pool.

    `beside` are further GPUs in the same machines. `hosts` are names and ranges with commas between (`gpu[01-04],login1`),
    `count` how many there are where they are not named, `platform` theirs where it is not the request's.
    """

    name: str
    gpu: str
    driver: str = "any"
    hosts: str = ""
    count: int | None = None
    beside: tuple[str, ...] = ()
    platform: Platform | None = None

    def __post_init__(self) -> None:
        """ValueError where `hosts` is no list of hosts, or not as many as `count` says."""
        named = len(self.host_names)
        if self.count is not None and (self.count < 1 or (named and named != self.count)):
            said = f"hosts names {named}" if named else "a member has one host at least"
            raise ValueError(f"count: {self.count}, and {said}")

    @property
    def gpus(self) -> tuple[str, ...]:
        """All GPUs of one of these machines."""
        return (self.gpu, *self.beside)

    @property
    def host_names(self) -> tuple[str, ...]:
        """The hosts with their ranges written out; a name with a user, a port or a folder stands as it is."""
        found: list[str] = []
        for text in filter(None, map(str.strip, re.split(r",(?![^\[\]]*\])", self.hosts))):
            found += [text] if re.search(r"[@:/ ]", text) else expand_range(text)
        return tuple(found)


@value
class Request:
    """What is wanted (`contracts.md`, request.yaml). Empty fields are free; filled ones are pins that the answer must hold.

    `gpus` are names as the driver reports them, short names, sm_XX, `none` (a CPU stack) or `any`. `driver` is a version, a
    branch, `any` or `upgrade`. `wsl`: the hosts are Linux inside Windows (WSL 2).
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
    wsl: bool | None = None
    code: Literal["sass", "sass+ptx"] | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    allow: tuple[str, ...] = ()
    prefer: Literal["native"] | None = None

    def __post_init__(self) -> None:
        """ValueError where the pool does not say which machines are meant."""
        if not self.pool:
            return
        if self.gpus:
            raise ValueError("gpus and pool both name machines; keep one of them")
        for what, names in (
            ("member", [member.name for member in self.pool]),
            ("host", [host for member in self.pool for host in member.host_names]),
        ):
            if len(set(names)) < len(names):
                twice = next(name for at, name in enumerate(names) if name in names[:at])
                raise ValueError(f"pool: the {what} {twice[:80]!r} stands there twice")


#: What `uname -m` says, and the platform of its images.
PLATFORMS: Mapping[str, Platform] = {"x86_64": "linux/amd64", "aarch64": "linux/arm64"}


def request_of_facts(facts: Sequence[HostFacts], matrix: Matrix, base: Request) -> Request:
    """`base` with what is free in it filled from what hosts said: GPUs, driver, kernel module flavour, system, platform.

    Equal hosts give `gpus` and `driver`, different ones a pool. HostError where a host would not say which GPUs it has: an
    unseen GPU is not the same as none.
    """
    found: dict[str, Any] = {}
    if not base.gpus and not base.pool:
        found |= _machines(facts, matrix, base)
    systems = {host.system.found.os for host in facts if host.system.known}
    if base.os is None and len(systems) == 1:
        name = systems.pop()
        row = matrix.system(name)
        found["os"] = row.id if row else name
    if base.wsl is None and any(host.virtualization.known and host.virtualization.found == "wsl" for host in facts):
        found["wsl"] = True
    machines = {_platform(host) for host in facts if host.machine.known}
    if len(machines) == 1 and base.platform == Request().platform and (platform := machines.pop()) is not None:
        found["platform"] = platform
    return replace(base, **found)


def _machines(facts: Sequence[HostFacts], matrix: Matrix, base: Request) -> dict[str, Any]:
    groups: dict[tuple[tuple[str, ...], str, Platform | None], list[HostFacts]] = {}
    for host in facts:
        groups.setdefault((_gpu_names(host, matrix), _driver(host, base), _platform(host)), []).append(host)
    without = [host for (gpus, _, _), hosts in groups.items() if not gpus for host in hosts]
    if without and len(groups) > 1:
        raise HostError(
            without[0].host, "has no GPU, and other hosts have", hint="ask for the hosts with GPUs and the rest apart"
        )
    found: dict[str, Any] = {}
    flavours = {host.driver.found.flavour for host in facts if host.driver.known and host.driver.found is not None}
    if base.kernel_modules is None and base.driver == "any" and len(flavours) == 1 and (flavour := flavours.pop()) is not None:
        found["kernel_modules"] = flavour
    if len(groups) == 1:
        ((gpus, driver, _),) = groups
        return found | {"gpus": gpus or ("none",), "driver": driver}
    mixed = len({platform for _, _, platform in groups}) > 1
    members: list[PoolMember] = []
    for (gpus, driver, platform), hosts in groups.items():
        member = PoolMember(
            name=_member_name(gpus, driver, [known.name for known in members]),
            gpu=gpus[0],
            beside=gpus[1:],
            driver=driver,
            hosts=",".join(host.host for host in hosts),
            count=len(hosts),
            platform=platform if mixed else None,
        )
        members.append(member)
    return found | {"pool": tuple(members)}


def _member_name(gpus: Sequence[str], driver: str, taken: Sequence[str]) -> str:
    """The GPUs of a group; with the driver, and then a number, where another group has the same ones."""
    plain = " + ".join(gpus)
    names = itertools.chain((plain, f"{plain}, driver {driver}"), (f"{plain} {number}" for number in itertools.count(2)))
    return next(name for name in names if name not in taken)


def _platform(host: HostFacts) -> Platform | None:
    return PLATFORMS.get(host.machine.found) if host.machine.known else None


def _driver(host: HostFacts, base: Request) -> str:
    """The driver that was asked for, else the one that is loaded; `any` on a host without one."""
    if base.driver != "any":
        return base.driver
    loaded = host.driver.found if host.driver.known else None
    return loaded.version if loaded is not None else "any"


def _gpu_names(host: HostFacts, matrix: Matrix) -> tuple[str, ...]:
    """The names of a host's GPUs, each once; the capability where the matrix does not know a name."""
    name_them = "name them: --gpu NAME"
    if not host.gpus.known:
        raise HostError(host.host, f"its GPUs could not be seen: {host.gpus.why_not}", hint=name_them)
    if not host.gpus.found and host.pci.known and host.pci.found:
        devices = ", ".join(host.pci.found)
        raise HostError(host.host, f"has NVIDIA devices ({devices}) that no driver reports by name", hint=name_them)
    return tuple(dict.fromkeys(_known_name(gpu, matrix) for gpu in host.gpus.found))


def _known_name(gpu: GpuFact, matrix: Matrix) -> str:
    from provisioner.stack.gpu_names import match_gpus

    return gpu.name if gpu.capability is None or match_gpus(gpu.name, matrix) else gpu.capability
