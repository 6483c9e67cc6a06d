"""A request, read against the matrix: what each of its words means there. Rules see the request only in this form."""

from __future__ import annotations

import functools
import re
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal

from provisioner.errors import UsageError
from provisioner.findings import Because
from provisioner.stack.answer import Judgement, Note
from provisioner.stack.gpus import Capability
from provisioner.stack.lock import Refusal
from provisioner.stack.matrix import Matrix, key_of
from provisioner.stack.request import Request
from provisioner.stack.rows import (
    Architecture,
    ComputeCapability,
    DriverBranch,
    Flavour,
    Gpu,
    ImageRow,
    Release,
    System,
)
from provisioner.stack.wants import Wants
from provisioner.values import value
from provisioner.versions import Version

if TYPE_CHECKING:
    from collections.abc import Iterable

    from provisioner.stack.rows import (
        ModuleFlavour,
        Variant,
    )

_SM = re.compile(r"(?:sm_|compute_)\d{2,3}[af]?|\d{1,2}\.\d[af]?")


@value
class Target:
    """A GPU that the stack must run on: a product, products that agree in all that decides, or a bare capability."""

    name: str
    capability: Capability
    products: tuple[Gpu, ...] = ()
    row: ComputeCapability | None = None
    architecture: Architecture | None = None

    def __str__(self) -> str:
        return self.name if self.name == self.capability.sm else f"{self.name} ({self.capability.sm})"

    @property
    def open_modules(self) -> Literal["unsupported", "supported", "required"] | None:
        """What the open kernel modules are to it; None: not known."""
        of_product = self.products[0].open_modules if self.products else None
        return of_product or (self.architecture.open_modules if self.architecture else None)

    @property
    def last_driver(self) -> str | None:
        """The last driver branch that drives it; None: not ended."""
        of_product = self.products[0].last_driver if self.products else None
        return of_product or (self.architecture.last_driver if self.architecture else None)

    @property
    def segments(self) -> frozenset[str]:
        """The segments of the products; empty for a bare capability."""
        return frozenset(gpu.segment for gpu in self.products)

    def rows(self) -> tuple[tuple[str, object], ...]:
        """The rows that say what it is."""
        if self.products:
            return (("gpus", self.products[0]),)
        return (("capabilities", self.row),) if self.row else ()


@value
class Driver:
    """The driver that was asked: a version, or free (`any`), or free and to be chosen (`upgrade`)."""

    text: str
    version: Version | None = None
    branch: DriverBranch | None = None

    def __str__(self) -> str:
        return f"driver {self.version or self.text}"


@value
class Machine:
    """Machines of one kind: their GPUs, their driver, and the driver branches that drive all these GPUs."""

    name: str
    targets: tuple[Target, ...]
    driver: Driver
    branches: tuple[DriverBranch, ...] = ()


class Memo(dict[Any, Any]):
    """What was found out about a request, once: no part of what it says, so all are equal."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Memo)

    def __hash__(self) -> int:  # type: ignore[override]  # a dict has none
        return 0


@value
class Asked:
    """The request in the matrix's words.

    `gpu`: True a GPU is there, False none is, None not said. `problems` are what has no row: they stop it before any rule.
    """

    request: Request
    matrix: Matrix
    wants: Wants
    machines: tuple[Machine, ...]
    gpu: bool | None
    releases: tuple[Release, ...]  # that the requirement takes, newest first
    python: str | None = None  # pinned, by the request or by its image
    system: System | None = None  # of the hosts
    image_system: System | None = None  # of the image, where it is pinned
    image: ImageRow | None = None  # pinned
    flavour: Flavour | None = None  # of the pinned image
    problems: tuple[Refusal, ...] = ()
    memo: Memo = field(default_factory=Memo)

    @property
    def targets(self) -> tuple[Target, ...]:
        """All GPUs that the stack must run on."""
        return tuple(target for machine in self.machines for target in machine.targets)

    def builds(self, release: Release) -> tuple[Variant, ...]:
        """The builds of a release that are candidates: those for the platform, and those that exist for another one only."""
        rows = _builds(self.matrix, release.framework).get(release.version, ())
        here = {row.tag for row in rows if row.platform == self.request.platform}
        return tuple(row for row in rows if row.platform == self.request.platform or row.tag not in here)

    def allows(self, refusal: Refusal) -> bool:
        """Whether `--allow` overrides this refusal."""
        return bool({refusal.rule, refusal.finding} & set(self.request.allow))

    def because(self, fact: str, section: str, row: object) -> Because:
        """A fact, with its row and document as the source."""
        return Because(fact=fact, source=reason(self.matrix, section, row).source)

    def refuse(
        self, rule: str, finding: str, fact: str, rows: Iterable[tuple[str, object]] = (), *, certain: bool = True
    ) -> Judgement:
        """A refusal with its rows; a note when nothing better than memory (`recall`) stands behind it."""
        rows = tuple(rows)
        because = tuple(reason(self.matrix, section, row) for section, row in rows)
        if rows and all(getattr(row, "verified", "") == "recall" for _, row in rows):
            return Note(
                rule=rule, finding=finding, fact=f"{fact}; remembered, and found in no document: check it", because=because
            )
        return Refusal(rule=rule, finding=finding, fact=fact, because=because, certain=certain)


@functools.lru_cache(maxsize=4)
def _builds(matrix: Matrix, framework: str) -> dict[Version, tuple[Variant, ...]]:
    found: dict[Version, list[Variant]] = {}
    for row in matrix.variants_of(framework):
        found.setdefault(row.version, []).append(row)
    return {version: tuple(rows) for version, rows in found.items()}


@functools.lru_cache(maxsize=4)
def _reasons(matrix: Matrix) -> dict[int, Because]:  # noqa: ARG001 - the key of the cache; its rows live as long as it does
    return {}


def reason(matrix: Matrix, section: str, row: object) -> Because:
    """What a row says, with the section, its id and the documents that it names: what `source` shows in every answer."""
    reasons = _reasons(matrix)
    if id(row) not in reasons:
        documents = "; ".join(found.document if (found := matrix.source(name)) else name for name in getattr(row, "source", ()))
        place = f"{section} {key_of(section, row)}"
        reasons[id(row)] = Because(fact=summary(section, row), source=f"{place}: {documents}" if documents else place)
    return reasons[id(row)]


def summary(section: str, row: object) -> str:
    """One line that says what a row says, for a reason."""
    return _SUMMARIES[section](row) if section in _SUMMARIES else f"{section} {key_of(section, row)}"


def _targets(row: object) -> str:
    sass = getattr(row, "sass", None)
    return (
        "its machine code is not known" if sass is None else f"holds {', '.join(target.sm for target in sass) or 'no GPU code'}"
    )


_SUMMARIES = {
    "gpus": lambda row: f"{row.name} has compute capability {row.capability}",
    "capabilities": lambda row: (
        f"{row.capability.sm} can be targeted from CUDA {row.first_cuda or '?'} to {row.last_cuda or 'today'}"
    ),
    "cuda": lambda row: f"CUDA {row.version} targets {', '.join(target.sm for target in row.sm if not target.suffix)}",
    "variants": lambda row: f"{row.framework} {row.version} {row.tag} {_targets(row)}",
    "drivers": lambda row: f"driver branch {row.branch} supports CUDA up to {row.max_cuda}",
    "architectures": lambda row: (
        f"{row.name}: driver branches {row.first_driver or '?'} to {row.last_driver or 'today'}, "
        f"open kernel modules {row.open_modules}"
    ),
    "systems": lambda row: f"{row.name} has {row.libc} {row.glibc or ''}".rstrip(),
    "images": lambda row: f"{row.repository} on {row.os}",
    "releases": lambda row: f"{row.framework} {row.version} of {row.date or 'an unknown day'}",
    "packages": lambda row: f"{row.package} {row.version}" + (f" for CUDA {row.cuda_major}" if row.cuda_major else ""),
    "libraries": lambda row: f"{row.library} from {row.first} on, for CUDA {row.cuda_major}",
    "recipes": lambda row: f"how {', '.join(row.packages)} are compiled",
    "forward_compat": lambda row: f"cuda-compat {row.cuda} on branch {row.branch}: {row.state}",
}


def extras_that_choose(asked: Asked) -> frozenset[str]:
    """The extras of the requirement on the framework that name a build of it (`name[tag]`); none where extras choose nothing."""
    item, framework = asked.wants.asked, asked.wants.framework
    if item is None or framework is None or not item.extras:
        return frozenset()
    named = frozenset(part.strip().lower() for part in item.extras.strip("[]").split(","))
    return named & frozenset(row.tag for row in asked.matrix.variants_of(framework.id) if row.requirement is not None)


def modules_for(targets: Iterable[Target], branch: DriverBranch | None) -> tuple[ModuleFlavour, ...]:
    """The kernel module flavours that drive all `targets`, and that `branch` ships where one is given; the preferred first."""
    needs = {target.open_modules for target in targets}
    ships = branch.open_modules if branch else ""
    flavours: list[ModuleFlavour] = []
    if "unsupported" not in needs and ships != "none":
        flavours.append("open")
    if "required" not in needs and ships != "only flavour":
        flavours.append("proprietary")
    return tuple(flavours)


def read_driver(text: str, matrix: Matrix) -> tuple[Driver, Refusal | None]:
    """What `text` means: a version, a branch (its first release), `any`, `upgrade`. UsageError for anything else."""
    word = text.strip().lower()
    if word in {"any", "upgrade", ""}:
        return Driver(text=word or "any"), None
    try:
        version = Version(word.removeprefix("r"))
    except ValueError as failure:
        raise UsageError(f"driver {text!r}: {failure}", hint="name a version, a branch, any, or upgrade") from failure
    branch = matrix.driver(str(version.major))
    driver = Driver(text=text, version=version, branch=branch)
    if branch is None:
        return driver, _no_branch(version, matrix)
    if len(version.numbers) == 1 and branch.first is not None:
        return Driver(text=text, version=branch.first, branch=branch), None
    return driver, None


def _no_branch(version: Version, matrix: Matrix) -> Refusal | None:
    known = sorted(int(row.branch) for row in matrix.drivers if row.branch.isdigit())
    if not known:
        return None
    if version.major < known[0]:
        if matrix.cuda_minor(version) is None:
            return None  # older than every branch: the rules say what that means for the GPU and for the CUDA
        fact = (
            f"driver {version} looks like the CUDA version that nvidia-smi prints, which is what the driver supports at most; "
            f'the driver is the number after "Driver Version" or "KMD Version", of a branch such as {known[-1]}'
        )
        return Refusal(rule="driver-known", finding="driver-is-a-cuda-version", fact=fact, certain=False)
    if version.major > known[-1]:
        fact = f"driver {version} is newer than the data of {matrix.collected}, which end with branch {known[-1]}"
    else:
        near = sorted(known, key=lambda branch: abs(branch - version.major))[:2]
        fact = (
            f"driver {version} belongs to no Linux branch in the data of {matrix.collected}; near it are "
            f"{' and '.join(map(str, sorted(near)))} (Windows numbers its drivers apart)"
        )
    return Refusal(rule="driver-known", finding="driver-not-in-data", fact=fact, certain=False)


def is_capability(text: str) -> bool:
    """Whether `text` is a capability (9.0) or a target (sm_90) and no product's name."""
    return _SM.fullmatch(text.strip().lower()) is not None
