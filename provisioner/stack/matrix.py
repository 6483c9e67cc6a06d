"""The compatibility matrix: its rows by section, how they are looked up, decoded and overlaid.

`Matrix` gives each section as a tuple of values, made when the section is first asked for: a question about one framework need
not pay for 429 GPUs. The rows' classes stand in `rows`, the compiled form in `compiled`, what must hold across rows in
`invariants`, and the text form in `matrix_text`.
"""

from __future__ import annotations

import functools
import hashlib
from typing import TYPE_CHECKING, Any, cast

from provisioner.stack.rows import (
    SECTIONS,
    Architecture,
    Closure,
    ComputeCapability,
    Container,
    Cuda,
    CudaRelease,
    DriverBranch,
    Flavour,
    ForwardCompat,
    Framework,
    Gpu,
    ImageRow,
    Index,
    Library,
    MatrixFile,
    ModuleFlavour,
    PackageRow,
    Platform,
    Published,
    Recipe,
    Release,
    Source,
    System,
    Variant,
    Verified,
    key_of,
    order_of,
)
from provisioner.values import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from provisioner.stack.gpus import Capability
    from provisioner.stack.invariants import Fault
    from provisioner.versions import Version

__all__ = [
    "SECTIONS",
    "Architecture",
    "Closure",
    "ComputeCapability",
    "Container",
    "Cuda",
    "CudaRelease",
    "DriverBranch",
    "Flavour",
    "ForwardCompat",
    "Framework",
    "Gpu",
    "ImageRow",
    "Index",
    "Library",
    "Matrix",
    "ModuleFlavour",
    "PackageRow",
    "Platform",
    "Published",
    "Recipe",
    "Release",
    "Source",
    "System",
    "Variant",
    "Verified",
    "key_of",
    "load_matrix",
    "overlay",
]

Rows = tuple[Any, ...]


class Matrix:
    """The rows of one matrix, section by section.

    `sha256` names the text that it was read from, `collected` is the day of the data.
    """

    def __init__(self, *, collected: str, sha256: str, sections: Mapping[str, Callable[[], Rows]]) -> None:
        """A matrix whose rows each of `sections` gives when it is called; a missing section is empty."""
        self.collected = collected
        self.sha256 = sha256
        self._sections = sections
        self._rows: dict[str, Rows] = {}
        self._indexed: dict[str, dict[str, Any]] = {}
        self._groups: dict[str, dict[str, Rows]] = {}

    def rows(self, section: str) -> Rows:
        """All rows of a section by its name in the file; KeyError when there is no such section."""
        if section not in self._rows:
            if section not in SECTIONS:
                raise KeyError(section)
            make = self._sections.get(section)
            self._rows[section] = make() if make else ()
        return self._rows[section]

    def row(self, section: str, key: str) -> Any:  # noqa: ANN401 - the class of the section's rows
        """The row of `section` with the id `key` (`key_of`), or None."""
        if section not in self._indexed:
            self._indexed[section] = {key_of(section, row): row for row in self.rows(section)}
        return self._indexed[section].get(key)

    def _grouped(self, section: str, field: str) -> dict[str, Rows]:
        """The rows of a section by one of its fields, in their order. A section is grouped by one field only."""
        if section not in self._groups:
            groups: dict[str, list[Any]] = {}
            for row in self.rows(section):
                groups.setdefault(getattr(row, field), []).append(row)
            self._groups[section] = {name: tuple(rows) for name, rows in groups.items()}
        return self._groups[section]

    @functools.cached_property
    def sources(self) -> tuple[Source, ...]:
        """The documents that rows name."""
        return self.rows("sources")

    @functools.cached_property
    def architectures(self) -> tuple[Architecture, ...]:
        """The GPU generations."""
        return self.rows("architectures")

    @functools.cached_property
    def capabilities(self) -> tuple[ComputeCapability, ...]:
        """The compute capabilities, with first and last CUDA."""
        return self.rows("capabilities")

    @functools.cached_property
    def gpus(self) -> tuple[Gpu, ...]:
        """The products by the name that the driver reports."""
        return self.rows("gpus")

    @functools.cached_property
    def drivers(self) -> tuple[DriverBranch, ...]:
        """The driver branches, oldest first."""
        return self.rows("drivers")

    @functools.cached_property
    def cuda(self) -> tuple[Cuda, ...]:
        """The CUDA minors, oldest first."""
        return self.rows("cuda")

    @functools.cached_property
    def cuda_releases(self) -> tuple[CudaRelease, ...]:
        """The CUDA toolkit releases, oldest first."""
        return self.rows("cuda_releases")

    @functools.cached_property
    def forward_compat(self) -> tuple[ForwardCompat, ...]:
        """What cuda-compat does on which driver branch."""
        return self.rows("forward_compat")

    @functools.cached_property
    def indexes(self) -> tuple[Index, ...]:
        """The package indexes."""
        return self.rows("indexes")

    @functools.cached_property
    def frameworks(self) -> tuple[Framework, ...]:
        """The frameworks."""
        return self.rows("frameworks")

    @functools.cached_property
    def releases(self) -> tuple[Release, ...]:
        """The releases of all frameworks, oldest first."""
        return self.rows("releases")

    @functools.cached_property
    def variants(self) -> tuple[Variant, ...]:
        """The build variants of all frameworks, oldest release first."""
        return self.rows("variants")

    @functools.cached_property
    def images(self) -> tuple[ImageRow, ...]:
        """The base images."""
        return self.rows("images")

    @functools.cached_property
    def systems(self) -> tuple[System, ...]:
        """The operating systems of hosts and images."""
        return self.rows("systems")

    @functools.cached_property
    def closures(self) -> tuple[Closure, ...]:
        """Measured sizes of requirements with all that they pull in."""
        return self.rows("closures")

    @functools.cached_property
    def packages(self) -> tuple[PackageRow, ...]:
        """The releases of packages beside a framework, oldest first."""
        return self.rows("packages")

    @functools.cached_property
    def recipes(self) -> tuple[Recipe, ...]:
        """How packages compile."""
        return self.rows("recipes")

    @functools.cached_property
    def libraries(self) -> tuple[Library, ...]:
        """What ranges of cuDNN and NCCL releases run on."""
        return self.rows("libraries")

    @functools.cached_property
    def containers(self) -> tuple[Container, ...]:
        """The framework containers of nvcr.io."""
        return self.rows("containers")

    def package(self, name: str) -> tuple[PackageRow, ...]:
        """The releases of one package (lower case, with dashes), oldest first; none when the data do not have it."""
        return self._grouped("packages", "package").get(name, ())

    def recipe(self, recipe: str) -> Recipe | None:
        """The compile recipe with this id."""
        return cast("Recipe | None", self.row("recipes", recipe))

    def libraries_of(self, library: str, cuda_major: int, version: Version) -> tuple[Library, ...]:
        """The rows that say what release `version` of a CUDA library runs on."""
        return tuple(
            row
            for row in self._grouped("libraries", "library").get(library, ())
            if row.cuda_major == cuda_major and row.first <= version and (row.before is None or version < row.before)
        )

    def source(self, source_id: str) -> Source | None:
        """The document with this id."""
        return cast("Source | None", self.row("sources", source_id))

    def architecture(self, architecture: str) -> Architecture | None:
        """The GPU generation with this id."""
        return cast("Architecture | None", self.row("architectures", architecture))

    def capability(self, capability: Capability) -> ComputeCapability | None:
        """The row of a compute capability."""
        return cast("ComputeCapability | None", self.row("capabilities", str(capability)))

    def driver(self, branch: str) -> DriverBranch | None:
        """The row of a driver branch: `580`, as in 580.65.06, or `R580`."""
        return cast("DriverBranch | None", self.row("drivers", branch.removeprefix("R")))

    def cuda_minor(self, version: Version) -> Cuda | None:
        """The row of the minor that `version` (12.8, 12.8.1) belongs to."""
        return cast("Cuda | None", self.row("cuda", str(version.minor)))

    def index(self, index: str) -> Index | None:
        """The package index with this symbolic id."""
        return cast("Index | None", self.row("indexes", index))

    def framework(self, distribution: str) -> Framework | None:
        """The framework that this distribution carries."""
        return cast("Framework | None", self.row("frameworks", distribution))

    def releases_of(self, framework: str) -> tuple[Release, ...]:
        """The releases of one framework, oldest first."""
        return self._grouped("releases", "framework").get(framework, ())

    def variants_of(self, framework: str) -> tuple[Variant, ...]:
        """The build variants of one framework, oldest release first."""
        return self._grouped("variants", "framework").get(framework, ())

    def system(self, os_id: str) -> System | None:
        """The row of a system by its id (rockylinux9) or by ID and VERSION_ID of its /etc/os-release together (`rocky9.4`)."""
        found = cast("System | None", self.row("systems", os_id))
        if found is not None:
            return found
        name = os_id.rstrip("0123456789.")
        number = os_id[len(name) :].split(".")
        best: tuple[int, System] | None = None
        for row in self.systems:
            for release in row.release:
                known_name, *known = release.replace(".", " ").split()
                if name == known_name and number[: len(known)] == known and (best is None or len(known) > best[0]):
                    best = len(known), row
        return best[1] if best else None


def load_matrix(text: str, source: str) -> Matrix:
    """Decode and check the whole file `text`, which messages call `source`; MatrixError with every mistake and its place."""
    matrix = _matrix_of(_decode(text, source), hashlib.sha256(text.encode()).hexdigest())
    _refuse_faults(matrix, text, source)
    return matrix


def overlay(matrix: Matrix, text: str, source: str, *, newer: bool = False) -> Matrix:
    """`matrix` with the rows of the overlay `text`: a row replaces the one with its id, others are added.

    MatrixError with every mistake and its place. An overlay has the form of the file, with the sections that it changes. `newer`:
    where the matrix is of a later day than the overlay, its own rows stay, and only others are added.
    """
    extra = _decode(text, source, matrix)
    sections: dict[str, Callable[[], Rows]] = {name: functools.partial(matrix.rows, name) for name in SECTIONS}
    for name in SECTIONS:
        added = {key_of(name, row): row for row in getattr(extra, name)}  # one id twice: the later row, as with two overlays
        if newer and matrix.collected > extra.collected:
            added = {key: row for key, row in added.items() if matrix.row(name, key) is None}
        if added:
            merged = {key_of(name, row): row for row in matrix.rows(name)} | added
            sections[name] = functools.partial(tuple, [merged[key] for key in sorted(merged, key=order_of)])
    sha256 = hashlib.sha256(f"{matrix.sha256}\n{text}".encode()).hexdigest()
    merged_matrix = Matrix(collected=max(matrix.collected, extra.collected), sha256=sha256, sections=sections)
    _refuse_faults(merged_matrix, text, source)
    return merged_matrix


def _matrix_of(file: MatrixFile, sha256: str) -> Matrix:
    sections = {name: functools.partial(getattr, file, name) for name in SECTIONS}
    return Matrix(collected=file.collected, sha256=sha256, sections=sections)


def _decode(text: str, source: str, below: Matrix | None = None) -> MatrixFile:
    """The file `text`, an overlay on `below`. Where that cannot be read, those of its rows that can be are checked too."""
    from provisioner.decode import decode
    from provisioner.errors import MatrixError

    try:
        return decode(text, source, MatrixFile, MatrixError, strict=True)
    except MatrixError as failure:
        from provisioner.stack.invariants import faults_beside

        more = [_problem(fault, source, place) for fault, place in faults_beside(text, below)]
        if not more:
            raise
        problems = sorted((*failure.problems, *more), key=lambda problem: (problem.line, problem.column))
        raise MatrixError(problems, hint=failure.hint) from failure


def _problem(fault: Fault, source: str, place: tuple[int, int]) -> Problem:
    return Problem(file=source, line=place[0], column=place[1], message=str(fault))


def _refuse_faults(matrix: Matrix, text: str, source: str) -> None:
    from provisioner.errors import MatrixError
    from provisioner.stack.invariants import check, places_in

    faults = check(matrix)
    if not faults:
        return
    places = places_in(text)
    problems = [_problem(fault, source, places.get((fault.section, fault.key), (0, 0))) for fault in faults]
    raise MatrixError(sorted(problems, key=lambda problem: (problem.line, problem.column)))
