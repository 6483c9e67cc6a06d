"""What helps where nothing fits: the cheapest changes of the request, each proved by deciding again.

Parts of the request are freed, alone and together, the cheapest first; what the resolver then chooses is written down as a
change, and the changed request is decided once more. The first remedy keeps the GPU, the framework and where possible its
release.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from provisioner.findings import Remedy
from provisioner.stack.changes import COMPAT, DRIVER, PACKAGES, Lever, apply_changes, known_others, levers
from provisioner.stack.choice import make_stack, preference
from provisioner.stack.parts_remedies import last_resorts, remedies_for_parts
from provisioner.stack.reading import read
from provisioner.stack.resolve import best_build, fits, judge_parts, proved
from provisioner.stack.upstream import REFRESHABLE
from provisioner.stack.wants import parse_requirement
from provisioner.values import replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from provisioner.stack.asked import Asked
    from provisioner.stack.lock import Refusal, Stack
    from provisioner.stack.request import Request
    from provisioner.stack.resolve import Confirm
    from provisioner.stack.rows import Release, Variant

#: Findings that newer data may answer; a slip of the pen they do not.
_BEYOND = ("-not-in-data", "-newer-than-data")
_MOST = 6  # remedies; more are no help
_TOGETHER = 4  # parts that are changed at once
_PAIR = 2  # levers: of so few, all but one is tried anyhow
_BUILDS = 3  # other builds of the same release that are named


def with_remedies(asked: Asked, refusals: Sequence[Refusal], denied: Sequence[Variant] = ()) -> tuple[Refusal, ...]:
    """`refusals` with what helps at the first of them. `denied`: builds that their index does not have."""
    remedies = find_remedies(asked, refusals, denied)
    return (replace(refusals[0], remedies=remedies), *refusals[1:])


def find_remedies(asked: Asked, refusals: Sequence[Refusal], denied: Sequence[Variant] = ()) -> tuple[Remedy, ...]:
    """The changes that help, the cheapest first; where the request goes beyond the data, newer data do."""
    if not any(item.certain for item in refusals):
        beyond = any(refusal.finding.endswith(_BEYOND) for refusal in refusals)
        return (*remedies_for_parts(asked, refusals), *(_newer_data(asked, refusals) if beyond else ()))
    found: list[Remedy] = []
    for remedy in itertools.chain(
        remedies_for_parts(asked, refusals),
        _from_levers(asked, lambda build: False if build in denied else None),
        last_resorts(asked, refusals),
    ):
        if remedy.changes not in [known.changes for known in found]:
            found.append(remedy)
        if len(found) == _MOST:
            break
    return tuple(found)


def _newer_data(asked: Asked, refusals: Sequence[Refusal]) -> tuple[Remedy, ...]:
    """Where newer data come from: an index knows releases of a framework; GPUs and drivers come with the tool."""
    framework = asked.wants.framework
    newer = any(item.finding == "release-newer-than-data" for item in refusals)
    if newer and framework is not None and framework.id in REFRESHABLE:
        command = f"provisioner matrix refresh {framework.id} --write"
        return (Remedy(text=f"get newer data, these are of {asked.matrix.collected}: {command}", commands=(command,)),)
    text = f"get newer data, these are of {asked.matrix.collected}: update the tool, or name the missing rows with --matrix FILE"
    return (Remedy(text=text, commands=("pip install --upgrade gpu-provisioner",)),)


def _from_levers(asked: Asked, confirmed: Confirm) -> Iterator[Remedy]:
    if asked.wants.framework is None:
        return
    here = levers(asked)
    sets = [group for size in range(1, _TOGETHER + 1) for group in itertools.combinations(here, size)]
    helpless = _helpless(asked, here, confirmed)
    helped: list[frozenset[str]] = []
    for group in sorted(sets, key=lambda group: (sum(lever.price for lever in group), len(group))):
        names = frozenset(lever.name for lever in group)
        others = frozenset(lever.name for lever in group if not lever.widens)
        if {DRIVER, COMPAT} <= names or any(smaller <= names for smaller in helped):
            continue
        if any(asks == others and names <= wide for asks, wide in helpless):
            continue
        remedies = list(_with(asked, group, confirmed))
        if remedies:
            helped.append(names)
        yield from remedies


def _helpless(asked: Asked, here: Sequence[Lever], confirmed: Confirm) -> list[tuple[frozenset[str], frozenset[str]]]:
    """Wide sets of levers that do not help: what they ask for else, and all of them. Then no part that asks the same helps.

    Tried are all that widen at once, and all but one: so what cannot be done without is found before anything smaller is tried.
    """
    free = [lever for lever in here if lever.widens]
    others = [lever for lever in here if not lever.widens]
    found: list[tuple[frozenset[str], frozenset[str]]] = []
    for size in range(len(others) + 1):
        for group in itertools.combinations(others, size):
            asks = frozenset(lever.name for lever in group)
            rest = [lever for lever in free if lever.name != DRIVER or COMPAT not in asks]
            if next(_with(asked, (*rest, *group), confirmed), None) is None:
                found.append((asks, frozenset(lever.name for lever in (*rest, *group))))
                continue
            # A package without its pin may lose the only release of which enough is known, so freeing that one widens not always.
            sure = len(rest) > _PAIR and all(lever.name != PACKAGES for lever in rest)
            for left in rest if sure else ():
                wide = [lever for lever in (*rest, *group) if lever.name != left.name]
                if not _any_build(_freed(asked, wide), confirmed):
                    found.append((asks, frozenset(lever.name for lever in wide)))
    return found


def _any_build(freed: Asked, confirmed: Confirm) -> bool:
    """Whether any build fits at all; what is then made of it may still not hold."""
    return not freed.problems and not judge_parts(freed).refusals and best_build(freed, confirmed=confirmed) is not None


def _freed(asked: Asked, group: Sequence[Lever]) -> Asked:
    """The request without the parts in `group`."""
    request = asked.request
    for lever in group:
        request = lever.free(request)
    return read(request, asked.matrix)


def _with(asked: Asked, group: Sequence[Lever], confirmed: Confirm) -> Iterator[Remedy]:
    """The remedies that freeing the parts in `group` gives."""
    freed = _freed(asked, group)
    if freed.problems or judge_parts(freed).refusals:
        return
    names = [lever.name for lever in group]
    for build in _builds(asked, freed, names, confirmed):
        stack = make_stack(freed, build, (), ())
        changes: dict[str, str] = {}
        for lever in group:
            changes |= lever.settled(asked.request, stack)
        if "release" in names and "build" not in names and build.tag != "cpu" and not build.default:
            changes["variant"] = build.tag
        holds = _prove(asked, changes, confirmed)
        if holds is not None:
            yield Remedy(text=_text(asked, holds, names), commands=(holds.command,), changes=changes)


def _builds(asked: Asked, freed: Asked, names: Sequence[str], confirmed: Confirm) -> Iterator[Variant]:
    """The builds to propose: the nearest release and the newest where the release is free, else all that fit in one release."""
    if "release" in names:
        nearest = best_build(freed, confirmed=confirmed, releases=_by_distance(asked, freed))
        newest = best_build(freed, confirmed=confirmed)
        yield from (build for build in dict.fromkeys((nearest, newest)) if build is not None)
        return
    best = best_build(freed, confirmed=confirmed)
    if best is None:
        return
    yield best
    if names == ["build"]:
        release = next(row for row in freed.releases if row.version == best.version)
        others = [build for build in freed.builds(release) if build != best and build.sass is not None and fits(freed, build)]
        others.sort(key=lambda build: (build.published != "seen", preference(freed, build)))
        yield from others[: _BUILDS - 1]


def _by_distance(asked: Asked, freed: Asked) -> list[Release]:
    """The releases after the one that was asked, the nearest first, then those before it."""
    known = freed.releases  # newest first
    bounds = asked.wants.asked.bounds.bounds if asked.wants.asked and asked.wants.asked.bounds else ()
    wanted = asked.releases[0].version if asked.releases else (bounds[0][1] if bounds else None)
    if wanted is None:
        return list(known)
    newer = [row for row in known if row.version > wanted]
    order = [*reversed(newer), *(row for row in known if row.version <= wanted)]
    if asked.releases:
        return order
    return sorted(order, key=lambda row: row.version.minor != wanted.minor)  # a release that never was: its own line first


def _prove(asked: Asked, changes: dict[str, str], confirmed: Confirm) -> Stack | None:
    decision = proved(apply_changes(asked.request, changes), asked.matrix, confirmed=confirmed)
    return decision.stack if decision is not None else None


def _text(asked: Asked, stack: Stack, names: Sequence[str]) -> str:
    """What to do, in one sentence, with what the answer needs of the host."""
    return "; ".join((*_of_packages(asked, stack, names), *_of_host(asked.request, stack, names), *_needs(stack)))


def _of_packages(asked: Asked, stack: Stack, names: Sequence[str]) -> list[str]:
    """The framework's build and the other packages that are changed."""
    build = f"the {stack.variant} build of {stack.framework} {stack.version}"
    parts: list[str] = []
    if "release" in names:
        newer = bool(asked.releases) and stack.version > asked.releases[0].version
        newest = stack.version == max(row.version for row in asked.matrix.releases_of(stack.framework))
        sign = ">=" if newer and not newest else "=="
        parts.append(f"{stack.framework}{sign}{stack.version}: {build}")
    elif "build" in names:
        parts.append(f"take {build}")
    if PACKAGES in names:
        beside = {item.name for item in known_others(asked)}
        asked_for = asked.request.packages
        parts += [text for text in stack.packages if parse_requirement(text).name in beside and text not in asked_for]
    return parts


def _of_host(request: Request, stack: Stack, names: Sequence[str]) -> list[str]:
    """What else is changed: Python, image, driver, platform."""
    parts: list[str] = []
    if "python" in names:
        parts.append(f"Python {stack.python} instead of {request.python}")
    if "image" in names:
        parts.append(f"the base image {stack.image.reference}")
    if "modules" in names:
        parts.append(f"the {' or '.join(stack.kernel_modules)} kernel modules instead of the {request.kernel_modules} ones")
    if "without cuda-compat" in names:
        parts.append("no cuda-compat")
    if "driver" in names:
        parts.append(f"driver branch {stack.driver_branch} instead of {request.driver}")
    if "cuda-compat" in names:
        parts.append(f"cuda-compat of CUDA {stack.cuda} in the image (data-centre GPUs only)")
    if "platform" in names:
        parts.append(f"platform {stack.platform} instead of {request.platform}")
    return parts


def _needs(stack: Stack) -> list[str]:
    """What the answer needs of the host: the lowest driver, the last branch, the flavour of the kernel modules."""
    if stack.min_driver is None:
        return []
    modules = f" with the {stack.kernel_modules[0]} kernel modules" if len(stack.kernel_modules) == 1 else ""
    upper = f", branch {stack.last_driver} at most" if stack.last_driver is not None else ""
    return [f"needs driver {stack.min_driver} (branch {stack.min_driver.major}) or newer{upper}{modules}"]
