"""Pools: one stack for all members where there is one, else the smallest set of stacks that covers them, and who gets which.

Every stack of an answer was resolved for the members that get it. `alternatives` says what else the pool could have.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from provisioner.findings import Remedy
from provisioner.stack.answer import Decision, Note, Served, Share
from provisioner.stack.asked import Asked
from provisioner.stack.changes import apply_changes
from provisioner.stack.choice import branch_of, flavours_of, preference
from provisioner.stack.covers import Choice, covers
from provisioner.stack.meeting import mode_of
from provisioner.stack.reading import read
from provisioner.stack.request import PoolMember, Request
from provisioner.stack.resolve import best_build, decide, decide_together, fits, judge_parts, kept
from provisioner.stack.rows import Variant, key_of
from provisioner.stack.rules import named
from provisioner.values import replace, value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from provisioner.findings import Because
    from provisioner.stack.covers import Cover
    from provisioner.stack.lock import Refusal, Stack
    from provisioner.stack.matrix import Matrix
    from provisioner.stack.resolve import Confirm

_EACH = 3  # remedies of one member that are tried together with those of the others
_MOST = 4  # remedies of a pool


@value
class Member:
    """A member of the pool as if it stood alone: its request, how it reads, its decision, and the builds that fit."""

    row: PoolMember
    request: Request
    asked: Asked
    decision: Decision
    builds: tuple[Variant, ...] = ()


def decide_pool(request: Request, matrix: Matrix, *, confirmed: Confirm | None = None, remedies: bool = True) -> Decision:
    """The decision over a pool. `remedies`: also look for changes that help, and for alternatives.

    A member that nothing satisfies makes it a conflict (or unknown), with that member's reasons only.
    """
    whole = decide_whole(request, matrix, confirmed=confirmed)
    if whole is not None and whole.verdict == "ok" and whole.stack is None:
        return whole
    members = tuple(_alone(request, row, matrix, confirmed) for row in request.pool)
    failing = [member for member in members if member.decision.verdict != "ok"]
    if whole is not None and whole.stack is not None and not _guesses(whole.stack, members, matrix):
        decision = replace(whole, shares=(_share(whole.stack, members, matrix),))
    elif failing:
        return _refused(request, failing, matrix, confirmed, remedies=remedies)
    elif all(member.decision.stack is None for member in members):  # no framework: only whether the parts fit
        notes = tuple(dict.fromkeys(note for member in members for note in member.decision.notes))
        return whole or Decision(verdict="ok", notes=notes)
    else:
        decision = _set(request, members, whole, matrix)
    if remedies and len(members) > 1:
        from provisioner.stack.alternatives import alternatives

        others = alternatives(request, members, decision, matrix, confirmed)
        decision = replace(decision, alternatives=others, notes=(*decision.notes, *map(_said, others)))
    return decision


def decide_whole(request: Request, matrix: Matrix, *, confirmed: Confirm | None = None) -> Decision | None:
    """One stack for all members, or why there is none; None where their platforms differ, for an image is for one platform."""
    platforms = {row.platform or request.platform for row in request.pool}
    if len(platforms) > 1:
        return None
    together = replace(request, platform=platforms.pop())
    return decide_together(together, matrix, confirmed=confirmed, remedies=False)


def _alone(request: Request, row: PoolMember, matrix: Matrix, confirmed: Confirm | None) -> Member:
    platform = row.platform or request.platform
    mine = replace(request, pool=(), gpus=row.gpus, driver=row.driver, platform=platform)
    asked = read(mine, matrix)
    decision = decide_together(mine, matrix, confirmed=confirmed, remedies=False)
    return Member(row=row, request=mine, asked=asked, decision=decision, builds=_builds(asked, decision))


def _builds(asked: Asked, decision: Decision) -> tuple[Variant, ...]:
    """The builds that fit: those that were seen; where there is none, the one that was decided."""
    if decision.stack is None:
        return ()
    own = build_of(decision.stack, asked.matrix)
    found = [build for release in asked.releases for build in asked.builds(release) if fits(asked, build)]
    if asked.request.prefer == "native":
        found = [build for build in found if mode_of(asked, build) == decision.stack.compatibility]
    found = [build for build in found if build.published == "seen" or build == own]
    return tuple([build for build in found if knows(build)] or found)


def knows(build: Variant) -> bool:
    """Whether it is known which GPUs the build has code for."""
    return build.cuda is None or build.sass is not None


def _guesses(stack: Stack, members: Sequence[Member], matrix: Matrix) -> bool:
    """Whether one stack for all rests on a build of which that is not known, though some member has one of which it is."""
    return not knows(build_of(stack, matrix)) and any(knows(build) for member in members for build in member.builds)


def build_of(stack: Stack, matrix: Matrix) -> Variant:
    """The row of a stack's build."""
    row: Variant = matrix.row("variants", f"{stack.framework} {stack.version} {stack.variant} {stack.platform}")
    return row


def _set(request: Request, members: Sequence[Member], whole: Decision | None, matrix: Matrix) -> Decision:
    """The smallest set of stacks; each is resolved for the members that get it, and a set where one is refused is passed over."""
    builds = [member.builds for member in members]
    found = proved_cover(request, members, builds, matrix, fewest=2 if whole is not None and whole.stack is None else 1)
    because: tuple[Because, ...] = ()
    if whole is None:
        why = "the members have different platforms, and an image is for one"
    elif whole.stack is not None:
        name = named(build_of(whole.stack, matrix))
        why = f"whether {name} holds code for all members is not known, and of others it is"
    else:
        why, because = f"no one build runs on all members: {whole.refusals[0].fact}", whole.refusals[0].because
    if len(found) == 1:
        ((decision, group),) = found
        stack = decision.stack
        return replace(decision, shares=(_share(stack, group, matrix),)) if stack is not None else decision
    split = Note(
        rule="pool",
        finding="pool-split",
        fact=f"{why}; {len(found)} stacks is the smallest set that covers them",
        because=because,
    )
    notes = dict.fromkeys((split, *(note for decision, _ in found for note in decision.notes)))
    shares = tuple(_share(decision.stack, group, matrix) for decision, group in found if decision.stack is not None)
    return Decision(verdict="ok", shares=shares, notes=tuple(notes))


def proved_cover(
    request: Request,
    members: Sequence[Member],
    builds: Sequence[Sequence[Variant]],
    matrix: Matrix,
    *,
    fewest: int = 1,
) -> tuple[tuple[Decision, tuple[Member, ...]], ...]:
    """The preferred cover of `members`, each by one of its `builds`, with the decision for each group."""
    choices = _choices(members, builds)
    for cover in covers(choices, len(members), fewest=fewest):
        proved = _proved(request, members, cover, matrix)
        if proved is not None:
            return proved
    return tuple((member.decision, (member,)) for member in members)


def _choices(members: Sequence[Member], builds: Sequence[Sequence[Variant]]) -> list[Choice]:
    versions = sorted({build.version for group in builds for build in group}, reverse=True)
    found: dict[str, tuple[Variant, dict[int, tuple[object, ...]]]] = {}
    for at, (member, group) in enumerate(zip(members, builds, strict=True)):
        for build in group:
            entry = found.setdefault(key_of("variants", build), (build, {}))
            entry[1][at] = preference(member.asked, build)
    return [
        Choice(key=key, build=build, age=versions.index(build.version), liking=liking)
        for key, (build, liking) in sorted(found.items())
    ]


def _proved(
    request: Request, members: Sequence[Member], cover: Cover, matrix: Matrix
) -> tuple[tuple[Decision, tuple[Member, ...]], ...] | None:
    """The decisions of a cover's groups; None where a rule refuses a build for a group, though it fits each member alone."""
    found = []
    for choice, numbers in cover:
        group = tuple(members[at] for at in numbers)
        mine = replace(request, pool=tuple(member.row for member in group), platform=choice.build.platform)
        asked = read(mine, matrix) if len(group) > 1 else group[0].asked
        parts = judge_parts(asked)
        if asked.problems or parts.refusals or not fits(asked, choice.build):
            return None
        decision = kept(asked, choice.build, parts)
        found.append((decision if best_build(asked) == choice.build else _for_the_set(decision), group))
    return tuple(found)


def _for_the_set(decision: Decision) -> Decision:
    """A stack that is not the newest for its members says why it was chosen all the same."""
    stack = decision.stack
    if stack is None:
        return decision
    fact = f"{stack.framework} {stack.version} makes the smallest set of stacks with those of the other members"
    first, *rest = stack.because
    return replace(decision, stack=replace(stack, because=(replace(first, fact=fact), *rest)))


def _share(stack: Stack, group: Sequence[Member], matrix: Matrix) -> Share:
    build = build_of(stack, matrix)
    return Share(stack=stack, members=tuple(_served(member, build) for member in group))


def _served(member: Member, build: Variant) -> Served:
    branch, _ = branch_of(member.asked, build)
    hosts = member.row.host_names
    return Served(
        name=member.row.name,
        gpus=tuple(dict.fromkeys(target.name for target in member.asked.targets)),
        driver=member.row.driver,
        driver_branch=branch.branch if branch else None,
        kernel_modules=flavours_of(member.asked, branch) if build.cuda is not None else (),
        hosts=hosts,
        count=member.row.count if member.row.count is not None else len(hosts) or None,
    )


def shares_of(
    request: Request, members: Sequence[Member], builds: Sequence[Sequence[Variant]], matrix: Matrix
) -> tuple[Share, ...]:
    """The preferred cover by these builds, as shares."""
    found = proved_cover(request, members, builds, matrix)
    return tuple(_share(decision.stack, group, matrix) for decision, group in found if decision.stack is not None)


def one_share(stack: Stack, request: Request, matrix: Matrix, confirmed: Confirm | None) -> tuple[Share, ...]:
    """One stack for all members of `request`, as the only share."""
    members = tuple(_alone(request, row, matrix, confirmed) for row in request.pool)
    return (_share(stack, members, matrix),)


def _said(other: object) -> Note:
    what = {
        "newest-set": "the newest release for each member",
        "newest-single-stack": "one stack for all members",
        "driver-change": "a driver change",
    }
    return Note(
        rule="pool",
        finding="pool-alternative",
        fact=f"instead: {what[getattr(other, 'what', '')]}: {getattr(other, 'price', '')}",
    )


def _refused(
    request: Request, failing: Sequence[Member], matrix: Matrix, confirmed: Confirm | None, *, remedies: bool
) -> Decision:
    """The refusals of the members that nothing satisfies, each with the member's name; conflicts before what is not known."""
    failing = sorted(failing, key=lambda member: member.decision.verdict != "conflict")
    refusals = tuple(
        replace(refusal, fact=f"{member.row.name}: {refusal.fact}") for member in failing for refusal in member.decision.refusals
    )
    verdict = failing[0].decision.verdict
    if not remedies:
        return Decision(verdict=verdict, refusals=refusals)
    found = tuple(itertools.islice(_remedies(request, failing, matrix, confirmed), _MOST))
    return Decision(verdict=verdict, refusals=(_with(refusals[0], found), *refusals[1:]))


def _with(refusal: Refusal, remedies: tuple[Remedy, ...]) -> Refusal:
    return replace(refusal, remedies=remedies)


def _remedies(request: Request, failing: Sequence[Member], matrix: Matrix, confirmed: Confirm | None) -> Iterator[Remedy]:
    """What helps each of the members alone, together, proved on the whole pool; last the pool without them."""
    own = []
    for member in failing:
        decision = decide(member.request, matrix, confirmed=confirmed)
        own.append([remedy for remedy in decision.remedies if remedy.changes][:_EACH])
    for group in itertools.product(*own):
        changes: dict[str, str] = {}
        for member, remedy in zip(failing, group, strict=True):
            changes |= _for_pool(member.row.name, remedy)
        proved = _prove(request, changes, matrix, confirmed)
        if proved is not None:
            text = "; ".join(f"{member.row.name}: {remedy.text}" for member, remedy in zip(failing, group, strict=True))
            yield Remedy(text=text, commands=proved, changes=changes)
    if len(failing) < len(request.pool):
        changes = {f"pool.{member.row.name}": "" for member in failing}
        proved = _prove(request, changes, matrix, confirmed)
        if proved is not None:
            names = " and ".join(member.row.name for member in failing)
            yield Remedy(text=f"without {names} the rest of the pool has an answer", commands=proved, changes=changes)


def _for_pool(name: str, remedy: Remedy) -> dict[str, str]:
    """A change of one member's GPUs, driver or platform, as one of the pool; the rest is for all members."""
    own = {"driver", "gpus", "platform"}
    return {f"pool.{name}.{key}" if key in own else key: text for key, text in remedy.changes.items()}


def _prove(request: Request, changes: dict[str, str], matrix: Matrix, confirmed: Confirm | None) -> tuple[str, ...] | None:
    """The commands of the pool's stacks with these changes; None where it has no answer then."""
    decision = decide(apply_changes(request, changes), matrix, confirmed=confirmed, remedies=False)
    if decision.verdict != "ok":
        return None
    return tuple(dict.fromkeys(share.stack.command for share in decision.shares))
