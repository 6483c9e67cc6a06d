"""The rows of `compat_matrix.yaml`: one class a section.

One section a kind, one row one line. Every row names its sources (ids of the section `sources`) and how far it is verified.
A row is looked up, never computed: absence of a row is a refusal or unknown, never a yes. A null fact neither refuses nor passes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from provisioner.stack.gpus import Capability
from provisioner.stack.package_rows import Container, Library, PackageRow, Recipe
from provisioner.stack.row_types import CudaFrom, Platform, Published, Verified
from provisioner.values import value
from provisioner.versions import Version

__all__ = [
    "SECTIONS",
    "Architecture",
    "Closure",
    "ComputeCapability",
    "Container",
    "Cuda",
    "CudaFrom",
    "CudaRelease",
    "DriverBranch",
    "Flavour",
    "ForwardCompat",
    "Framework",
    "Gpu",
    "ImageRow",
    "Index",
    "Library",
    "MatrixFile",
    "ModuleFlavour",
    "PackageRow",
    "Platform",
    "Published",
    "Recipe",
    "Release",
    "Section",
    "Source",
    "System",
    "Variant",
    "Verified",
    "key_of",
    "order_of",
]

ModuleFlavour = Literal["open", "proprietary"]
#: slim: python:X.Y-slim; base, runtime, devel: as nvidia/cuda tags them, with or without cuDNN.
Flavour = Literal["slim", "base", "runtime", "devel", "cudnn-runtime", "cudnn-devel"]


@value
class Source:
    """A document that facts were read in."""

    id: str
    document: str
    retrieved: str = ""


@value
class Architecture:
    """A GPU generation. `open_modules`: unsupported before Turing, required from Blackwell on.

    `precisions` are the short ones that its GPUs compute in (`bf16`, `tf32`, `fp8`, `fp4`); None: not known.
    """

    id: str
    name: str
    precisions: tuple[str, ...] | None = None
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
    """A product under the name that the driver reports. `first_driver_seen` is an upper bound and never refuses.

    `aliases` are names that the rule of `gpu_names` cannot reach from the name. `fabric_manager`: boards of this name can sit
    behind NVSwitches; whether one does, only the host can tell. Three names stand for two chips: `capability` is then the lower
    one, on which whatever runs runs on both, and `or_capability` the other.
    """

    name: str
    aliases: tuple[str, ...] = ()
    segment: str
    architecture: str
    capability: Capability
    or_capability: Capability | None = None
    open_modules: Literal["unsupported", "supported", "required"] | None = None
    last_driver: str | None = None  # branch
    first_driver_seen: Version | None = None
    mig: bool | None = None
    memory_gb: int | None = None
    fabric_manager: bool = False
    source: tuple[str, ...]
    verified: Verified


@value
class DriverBranch:
    """A driver branch (R580).

    `first` is its first release other than betas, as far as known (what a bare branch means), `latest` the newest seen, no
    ceiling. `max_cuda` is what nvidia-smi prints, which need not be a toolkit that exists (12.7).
    """

    branch: str
    type: str
    max_cuda: Version
    first: Version | None = None
    latest: Version | None = None
    release_date: str | None = None
    eol: str | None = None
    architectures: tuple[str, ...]
    open_modules: str  # none, available, only flavour: as the source says
    status: str
    note: str = ""
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
    note: str = ""
    source: tuple[str, ...]
    verified: Verified


@value
class CudaRelease:
    """A CUDA toolkit release (12.8.1), its minor, and the driver it was released with."""

    version: Version
    minor: Version
    driver: Version | None = None
    release_date: str | None = None
    note: str = ""
    source: tuple[str, ...]
    verified: Verified


@value
class ForwardCompat:
    """cuda-compat of `cuda` on driver `branch`, data-centre GPUs only: C works, N/A is native, X is no use (a newer driver)."""

    cuda: Version
    branch: str
    state: Literal["C", "N/A", "X"]
    note: str = ""
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
    templates/smoke. `under_minor_version` says what minor version compatibility excludes for it, and what it does not.
    """

    id: str  # the distribution's name: torch
    name: str  # as people write it: PyTorch
    cuda_from: CudaFrom
    companions: tuple[str, ...] = ()
    smoke: str
    under_minor_version: tuple[str, ...] = ()
    source: tuple[str, ...]
    verified: Verified


@value
class Release:
    """A release of a framework: its date, and the companion releases that go with it (distribution → version or bound).

    `numpy2`: whether it works with NumPy 2.
    """

    framework: str
    version: Version
    date: str | None = None
    companions: Mapping[str, str]
    numpy2: bool | None = None
    numpy: str | None = None  # its own bound on NumPy
    source: tuple[str, ...]
    verified: Verified


@value
class Variant:
    """A build variant: one build of one framework release for one platform.

    `tag` is the local version (`cu128`, `cpu`) or, where a framework has none, the name of what is installed (`cuda13`,
    `and-cuda`); `default` whether the index that pip asks by itself serves it. `index` is where a
    request finds it by default, `also` further indexes that are known to have it. `cuda` None: a CPU build. `sass` are cubin
    targets, `ptx` PTX targets. `glibc` is the floor. None: not known.

    `requirement` is what pip is given when that is not distribution==version (`jax[cuda13]==0.10.2`). `cuda_from` overrides the
    framework's. `libraries` are the bounds on cuDNN and NCCL that it comes with, as requirements, where they are ranges (an exact
    one stands in `cudnn`, `nccl`). With CUDA from the system, `cuda` is what it was built with, `cudnn` what it was tested with.
    `pins` must be installed beside it, for its own bounds let through a newer release that it does not run with.
    `min_capability` is a floor that its documentation sets above that of its machine code.
    """

    framework: str
    version: Version
    tag: str
    platform: Platform
    index: str
    also: tuple[str, ...] = ()
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
    local: str | None = None  # the local version of its wheels where that is not the tag; empty: they have none
    requirement: str | None = None
    cuda_from: CudaFrom | None = None
    libraries: tuple[str, ...] = ()
    pins: tuple[str, ...] = ()
    min_capability: Capability | None = None
    note: str = ""
    source: tuple[str, ...]
    verified: Verified


@value
class System:
    """An operating system release, of hosts or of images: its C library and its own Python.

    `release` are the names that its /etc/os-release may give, ID and as much of VERSION_ID as decides: `rocky 9` stands for 9.4.
    """

    id: str  # as images are tagged: ubuntu22.04, debian12, rockylinux9
    name: str
    family: Literal["debian", "rhel", "other"]
    release: tuple[str, ...] = ()
    libc: Literal["glibc", "musl"] = "glibc"
    glibc: Version | None = None
    python: str | None = None  # the distribution's python3
    note: str = ""
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


@value
class Section:
    """A section of the file: the class of its rows, and the fields that together name a row."""

    row: type[Any]
    key: tuple[str, ...]


#: Every section in the order of the file.
SECTIONS: Mapping[str, Section] = {
    "sources": Section(row=Source, key=("id",)),
    "architectures": Section(row=Architecture, key=("id",)),
    "capabilities": Section(row=ComputeCapability, key=("capability",)),
    "gpus": Section(row=Gpu, key=("name",)),
    "drivers": Section(row=DriverBranch, key=("branch",)),
    "cuda": Section(row=Cuda, key=("version",)),
    "cuda_releases": Section(row=CudaRelease, key=("version",)),
    "forward_compat": Section(row=ForwardCompat, key=("cuda", "branch")),
    "indexes": Section(row=Index, key=("id",)),
    "frameworks": Section(row=Framework, key=("id",)),
    "releases": Section(row=Release, key=("framework", "version")),
    "variants": Section(row=Variant, key=("framework", "version", "tag", "platform")),
    "images": Section(row=ImageRow, key=("repository", "cuda", "python", "os")),
    "systems": Section(row=System, key=("id",)),
    "closures": Section(row=Closure, key=("requirement", "python", "platform")),
    "packages": Section(row=PackageRow, key=("package", "version", "platform")),
    "recipes": Section(row=Recipe, key=("id",)),
    "libraries": Section(row=Library, key=("library", "cuda_major", "first")),
    "containers": Section(row=Container, key=("family", "release")),
}


@value
class MatrixFile:
    """The whole file, or an overlay, which has the sections that it changes."""

    schema: Literal[1]
    collected: str = ""
    sources: tuple[Source, ...] = ()
    architectures: tuple[Architecture, ...] = ()
    capabilities: tuple[ComputeCapability, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    drivers: tuple[DriverBranch, ...] = ()
    cuda: tuple[Cuda, ...] = ()
    cuda_releases: tuple[CudaRelease, ...] = ()
    forward_compat: tuple[ForwardCompat, ...] = ()
    indexes: tuple[Index, ...] = ()
    frameworks: tuple[Framework, ...] = ()
    releases: tuple[Release, ...] = ()
    variants: tuple[Variant, ...] = ()
    images: tuple[ImageRow, ...] = ()
    systems: tuple[System, ...] = ()
    closures: tuple[Closure, ...] = ()
    packages: tuple[PackageRow, ...] = ()
    recipes: tuple[Recipe, ...] = ()
    libraries: tuple[Library, ...] = ()
    containers: tuple[Container, ...] = ()


def key_of(section: str, row: object) -> str:
    """The id of a row within its section: `torch 2.9.1 cu128 linux/amd64`."""
    parts = (getattr(row, name) for name in SECTIONS[section].key)
    return " ".join(str(part) for part in parts if part is not None)


def order_of(key: str) -> tuple[tuple[int, int, str], ...]:
    """Where a row with `key` stands in its section: numbers as numbers (12.10 after 12.9), letters whatever their case."""
    pieces = re.split(r"(\d+)", key)
    natural = tuple((0, int(piece), "") if piece.isdigit() else (1, 0, piece.lower()) for piece in pieces if piece)
    return (*natural, (-1, 0, key))
