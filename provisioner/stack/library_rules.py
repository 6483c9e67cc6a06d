"""The rules on what lies under a framework: cuDNN and NCCL, the ABI of NumPy, the assembler of what compiles at run time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provisioner.stack.answer import Judgement, Note
from provisioner.stack.packages import bounds_of, by_name, pin_of
from provisioner.versions import Version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from provisioner.stack.asked import Asked, Target
    from provisioner.stack.rows import Library, PackageRow, Release, Variant
    from provisioner.stack.wants import Requirement

RULE = "libraries-fit"
#: The distribution whose second major changed its binary interface; `numpy2` of a release says whether it was built for it.
NUMPY = "numpy"
_SECOND = 2
_NO = frozenset({"", "no", "false", "off", "0"})


def pinned_libraries(asked: Asked) -> Iterator[Judgement]:
    """CuDNN and NCCL that are pinned run on every GPU, whatever brings it."""
    request = asked.request
    for library, version in (("cudnn", request.cudnn), ("nccl", request.nccl)):
        if version is None or asked.gpu is False:
            continue
        for target in asked.targets:
            yield from _judge(asked, library, version, _majors(asked, library), target, certain=True)


def _majors(asked: Asked, library: str) -> list[int]:
    """The CUDA majors that the library can be for: that of the CUDA that is pinned, or any."""
    if asked.request.cuda is not None:
        return [asked.request.cuda.major]
    return sorted({row.cuda_major for row in asked.matrix.libraries if row.library == library})


def libraries_fit(asked: Asked, build: Variant) -> Iterator[Judgement]:
    """The cuDNN that the build brings runs on every GPU. For NCCL it is said: one GPU alone does without."""
    if build.cuda is None or asked.gpu is False:
        return
    for library, version in (("cudnn", build.cudnn), ("nccl", build.nccl)):
        if version is None:
            continue
        for target in asked.targets:
            yield from _judge(asked, library, version, [build.cuda.major], target, certain=False)


def _judge(
    asked: Asked, library: str, version: Version, majors: Iterable[int], target: Target, *, certain: bool
) -> Iterator[Judgement]:
    """Refused where every CUDA major that the release is for has a row that says no; a Note where `certain` is False."""
    each = [asked.matrix.libraries_of(library, major, version) for major in majors]
    known = [rows for rows in each if rows]
    misses = [row for rows in known if (row := _miss(rows, target)) is not None]
    name = {"cudnn": "cuDNN"}.get(library, library.upper())
    if known and len(misses) == len(known):
        row = misses[0]
        bounds = f"from {row.min_capability} on" if row.min_capability is not None else f"up to {row.max_capability}"
        if row.min_capability is not None and row.max_capability is not None:
            bounds = f"from {row.min_capability} to {row.max_capability}"
        fact = f"{name} {version} for CUDA {row.cuda_major} runs on compute capability {bounds}, and {target} is not among them"
        finding = "library-min-arch" if row.min_capability and target.capability < row.min_capability else "library-max-arch"
        if certain:
            yield asked.refuse(RULE, finding, fact, [("libraries", row), *target.rows()])
        else:
            because = (asked.because(fact, "libraries", row),)
            yield Note(rule=RULE, finding="library-not-for-gpu", fact=fact, because=because)


def _miss(rows: Iterable[Library], target: Target) -> Library | None:
    for row in rows:
        if row.min_capability is not None and target.capability < row.min_capability:
            return row
        if row.max_capability is not None and target.capability > row.max_capability:
            return row
    return None


def numpy_of(asked: Asked) -> Requirement | None:
    """The requirement on NumPy, where there is one."""
    return next((item for item in asked.wants.others if item.name == NUMPY), None)


def numpy_fits(asked: Asked, build: Variant) -> Iterator[Judgement]:
    """A release that was built for the ABI of NumPy 1 does not get NumPy 2."""
    item = numpy_of(asked)
    release = asked.matrix.row("releases", f"{build.framework} {build.version}")
    if release is None:
        return
    if release.numpy2 is not False:
        yield from _within(asked, release, item)
        return
    bounds = bounds_of(release.numpy or "")
    if item is None and bounds is not None and Version(str(_SECOND)) not in bounds:
        return  # its own metadata keep it there
    if item is None:
        fact = f"{build.framework} {build.version} was built for the ABI of NumPy 1: {NUMPY} must stay below {_SECOND}"
        yield Note(rule="numpy-fits", finding="numpy-stays-at-1", fact=fact)
        return
    pinned = pin_of(item)
    lowest = (
        max((bound for sign, bound in item.bounds.bounds if sign in {">=", ">", "~="}), default=None) if item.bounds else None
    )
    least = pinned or lowest
    if least is not None and least.major >= _SECOND:
        fact = (
            f"{build.framework} {build.version} was built for the ABI of NumPy 1, and {item.text} was asked: "
            "arrays cannot be made into tensors and back"
        )
        yield asked.refuse("numpy-fits", "abi-numpy2", fact, [("releases", release)])
    else:
        fact = f"{build.framework} {build.version} was built for the ABI of NumPy 1: {NUMPY} stays below {_SECOND}"
        yield asked.because(fact, "releases", release)


def _within(asked: Asked, release: Release, item: Requirement | None) -> Iterator[Judgement]:
    """A pinned NumPy is within the bounds of the release."""
    pinned, bounds = (pin_of(item) if item else None), bounds_of(release.numpy or "")
    if item is not None and pinned is not None and bounds is not None and pinned not in bounds:
        fact = f"{release.framework} {release.version} needs {NUMPY}{release.numpy}, and {item.text} was asked"
        yield asked.refuse("numpy-fits", "companion-mismatch", fact, [("releases", release)])


def numpy_text(asked: Asked, build: Variant, item: Requirement) -> str:
    """The requirement on NumPy as pip is given it beside `build`."""
    release = asked.matrix.row("releases", f"{build.framework} {build.version}")
    below = item.bounds is not None and any(sign in {"<", "<=", "=="} for sign, _ in item.bounds.bounds)
    if release is None or release.numpy2 is not False or below:
        return item.text
    return f"{item.name}{item.extras}{f'{item.bounds.text},' if item.bounds else ''}<{_SECOND}"


def assembler_fits(asked: Asked, build: Variant) -> Iterator[Judgement]:
    """What is compiled at run time (options.torch_compile) has an assembler that knows the GPU."""
    if asked.request.options.get("torch_compile", "").strip().lower() in _NO or build.cuda is None:
        return
    release = asked.matrix.row("releases", f"{build.framework} {build.version}")
    for name, goes in (release.companions if release else {}).items():
        row = _assembler(asked, name, goes)
        if row is None or row.ptxas is None:
            continue
        for target in asked.targets:
            first = target.row.first_cuda if target.row else None
            if first is not None and row.ptxas.minor < first:
                fact = (
                    f"{row.package} {row.version} brings the ptxas of CUDA {row.ptxas.minor}, and {target} is known from CUDA "
                    f"{first} on: what runs as it is works, whatever is compiled at run time stops"
                )
                yield asked.refuse("assembler-fits", "bundled-ptxas-too-old", fact, [("packages", row), *target.rows()])


def _assembler(asked: Asked, name: str, goes: str) -> PackageRow | None:
    """The row of the companion release that goes with the build."""
    rows = by_name(asked.matrix).get(name, ())
    bounds = bounds_of(f"=={goes}" if goes[0].isdigit() else goes)
    return next((row for row in reversed(rows) if bounds is None or row.version in bounds), None)
