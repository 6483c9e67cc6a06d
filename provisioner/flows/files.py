"""lock and render: from a decision to stack.lock.yaml, and from that to the tree of files."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from provisioner.errors import LockError, NoStackError, ProvisionerError, UsageError
from provisioner.files.site import DEFAULT_INDEX
from provisioner.flows.answers import index_addresses

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from provisioner.files.site import Site
    from provisioner.files.tree import Tree
    from provisioner.findings import Finding, Remedy
    from provisioner.flows.inputs import Gathered
    from provisioner.stack.answer import Decision
    from provisioner.stack.lock import Lock, Pins, Stack
    from provisioner.stack.matrix import Matrix
    from provisioner.stack.request import Request

    Tell = Callable[[str], None]

#: The playbook that every container with a GPU needs on its host.
CONTAINER_TOOLKIT = "container-toolkit"


def for_member(decision: Decision, member: str | None) -> Decision:
    """The decision for one member of a pool: its stack alone. A lock holds one stack, so UsageError where the pool has several.

    Without `member` the decision stays as it is where it has one stack, or none.
    """
    from provisioner.values import replace

    names = [served.name for share in decision.shares for served in share.members]
    if member is not None and decision.verdict == "ok" and member not in names:
        hint = f"its members are {', '.join(names)}" if names else "only a request with a pool has members"
        raise UsageError(f"the request has no pool member {member!r}", hint=hint)
    if member is None and len(decision.shares) > 1:
        each = "; ".join(
            f"{_named(share.stack)} for {' and '.join(served.name for served in share.members)}" for share in decision.shares
        )
        options = " or ".join(f"--member {shlex.quote(share.members[0].name)}" for share in decision.shares)
        message = f"this pool needs {len(decision.shares)} stacks, and a lock holds one: {each}"
        raise UsageError(message, hint=f"lock each into a file of its own: provisioner lock … {options}, with -o NAME.lock.yaml")
    if member is None or not decision.shares:
        return decision
    share = next(share for share in decision.shares if any(served.name == member for served in share.members))
    return replace(decision, stack=share.stack, shares=(share,), alternatives=())


def _named(stack: Stack) -> str:
    return f"{stack.framework} {stack.version} {stack.variant}"


def stack_of(decision: Decision) -> Stack:
    """The stack that was decided; NoStackError where there is none, UsageError where a pool has several."""
    decision = for_member(decision, None)
    if decision.stack is not None:
        return decision.stack
    if decision.verdict == "ok":
        raise NoStackError("the parts fit, and there is nothing to lock", (), hint="name a framework: packages: [torch]")
    first = decision.refusals[0].fact if decision.refusals else "no stack satisfies this request"
    raise NoStackError(first, decision.refusals, hint="provisioner resolve shows every reason and what works")


def lock_of(decision: Decision, gathered: Gathered, matrix: Matrix, *, hashes: bool, tell: Tell | None = None) -> Lock:
    """The lock of a decision: with every package and its hashes where `hashes` is asked for and the index answers."""
    from provisioner.files.validation import check_lock
    from provisioner.stack.lock import Pins, lock

    stack = stack_of(decision)
    pins = Pins(why_not="not asked for: provisioner lock --hashes pins every package")
    if hashes:
        if tell:
            tell("asking the package index for the whole dependency set")
        pins = _pins(stack, gathered.site, matrix)
    made = lock(stack, gathered.request, pins, matrix)
    check_lock(made, "the request")  # before it is written: what no file can be made of is a mistake of the request
    return made


def not_pinned(made: Lock, gathered: Gathered, matrix: Matrix) -> Finding | None:
    """The finding that hashes were asked for and are not there, with what helps; None for a lock that has them."""
    from provisioner.files.pins import silent
    from provisioner.findings import Remedy
    from provisioner.knowledge.registry import finding

    why = made.pins.why_not
    if why is None:
        return None
    index = made.stack.index
    remedies = [Remedy(text="lock without --hashes: the packages that are pulled in are then chosen when they are installed")]
    if " does not answer" in why:
        named = index if why.startswith(silent(index)) else DEFAULT_INDEX
        served = _served_by_default(made.stack, gathered.request, matrix) if named != DEFAULT_INDEX else None
        where = Remedy(
            text=f"reach the index {named}, or give --site FILE with a mirror for it (indexes: {{{named}: https://…}})"
        )
        remedies = [where, *([served] if served else []), *remedies]
    return finding("packages-not-pinned", f"the packages are not pinned: {why}", remedies=remedies)


def _served_by_default(stack: Stack, request: Request, matrix: Matrix) -> Remedy | None:
    """The newest build for the same request that the default index serves, proved by deciding again; None without one."""
    from provisioner.findings import Remedy
    from provisioner.stack.resolve import decide
    from provisioner.values import replace

    tags = dict.fromkeys(row.tag for row in matrix.variants_of(stack.framework) if row.index == DEFAULT_INDEX)
    decisions = [decide(replace(request, variant=tag, index=None), matrix, remedies=False) for tag in tags]
    fitting = [one.stack for one in decisions if one.stack is not None and one.stack.index == DEFAULT_INDEX]
    if not fitting:
        return None
    best = max(fitting, key=lambda one: (one.version, one.cuda is not None, one.cuda))
    text = f"take the build that the default index serves: --variant {best.variant} ({best.framework} {best.version})"
    return Remedy(text=text, changes={"variant": best.variant})


def _pins(stack: Stack, site: Site, matrix: Matrix) -> Pins:
    import os

    from provisioner.edges.local import LocalRunner
    from provisioner.edges.uv import Uv
    from provisioner.files.pins import Around, pin

    framework = matrix.framework(stack.framework)
    system = matrix.system(stack.image.os)
    around = Around(
        site=site,
        indexes=index_addresses(matrix),
        environment=os.environ,
        glibc=system.glibc.numbers if system and system.glibc else (),
    )
    return pin(stack, framework.companions if framework else (), around, Uv(LocalRunner()))


def read_lock_file(path: Path) -> Lock:
    """stack.lock.yaml, or the one in a folder. A lock is edited and passed around: LockError for what would make a wrong file."""
    from provisioner.files.validation import check_lock
    from provisioner.stack.lock import read_lock
    from provisioner.values import Problem

    if path.is_dir():
        path = path / "stack.lock.yaml"
        if not path.is_file():
            problem = Problem(file=str(path), message="there is no lock in this folder")
            raise LockError([problem], hint="make one: provisioner lock … -o stack.lock.yaml, then provisioner render")
    found = read_lock(path)
    check_lock(found, str(path))
    return found


def render_tree(lock: Lock, site: Site, matrix: Matrix, *, only: Collection[str] | None = None) -> tuple[Tree, tuple[str, ...]]:
    """The tree of a lock, and what has to be said of it: which file was left out, and why."""
    from provisioner.files.image_view import catalogue
    from provisioner.files.render import render

    script, why_not = _host_script(lock, site) if only is None or "host-setup" in only else (None, None)
    tree = render(lock, site, catalogue(lock, matrix), only=only, host_script=script)
    said = [f"no host-setup.sh: {why_not}"] if why_not else []
    if only is not None and "sbatch" in only and not lock.jobs:
        said.append("no sbatch: the lock has no jobs; they stand in request.yaml (jobs:), and lock takes them over")
    return tree, tuple(said)


def _host_script(lock: Lock, site: Site) -> tuple[str | None, str | None]:
    """The host set-up script of a lock, or why there is none."""
    from provisioner.hosts.export import export_shell
    from provisioner.hosts.plan import goal_of
    from provisioner.hosts.playbook import load_playbook

    if lock.stack.cuda is None:
        return None, "a CPU stack needs nothing of its host but an engine"
    if lock.os is None:
        return None, "the request does not say the hosts' system (os: ubuntu24.04)"
    playbook = load_playbook(CONTAINER_TOOLKIT)
    try:
        text = export_shell(playbook, lock.os, goal_of(playbook, lock=lock), proxies=site.proxies)
    except ProvisionerError as refusal:
        return None, refusal.message
    return text, None
