"""An image that no catalogue has: what the engine of this machine says of it, as a request and a row that the resolver can judge.

Our own images carry their lock as a label, so they are asked like the stack that they are. Others that are built on NVIDIA's
CUDA images say which CUDA their start needs (NVIDIA_REQUIRE_CUDA). Anything else stays unknown.
"""

from __future__ import annotations

import contextlib
import functools
import re
from typing import TYPE_CHECKING

from provisioner.errors import LockError, ProvisionerError
from provisioner.values import replace
from provisioner.versions import Version

if TYPE_CHECKING:
    from provisioner.engines import ImageFacts
    from provisioner.stack.matrix import Matrix
    from provisioner.stack.request import Request

#: The label that holds the lock (`files/image_view.py`), and what NVIDIA's images say of the driver that they need.
LOCK_LABEL = "io.gpu-provisioner.lock"
_REQUIRE, _SWITCHED_OFF = "NVIDIA_REQUIRE_CUDA", "NVIDIA_DISABLE_REQUIRE"
_AT_LEAST = re.compile(r"(?:^|\s)cuda>=(\d+\.\d+)(?=\s|$)")


def look_into(request: Request, matrix: Matrix) -> tuple[Request, Matrix, str | None]:
    """`request` and `matrix` with what the engine says of the image that is asked about, and a sentence on it.

    Unchanged, without a sentence, where no image is asked about by itself or the catalogue has it.
    """
    from provisioner.stack.catalogue import find_image

    image = request.image
    if image is None or request.packages:
        return request, matrix, None
    _, _, refusal = find_image(image, matrix)
    if refusal is None or refusal.certain:
        return request, matrix, None
    try:
        facts = _inspect(image)
    except ProvisionerError as failure:
        return request, matrix, f"no engine here could be asked about image {image}: {failure.message}"
    if facts is None:
        return request, matrix, f"the engine of this machine has no image {image}: pull it, and its own words are read"
    return judged_by(request, matrix, facts)


def _inspect(image: str) -> ImageFacts | None:
    from provisioner.edges.engine import engine_on
    from provisioner.edges.local import LocalRunner

    with contextlib.closing(engine_on(LocalRunner())) as engine:
        return engine.inspect(image)


def judged_by(request: Request, matrix: Matrix, facts: ImageFacts) -> tuple[Request, Matrix, str]:
    """The request and the matrix in which the image is what `facts` say."""
    image = request.image or facts.id
    if LOCK_LABEL in facts.labels:
        try:
            return (
                _as_locked(request, facts.labels[LOCK_LABEL]),
                matrix,
                f"image {image} was made by provisioner: its lock is asked",
            )
        except LockError as failure:
            return request, matrix, f"image {image} has a lock that cannot be read: {failure.problems[0].message}"
    need = _AT_LEAST.search(facts.env.get(_REQUIRE, ""))
    if need is None or facts.env.get(_SWITCHED_OFF):
        return request, matrix, f"image {image} does not say which CUDA it needs: it has no label of ours, and no {_REQUIRE}"
    return request, _with_row(matrix, image, Version(need[1]), facts), f"image {image} says itself that it needs CUDA {need[1]}"


def _as_locked(request: Request, label: str) -> Request:
    """What the lock of an image asks of GPUs and drivers: the build that is in it, on the base that it has."""
    from provisioner.decode import decode
    from provisioner.stack.lock import Lock

    stack = decode(label, f"the label {LOCK_LABEL}", Lock, LockError).stack
    return replace(
        request,
        packages=stack.packages,
        variant=stack.variant,
        index=stack.index,
        python=stack.python,
        platform=stack.platform,
        image=stack.image.reference,
    )


def _with_row(matrix: Matrix, image: str, cuda: Version, facts: ImageFacts) -> Matrix:
    """`matrix` with the image in its catalogue. What else is in it is not known, so its system is empty."""
    from provisioner.stack.catalogue import split_image
    from provisioner.stack.matrix import SECTIONS, Matrix
    from provisioner.stack.rows import ImageRow, Source

    repository, tag = split_image(image, matrix)
    row = ImageRow(
        repository=repository,
        os="",
        cuda=cuda,
        tags={"devel": tag},
        platforms=("linux/arm64",) if facts.platform.startswith("linux/arm64") else ("linux/amd64",),
        source=(_REQUIRE,),
        verified="source",
    )
    source = Source(id=_REQUIRE, document=f"{_REQUIRE} in the image itself")
    sections = {name: functools.partial(matrix.rows, name) for name in SECTIONS}
    sections["images"] = lambda: (*matrix.images, row)  # type: ignore[assignment]  # a function without arguments, as the others
    sections["sources"] = lambda: (*matrix.sources, source)  # type: ignore[assignment]  # the same
    return Matrix(collected=matrix.collected, sha256=matrix.sha256, sections=sections)
