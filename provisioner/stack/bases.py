"""Choosing the base image of a stack.

A build that brings its CUDA libraries gets a slim Python image; one that needs CUDA of the system, or cuda-compat, gets a CUDA
image. Maintained before not, seen before named, then the newest CUDA, then the newest system.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from provisioner.stack.catalogue import CUDA, PYTHON, age_of, images_of
from provisioner.stack.lock import Image
from provisioner.stack.rows import Flavour, ImageRow
from provisioner.stack.system_cuda import from_system, serves
from provisioner.values import value
from provisioner.versions import Version

if TYPE_CHECKING:
    from collections.abc import Iterable

    from provisioner.stack.asked import Asked
    from provisioner.stack.matrix import Matrix
    from provisioner.stack.rows import Platform, Variant

SLIM: tuple[Flavour, ...] = ("slim",)
COMPAT: tuple[Flavour, ...] = ("base",)  # has cuda-compat, and no libraries that the build brings anyhow
LIBRARIES: tuple[Flavour, ...] = ("cudnn-runtime", "runtime")
COMPILER: tuple[Flavour, ...] = ("cudnn-devel", "devel")


@value
class Base:
    """An image of the catalogue: its row, which of its flavours, its Python and its C library where they are known."""

    row: ImageRow
    flavour: Flavour
    python: str | None = None
    glibc: Version | None = None

    def image(self) -> Image:
        """The image as the stack carries it."""
        return Image(reference=f"{self.row.repository}:{self.row.tags[self.flavour]}", flavour=self.flavour, os=self.row.os)

    def takes(self, floor: Version | None) -> bool | None:
        """Whether its C library is as new as `floor`; None: one of them is not known."""
        return None if self.glibc is None or floor is None else self.glibc >= floor


def base_of(matrix: Matrix, row: ImageRow, flavour: Flavour) -> Base:
    """A row as a base; the Python of an image without one of its own is that of its system."""
    system = matrix.system(row.os)
    python = row.python or (system.python if system else None)
    return Base(row=row, flavour=flavour, python=python, glibc=system.glibc if system else None)


@functools.lru_cache(maxsize=64)
def _shelf(matrix: Matrix, flavours: tuple[Flavour, ...], platform: Platform) -> dict[str | None, tuple[Base, ...]]:
    """The bases of these flavours by their Python, the best first. A system without a row is no yes: its images are left out."""
    found = [
        base_of(matrix, row, flavour)
        for row in images_of(matrix, PYTHON if flavours == SLIM else CUDA)
        if platform in row.platforms and row.published != "no" and matrix.system(row.os) is not None
        for flavour in flavours
        if flavour in row.tags
    ]
    found.sort(key=lambda base: _rank(matrix, base, flavours), reverse=True)
    shelf: dict[str | None, list[Base]] = {}
    for base in found:
        shelf.setdefault(base.python, []).append(base)
    return {python: tuple(bases) for python, bases in shelf.items()}


def _rank(matrix: Matrix, base: Base, flavours: tuple[Flavour, ...]) -> tuple[object, ...]:
    row = base.row
    return (
        row.maintained is True,
        row.published == "seen",
        row.maintained is None,
        row.cuda or Version(str(0)),
        age_of(matrix, row),
        -flavours.index(base.flavour),
        row.os,
    )


def choose_base(asked: Asked, build: Variant, python: str, *, forward: bool) -> Base | None:
    """The best base image for `build` with Python `python`, or None. `forward`: cuda-compat must be in it."""
    if asked.image is not None and asked.flavour is not None:
        return base_of(asked.matrix, asked.image, asked.flavour)  # rules have looked at it
    from provisioner.stack.package_rules import settle  # which asks here what Python a pinned image has

    system = from_system(asked, build)
    floor = max((found for found in (build.glibc, settle(asked, build).glibc) if found is not None), default=None)
    flavours = SLIM
    if system:
        flavours = LIBRARIES
    elif build.cuda is not None and forward:
        flavours = COMPAT
    for base in _shelf(asked.matrix, flavours, asked.request.platform).get(python, ()):
        if asked.image_system is not None and base.row.os != asked.image_system.id:
            continue
        if not _cuda_fits(base.row, build) or base.takes(floor) is False:
            continue
        if not system or serves(asked, build, base.row, base.flavour):  # last, for it costs most
            return base
    return None


def has_base(asked: Asked, pythons: Iterable[str]) -> bool:
    """Whether the catalogue knows any slim image at all with one of these Pythons for the platform."""
    shelf = _shelf(asked.matrix, SLIM, asked.request.platform)
    return any(python in shelf for python in pythons)


def choose_build_base(asked: Asked, build: Variant, base: Base) -> Base | None:
    """The CUDA image with the compiler for a build stage, with no newer C library than the image that runs; or None."""
    shelf = _shelf(asked.matrix, COMPILER, asked.request.platform)
    fitting = [
        found
        for bases in shelf.values()
        for found in bases
        if _cuda_fits(found.row, build) and (base.glibc is None or found.glibc is None or found.glibc <= base.glibc)
    ]
    return max(fitting, key=lambda found: _rank(asked.matrix, found, COMPILER), default=None)


def _cuda_fits(row: ImageRow, build: Variant) -> bool:
    return row.cuda is None or (build.cuda is not None and row.cuda.minor == build.cuda.minor)
