"""Which of the builds that fit is preferred, and the stack that it makes.

The order is lexicographic: a build for the GPU, native before minor version before forward compatibility, a known architecture
list before an unknown one, the build that the default index serves, seen before named, the newest CUDA, the smallest download.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from provisioner.findings import Because
from provisioner.stack.around import is_guess
from provisioner.stack.asked import modules_for, reason
from provisioner.stack.bases import choose_base, choose_build_base
from provisioner.stack.command import install_command
from provisioner.stack.library_pins import pins_beside
from provisioner.stack.library_rules import NUMPY, numpy_text
from provisioner.stack.lock import Image, Stack
from provisioner.stack.meeting import MODES, floor_of, mode_of
from provisioner.stack.package_rules import settle
from provisioner.stack.pythons import choose_python
from provisioner.stack.rules import index_for
from provisioner.stack.sizes import predict_size
from provisioner.values import replace
from provisioner.versions import Version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from provisioner.stack.asked import Asked, Machine
    from provisioner.stack.bases import Base
    from provisioner.stack.lock import Compatibility
    from provisioner.stack.rows import Cuda, DriverBranch, ModuleFlavour, Variant

#: The types of driver branches, the one to prefer first: long term support, production, then the rest.
_TYPES = ("LTS", "PB")
#: What a compatibility mode excludes, and what it does not, whatever the framework. The framework's row adds its own.
_EXCLUDES: dict[Compatibility, tuple[str, ...]] = {
    "minor-version": (
        (
            "excluded: code that is only there as PTX, for the driver cannot compile PTX that is newer than itself "
            "(cudaErrorUnsupportedPtxVersion, 222); so build extensions for the GPU's own sm_XX"
        ),
        "excluded: CUDA features newer than the driver (cudaErrorCallRequiresNewerDriver, 36)",
        "not excluded: the machine code in this build, which runs as it is",
    ),
    "forward": (
        "excluded: GPUs other than data-centre ones, and OpenGL or Vulkan beside CUDA",
        "needed: cuda-compat in the image, first in LD_LIBRARY_PATH, and never newer than a driver that is upgraded later",
    ),
}


def preference(asked: Asked, build: Variant) -> tuple[object, ...]:
    """The sort key of a build among those of its release, the best first."""
    mode = mode_of(asked, build)
    rank = 0 if asked.targets == () and asked.gpu is not True else MODES.index(mode)
    cuda = build.cuda or Version(str(0))
    return (
        asked.gpu is not False and build.cuda is None,
        0 if _driver_is_free(asked) else rank,
        is_guess(build),
        not build.default,
        build.published != "seen",
        tuple(-number for number in cuda.numbers),
        build.download if build.download is not None else float("inf"),
        build.tag,
    )


def last_branch(asked: Asked) -> str | None:
    """The last driver branch that drives all of the GPUs; None while none of them has been dropped."""
    last = min((int(target.last_driver) for target in asked.targets if target.last_driver), default=None)
    return None if last is None else str(last)


def _driver_is_free(asked: Asked) -> bool:
    return all(machine.driver.version is None for machine in asked.machines)


def make_stack(asked: Asked, build: Variant, because: Sequence[Because], allowed: Sequence[str]) -> Stack:
    """The stack around `build`, which the rules have let through."""
    mode = mode_of(asked, build)
    python = choose_python(asked, build) or asked.python or build.pythons[-1]  # the last: where --allow overrode the image
    base = choose_base(asked, build, python, forward=mode == "forward")
    own, others = _packages(asked, build)
    branch, why = branch_of(asked, build)
    chosen_branch = branch if lowest(asked).driver.version is None else None  # else each machine has its own
    flavours = flavours_of(asked, chosen_branch) if build.cuda is not None else ()
    cuda = asked.matrix.cuda_minor(build.cuda) if build.cuda else None
    floor = floor_of(asked, cuda, asked.machines) if build.cuda else None
    if floor is not None:
        floor = max(floor, *(pick.row.min_driver or floor for pick in settle(asked, build).picks), floor)
    chosen = (*_why(asked, build, python), *because, *why)
    stack = Stack(
        framework=build.framework,
        version=build.version,
        variant=build.tag,
        index=index_for(asked, build) or build.index,
        published=build.published,
        cuda=build.cuda,
        cudnn=build.cudnn,
        nccl=build.nccl,
        python=python,
        platform=build.platform,
        image=_image(asked, base),
        build_image=_build_image(asked, build, base),
        gpus=tuple(dict.fromkeys(target.name for target in asked.targets)),
        capabilities=tuple(sorted({target.capability for target in asked.targets})),
        driver=lowest(asked).driver.text,
        driver_branch=branch.branch if branch else None,
        last_driver=last_branch(asked) if build.cuda is not None else None,
        min_driver=_forward_floor(asked, floor) if mode == "forward" else floor,
        kernel_modules=flavours,
        compatibility=mode,
        sass=build.sass or (),
        packages=(*own, *others),
        size=predict_size(asked.matrix, build, python),
        command="",
        because=tuple(dict.fromkeys(chosen)),
        excludes=_excludes(asked, mode, cuda),
        allowed=tuple(allowed),
    )
    return replace(stack, command=install_command(stack, asked.matrix.indexes, own=len(own)))


def _image(asked: Asked, base: Base | None) -> Image:
    if base is not None:
        image = base.image()
        return replace(image, reference=asked.request.image) if asked.request.image else image
    # only where --allow overrode the rule on images: the name stands as it was given
    return Image(reference=asked.request.image or "", flavour="slim", os=asked.request.image_os or "")


def _build_image(asked: Asked, build: Variant, base: Base | None) -> Image | None:
    recipes = [asked.matrix.recipe(pick.row.recipe) for pick in settle(asked, build).picks if pick.row.recipe]
    compiled = any(recipe is not None and recipe.devel and recipe.when == "install" for recipe in recipes)
    if (asked.request.purpose != "build" and not compiled) or base is None or build.cuda is None:
        return None
    found = choose_build_base(asked, build, base)
    return found.image() if found else None


def _packages(asked: Asked, build: Variant) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The framework's build with its companions, and the packages that merely go along."""
    extras = asked.wants.asked.extras if asked.wants.asked else ""
    release = asked.matrix.row("releases", f"{build.framework} {build.version}")
    own = [build.requirement or f"{build.framework}{extras}=={build.version}"]
    for item in asked.wants.companions:
        goes = release.companions.get(item.name) if release else None
        if goes is None:
            own.append(item.text)
        elif goes[0].isdigit():
            own.append(f"{item.name}{item.extras}=={goes}")
        else:
            pins = item.bounds.text if item.bounds and any(sign == "==" for sign, _ in item.bounds.bounds) else goes
            own.append(f"{item.name}{item.extras}{pins if pins[0] in '=<>!~' else f'=={pins}'}")
    chosen = {pick.item.name: pick.text for pick in settle(asked, build).picks}
    others = [
        numpy_text(asked, build, item) if item.name == NUMPY else chosen.get(item.name, item.text) for item in asked.wants.others
    ]
    return tuple(own), (*others, *pins_beside(asked, build))


def _why(asked: Asked, build: Variant, python: str) -> list[Because]:
    row = reason(asked.matrix, "variants", build).source
    release = asked.matrix.row("releases", f"{build.framework} {build.version}")
    why: list[Because] = []
    if release is not None:
        pinned = asked.wants.asked is not None and asked.wants.asked.bounds is not None
        asked_too = "was asked and " if pinned else ""
        seen = "was seen on its index and " if build.published == "seen" else ""
        natively = " natively on this driver" if asked.request.prefer == "native" else ""
        runs = "is known to run" if not is_guess(build) and _newer_is_guess(asked, build) else "runs"
        fact = f"{build.framework} {build.version} is the newest release that {asked_too}has a build that {seen}{runs}{natively}"
        why.append(asked.because(fact, "releases", release))
    kind = "is what the default index serves" if build.default else f"comes from {build.index}"
    chosen = "was asked" if asked.python is not None else "the newest settled one with a maintained base image"
    needs = f", and needs glibc {build.glibc} or newer" if build.glibc is not None else ""
    fact = f"the {build.tag} build for {build.platform} {kind}; it exists for Python {python} ({chosen}){needs}"
    why.append(Because(fact=fact, source=row))
    return why


def _newer_is_guess(asked: Asked, build: Variant) -> bool:
    newer = [release for release in asked.releases if release.version > build.version]
    return bool(asked.targets) and any(is_guess(row) for release in newer for row in asked.builds(release))


def lowest(asked: Asked) -> Machine:
    """The machine with the lowest driver: what holds for it holds for the rest. Where all may change, the first."""
    fixed = [machine for machine in asked.machines if machine.driver.version is not None]
    return min(fixed, key=lambda machine: machine.driver.version or Version(str(0))) if fixed else asked.machines[0]


def branch_of(asked: Asked, build: Variant) -> tuple[DriverBranch | None, tuple[Because, ...]]:
    """The branch of the (lowest) driver that was asked; for `upgrade` the one to install, with the reason."""
    machine = lowest(asked)
    if machine.driver.text != "upgrade" or build.cuda is None:
        return machine.driver.branch, ()
    fitting = suitable_branches(asked, build)
    if not fitting:
        return None, ()
    best = max(fitting, key=lambda row: (row.status == "supported", -_type(row), Version(row.branch)))
    smallest = min(fitting, key=lambda row: Version(row.branch))
    modules = " or ".join(flavours_of(asked, best))
    fact = (
        f"install driver branch {best.branch} ({best.type}, {best.status}) with the {modules} kernel modules: of the "
        f"branches that run CUDA {build.cuda} on these GPUs it is supported longest; the smallest that does is {smallest.branch}"
    )
    return best, (asked.because(fact, "drivers", best),)


def _type(row: DriverBranch) -> int:
    return _TYPES.index(row.type) if row.type in _TYPES else len(_TYPES)


def suitable_branches(asked: Asked, build: Variant) -> list[DriverBranch]:
    """The driver branches for the request's GPUs that run the build's CUDA: natively, else by minor version compatibility."""
    pinned = asked.request.kernel_modules
    machines = asked.machines
    cuda = asked.matrix.cuda_minor(build.cuda) if build.cuda else None
    floor = floor_of(asked, cuda, machines)
    shared = [row for row in machines[0].branches if all(row in machine.branches for machine in machines)]
    able = [row for row in shared if flavours_of(asked, row) and (pinned is None or pinned in flavours_of(asked, row))]
    native = [row for row in able if build.cuda is None or row.max_cuda >= build.cuda.minor]
    return native or [row for row in able if floor is None or (row.latest or row.first or Version(row.branch)) >= floor]


def flavours_of(asked: Asked, branch: DriverBranch | None) -> tuple[ModuleFlavour, ...]:
    """The kernel module flavours that drive the GPUs of every machine, on `branch` where one is given, else on its own."""
    each = [modules_for(machine.targets, branch or machine.driver.branch) for machine in asked.machines]
    return tuple(flavour for flavour in each[0] if all(flavour in flavours for flavours in each))


def _forward_floor(asked: Asked, floor: Version | None) -> Version | None:
    """Under forward compatibility the drivers that were asked are what is known to work."""
    versions = [machine.driver.version for machine in asked.machines if machine.driver.version is not None]
    return min(versions, default=floor)


def _excludes(asked: Asked, mode: Compatibility, cuda: Cuda | None) -> tuple[str, ...]:
    """What the mode excludes and what not; where the driver is free, from which driver on it no longer matters."""
    general = _EXCLUDES.get(mode, ())
    own = asked.wants.framework.under_minor_version if asked.wants.framework else ()
    said = (*general, *own) if mode == "minor-version" else general
    if said and _driver_is_free(asked) and cuda is not None:
        return (f"this holds for drivers below {cuda.native_driver}, where CUDA {cuda.version} is not native:", *said)
    return said
