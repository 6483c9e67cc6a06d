"""The compatibility matrix: the rows of `compat_matrix.yaml`, the invariants across them, and the compiled form.

One section a kind, one row one line. Every row names its sources (ids of the section `sources`) and how far it is verified.
A row is looked up, never computed: absence of a row is a refusal or unknown, never a yes. A null fact neither refuses nor passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from provisioner.stack.gpus import Capability
from provisioner.values import value
from provisioner.versions import Version

#: How far a row is verified: read from a package index or inside a published wheel; read in the named document; computed from
#: those; from a third party; remembered. A row of level `recall` may inform, but is never the only reason to refuse.
Verified = Literal["metadata", "source", "derived", "secondary", "recall"]
#: `seen` in use, `named` by a document but not seen, `no`: known not to exist.
Published = Literal["seen", "named", "no"]
ModuleFlavour = Literal["open", "proprietary"]
#: slim: python:X.Y-slim; base, runtime, devel: as nvidia/cuda tags them, with or without cuDNN.
Flavour = Literal["slim", "base", "runtime", "devel", "cudnn-runtime", "cudnn-devel"]
Platform = Literal["linux/amd64", "linux/arm64"]


@value
class Source:
    """A document that facts were read in."""

    id: str
    document: str
    retrieved: str = ""


@value
class Architecture:
    """A GPU generation. `open_modules`: unsupported before Turing, required from Blackwell on."""

    id: str
    name: str
    open_modules: Literal["unsupported", "supported", "required"]
    first_driver: str | None = None  # branch
    last_driver: str | None = None  # branch; None: not ended
    source: tuple[str, ...]
    verified: Verified


@value
class ComputeCapability:
    """A compute capability and the CUDA minors whose toolkit can target it."""

    capability: Capability
    architecture: str
    first_cuda: Version | None = None
    last_cuda: Version | None = None
    source: tuple[str, ...]
    verified: Verified


@value
class Gpu:
    """A product under the name that the driver reports. `first_driver_seen` is an upper bound and never refuses."""

    name: str
    aliases: tuple[str, ...] = ()
    segment: str
    architecture: str
    capability: Capability
    open_modules: Literal["unsupported", "supported", "required"] | None = None
    last_driver: str | None = None  # branch
    first_driver_seen: Version | None = None
    mig: bool | None = None
    source: tuple[str, ...]
    verified: Verified


@value
class DriverBranch:
    """A driver branch (R580). `first`: its first known release, which a bare branch means; `latest`: the newest seen, no ceiling."""

    branch: str
    type: str
    max_cuda: Version
    first: Version | None = None
    latest: Version | None = None
    release_date: str | None = None
    eol: str | None = None
    architectures: tuple[str, ...]
    open_modules: str  # none, alpha …, default, only flavour: as the source says
    status: str
    source: tuple[str, ...]
    verified: Verified


@value
class Cuda:
    """A CUDA minor.

    `native_driver`: from it on a driver was released with this CUDA or a newer one. `min_driver`: from it on minor version
    compatibility holds (None: there is none before CUDA 11). `sm`: the targets its ptxas accepts.
    """

    version: Version
    native_driver: Version | None = None
    native_branch: str | None = None
    min_driver: Version | None = None
    sm: tuple[Capability, ...]
    gcc_max: str | None = None
    source: tuple[str, ...]
    verified: Verified


@value
class CudaRelease:
    """A CUDA toolkit release (12.8.1), its minor, and the driver it was released with."""

    version: Version
    minor: Version
    driver: Version | None = None
    release_date: str | None = None
    source: tuple[str, ...]
    verified: Verified


@value
class ForwardCompat:
    """cuda-compat of `cuda` on driver `branch`, data-centre GPUs only: C works, N/A is native, X is not supported."""

    cuda: Version
    branch: str
    state: Literal["C", "N/A", "X"]
    source: tuple[str, ...]
    verified: Verified


@value
class Index:
    """A package index by its symbolic id (`pypi`, `pytorch/cu128`). `url` None: the client's own default."""

    id: str
    url: str | None = None
    source: tuple[str, ...]
    verified: Verified


@value
class Framework:
    """A framework: the distribution that carries it, its companions, and who brings CUDA.

    `cuda_from`: `wheels` (the build pulls its CUDA libraries in) or `system` (the image must have them). `smoke` is the script in
    templates/smoke.
    """

    id: str  # the distribution's name: torch
    name: str  # as people write it: PyTorch
    cuda_from: Literal["wheels", "system"]
    companions: tuple[str, ...] = ()
    smoke: str
    source: tuple[str, ...]
    verified: Verified


@value
class Release:
    """A release of a framework: its date, and the companion releases that go with it (distribution → version or bound)."""

    framework: str
    version: Version
    date: str | None = None
    companions: Mapping[str, str]
    numpy2: bool | None = None
    source: tuple[str, ...]
    verified: Verified


@value
class Variant:
    """A build variant: one build of one framework release for one platform.

    `tag` is the local version (`cu128`, `cpu`), `default` whether the index that pip asks by itself serves it. `cuda` None: a CPU
    build. `sass` are cubin targets, `ptx` PTX targets. `glibc` is the floor. None: not known.
    """

    framework: str
    version: Version
    tag: str
    platform: Platform
    index: str
    default: bool = False
    published: Published
    cuda: Version | None = None
    cudnn: Version | None = None
    nccl: Version | None = None
    pythons: tuple[str, ...]
    sass: tuple[Capability, ...] | None = None
    ptx: tuple[Capability, ...] = ()
    glibc: Version | None = None
    download: int | None = None  # bytes of this wheel
    note: str = ""
    source: tuple[str, ...]
    verified: Verified


@value
class System:
    """An operating system release, of hosts or of images: its C library and its own Python."""

    id: str  # ubuntu22.04, debian12, rockylinux9
    name: str
    family: Literal["debian", "rhel", "other"]
    libc: Literal["glibc", "musl"] = "glibc"
    glibc: Version | None = None
    python: str | None = None  # the distribution's python3
    source: tuple[str, ...]
    verified: Verified


@value
class ImageRow:
    """Base images of one release on one system: a catalogue of tags. One row stands for `tags`, flavour → whole tag."""

    repository: str  # nvidia/cuda, python
    os: str  # id of a System
    cuda: Version | None = None
    cudnn: Version | None = None
    python: str | None = None
    tags: Mapping[str, str]  # flavour → tag
    platforms: tuple[Platform, ...]
    first_seen: str | None = None
    last_seen: str | None = None
    maintained: bool | None = None
    published: Published = "seen"
    note: str = ""
    source: tuple[str, ...]
    verified: Verified


@value
class Closure:
    """The measured download and disk size in bytes of a requirement with all that it pulls in."""

    requirement: str
    python: str
    platform: Platform
    packages: int
    download: int
    unpacked: int
    cuda_download: int | None = None
    source: tuple[str, ...]
    verified: Verified
