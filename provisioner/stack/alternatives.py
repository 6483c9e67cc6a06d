"""What else a pool could have, each with its price and proved by deciding.

Newer releases for more stacks, one stack for fewer pins, one (newer) stack for a driver change.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from provisioner.stack.answer import Alternative
from provisioner.stack.changes import apply_changes, levers
from provisioner.stack.pools import build_of, knows, one_share, shares_of
from provisioner.stack.reading import read
from provisioner.stack.resolve import best_build, judge_parts, kept
from provisioner.values import replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from provisioner.stack.answer import Decision, Served, Share
    from provisioner.stack.changes import Lever
    from provisioner.stack.lock import Stack
    from provisioner.stack.matrix import Matrix
    from provisioner.stack.pools import Member
    from provisioner.stack.request import Request
    from provisioner.stack.resolve import Confirm

_SUBSETS = 6  # members of which every subset is tried for a driver change; of more only single ones, and all
#: Pins that keep the members apart, in the words of `changes`.
_LOOSE = {"build", "release"}


def alternatives(
    request: Request, members: Sequence[Member], decision: Decision, matrix: Matrix, confirmed: Confirm | None
) -> tuple[Alternative, ...]:
    """The alternatives to `decision`, which is ok and has shares."""
    found = [_newest_set(request, members, decision, matrix)]
    if decision.stack is None:
        found.append(_newest_single(request, decision, matrix, confirmed))
    found.append(_driver_change(request, members, decision, matrix, confirmed))
    return tuple(one for one in found if one is not None)


def _newest_set(request: Request, members: Sequence[Member], decision: Decision, matrix: Matrix) -> Alternative | None:
    """Each member with the newest release that runs on it alone, in as few stacks as that takes; None: it has it already."""
    newest = [max(build.version for build in member.builds) for member in members]
    now = {served.name: share.stack for share in decision.shares for served in share.members}
    gains = [
        f"{member.row.name} has {now[member.row.name].framework} {version} instead of {now[member.row.name].version}"
        for member, version in zip(members, newest, strict=True)
        if version > now[member.row.name].version
    ]
    if not gains:
        return None
    builds = [
        [build for build in member.builds if build.version == version] for member, version in zip(members, newest, strict=True)
    ]
    shares = shares_of(request, members, builds, matrix)
    price = f"{_stacks(shares)} instead of {_stacks(decision.shares)} ({_listed(shares)}); {', '.join(gains)}"
    return Alternative(what="newest-set", shares=shares, price=price)


def _newest_single(request: Request, decision: Decision, matrix: Matrix, confirmed: Confirm | None) -> Alternative | None:
    """The newest stack that runs on all members when the build and the release are free; None where there is none."""
    free = request
    changed: list[Lever] = []
    for lever in levers(read(request, matrix)):
        if lever.name in _LOOSE:
            free = lever.free(free)
            changed.append(lever)
    stack = _single(free, matrix, confirmed) if changed else None
    if stack is None:
        return None
    changes: dict[str, str] = {}
    for lever in changed:
        changes |= lever.settled(request, stack)
    if not build_of(stack, matrix).default:
        changes["variant"] = stack.variant
    stack = _single(apply_changes(request, changes), matrix, confirmed)
    if stack is None:
        return None
    price = f"{_named(stack)} instead of {_listed(decision.shares)}"
    shares = one_share(stack, request, matrix, confirmed)
    return Alternative(what="newest-single-stack", shares=shares, price=price, changes=changes)


def _driver_change(
    request: Request, members: Sequence[Member], decision: Decision, matrix: Matrix, confirmed: Confirm | None
) -> Alternative | None:
    """The fewest members whose driver has to change for one stack, or where there is one, for one of a newer release."""
    for group in _subsets([member for member in members if member.asked.machines[0].driver.version is not None]):
        free = {f"pool.{member.row.name}.driver": "upgrade" for member in group}
        better = _better(apply_changes(request, free), decision, matrix, confirmed)
        if better is None:
            continue
        told = {
            served.name: served
            for share in one_share(better, apply_changes(request, free), matrix, confirmed)
            for served in share.members
        }
        names = [member.row.name for member in group]
        changes = {f"pool.{name}.driver": branch for name in names if (branch := told[name].driver_branch)}
        stack = _better(apply_changes(request, changes), decision, matrix, confirmed) if len(changes) == len(names) else None
        if stack is None:
            continue
        drivers = ", ".join(_driver(member, told[member.row.name]) for member in group)
        price = f"{_named(stack)} instead of {_listed(decision.shares)}; {drivers}: install it and reboot"
        shares = one_share(stack, apply_changes(request, changes), matrix, confirmed)
        return Alternative(what="driver-change", shares=shares, price=price, changes=changes)
    return None


def _better(request: Request, decision: Decision, matrix: Matrix, confirmed: Confirm | None) -> Stack | None:
    stack = _single(request, matrix, confirmed)
    return stack if stack is not None and (decision.stack is None or stack.version > decision.stack.version) else None


def _single(request: Request, matrix: Matrix, confirmed: Confirm | None) -> Stack | None:
    """The one stack for all members of `request`; None where there is none, or it is not known whether it has code for them.

    As `decide_whole`, but nobody asks why not, so no refusal is made.
    """
    platforms = {row.platform or request.platform for row in request.pool}
    if len(platforms) > 1:
        return None
    asked = read(replace(request, platform=platforms.pop()), matrix)
    parts = judge_parts(asked)
    build = None if asked.problems or parts.refusals else best_build(asked, confirmed=confirmed)
    return kept(asked, build, parts).stack if build is not None and knows(build) else None


def _subsets(members: Sequence[Member]) -> Iterator[tuple[Member, ...]]:
    sizes = range(1, len(members) + 1) if len(members) <= _SUBSETS else [1, len(members)]
    for size in sizes:
        yield from itertools.combinations(members, size)


def _driver(member: Member, served: Served) -> str:
    hosts = f" ({served.count} hosts)" if served.count and served.count > 1 else ""
    modules = f" with the {' or '.join(served.kernel_modules)} kernel modules" if served.kernel_modules else ""
    return f"driver branch {served.driver_branch}{modules} on {member.row.name}{hosts} instead of {member.row.driver}"


def _stacks(shares: Sequence[Share]) -> str:
    return f"{len(shares)} stacks" if len(shares) > 1 else "1 stack"


def _listed(shares: Sequence[Share]) -> str:
    return " and ".join(_named(share.stack) for share in shares)


def _named(stack: Stack) -> str:
    return f"{stack.framework} {stack.version} {stack.variant}"
