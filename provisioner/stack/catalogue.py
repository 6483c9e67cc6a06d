"""The catalogue of base images: finding a reference in it, and what is near one that it does not hold."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from provisioner.stack.lock import Refusal
from provisioner.stack.rows import Flavour, ImageRow
from provisioner.versions import Version

if TYPE_CHECKING:
    from provisioner.stack.matrix import Matrix
    from provisioner.stack.rows import System

#: The repositories of the two kinds of base image.
PYTHON, CUDA = "python", "nvidia/cuda"
#: Where the framework containers are, the row that stands for all of a month, and what a whole image is called in a row.
_CONTAINERS, _ANY_FAMILY, _JETSON = "nvidia/", "nvidia", "igpu"
_WHOLE: Flavour = "devel"
_NEAR = 4  # references in one sentence
_REGISTRIES = ("docker.io/library/", "docker.io/", "nvcr.io/", "index.docker.io/library/", "library/")


@functools.lru_cache(maxsize=16)
def images_of(matrix: Matrix, repository: str) -> tuple[ImageRow, ...]:
    """The rows of one repository."""
    return tuple(row for row in matrix.images if row.repository == repository)


def find_image(reference: str, matrix: Matrix) -> tuple[ImageRow | None, Flavour | None, Refusal | None]:
    """The row and flavour of a reference, or why there is none. A bare tag means the CUDA images."""
    repository, tag = split_image(reference, matrix)
    rows = images_of(matrix, repository)
    if not rows and (container := find_container(repository, tag, matrix)) is not None:
        return container, _WHOLE, None
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


def find_container(repository: str, tag: str, matrix: Matrix) -> ImageRow | None:
    """A framework container of NVIDIA's registry as an image of which only the CUDA is known; its tags begin with the release.

    Its `os` is empty: what else it holds is not in the data. Containers for Jetson are another kind.
    """
    family = repository.removeprefix(_CONTAINERS)
    release = re.match(r"\d\d\.\d\d(?=-|$)", tag)
    if family == repository or release is None or _JETSON in tag:
        return None
    row = matrix.row("containers", f"{family} {release[0]}") or matrix.row("containers", f"{_ANY_FAMILY} {release[0]}")
    if row is None:
        return None
    return ImageRow(
        repository=repository,
        os="",
        cuda=row.cuda,
        tags={_WHOLE: tag},
        platforms=("linux/amd64", "linux/arm64"),  # the rows do not say, so neither is refused
        source=row.source,
        verified=row.verified,
    )


def split_image(reference: str, matrix: Matrix) -> tuple[str, str]:
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

    repository, tag = split_image(reference, matrix)
    tags = {known: row for row in images_of(matrix, repository) for known in row.tags.values()}
    longer = [known for known in tags if tag and known.startswith(f"{tag}-")]
    longer.sort(key=lambda known: (tags[known].maintained is True, age_of(matrix, tags[known])), reverse=True)
    like = longer or difflib.get_close_matches(tag, tags, n=_NEAR, cutoff=0.5)
    return tuple(f"{repository}:{known}" for known in like[:_NEAR])


def age_of(matrix: Matrix, row: ImageRow) -> Version:
    """How new the system of an image is, by its C library; 0 where it is not known."""
    system = matrix.system(row.os)
    return (system.glibc if system else None) or Version(str(0))


def _musl(tag: str, matrix: Matrix) -> System | None:
    words = tag.split("-")
    for system in matrix.systems:
        name = system.id.rstrip("0123456789.")
        if system.libc == "musl" and any(word.rstrip("0123456789.") == name for word in words):
            return system
    return None
