"""Changes to a request: which parts of it can be freed, at what price, and how a change is written down and applied.

A change is a mapping from a field of the request to its new value as text, the form in which a Remedy carries it; an empty value
frees the field. `options.NAME` is one entry of the options, `pool.MEMBER.driver` (gpus, platform) a field of a member of the
pool, and `pool.MEMBER` the member itself, which an empty value takes out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from provisioner.stack.asked import Asked, extras_that_choose
from provisioner.stack.library_rules import NUMPY
from provisioner.stack.lock import Stack
from provisioner.stack.meeting import DATA_CENTRE
from provisioner.stack.packages import by_name
from provisioner.stack.request import PoolMember, Request
from provisioner.stack.wants import parse_requirement
from provisioner.values import replace, value
from provisioner.versions import Version

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from provisioner.stack.wants import Requirement

#: Two levers that exclude each other: cuda-compat is for a driver that stays.
DRIVER, COMPAT = "driver", "cuda-compat"
PACKAGES = "packages"
_VERSIONS = frozenset({"cuda", "cudnn", "nccl", "glibc", "toolkit", "fabric_manager"})
_OTHER = {"linux/amd64": "linux/arm64", "linux/arm64": "linux/amd64"}


def apply_changes(request: Request, changes: Mapping[str, str]) -> Request:
    """`request` with `changes`; KeyError for a name that is no field."""
    fields: dict[str, Any] = {}
    options = dict(request.options)
    for name, text in changes.items():
        if name.startswith("options."):
            options.pop(name.partition(".")[2], None)
            if text:
                options[name.partition(".")[2]] = text
        elif name.startswith("pool."):
            fields["pool"] = _pool_with(fields.get("pool", request.pool), name.removeprefix("pool."), text)
        elif name not in Request.__dataclass_fields__:
            raise KeyError(name)
        elif name == "packages":
            fields[name] = tuple(text.split())
        elif name == "gpus":
            fields[name] = tuple(part.strip() for part in text.split(",") if part.strip())
        elif name == "cuda_compat":
            fields[name] = text == "true" if text else None
        elif name in _VERSIONS:
            fields[name] = Version(text) if text else None
        else:
            fields[name] = text or (None if name not in {"driver", "platform"} else getattr(Request(), name))
    return replace(request, options=options, **fields)


def _pool_with(pool: tuple[PoolMember, ...], name: str, text: str) -> tuple[PoolMember, ...]:
    if any(member.name == name for member in pool) and not text:
        return tuple(member for member in pool if member.name != name)
    wanted, _, key = name.rpartition(".")
    if key not in {"driver", "gpus", "platform"} or all(member.name != wanted for member in pool):
        raise KeyError(f"pool.{name}")
    new: dict[str, Any] = {key: text or (None if key == "platform" else "any")}
    if key == "gpus":
        first, *rest = (part.strip() for part in text.split(","))
        new = {"gpu": first, "beside": tuple(rest)}
    return tuple(replace(member, **new) if member.name == wanted else member for member in pool)


@value
class Lever:
    """A part of a request that can be freed. `price` orders what is tried: what keeps most of the request costs least.

    `there`: whether the request has this part. `free`: the request without it. `settled`: the change that writes down what a
    stack chose for it. `widens`: freeing it can only add answers; otherwise it asks for something else.
    """

    name: str
    price: int
    there: Callable[[Asked], bool]
    free: Callable[[Request], Request]
    settled: Callable[[Request, Stack], dict[str, str]]
    widens: bool = True


def _without_bounds(packages: Sequence[str], drop: frozenset[str], *, local_only: bool) -> tuple[str, ...]:
    """Requirements of `drop` without their bounds, or without their local version only; the others as they are."""
    found = []
    for text in packages:
        item = parse_requirement(text)
        if item.name not in drop:
            found.append(text)
        elif local_only and item.bounds is not None:
            found.append(f"{item.name}{item.extras}{_signed(item.bounds.text)}")
        else:
            found.append(f"{item.name}{item.extras}")
    return tuple(found)


def _without_extras(text: str, asked: Asked) -> str:
    """The requirement on the framework without the extras that choose its build."""
    item, framework = parse_requirement(text), asked.wants.framework
    if framework is None or item.name != framework.id or not extras_that_choose(asked):
        return text
    return f"{item.name}{_signed(item.bounds.text) if item.bounds else ''}"


def _signed(bounds: str) -> str:
    return bounds if bounds[:1] in set("=<>!~") else f"=={bounds}"


def levers(asked: Asked) -> tuple[Lever, ...]:
    """The levers that this request has, the cheapest first."""
    framework = asked.wants.framework
    names = frozenset({framework.id, *framework.companions}) if framework else frozenset[str]()
    others = frozenset(item.name for item in known_others(asked))

    def packages_of(stack: Stack) -> str:
        return " ".join("".join(text.split()) for text in stack.packages)

    def free_build(request: Request) -> Request:
        plain = _without_bounds(request.packages, names, local_only=True)
        plain = tuple(_without_extras(text, asked) for text in plain)
        return replace(request, variant=None, index=None, cuda=None, cudnn=None, nccl=None, packages=plain)

    def settle_build(request: Request, stack: Stack) -> dict[str, str]:
        changes = {"variant": stack.variant}
        if request.index is not None:
            changes["index"] = stack.index
        if request.cuda is not None:
            changes["cuda"] = str(stack.cuda or "")
        changes |= {name: "" for name in ("cudnn", "nccl") if getattr(request, name) is not None}
        if asked.wants.tag is not None or extras_that_choose(asked):
            changes["packages"] = packages_of(stack)
        return changes

    def settle_image(request: Request, stack: Stack) -> dict[str, str]:
        changes: dict[str, str] = {}
        if request.image is not None:
            changes["image"] = stack.image.reference
        if request.image_os is not None:
            changes["image_os"] = stack.image.os
        changes |= {name: "" for name in ("glibc", "libc") if getattr(request, name) is not None}
        return changes

    every = (
        Lever(
            name="build",
            price=1,
            there=lambda asked: (
                _pinned(asked, "variant", "index", "cuda", "cudnn", "nccl")
                or asked.wants.tag is not None
                or bool(extras_that_choose(asked))
            ),
            free=free_build,
            settled=settle_build,
        ),
        Lever(
            name="python",
            price=2,
            there=lambda asked: _pinned(asked, "python"),
            free=lambda request: replace(request, python=None),
            settled=lambda _, stack: {"python": stack.python},
        ),
        Lever(
            name="image",
            price=2,
            there=lambda asked: _pinned(asked, "image", "image_os", "glibc", "libc"),
            free=lambda request: replace(request, image=None, image_os=None, glibc=None, libc=None),
            settled=settle_image,
        ),
        Lever(
            name=PACKAGES,
            price=3,
            there=lambda asked: any(item.bounds for item in known_others(asked)),
            free=lambda request: replace(request, packages=_without_bounds(request.packages, others, local_only=False)),
            settled=lambda _, stack: {"packages": packages_of(stack)},
        ),
        Lever(
            name="modules",
            price=2,
            there=lambda asked: _pinned(asked, "kernel_modules"),
            free=lambda request: replace(request, kernel_modules=None),
            settled=lambda _, stack: {"kernel_modules": stack.kernel_modules[0] if stack.kernel_modules else ""},
        ),
        Lever(
            name="without cuda-compat",
            price=1,
            there=lambda asked: bool(asked.request.cuda_compat),
            free=lambda request: replace(request, cuda_compat=None),
            settled=lambda *_: {"cuda_compat": ""},
        ),
        Lever(
            name=DRIVER,
            price=4,
            there=lambda asked: not asked.request.pool and asked.machines[0].driver.version is not None,
            free=lambda request: replace(request, driver="upgrade"),
            settled=lambda _, stack: {"driver": stack.driver_branch or "any"},
        ),
        Lever(
            name=COMPAT,
            price=5,
            there=_can_forward,
            free=lambda request: replace(request, cuda_compat=True),
            settled=lambda *_: {"cuda_compat": "true"},
            widens=False,
        ),
        Lever(
            name="release",
            price=6,
            there=lambda asked: any(item.bounds for item in (asked.wants.asked, *asked.wants.companions) if item is not None),
            free=lambda request: replace(request, packages=_without_bounds(request.packages, names, local_only=False)),
            settled=lambda _, stack: {"packages": packages_of(stack)},
        ),
        Lever(
            name="platform",
            price=8,
            there=lambda asked: any(target.segments == {"grace"} for target in asked.targets),
            free=lambda request: replace(request, platform=_OTHER[request.platform]),
            settled=lambda _, stack: {"platform": stack.platform},
            widens=False,
        ),
    )
    return tuple(sorted((lever for lever in every if lever.there(asked)), key=lambda lever: lever.price))


def known_others(asked: Asked) -> tuple[Requirement, ...]:
    """The requirements beside the framework of which the data know what they need, its companions first."""
    known = by_name(asked.matrix) if asked.wants.others else {}
    others = tuple(item for item in asked.wants.others if item.name in known or item.name == NUMPY)
    return (*asked.wants.companions, *others)


def _pinned(asked: Asked, *fields: str) -> bool:
    return any(getattr(asked.request, field) is not None for field in fields)


def _can_forward(asked: Asked) -> bool:
    """cuda-compat can help where the driver is fixed and every GPU is a data-centre one."""
    if asked.request.cuda_compat or not asked.targets:
        return False
    fixed = all(machine.driver.version is not None for machine in asked.machines)
    return fixed and all(target.segments and target.segments <= DATA_CENTRE for target in asked.targets)
