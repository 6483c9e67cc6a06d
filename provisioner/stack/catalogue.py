"""Base images: finding a reference in the catalogue, and choosing the image that a build needs.

Tags are looked up, never computed. A build that brings its CUDA libraries gets a slim Python image; one that needs CUDA of the
system, or cuda-compat, gets a CUDA image.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from provisioner.stack.lock import Image, Refusal
from provisioner.stack.rows import Flavour, ImageRow
from provisioner.values import value
from provisioner.versions import Version

if TYPE_CHECKING:
    from collections.abc import Iterable

    from provisioner.stack.asked import Asked
    from provisioner.stack.matrix import Matrix
    from provisioner.stack.rows import System, Variant

#: The repositories of the two kinds of base image.
PYTHON, CUDA = "python", "nvidia/cuda"
_NEAR = 4  # references in one sentence
_REGISTRIES = ("docker.io/library/", "docker.io/", "nvcr.io/", "index.docker.io/library/", "library/")


@value
class Base:
    """An image of the catalogue: its row, and which of its flavours."""

    row: ImageRow
    flavour: Flavour

    def image(self) -> Image:
        """The image as the stack carries it."""
        return Image(reference=f"{self.row.repository}:{self.row.tags[self.flavour]}", flavour=self.flavour, os=self.row.os)


@functools.lru_cache(maxsize=16)
def _of(matrix: Matrix, repository: str) -> tuple[ImageRow, ...]:
    return tuple(row for row in matrix.images if row.repository == repository)


def find_image(reference: str, matrix: Matrix) -> tuple[ImageRow | None, Flavour | None, Refusal | None]:
    """The row and flavour of a reference, or why there is none. A bare tag means the CUDA images."""
    repository, tag = _split(reference, matrix)
    rows = _of(matrix, repository)
    if not rows:
        fact = f"image {reference}: what is in it is not in the data of {matrix.collected}"
        fact += f", which hold {' and '.join(sorted({row.repository for row in matrix.images})) or 'no images'}"
        return None, None, Refusal(rule="image-known", finding="image-not-in-data", fact=fact, certain=False)
    for row in rows:
        for flavour, known in row.tags.items():
            if known == tag:
                return row, flavour, None  # type: ignore[return-value]  # keys of tags are flavours
    if (system := _musl(tag, matrix)) is not None:
        fact = f"image {reference} is built on {system.name}, which has musl; the builds need glibc"
        return None, None, Refusal(rule="libc", finding="musl-no-wheel", fact=fact)
    near = nearest_images(reference, matrix)
    fact = f"there is no image {repository}:{tag or '(no tag)'} in the catalogue of {matrix.collected}"
    if near:
        fact += f"; the nearest are {', '.join(near)}"
    return None, None, Refusal(rule="image-known", finding="no-such-image", fact=fact)


def _split(reference: str, matrix: Matrix) -> tuple[str, str]:
    """Repository and tag of a reference, without its registry and digest; a bare tag is one of the CUDA images."""
    plain = reference.strip()
    for registry in _REGISTRIES:
        plain = plain.removeprefix(registry)
    repository, _, tag = plain.partition("@")[0].rpartition(":")
    if repository:
        return repository, tag
    return (plain, "") if plain in {row.repository for row in matrix.images} else (CUDA, plain)


def nearest_images(reference: str, matrix: Matrix) -> tuple[str, ...]:
    """The references whose tags begin with that of `reference`, the newest system first; else those that look most like it."""
    import difflib

    repository, tag = _split(reference, matrix)
    tags = {known: row for row in _of(matrix, repository) for known in row.tags.values()}
    longer = [known for known in tags if tag and known.startswith(f"{tag}-")]
    longer.sort(key=lambda known: (tags[known].maintained is True, _age(matrix, tags[known])), reverse=True)
    like = longer or difflib.get_close_matches(tag, tags, n=_NEAR, cutoff=0.5)
    return tuple(f"{repository}:{known}" for known in like[:_NEAR])


def _age(matrix: Matrix, row: ImageRow) -> Version:
    system = matrix.system(row.os)
    return (system.glibc if system else None) or Version(str(0))


def _musl(tag: str, matrix: Matrix) -> System | None:
    words = tag.split("-")
    for system in matrix.systems:
        name = system.id.rstrip("0123456789.")
        if system.libc == "musl" and any(word.rstrip("0123456789.") == name for word in words):
            return system
    return None


def choose_base(asked: Asked, variant: Variant, python: str, *, forward: bool) -> Base | None:
    """The best base image for `variant` with Python `python`, or None. `forward`: cuda-compat must be in it.

    Maintained before not, the host's own system never matters; then the newest C library, whose row says most about its age.
    """
    if asked.image is not None and asked.flavour is not None:
        return Base(row=asked.image, flavour=asked.flavour)  # rules have looked at it
    framework = asked.wants.framework
    wanted: tuple[Flavour, ...] = ("slim",)
    if variant.cuda is not None and framework is not None and framework.cuda_from == "system":
        wanted = ("cudnn-runtime", "runtime")
    elif variant.cuda is not None and forward:
        wanted = ("base",)
    bases = [
        Base(row=row, flavour=flavour)
        for row in _rows(asked, PYTHON if wanted == ("slim",) else CUDA)
        for flavour in wanted
        if flavour in row.tags and python_of(asked, row) == python and _cuda_fits(row, variant)
    ]
    # a system without a row is no yes; one whose glibc is not known neither refuses nor passes
    bases = [base for base in bases if asked.matrix.system(base.row.os) and glibc_fits(asked, base.row, variant) is not False]
    return max(bases, key=lambda base: _rank(asked, base, wanted), default=None)


def choose_build_base(asked: Asked, variant: Variant, base: Base) -> Base | None:
    """The CUDA image with the compiler for a build stage, with no newer C library than the image that runs; or None."""
    ceiling = _glibc(asked, base.row)
    wanted: tuple[Flavour, ...] = ("cudnn-devel", "devel")
    bases = [
        Base(row=row, flavour=flavour)
        for row in _of(asked.matrix, CUDA)
        if asked.request.platform in row.platforms
        for flavour in wanted
        if flavour in row.tags and _cuda_fits(row, variant)
    ]
    bases = [found for found in bases if ceiling is None or (glibc := _glibc(asked, found.row)) is None or glibc <= ceiling]
    return max(bases, key=lambda found: _rank(asked, found, wanted), default=None)


def _rows(asked: Asked, repository: str) -> Iterable[ImageRow]:
    system = asked.image_system
    for row in _of(asked.matrix, repository):
        if asked.request.platform in row.platforms and row.published != "no" and (system is None or row.os == system.id):
            yield row


def _cuda_fits(row: ImageRow, variant: Variant) -> bool:
    return row.cuda is None or (variant.cuda is not None and row.cuda.minor == variant.cuda.minor)


def python_of(asked: Asked, row: ImageRow) -> str | None:
    """The Python that an image has, or its system can install; None: not known."""
    if row.python is not None:
        return row.python
    system = asked.matrix.system(row.os)
    return system.python if system else None


def _glibc(asked: Asked, row: ImageRow) -> Version | None:
    system = asked.matrix.system(row.os)
    return system.glibc if system else None


def glibc_fits(asked: Asked, row: ImageRow, variant: Variant) -> bool | None:
    """Whether the C library of an image is new enough for a build; None: one of them is not known."""
    glibc = _glibc(asked, row)
    return None if glibc is None or variant.glibc is None else glibc >= variant.glibc


def _rank(asked: Asked, base: Base, wanted: tuple[Flavour, ...]) -> tuple[object, ...]:
    row = base.row
    return (
        row.maintained is True,
        row.published == "seen",
        row.maintained is None,
        row.cuda or Version(str(0)),
        _age(asked.matrix, row),
        -wanted.index(base.flavour),
        row.os,
    )
