"""The predicted download and disk size of a stack, from measured closures."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from provisioner.stack.lock import Size
from provisioner.stack.rows import key_of
from provisioner.stack.wants import parse_requirement
from provisioner.versions import Version

if TYPE_CHECKING:
    from provisioner.stack.matrix import Matrix
    from provisioner.stack.rows import Closure, Variant


def predict_size(matrix: Matrix, build: Variant, python: str) -> Size | None:
    """The size of `build` with all that it pulls in: measured, or that of the nearest measured release with the same CUDA major.

    None where nothing comparable was measured: a CPU build, another platform.
    """
    return _predicted(matrix, key_of("variants", build), python)


@functools.lru_cache(maxsize=256)
def _predicted(matrix: Matrix, key: str, python: str) -> Size | None:
    build = matrix.row("variants", key)
    found: list[tuple[tuple[bool, int, bool], Closure, bool]] = []
    order = {row.version: at for at, row in enumerate(sorted(matrix.releases_of(build.framework), key=lambda row: row.version))}
    for closure in matrix.closures:
        measured = _measured(matrix, closure, build)
        if measured is None or measured.version not in order or build.version not in order:
            continue
        distance = abs(order[measured.version] - order[build.version])
        exact = measured == build
        found.append(((not exact, distance, closure.python != python), closure, exact))
    if not found:
        return None
    _, closure, exact = min(found, key=lambda entry: entry[0])
    basis = f"{closure.requirement} on Python {closure.python} with its {closure.packages - 1} dependencies"
    return Size(
        download=closure.download,
        unpacked=closure.unpacked,
        cuda=closure.cuda_download,
        basis=f"measured: {basis}" if exact else f"not measured; the nearest is {basis}",
    )


def _measured(matrix: Matrix, closure: Closure, build: Variant) -> Variant | None:
    """The build that a closure is of, when it is comparable with `build`: same framework and platform, same CUDA major."""
    requirement = parse_requirement(closure.requirement)
    _, _, version = closure.requirement.partition("==")
    if requirement.name != build.framework or not version or closure.platform != build.platform:
        return None
    if requirement.extras != _extras(build):
        return None
    public = Version(version.partition("+")[0])
    for row in matrix.variants_of(build.framework):
        if (
            row.version == public
            and row.platform == build.platform
            and _extras(row) == requirement.extras
            and (row.cuda.major if row.cuda else None) == (build.cuda.major if build.cuda else None)
            and (row.tag == requirement.local or (not requirement.local and row.default))
        ):
            return row
    return None


def _extras(build: Variant) -> str:
    """What stands in brackets in the requirement of a build: two builds of one release can differ in nothing else."""
    return parse_requirement(build.requirement).extras if build.requirement else ""
