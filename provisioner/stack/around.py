"""What the architecture lists around a build say, where its own is not known."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from provisioner.stack.gpus import cubin_runs
from provisioner.stack.rows import key_of

if TYPE_CHECKING:
    from provisioner.stack.gpus import Capability
    from provisioner.stack.matrix import Matrix
    from provisioner.stack.rows import Variant


def is_guess(build: Variant) -> bool:
    """Whether a build for GPUs holds code for which of them is not known: a yes to it is weaker than one to a known list."""
    return build.cuda is not None and build.sass is None


def known_around(matrix: Matrix, build: Variant, gpu: Capability) -> tuple[Variant, ...]:
    """Builds of the same framework and platform with a known list: of the release itself, and of the nearest before and after.

    Only those whose CUDA can target the GPU: that another one lacks it says nothing. Nearest release first.
    """
    return _known_around(matrix, key_of("variants", build), gpu) if build.framework else ()


@functools.lru_cache(maxsize=512)
def _known_around(matrix: Matrix, key: str, gpu: Capability) -> tuple[Variant, ...]:
    build = matrix.row("variants", key)
    known = [
        row
        for row in matrix.variants_of(build.framework)
        if row.platform == build.platform and row.sass is not None and _can_target(matrix, row, gpu)
    ]
    before = max((row.version for row in known if row.version < build.version), default=None)
    after = min((row.version for row in known if row.version > build.version), default=None)
    return tuple(row for version in (build.version, before, after) for row in known if row.version == version)


def _can_target(matrix: Matrix, build: Variant, gpu: Capability) -> bool:
    cuda = matrix.cuda_minor(build.cuda) if build.cuda is not None else None
    return cuda is not None and any(cubin_runs(sm, gpu) for sm in cuda.sm)
