"""The rules on the packages beside the framework: whether releases of them fit the build, the GPUs, the driver and one another.

`settle` looks for one release of each known package, the newest first, so that all of them fit; what it finds decides with the
build which Python and which image are taken. What the data do not say neither refuses nor passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from provisioner.stack.answer import Judgement, Note
from provisioner.stack.bases import base_of
from provisioner.stack.gpus import cubin_runs, ptx_runs
from provisioner.stack.lock import Refusal
from provisioner.stack.packages import Pick, bounds_of, by_name, picks, pin_of, pythons_for
from provisioner.values import value
from provisioner.versions import Version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from provisioner.stack.asked import Asked
    from provisioner.stack.rows import Variant
    from provisioner.stack.wants import Requirement

RULE = "packages-fit"
_STEPS = 5000  # of the search for releases that fit one another; more than any request has needed


@value
class Settled:
    """What the packages come to: one release of each, the Pythons that all have, or what refuses the nearest."""

    picks: tuple[Pick, ...] = ()
    pythons: tuple[str, ...] | None = None  # None: no package narrows them
    refusals: tuple[Refusal, ...] = ()
    notes: tuple[Note, ...] = ()

    @property
    def glibc(self) -> Version | None:
        """The newest C library that one of them needs."""
        return max((pick.row.glibc for pick in self.picks if pick.row.glibc is not None), default=None)


_NOTHING = Settled()


def settle(asked: Asked, build: Variant | None) -> Settled:
    """The releases of the request's packages that go with `build`; with None, where no framework is asked for."""
    if not asked.wants.others:
        return _NOTHING
    key = (build.version, build.tag, build.platform) if build else None
    if key not in asked.memo:
        asked.memo[key] = _settle(asked, build)
    found: Settled = asked.memo[key]
    return found


def _settle(asked: Asked, build: Variant | None) -> Settled:
    notes: list[Note] = []
    refusals: list[Refusal] = []
    open_picks: list[list[Pick]] = []
    for item in asked.wants.others:
        known = by_name(asked.matrix).get(item.name)
        if known is None:
            continue
        able = picks(asked.matrix, item, asked.request.platform)
        if not able:
            said = _not_there(asked, item)
            (refusals if isinstance(said, Refusal) else notes).append(said)  # type: ignore[arg-type]  # each to its own list
            continue
        near = [pick for pick in able if build is None or _goes(build, pick)] or able[:1]
        misses = [(pick, [*_own(asked, pick), *(_with(asked, build, pick) if build else ())]) for pick in near]
        fitting = [pick for pick, said in misses if not _refused(asked, said)]
        if fitting:
            open_picks.append(fitting)
        else:
            nearest = min(misses, key=lambda miss: len(_refused(asked, miss[1])))
            refusals += _refused(asked, nearest[1])
        notes += [said for said in dict.fromkeys(note for _, found in misses[:1] for note in found) if isinstance(said, Note)]
    if refusals:
        return Settled(refusals=tuple(refusals), notes=tuple(notes))
    pythons = _pythons(asked, build)
    chosen = _search(asked, open_picks, pythons)
    if chosen is None:
        return Settled(refusals=tuple(_no_set(asked, open_picks, pythons)), notes=tuple(notes))
    left = pythons
    for pick in chosen:
        left = pythons_for(pick.row, left) if left is not None else None
    return Settled(picks=chosen, pythons=left, notes=tuple(notes))


def _goes(build: Variant, pick: Pick) -> bool:
    """Whether the release is for this release of the framework."""
    bounds = bounds_of(pick.row.requires.get(build.framework, ""))
    return bounds is None or build.version in bounds


def _own(asked: Asked, pick: Pick) -> tuple[Judgement, ...]:
    """`_alone`, which no build changes, found out once."""
    key = (pick.row.package, pick.row.version)
    if key not in asked.memo:
        asked.memo[key] = tuple(_alone(asked, pick))
    found: tuple[Judgement, ...] = asked.memo[key]
    return found


def _refused(asked: Asked, said: Iterable[Judgement]) -> list[Refusal]:
    return [item for item in said if isinstance(item, Refusal) and not asked.allows(item)]


def _pythons(asked: Asked, build: Variant | None) -> tuple[str, ...] | None:
    """The Pythons that may be taken with the build: the one that is pinned, or all that it has."""
    pinned = pinned_python(asked)
    if pinned is not None:
        return (pinned,)
    return tuple(python for python in build.pythons if not python.endswith("t")) or None if build else None


def pinned_python(asked: Asked) -> str | None:
    """The Python that the request or its image pins."""
    if asked.python is not None or asked.image is None:
        return asked.python
    return base_of(asked.matrix, asked.image, asked.flavour or "slim").python


def _not_there(asked: Asked, item: Requirement) -> Judgement:
    rows = by_name(asked.matrix)[item.name]
    taken = [row for row in rows if item.bounds is None or row.version in item.bounds]
    platforms = sorted({row.platform for row in taken if row.platform is not None})
    if taken and platforms:
        fact = f"{item.text} exists for {' and '.join(platforms)}, and {asked.request.platform} was asked"
        return asked.refuse(RULE, "package-not-for-platform", fact, [("packages", taken[-1])])
    fact = f"what {item.text} needs is not in the data, which have {item.name} {rows[0].version} to {rows[-1].version}"
    return Note(rule=RULE, finding="package-version-not-in-data", fact=fact)


def _alone(asked: Asked, pick: Pick) -> Iterator[Judgement]:
    """What the release needs of GPU, driver, Python and C library."""
    if asked.gpu is not False:
        yield from _on_gpus(asked, pick)
        yield from _on_drivers(asked, pick)
    row, pinned = pick.row, pinned_python(asked)
    if pinned is not None and not pythons_for(row, (pinned,)):
        has = f"Python {', '.join(row.pythons)}" if row.pythons else f"Python {row.requires_python}"
        yield asked.refuse(RULE, "no-wheel-for-python", f"{pick} exists for {has}, and {pinned} was asked", _rows(pick))
    if row.glibc is not None:
        yield from _on_system(asked, pick, row.glibc)


def _rows(pick: Pick) -> list[tuple[str, object]]:
    return [("packages", pick.row)]


def _on_gpus(asked: Asked, pick: Pick) -> Iterator[Judgement]:
    row = pick.row
    as_near = "" if pick.listed else f" ({row.note})"
    for target in asked.targets:
        if row.min_capability is not None and target.capability < row.min_capability:
            fact = f"{pick} needs a GPU of compute capability {row.min_capability} or higher{as_near}, and {target} is below"
            yield asked.refuse(RULE, "package-min-arch", fact, [*_rows(pick), *target.rows()])
        elif row.max_capability is not None and target.capability > row.max_capability:
            fact = f"{pick} runs on GPUs up to compute capability {row.max_capability}{as_near}, and {target} is above"
            yield asked.refuse(RULE, "package-max-arch", fact, [*_rows(pick), *target.rows()])
        elif row.sass is not None and not (
            any(cubin_runs(sm, target.capability) for sm in row.sass) or any(ptx_runs(sm, target.capability) for sm in row.ptx)
        ):
            fact = f"{pick} holds {', '.join(sm.sm for sm in row.sass) or 'no machine code'}, and none of it runs on {target}"
            yield asked.refuse(RULE, "package-arch-not-in-build", fact, [*_rows(pick), *target.rows()])


def _on_drivers(asked: Asked, pick: Pick) -> Iterator[Judgement]:
    """The release's own floor. Under forward compatibility the CUDA libraries come with cuda-compat, and no floor decides."""
    floor = pick.row.min_driver
    if floor is None or asked.request.cuda_compat:
        return
    for machine in asked.machines:
        if machine.driver.version is not None and machine.driver.version < floor:
            fact = f"{pick} needs driver {floor} or newer, and this is {machine.driver}"
            rows = [*_rows(pick), *([("drivers", machine.driver.branch)] if machine.driver.branch else [])]
            yield asked.refuse(RULE, "package-needs-newer-driver", fact, rows)


def _on_system(asked: Asked, pick: Pick, floor: Version) -> Iterator[Judgement]:
    request, system = asked.request, asked.image_system
    if request.libc == "musl" or (system is not None and system.libc == "musl"):
        fact = f"the wheels of {pick} need glibc, and the image has musl: pip says that no distribution matches"
        yield asked.refuse(RULE, "musl-no-wheel", fact, _rows(pick))
        return
    if request.glibc is not None and request.glibc < floor:
        fact = f"{pick} needs glibc {floor} or newer, and {request.glibc} was asked"
        yield asked.refuse(RULE, "glibc-too-old", fact, _rows(pick))
    if system is not None and system.glibc is not None and system.glibc < floor:
        fact = f"{pick} needs glibc {floor} or newer, and {system.name} has {system.glibc}"
        yield asked.refuse(RULE, "glibc-too-old", fact, [*_rows(pick), ("systems", system)])


def _with(asked: Asked, build: Variant, pick: Pick) -> Iterator[Judgement]:
    """What the release needs of the framework's build: its version, its CUDA major, its cuDNN."""
    row = pick.row
    release = asked.matrix.row("releases", f"{build.framework} {build.version}")
    for name, text in row.requires.items():
        bounds = bounds_of(text)
        if name == build.framework and bounds is not None and build.version not in bounds:
            fact = f"{pick} needs {name}{text}, and this is {build.framework} {build.version}"
            yield asked.refuse(RULE, "companion-mismatch", fact, _rows(pick))
        goes = release.companions.get(name) if release else None
        wanted = any(item.name == name for item in asked.wants.companions)
        if wanted and bounds is not None and goes is not None and goes[0].isdigit() and Version(goes) not in bounds:
            fact = f"{pick} needs {name}{text}, and {goes} goes with {build.framework} {build.version}"
            yield asked.refuse(RULE, "companion-mismatch", fact, [*_rows(pick), ("releases", release)])
    goes = release.companions.get(row.package) if release else None
    if goes is not None and row.version not in (bounds_of(f"=={goes}" if goes[0].isdigit() else goes) or (row.version,)):
        fact = f"{build.framework} {build.version} goes with {row.package} {goes}, and this is {pick}"
        yield asked.refuse(RULE, "companion-mismatch", fact, [*_rows(pick), ("releases", release)])
    if build.cuda is not None:
        yield from _cuda_majors(asked, build.cuda, build, pick)


def _cuda_majors(asked: Asked, cuda: Version, build: Variant, pick: Pick) -> Iterator[Judgement]:
    """The CUDA and cuDNN majors that the release is linked with are there: from the build, or from the image that is pinned."""
    row, image = pick.row, asked.image
    if row.sdist_only:  # compiled against what is there
        return
    inside = build.framework in row.requires
    if row.cuda_minors:
        majors = {minor.major for minor in row.cuda_minors}
        if cuda.major not in majors:
            has = ", ".join(map(str, sorted(majors)))
            fact = f"{pick} has libraries for CUDA {has}, and {build.framework} {build.version} {build.tag} is CUDA {cuda.major}"
            yield asked.refuse(RULE, "cuda-major-mismatch-in-package", fact, [*_rows(pick), ("variants", build)])
        return
    brought = row.extras is not None and set(row.extras.split(",")) <= set(pick.item.extras.strip("[]").split(","))
    if (row.cuda_from == "wheels" or brought) and not inside:
        return
    has_libraries = image is not None and image.cuda is not None and asked.flavour not in {None, "slim", "base"}
    from_image = image if has_libraries and not inside else None
    there = {cuda.major} | ({from_image.cuda.major} if from_image and from_image.cuda else set())
    if row.cuda_major is not None and row.cuda_major not in there:
        beside = f"the {build.tag} build of {build.framework} {build.version} brings CUDA {cuda.major}"
        beside += f", and the image has {from_image.cuda}" if from_image else ""
        fact = f"{pick} is linked with CUDA {row.cuda_major}, and {beside}"
        if row.cuda_from is None and not inside:
            said = f"{fact}; whether it brings its own CUDA {row.cuda_major} is not in the data"
            yield Note(rule=RULE, finding="cuda-major-differs-in-package", fact=said)
        else:
            fact += ": it does not find its libraries"
            yield asked.refuse(RULE, "cuda-major-mismatch-in-package", fact, [*_rows(pick), ("variants", build)])
        return
    cudnns = {found.major for found in (build.cudnn, from_image.cudnn if from_image else None) if found is not None}
    if row.cudnn_major is not None and cudnns and row.cudnn_major not in cudnns:
        fact = (
            f"{pick} loads cuDNN {row.cudnn_major}, and {build.framework} {build.version} {build.tag} brings cuDNN {build.cudnn}"
        )
        yield asked.refuse(RULE, "cudnn-major-mismatch-in-package", fact, [*_rows(pick), ("variants", build)])


def _search(asked: Asked, able: Sequence[Sequence[Pick]], pythons: tuple[str, ...] | None) -> tuple[Pick, ...] | None:
    """One release of each package so that they fit one another and have a Python in common; the newest first."""
    steps = 0

    def go(at: int, chosen: tuple[Pick, ...], left: tuple[str, ...] | None) -> tuple[Pick, ...] | None:
        nonlocal steps
        if at == len(able):
            return chosen
        for pick in able[at]:
            steps += 1
            if steps > _STEPS:
                return None
            rest = pythons_for(pick.row, left) if left is not None else None
            if rest == () or any(_pair(asked, one, pick) for one in chosen) or _pins(asked, pick):
                continue
            found = go(at + 1, (*chosen, pick), rest)
            if found is not None:
                return found
        return None

    return go(0, (), pythons)


def _pair(asked: Asked, one: Pick, other: Pick) -> Refusal | None:
    """Why two releases do not go together."""
    for asks, has in ((one, other), (other, one)):
        text = asks.row.requires.get(has.row.package)
        bounds = bounds_of(text or "")
        if bounds is not None and has.row.version not in bounds:
            fact = f"{asks} needs {has.row.package}{text}, and this is {has}"
            said = asked.refuse(RULE, "companion-mismatch", fact, [*_rows(asks), *_rows(has)])
            if isinstance(said, Refusal) and not asked.allows(said):
                return said
    return None


def _pins(asked: Asked, pick: Pick) -> Refusal | None:
    """Why the release does not go with a pin of the request on a package that is not in the data."""
    for item in asked.wants.others:
        text, pinned = pick.row.requires.get(item.name), pin_of(item)
        if not text or pinned is None or item.name in by_name(asked.matrix):
            continue
        bounds = bounds_of(text)
        if bounds is not None and pinned not in bounds:
            said = asked.refuse(
                RULE, "companion-mismatch", f"{pick} needs {item.name}{text}, and {item.text} was asked", _rows(pick)
            )
            if isinstance(said, Refusal) and not asked.allows(said):
                return said
    return None


def _no_set(asked: Asked, able: Sequence[Sequence[Pick]], pythons: tuple[str, ...] | None) -> Iterator[Refusal]:
    """Why the packages do not go together although each has releases that fit: said of the newest of each."""
    newest = [group[0] for group in able]
    for at, pick in enumerate(newest):
        said = next((found for one in newest[:at] if (found := _pair(asked, one, pick)) is not None), _pins(asked, pick))
        if said is not None:
            yield said
            return
    names = " and ".join(str(pick) for pick in newest)
    there = f"Python {', '.join(pythons)}" if pythons else "any Python"
    fact = f"{names} have no release in the data that fit one another, and the build, for {there}"
    rows = [row for pick in newest for row in _rows(pick)]
    yield Refusal(rule=RULE, finding="companion-mismatch", fact=fact, because=tuple(asked.because(fact, *row) for row in rows))


def packages_fit(asked: Asked, build: Variant) -> Iterator[Judgement]:
    """Every package that the matrix knows has a release that fits the build, the GPUs, the driver and the others."""
    yield from _said(asked, settle(asked, build))


def packages_alone(asked: Asked) -> Iterator[Judgement]:
    """The same where no framework is asked for."""
    yield from _said(asked, settle(asked, None))


def _said(asked: Asked, found: Settled) -> Iterator[Judgement]:
    yield from found.refusals
    yield from found.notes
    for pick in found.picks:
        whose = "fits the build, the GPUs and the driver" if pick.listed else pick.row.note
        yield asked.because(f"{pick}: {whose}", "packages", pick.row)
        yield from _compiled(asked, pick)


def _compiled(asked: Asked, pick: Pick) -> Iterator[Judgement]:
    """A package without wheels is compiled where it is installed: with what, and for which GPUs."""
    recipe = asked.matrix.recipe(pick.row.recipe) if pick.row.recipe else None
    if not pick.row.sdist_only and (recipe is None or recipe.when != "run"):
        return
    if recipe is None:
        fact = f"{pick} has no wheels: it is compiled when it is installed, and what that needs is not in the data"
        yield Note(rule=RULE, finding="package-compiled", fact=fact)
        return
    when = "when it is installed" if recipe.when == "install" else "its GPU code when it is first used"
    fact = f"{pick} compiles {when}"
    if recipe.devel:
        fact += (
            ": it needs nvcc and a C++ compiler, so a devel stage" if recipe.when == "install" else ": it needs nvcc in the image"
        )
    if recipe.arch_variable and asked.targets:
        fact += f", with {recipe.arch_variable}={arch_list(asked, recipe.arch_format)}"
    yield Note(rule=RULE, finding="package-compiled", fact=fact, because=(asked.because(fact, "recipes", recipe),))


def arch_list(asked: Asked, form: str | None) -> str:
    """The GPUs of the request as an architecture variable names them: `8.6;9.0`, or `86;90`."""
    capabilities = sorted({target.capability for target in asked.targets})
    return ";".join(str(sm) if form != "plain" else str(sm).replace(".", "") for sm in capabilities)
