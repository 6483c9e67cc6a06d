"""Request x Matrix → Asked: names become rows; what has no row becomes a refusal, or unknown where it goes beyond the data."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from provisioner.errors import UsageError
from provisioner.stack.asked import Asked, Machine, Target, is_capability, modules_for, read_driver, reason
from provisioner.stack.catalogue import find_image
from provisioner.stack.gpus import Capability
from provisioner.stack.lock import Refusal
from provisioner.stack.upstream import REFRESHABLE
from provisioner.stack.wants import Wants, contradict, wants_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from provisioner.stack.matrix import Matrix
    from provisioner.stack.request import Request
    from provisioner.stack.rows import DriverBranch, Gpu, Release, System
    from provisioner.versions import Version

#: Words of `gpus` that name no GPU.
NONE, ANY = "none", "any"
_SHOWN = 12  # names in one sentence


def read(request: Request, matrix: Matrix) -> Asked:
    """Read `request` against `matrix`. UsageError where a word has no meaning at all; `problems` for what has no row."""
    wants = wants_of(request.packages, matrix)
    problems: list[Refusal] = []
    if wants.second is not None and wants.framework is not None:
        fact = f"{wants.framework.id} and {wants.second.id} in one stack: how they get on is not in the data"
        problems.append(Refusal(rule="one-framework", finding="two-frameworks", fact=fact, certain=False))
    machines = _machines(request, matrix, problems)
    releases = _releases(wants, matrix, problems)
    image_system = _system(request.image_os, matrix, problems)
    image, flavour = None, None
    if request.image is not None:
        image, flavour, problem = find_image(request.image, matrix)
        if problem is not None:
            problems.append(problem)
        if image is not None and image.os:
            image_system = _system(image.os, matrix, problems)
        if image is not None and wants.framework is not None and not image.os:
            fact = (
                f"image {request.image} brings its own packages, and which is not in the data of {matrix.collected}: "
                "ask without packages whether the image runs"
            )
            problems.append(Refusal(rule="image-known", finding="image-not-in-data", fact=fact, certain=False))
    words = {word.strip().lower() for word in request.gpus}
    there = bool(request.pool or words - {NONE}) or read_driver(request.driver, matrix)[0].version is not None
    return Asked(
        request=request,
        matrix=matrix,
        wants=wants,
        machines=machines,
        gpu=False if words == {NONE} else (True if there else None),
        releases=releases,
        python=_python(request.python) or (image.python if image is not None else None),
        system=matrix.system(request.os) if request.os else None,
        image_system=image_system,
        image=image,
        flavour=flavour,
        problems=tuple(problems),
    )


def _machines(request: Request, matrix: Matrix, problems: list[Refusal]) -> tuple[Machine, ...]:
    groups: list[tuple[str, Sequence[str], str]] = [(member.name, member.gpus, member.driver) for member in request.pool]
    if request.gpus or not groups:
        groups.insert(0, ("", request.gpus, request.driver))
    machines: list[Machine] = []
    for name, gpus, driver_text in groups:
        words = [word for word in gpus if word.strip().lower() not in {NONE, ANY, ""}]
        if words and any(word.strip().lower() == NONE for word in gpus):
            raise UsageError(f"gpus: {NONE} beside {words[0]}", hint=f"name the GPUs, or {NONE} alone for a CPU stack")
        targets = [target for word in words if (target := _target(word, matrix, problems)) is not None]
        driver, problem = read_driver(driver_text, matrix)
        if problem is not None and problem not in problems:
            problems.append(problem)
        machines.append(Machine(name=name, targets=tuple(targets), driver=driver, branches=_branches(targets, matrix)))
    return tuple(machines)


def _branches(targets: Sequence[Target], matrix: Matrix) -> tuple[DriverBranch, ...]:
    """The branches that drive all `targets` and have a kernel module flavour for all of them."""
    return tuple(
        row
        for row in matrix.drivers
        if all(target.architecture is None or target.architecture.id in row.architectures for target in targets)
        and all(target.last_driver is None or int(row.branch) <= int(target.last_driver) for target in targets)
        and modules_for(targets, row)
    )


@functools.lru_cache(maxsize=256)
def _products(word: str, matrix: Matrix) -> tuple[Gpu, ...]:
    from provisioner.stack.gpu_names import match_gpus

    return match_gpus(word, matrix)


def _target(word: str, matrix: Matrix, problems: list[Refusal]) -> Target | None:
    if is_capability(word):
        capability = Capability.parse(word)
        products: tuple[Gpu, ...] = ()
    else:
        products = _products(word, matrix)
        if not products:
            problems.append(_unknown_gpu(word, matrix))
            return None
        if len({(gpu.capability, gpu.open_modules, gpu.last_driver) for gpu in products}) > 1:
            problems.append(_ambiguous(word, products))
            return None
        capability = products[0].capability
    row = matrix.capability(Capability(capability.major, capability.minor))
    if row is None:
        fact = f"compute capability {capability} is not in the data of {matrix.collected}"
        problems.append(Refusal(rule="gpu-known", finding="gpu-not-in-data", fact=fact, certain=False))
        return None
    architecture = matrix.architecture(products[0].architecture if products else row.architecture)
    if architecture is None:
        fact = f"which driver {word} needs is not in the data of {matrix.collected}"
        problems.append(Refusal(rule="gpu-known", finding="gpu-not-in-data", fact=fact, certain=False))
        return None
    name = products[0].name if len(products) == 1 else (word.strip() if products else capability.sm)
    return Target(
        name=name,
        capability=Capability(capability.major, capability.minor),
        products=products,
        row=row,
        architecture=architecture,
    )


def _ambiguous(word: str, products: Sequence[Gpu]) -> Refusal:
    shown = ", ".join(f"{gpu.name} ({gpu.capability.sm})" for gpu in products[:_SHOWN])
    more = f", … and {len(products) - _SHOWN} more" if len(products) > _SHOWN else ""
    fact = f"{word!r} is the name of {len(products)} products that differ in what they can run: {shown}{more}; name one of them"
    return Refusal(rule="gpu-known", finding="gpu-ambiguous", fact=fact)


#: How people write a number of GPUs before or behind the name.
_COUNT = re.compile(r"^\d+\s*[x*]\s*|\s*[x*]\s*\d+$|:\d+$", re.IGNORECASE)


def _unknown_gpu(word: str, matrix: Matrix) -> Refusal:
    import difflib

    names = {gpu.name.lower(): gpu.name for gpu in matrix.gpus}
    near = [names[name] for name in difflib.get_close_matches(word.strip().lower(), names, n=5, cutoff=0.5)]
    fact = f"no GPU in the data of {matrix.collected} is called {word!r}"
    alone = _COUNT.sub("", word.strip())
    if "," in word:
        fact = f"{word!r} are several names: give each kind of GPU by itself (--gpu may be repeated)"
        return Refusal(rule="gpu-known", finding="gpu-name-not-understood", fact=fact, certain=False)
    if alone != word.strip() and _products(alone, matrix):
        fact = f"{word!r} holds a number: name the kind, {alone!r}; how many a job takes is gpus_per_node of the job"
        return Refusal(rule="gpu-known", finding="gpu-name-not-understood", fact=fact, certain=False)
    if near:
        fact += f"; names near it: {', '.join(near)}"
    fact += ". A capability works too: what `nvidia-smi --query-gpu=compute_cap` prints"
    return Refusal(rule="gpu-known", finding="gpu-not-in-data", fact=fact, certain=False)


def _python(word: str | None) -> str | None:
    """`3.12` of 3.12 or 3.12.4; `3.13t` for the free-threaded one."""
    if word is None:
        return None
    match = re.fullmatch(r"(\d+\.\d+)(?:\.\d+)?(t?)", word.strip())
    if match is None:
        raise UsageError(f"python {word!r} is not a Python version", hint="write it as X.Y")
    return match[1] + match[2]


def _system(word: str | None, matrix: Matrix, problems: list[Refusal]) -> System | None:
    if word is None:
        return None
    found = matrix.system(word)
    if found is None:
        import difflib

        near = difflib.get_close_matches(word, [row.id for row in matrix.systems], n=4, cutoff=0.4)
        fact = f"the image's system {word!r} is not in the data of {matrix.collected}" + (
            f"; near it: {', '.join(near)}" if near else ""
        )
        problems.append(Refusal(rule="system-known", finding="system-not-in-data", fact=fact, certain=False))
    return found


def _releases(wants: Wants, matrix: Matrix, problems: list[Refusal]) -> tuple[Release, ...]:
    if wants.framework is None:
        return ()
    known = sorted(matrix.releases_of(wants.framework.id), key=lambda row: row.version, reverse=True)
    taken = tuple(row for row in known if wants.takes(row.version))
    if not taken:
        problems.append(_no_release(wants, known, matrix))
    return taken


def _no_release(wants: Wants, known: Sequence[Release], matrix: Matrix) -> Refusal:
    """Beyond the newest or the oldest release of the data is unknown; a gap between known ones is a conflict."""
    name = wants.framework.id if wants.framework else ""
    bounds = wants.asked.bounds.bounds if wants.asked and wants.asked.bounds else ()
    text = wants.asked.text if wants.asked else name
    if not known:
        fact = f"the data of {matrix.collected} hold no release of {name}"
        return Refusal(rule="release-known", finding="release-not-in-data", fact=fact, certain=False)
    if contradict(bounds):
        fact = f"{text}: no version of anything is {' and '.join(f'{sign}{bound}' for sign, bound in bounds)}"
        return Refusal(rule="release-known", finding="no-such-release", fact=fact)
    newest, oldest = known[0].version, known[-1].version
    above = [
        bound
        for sign, bound in bounds
        if sign in {"==", ">=", ">", "~="} and (bound > newest or (sign == ">" and bound == newest))
    ]
    below = [bound for sign, bound in bounds if sign in {"==", "<=", "<", "~="} and bound <= oldest]
    if above:
        fact = f"{text}: the data of {matrix.collected} end with {name} {newest}; a newer release may exist"
        if name in REFRESHABLE:
            fact += f". Get newer data with: provisioner matrix refresh {name} --write"
        return Refusal(rule="release-known", finding="release-newer-than-data", fact=fact, certain=False)
    if below:
        fact = f"{text}: the data of {matrix.collected} begin with {name} {oldest}; what came before is not in them"
        return Refusal(rule="release-known", finding="release-not-in-data", fact=fact, certain=False)
    pins = [bound for _, bound in bounds]
    near = _nearest([row.version for row in known], pins[0]) if pins else [newest]
    fact = f"{text}: there is no such release of {name}; the nearest are {', '.join(map(str, near[:_SHOWN]))}"
    return Refusal(
        rule="release-known",
        finding="no-such-release",
        fact=fact,
        because=tuple(reason(matrix, "releases", row) for row in known if row.version in near),
    )


def _nearest(versions: Sequence[Version], wanted: Version) -> list[Version]:
    """The two releases before and the two after; `versions` come newest first."""
    below = [version for version in versions if version < wanted][:2]
    above = [version for version in reversed(versions) if version > wanted][:2]
    return [*reversed(below), *above]
