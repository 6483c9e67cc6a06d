"""The packages of a request that the matrix knows: which of their releases a request can mean.

A requirement means the releases within its bounds, the newest first. A pinned release that is not in the data, which hold a
selection, stands between its neighbours: what the release before and the one after agree on holds for it too. Beyond the oldest
or the newest of its major only what seldom changes is taken from the neighbour: the floor of the GPU, and how it is compiled.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from provisioner.errors import UsageError
from provisioner.stack.rows import PackageRow
from provisioner.stack.wants import Requirement, parse_requirement
from provisioner.values import value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from provisioner.stack.matrix import Matrix
    from provisioner.stack.rows import Platform
    from provisioner.versions import Range, Version

_BETWEEN = ("cuda_major", "cuda_from", "cudnn_major", "max_capability", "min_driver", "ptxas")
_NEAR = ("sdist_only", "recipe")


@value
class Pick:
    """A release that a requirement can mean. `listed`: its own row says what it needs; otherwise its neighbours' rows do."""

    item: Requirement
    row: PackageRow
    listed: bool = True

    def __str__(self) -> str:
        return f"{self.row.package} {self.row.version}"

    @property
    def text(self) -> str:
        """As pip is given it: pinned where the release is in the data."""
        return f"{self.item.name}{self.item.extras}=={self.row.version}" if self.listed else self.item.text


@functools.lru_cache(maxsize=4)
def by_name(matrix: Matrix) -> dict[str, tuple[PackageRow, ...]]:
    """The rows of each package, oldest first."""
    found: dict[str, list[PackageRow]] = {}
    for row in matrix.packages:
        found.setdefault(row.package, []).append(row)
    return {name: tuple(sorted(rows, key=lambda row: row.version)) for name, rows in found.items()}


@functools.lru_cache(maxsize=256)
def picks(matrix: Matrix, item: Requirement, platform: Platform) -> tuple[Pick, ...]:
    """The releases for `platform` that `item` can mean, the newest first; none where the data cannot say."""
    here = [row for row in by_name(matrix).get(item.name, ()) if row.platform in {None, platform}]
    taken = [row for row in reversed(here) if item.bounds is None or row.version in item.bounds]
    if taken:
        return tuple(Pick(item=item, row=row) for row in taken)
    pinned = pin_of(item)
    row = _between(here, pinned) if pinned is not None else None
    return (Pick(item=item, row=row, listed=False),) if row is not None else ()


def pin_of(item: Requirement) -> Version | None:
    """The release that a requirement pins."""
    return next((bound for sign, bound in item.bounds.bounds if sign == "=="), None) if item.bounds else None


def _between(rows: Iterable[PackageRow], version: Version) -> PackageRow | None:
    rows = tuple(rows)
    older = next((row for row in reversed(rows) if row.version < version), None)
    newer = next((row for row in rows if row.version > version), None)
    near = [row for row in (older, newer) if row is not None]
    if older is None or newer is None:
        near = [row for row in near if row.version.major == version.major]
    if not near:
        return None
    fields: dict[str, Any] = {name: getattr(near[0], name) for name in _NEAR if len({getattr(row, name) for row in near}) == 1}
    if len(near) > 1:
        fields |= {name: getattr(near[0], name) for name in _BETWEEN if len({getattr(row, name) for row in near}) == 1}
    floors = [row.min_capability for row in near]
    known = [floor for floor in floors if floor is not None]
    return PackageRow(
        package=near[0].package,
        version=version,
        platform=near[0].platform,
        requires={name: "" for name in near[0].requires if all(name in row.requires for row in near)},
        min_capability=min(known) if len(known) == len(floors) else None,
        note=f"not in the data; as {' and '.join(str(row.version) for row in near)}",
        source=tuple(dict.fromkeys(name for row in near for name in row.source)),
        verified="derived",
        **fields,
    )


@functools.lru_cache(maxsize=4096)
def bounds_of(text: str) -> Range | None:
    """A bound of a row (`==2.9.1`, `>=2.5,<3`, `==12.*`) as a range; None for any version, or where it is not read."""
    try:
        return parse_requirement(f"it{text}").bounds if text else None
    except UsageError:
        return None


def pythons_for(row: PackageRow, pythons: Iterable[str]) -> tuple[str, ...]:
    """Those of `pythons` that the release is for."""
    bounds = bounds_of(row.requires_python or "")
    return tuple(
        python
        for python in pythons
        if (row.pythons is None or python in row.pythons) and (bounds is None or _version(python) in bounds)
    )


@functools.lru_cache(maxsize=64)
def _version(python: str) -> Version:
    from provisioner.versions import Version

    return Version(python.removesuffix("t"))
