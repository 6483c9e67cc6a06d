"""Which Python a stack gets.

The one that was asked, or that the pinned image has. Else the newest that is settled and has a maintained base image: settled
means that the framework's release line before already had it, so that other packages have had time to build for it.
Free-threaded Pythons only when they are asked for.
"""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING

from provisioner.stack.bases import base_of, choose_base
from provisioner.stack.meeting import mode_of
from provisioner.stack.package_rules import settle
from provisioner.versions import Version

if TYPE_CHECKING:
    from provisioner.stack.asked import Asked
    from provisioner.stack.matrix import Matrix
    from provisioner.stack.rows import Variant


def choose_python(asked: Asked, build: Variant) -> str | None:
    """The Python for `build`, or None where no base image has one of its Pythons."""
    forward = mode_of(asked, build) == "forward"
    if asked.image is not None:
        pinned = asked.python or base_of(asked.matrix, asked.image, asked.flavour or "slim").python
        narrowed = settle(asked, build).pythons or build.pythons
        return pinned or max((python for python in narrowed if not python.endswith("t")), key=Version, default=None)
    if asked.python is not None:
        return asked.python if choose_base(asked, build, asked.python, forward=forward) else None
    settled = _line_before(asked.matrix, build.framework).get(build.version.minor, frozenset(build.pythons))
    best: tuple[tuple[bool, bool, bool, Version], str] | None = None
    able = settle(asked, build).pythons
    for python in build.pythons:
        if python.endswith("t") or (able is not None and python not in able):
            continue
        base = choose_base(asked, build, python, forward=forward)
        if base is not None:
            rank = (base.row.maintained is not False, base.row.published == "seen", python in settled, Version(python))
            if best is None or rank > best[0]:
                best = (rank, python)
    return best[1] if best else None


@functools.lru_cache(maxsize=16)
def _line_before(matrix: Matrix, framework: str) -> dict[Version, frozenset[str]]:
    """Release line (2.9) → the Pythons that the line before it (2.8) had in any of its releases."""
    lines: dict[Version, set[str]] = {}
    for row in matrix.variants_of(framework):
        lines.setdefault(row.version.minor, set()).update(row.pythons)
    order = sorted(lines)
    return {line: frozenset(lines[before]) for before, line in itertools.pairwise(order)}
