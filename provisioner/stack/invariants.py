"""What must hold across the rows of a matrix: every reference resolves, ids are unique and in order, builds fit their CUDA."""

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from provisioner.stack.rows import SECTIONS, key_of, order_of
from provisioner.values import value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from provisioner.stack.matrix import Matrix
    from provisioner.stack.rows import PackageRow, Variant


@value
class Fault:
    """One thing that does not hold: the row by section and key, and a sentence."""

    section: str
    key: str
    message: str

    def __str__(self) -> str:
        return f"{self.section} {self.key}: {self.message}"


def check(matrix: Matrix) -> tuple[Fault, ...]:
    """Every fault of the matrix; none in a good one."""
    faults: list[Fault] = []
    for section in SECTIONS:
        faults += _keys(matrix, section)
        if section != "sources":
            faults += _sources(matrix, section)
    for section, fields in _REFERENCES.items():
        faults += _references(matrix, section, fields)
    for image in matrix.images:
        if image.cuda is not None and matrix.cuda_minor(image.cuda) is None:
            faults.append(Fault(section="images", key=key_of("images", image), message=f"CUDA {image.cuda.minor} is not in cuda"))
    for row in matrix.variants:
        faults += [Fault(section="variants", key=key_of("variants", row), message=message) for message in _variant(matrix, row)]
    built_for_cpu = {
        (row.framework, row.version) for row in matrix.variants if row.cuda is None and row.platform == "linux/amd64"
    }
    faults += [
        Fault(section="releases", key=key_of("releases", row), message="no CPU build for linux/amd64")
        for row in matrix.releases
        if (row.framework, row.version) not in built_for_cpu
    ]
    faults += _beside(matrix)
    faults += _needs_itself(matrix)
    return tuple(faults)


#: Section → its fields that name rows of another section → that section.
_REFERENCES: Mapping[str, Mapping[str, str]] = {
    "architectures": {"first_driver": "drivers", "last_driver": "drivers"},
    "capabilities": {"architecture": "architectures"},
    "gpus": {"architecture": "architectures", "last_driver": "drivers", "capability": "capabilities"},
    "drivers": {"architectures": "architectures"},
    "cuda": {"native_branch": "drivers"},
    "cuda_releases": {"minor": "cuda"},
    "forward_compat": {"cuda": "cuda", "branch": "drivers"},
    "releases": {"framework": "frameworks"},
    "variants": {"framework": "frameworks", "index": "indexes", "also": "indexes", "cuda": "cuda"},
    "images": {"os": "systems"},
    "packages": {"recipe": "recipes", "cuda": "cuda", "cuda_minors": "cuda"},
}


def _keys(matrix: Matrix, section: str) -> Iterator[Fault]:
    keys = [key_of(section, row) for row in matrix.rows(section)]
    for key, count in Counter(keys).items():
        if count > 1:
            yield Fault(section=section, key=key, message="stands here twice")
    for before, key in itertools.pairwise(keys):
        if order_of(before) > order_of(key):
            yield Fault(section=section, key=key, message=f"belongs before {before}")


def _sources(matrix: Matrix, section: str) -> Iterator[Fault]:
    for row in matrix.rows(section):
        for source in row.source:
            if matrix.source(source) is None:
                yield Fault(section=section, key=key_of(section, row), message=f"source {source} is not in sources")
        if not row.source:
            yield Fault(section=section, key=key_of(section, row), message="names no source")


def _references(matrix: Matrix, section: str, fields: Mapping[str, str]) -> Iterator[Fault]:
    for row in matrix.rows(section):
        for field, target in fields.items():
            named = getattr(row, field)
            for entry in named if isinstance(named, tuple) else (named,):
                if entry is not None and matrix.row(target, str(entry)) is None:
                    yield Fault(section=section, key=key_of(section, row), message=f"{field} {entry} is not in {target}")


def _variant(matrix: Matrix, row: Variant) -> Iterator[str]:
    if matrix.row("releases", f"{row.framework} {row.version}") is None:
        yield f"{row.framework} {row.version} is not in releases"
    if not row.pythons:
        yield "names no Python"
    if row.requirement is not None and not re.fullmatch(
        rf"{row.framework}(\[.+\])?=={re.escape(str(row.version))}", row.requirement
    ):
        yield f"requirement {row.requirement} is not of {row.framework} {row.version}"
    if row.cuda is None:
        if row.sass or row.ptx or row.cudnn or row.nccl or row.libraries or row.cuda_from:
            yield "a CPU build has no GPU code, cuDNN or NCCL"
        return
    cuda = matrix.cuda_minor(row.cuda)
    if cuda is None:
        return  # said by its reference
    for target in row.sass or ():
        if target not in cuda.sm:
            yield f"{target.sm} is no target of CUDA {cuda.version}"


def _beside(matrix: Matrix) -> Iterator[Fault]:
    """Packages, recipes, libraries and containers."""
    names = {package.package for package in matrix.packages}
    for package in matrix.packages:
        yield from (Fault(section="packages", key=key_of("packages", package), message=text) for text in _package(package))
    for recipe in matrix.recipes:
        strangers = [name for name in recipe.packages if name not in names]
        if strangers:
            yield Fault(section="recipes", key=recipe.id, message=f"package {', '.join(strangers)} is not in packages")
        if (recipe.arch_variable is None) != (recipe.arch_format is None):
            yield Fault(section="recipes", key=recipe.id, message="arch_variable and arch_format go together")
    for before, row in itertools.pairwise(matrix.libraries):
        if (before.library, before.cuda_major) == (row.library, row.cuda_major) and (
            before.before is None or before.before > row.first
        ):
            yield Fault(
                section="libraries", key=key_of("libraries", before), message=f"reaches beyond {row.first}, where another begins"
            )
    for container in matrix.containers:
        if matrix.cuda_minor(container.cuda) is None:
            message = f"CUDA {container.cuda.minor} is not in cuda"
            yield Fault(section="containers", key=key_of("containers", container), message=message)


def _package(row: PackageRow) -> Iterator[str]:
    if row.sdist_only and (row.pythons or row.glibc or row.platform):
        yield "has no wheel, so no platform and no Pythons"
    if row.cuda is not None and row.cuda_major != row.cuda.major:
        yield "cuda and cuda_major disagree"


def _needs_itself(matrix: Matrix) -> Iterator[Fault]:
    """Packages that need one another in a circle: each row by itself is well formed, and nobody could install or compile them."""
    needs: dict[str, set[str]] = {}
    rows: dict[str, PackageRow] = {}
    for row in matrix.packages:
        recipe = matrix.recipe(row.recipe) if row.recipe else None
        rows[row.package] = row
        needs.setdefault(row.package, set()).update(row.requires, recipe.build_needs if recipe else ())
    for name, row in rows.items():
        way = _way_back(needs, name)
        if way:
            message = f"needs itself: {' -> '.join((name, *way))}"
            yield Fault(section="packages", key=key_of("packages", row), message=message)


def _way_back(needs: Mapping[str, set[str]], start: str) -> tuple[str, ...]:
    """The shortest way from `start` to itself along `needs`; empty where there is none."""
    ways: list[tuple[str, ...]] = [(name,) for name in sorted(needs[start] & needs.keys())]
    seen: set[str] = set()
    for way in ways:  # grows while it is read: the shorter ones come first
        if way[-1] == start:
            return way
        if way[-1] not in seen:
            seen.add(way[-1])
            ways += [(*way, name) for name in sorted(needs[way[-1]] & needs.keys())]
    return ()


def faults_beside(text: str, below: Matrix | None) -> list[tuple[Fault, tuple[int, int]]]:
    """The faults of the rows of a broken `text` that can be read, with their places; `below` has the rows that it stands on.

    A reference to a section with a row that cannot be read is no fault: it may be that row.
    """
    from provisioner.stack.matrix import Matrix

    rows, broken = _rows_of(text)
    sections: dict[str, Callable[[], tuple[Any, ...]]] = {}
    places: dict[tuple[str, str], tuple[int, int]] = {}
    for section in SECTIONS:
        merged = {key_of(section, row): row for row in below.rows(section)} if below is not None else {}
        for row, place in rows.get(section, ()):
            key = key_of(section, row)
            merged[key], places[section, key] = row, place
        sections[section] = functools.partial(tuple, [merged[key] for key in sorted(merged, key=order_of)])
    faults = check(Matrix(collected="", sha256="", sections=sections))
    unsure = tuple(f" is not in {section}" for section in broken)
    return [
        (fault, places[fault.section, fault.key])
        for fault in faults
        if (fault.section, fault.key) in places
        and not fault.message.endswith(unsure)
        and not (fault.section == "releases" and "variants" in broken)
    ]


def _rows_of(text: str) -> tuple[dict[str, list[tuple[Any, tuple[int, int]]]], set[str]]:
    """The rows of a text that can be read, by section and with their places; and the sections with rows that cannot."""
    import yaml

    from provisioner.decode import Decoder

    decoder = Decoder("", strict=True)
    tree = decoder.compose(text)
    found: dict[str, list[tuple[Any, tuple[int, int]]]] = {}
    broken: set[str] = set()
    if not isinstance(tree, yaml.MappingNode):
        return found, broken
    for section, rows in tree.value:
        name = section.value if isinstance(section, yaml.ScalarNode) else ""
        if name not in SECTIONS:
            continue
        if not isinstance(rows, yaml.SequenceNode):
            broken.add(name)
            continue
        for row in rows.value:
            made = decoder.read(row, SECTIONS[name].row, "")
            if isinstance(made, SECTIONS[name].row):
                found.setdefault(name, []).append((made, (row.start_mark.line + 1, row.start_mark.column + 1)))
            else:
                broken.add(name)
    return found, broken


def places_in(text: str) -> Mapping[tuple[str, str], tuple[int, int]]:
    """Where each row of a matrix text stands: section and key → line and column."""
    rows, _ = _rows_of(text)
    return {(section, key_of(section, row)): place for section, found in rows.items() for row, place in found}
