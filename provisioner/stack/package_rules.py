"""The rules on the packages beside the framework: whether releases of them fit the build, the GPUs, the driver and one another.

`settle` looks for one release of each known package, the newest first, so that all of them fit; what it finds decides with the
build which Python and which image are taken. What the data do not say neither refuses nor passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from provisioner.stack.answer import Judgement, Note
from provisioner.stack.lock import Refusal
from provisioner.stack.package_checks import ON_GPU, RULE, alone, beside, in_image, pinned_python, rows_of
from provisioner.stack.packages import Pick, bounds_of, by_name, picks, pin_of, pythons_for
from provisioner.values import value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from provisioner.stack.asked import Asked
    from provisioner.stack.rows import Variant
    from provisioner.stack.wants import Requirement
    from provisioner.versions import Version

_STEPS = 5000  # of the search for releases that fit one another; more than any request has needed


@value
class Settled:
    """What the packages come to: one release of each, the Pythons that all have, or what refuses the nearest."""

    picks: tuple[Pick, ...] = ()
    pythons: tuple[str, ...] | None = None  # None: no package narrows them
    refusals: tuple[Refusal, ...] = ()
    notes: tuple[Note, ...] = ()
    overridden: tuple[Refusal, ...] = ()  # of these releases, by --allow

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
        misses = [
            (pick, [*_own(asked, pick), *(beside(asked, build, pick) if build else in_image(asked, pick))]) for pick in near
        ]
        refused = [(pick, _refused(asked, said)) for pick, said in misses]
        fitting = _known(asked, item, able, refused)
        if fitting:
            open_picks.append(fitting)
        else:
            short = [said for _, said in refused if said] or [_refused(asked, _own(asked, able[0]))]
            shortest: list[Refusal] = min(short, key=len)
            refusals += shortest
        notes += [said for said in dict.fromkeys(note for _, found in misses[:1] for note in found) if isinstance(said, Note)]
    if refusals:
        return Settled(refusals=tuple(refusals), notes=tuple(notes))
    pythons = _pythons(asked, build)
    chosen = _search(asked, open_picks, pythons)
    if chosen is None:
        return Settled(refusals=tuple(_no_set(asked, open_picks, pythons)), notes=tuple(notes))
    left = pythons
    overridden: list[Refusal] = []
    for pick in chosen:
        left = pythons_for(pick.row, left) if left is not None else None
        needs = (*_own(asked, pick), *(beside(asked, build, pick) if build else in_image(asked, pick)))
        overridden += [refusal for refusal in needs if isinstance(refusal, Refusal)]
    return Settled(picks=chosen, pythons=left, notes=tuple(notes), overridden=tuple(overridden))


def _known(asked: Asked, item: Requirement, able: Sequence[Pick], misses: Iterable[tuple[Pick, list[Refusal]]]) -> list[Pick]:
    """The releases that nothing refuses.

    Where a newer one does not run on the GPU, one of which that is not known is no way out, unless it is pinned.
    """
    fitting = [pick for pick, refusals in misses if not refusals]
    refused = [pick for pick in able if any(said.finding in ON_GPU for said in _refused(asked, _own(asked, pick)))]
    if not refused or pin_of(item) is not None:
        return fitting
    newest = refused[0].row.version
    return [
        pick for pick in fitting if pick.row.version > newest or pick.row.min_capability is not None or pick.row.sass is not None
    ]


def _goes(build: Variant, pick: Pick) -> bool:
    """Whether the release is for this release of the framework."""
    bounds = bounds_of(pick.row.requires.get(build.framework, ""))
    return bounds is None or build.version in bounds


def _own(asked: Asked, pick: Pick) -> tuple[Judgement, ...]:
    """What `alone` says, which no build changes, found out once."""
    key = (pick.row.package, pick.row.version)
    if key not in asked.memo:
        asked.memo[key] = tuple(alone(asked, pick))
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


def _not_there(asked: Asked, item: Requirement) -> Judgement:
    rows = by_name(asked.matrix)[item.name]
    taken = [row for row in rows if item.bounds is None or row.version in item.bounds]
    platforms = sorted({row.platform for row in taken if row.platform is not None})
    if taken and platforms:
        fact = f"{item.text} exists for {' and '.join(platforms)}, and {asked.request.platform} was asked"
        return asked.refuse(RULE, "package-not-for-platform", fact, [("packages", taken[-1])])
    fact = f"what {item.text} needs is not in the data, which have {item.name} {rows[0].version} to {rows[-1].version}"
    return Note(rule=RULE, finding="package-version-not-in-data", fact=fact)


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
            said = asked.refuse(RULE, "companion-mismatch", fact, [*rows_of(asks), *rows_of(has)])
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
                RULE, "companion-mismatch", f"{pick} needs {item.name}{text}, and {item.text} was asked", rows_of(pick)
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
    rows = [row for pick in newest for row in rows_of(pick)]
    yield Refusal(rule=RULE, finding="companion-mismatch", fact=fact, because=tuple(asked.because(fact, *row) for row in rows))


def packages_fit(asked: Asked, build: Variant) -> Iterator[Judgement]:
    """Every package that the matrix knows has a release that fits the build, the GPUs, the driver and the others."""
    yield from _said(asked, settle(asked, build))


def packages_alone(asked: Asked) -> Iterator[Judgement]:
    """The same where no framework is asked for."""
    yield from _said(asked, settle(asked, None))


def _said(asked: Asked, found: Settled) -> Iterator[Judgement]:
    yield from found.refusals
    yield from found.overridden
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
