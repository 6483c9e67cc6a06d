"""The rows of packages beside a framework, of what compiles them, of the CUDA libraries under it, and of whole containers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from provisioner.stack.gpus import Capability
from provisioner.stack.row_types import CudaFrom, Platform, Verified
from provisioner.values import value
from provisioner.versions import Version


@value
class PackageRow:
    """One release of a package for one platform (None: whatever platform, of pure Python or to be compiled).

    `pythons` are the interpreters that its wheels are for (`3.12`, `3.14t`), None where that was not read; `requires_python` is
    its own bound. `glibc` is the floor of its wheels. `requires` maps a distribution (lower case, with dashes, without extras) to
    a bound (`==2.9.1`, `>=2.5,<3`; `` is any): only CUDA, frameworks, NumPy and the like, as its metadata list them.

    `cuda_major` is what its machine code is linked with, `cuda` the exact minor where that was read; `cuda_minors` when it brings
    one library a minor and picks by the framework's. `cuda_from` None: it has no CUDA of its own, or that is not known; `extras`
    bring the CUDA libraries where the bare wheel does not. `cudnn_major`: the cuDNN that it loads.

    `min_capability` and `max_capability` are what its documentation or the whole of its binaries allow; `sass` and `ptx` are
    given only where its binaries were scanned. `min_driver` is its own floor, which may be above that of its CUDA.

    `sdist_only`: there is no wheel, so it is compiled where it is installed; `recipe` says how (id of a Recipe).
    """

    package: str
    version: Version
    platform: Platform | None = None
    date: str | None = None
    requires_python: str | None = None
    pythons: tuple[str, ...] | None = None
    glibc: Version | None = None
    requires: Mapping[str, str] = field(default_factory=dict)
    cuda_major: int | None = None
    cuda: Version | None = None
    cuda_minors: tuple[Version, ...] = ()
    cuda_from: CudaFrom | None = None
    extras: str | None = None  # as in package[extras]
    cudnn_major: int | None = None
    min_driver: Version | None = None
    min_capability: Capability | None = None
    max_capability: Capability | None = None
    sass: tuple[Capability, ...] | None = None
    ptx: tuple[Capability, ...] = ()
    ptxas: Version | None = None  # CUDA of the newest assembler that it brings for the code that it makes at run time
    sdist_only: bool = False
    recipe: str | None = None
    download: int | None = None  # bytes of this wheel or archive
    note: str = ""
    source: tuple[str, ...]
    verified: Verified


@value
class Recipe:
    """How a package compiles its GPU code: at its installation (`install`), or when it is first used (`run`).

    `build_needs` are distributions that must be there before it, `isolation` false when it must see the installed framework
    (`--no-build-isolation`). `devel`: needs nvcc and a C++ compiler, so a devel stage (or, at `run`, a devel image).
    `arch_variable` names the variable for the GPUs to compile for; `arch_format` writes 8.6 as `8.6` (dotted) or `86` (plain),
    joined by `;`. `environment` switches off what would be downloaded or guessed during a build. `cuda_min`: oldest nvcc.
    """

    id: str
    packages: tuple[str, ...]
    when: Literal["install", "run"]
    devel: bool
    build_needs: tuple[str, ...] = ()
    isolation: bool = True
    arch_variable: str | None = None
    arch_format: Literal["dotted", "plain"] | None = None
    arch_default: str | None = None
    jobs_variable: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    cuda_min: Version | None = None
    note: str = ""
    source: tuple[str, ...]
    verified: Verified


@value
class Library:
    """What a range of releases of a CUDA library runs on: from `first` on, before `before` (None: no end is known).

    `min_capability` and `max_capability` bound the GPUs, `min_driver` the driver; None: not known, which neither refuses
    nor passes.
    """

    library: Literal["cudnn", "nccl"]
    first: Version
    before: Version | None = None
    cuda_major: int
    min_capability: Capability | None = None
    max_capability: Capability | None = None
    min_driver: Version | None = None
    note: str = ""
    source: tuple[str, ...]
    verified: Verified


@value
class Container:
    """A monthly release of the framework containers on nvcr.io: the CUDA inside, and the driver that its notes list."""

    family: str  # nvidia: every framework container of that month; else the container whose notes were read
    release: str  # 26.08, as its tags begin
    cuda: Version
    driver: Version | None = None
    note: str = ""
    source: tuple[str, ...]
    verified: Verified
