"""The plan of a host set-up: what of a playbook is still to be done on a host, and what forbids it. Pure.

`verify` is `plan` again: after `apply` the plan must be empty. A step whose check could not be seen stays in the plan and
says so; a need that could not be seen refuses. Unknown is never yes.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Final

from provisioner.errors import UsageError
from provisioner.findings import Finding
from provisioner.hosts.actions import PlannedCommand, action_text, commands_of, keeping, then_of, unless_of, way_back_of
from provisioner.hosts.conditions import HOST_FACTS, host_word, judge
from provisioner.hosts.playbook import WORD, fill
from provisioner.hosts.refusals import held, no_way, not_met, not_root
from provisioner.hosts.ticket import about_host, plan_text
from provisioner.values import value
from provisioner.versions import Version

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from provisioner.facts import HostFacts
    from provisioner.hosts.playbook import Playbook, Step, Variant
    from provisioner.stack.lock import Lock

__all__ = ["Plan", "PlannedStep", "goal_of", "plan", "plan_fields", "plan_text", "step_checks"]


@value
class PlannedStep:
    """One step that is to be done. `way_back` None: there is none. `unseen`: why its check could not be seen, else None.

    `keeps` run before `commands`, all as root. `then` is the check after them, exit 0 = it holds.
    """

    id: str
    why: str
    action: str
    keeps: tuple[PlannedCommand, ...] = ()
    commands: tuple[PlannedCommand, ...] = ()
    then: tuple[str, ...] = ()
    repeat: str
    restarts: tuple[str, ...] = ()
    reboot: bool = False
    way_back: str | None = None
    unseen: str | None = None


@value
class Plan:
    """What is to be done on a host. `refusals` non-empty: nothing of it may be done. `hash` names exactly this plan.

    `about` is the host's system, driver and engine in one line, `export` the command that makes the script for it.
    """

    playbook: str
    host: str
    goal: Mapping[str, str] = field(default_factory=dict)
    steps: tuple[PlannedStep, ...]
    refusals: tuple[Finding, ...]
    hash: str
    about: str = ""
    export: str = ""

    @property
    def empty(self) -> bool:
        """Whether the host is as the playbook wants it: nothing to do, and nothing that could not be seen."""
        return not self.steps and not self.refusals


#: What a lock says of a goal; a playbook takes the keys that it has.
_FROM_LOCK: Final[Mapping[str, Callable[[Lock], str | None]]] = {
    "branch": lambda lock: lock.stack.driver_branch,
    "flavour": lambda lock: "open" if "open" in lock.stack.kernel_modules else next(iter(lock.stack.kernel_modules), None),
}


def goal_of(playbook: Playbook, texts: Sequence[str] = (), *, lock: Lock | None = None) -> Mapping[str, str]:
    """The goal: the playbook's defaults, then what the lock says, then `KEY=VALUE` texts. UsageError for what cannot be."""
    import difflib

    goal = dict(playbook.goal)
    if lock is not None:
        goal |= {key: found for key, read in _FROM_LOCK.items() if key in goal and (found := read(lock)) is not None}
    for text in texts:
        key, sign, given = text.partition("=")
        if not sign:
            raise UsageError(f"{text[:80]!r} is no goal", hint="write KEY=VALUE, or the path of a lock")
        if key not in goal:
            close = difflib.get_close_matches(key, goal, n=1) or list(goal)
            raise UsageError(f"the playbook {playbook.name} has no goal {key[:80]!r}", hint=f"known: {', '.join(close)}")
        goal[key] = given
    for key, given in goal.items():
        if not WORD.fullmatch(given):
            raise UsageError(f"goal {key}: {given[:80]!r} is not one plain word", hint="use letters, digits and ._+:~/@-")
        if _is_version(playbook.goal[key]) and not _is_version(given):
            raise UsageError(f"goal {key}: {given[:80]!r} is not a version", hint=f"such as {playbook.goal[key]}")
    return goal


def step_checks(playbook: Playbook, goal: Mapping[str, str], facts: HostFacts | None = None) -> Mapping[str, tuple[str, ...]]:
    """The `unless` of every step, filled in, for the probe to run: step id → argv. Exit 0: the step is done already.

    One that names a fact of the host is left out while that fact is not known, and so stays unseen.
    """
    checks: dict[str, tuple[str, ...]] = {}
    for step in playbook.steps:
        try:
            checks[step.id] = unless_of(step, _filler(playbook, goal, facts))
        except LookupError:
            continue
    return checks


def plan(playbook: Playbook, facts: HostFacts, goal: Mapping[str, str]) -> Plan:
    """What is left to do on the host of `facts`, in order, and what forbids it."""
    goal = goal_of(playbook, [f"{key}={given}" for key, given in goal.items()])
    refusals = not_met(playbook.needs, judge(playbook.needs, facts, goal), facts.host, f"the playbook {playbook.name}")
    left: list[tuple[Step, Variant]] = []
    steps: list[PlannedStep] = []
    for step in playbook.steps:
        seen = facts.steps.get(step.id)
        if seen is not None and seen.known and seen.found:
            continue
        refusals += not_met(step.needs, judge(step.needs, facts, goal), facts.host, f"the step {step.id}")
        variant = _choose(step.do, facts, goal)
        if isinstance(variant, str):
            refusals.append(no_way(facts.host, step.id, variant))
            continue
        left.append((step, variant))
        unseen = None if seen is not None and seen.known else (seen.why_not if seen else None) or "not asked"
        try:
            steps.append(_planned(playbook, step, variant, facts, goal, unseen))
        except LookupError as failure:
            refusals.append(no_way(facts.host, step.id, f"a fact that it is made of could not be seen: {failure}"))
        except UsageError as failure:
            refusals.append(no_way(facts.host, step.id, failure.message))
    if left:
        refusals += not_root(facts)
        refusals += held(facts, left, _filler(playbook, goal, facts))
    return Plan(
        playbook=playbook.name,
        host=facts.host,
        goal=goal,
        steps=tuple(steps),
        refusals=tuple(refusals),
        hash=_hash(playbook, facts.host, goal, steps, refusals),
        about=about_host(facts),
        export=_export(playbook, facts, goal),
    )


def _export(playbook: Playbook, facts: HostFacts, goal: Mapping[str, str]) -> str:
    os_id = facts.system.found.os if facts.system.known else "ID"
    goals = [word for key, given in goal.items() if given != playbook.goal[key] for word in ("--goal", f"{key}={given}")]
    words = ("provisioner", "export", "shell", "--os", os_id, "--playbook", playbook.name, *goals, "-o", "host-setup.sh")
    return shlex.join(words)


def plan_fields(plan: Plan) -> dict[str, object]:
    """The plan for JSON, with the keys of the contract."""
    keys = ("id", "why", "action", "restarts", "reboot", "way_back", "unseen")
    return {
        "host": plan.host,
        "playbook": plan.playbook,
        "goal": dict(plan.goal),
        "steps": [{key: getattr(step, key) for key in keys} for step in plan.steps],
        "refusals": plan.refusals,
        "plan": plan.hash,
    }


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except ValueError:
        return False
    return True


def _filler(playbook: Playbook, goal: Mapping[str, str], facts: HostFacts | None) -> Callable[[str], str]:
    """What fills a text; LookupError where it names a fact that was not seen."""

    def host(key: str) -> str:
        if facts is None:
            raise LookupError("the host was not asked")
        return host_word(key, facts).found

    return lambda text: fill(text, {**playbook.goal, **goal}, host)


def _choose(variants: tuple[Variant, ...], facts: HostFacts, goal: Mapping[str, str]) -> Variant | str:
    """The first variant for this host, or why there is none. One that might be meant stops the search: unknown is never no."""
    differs: list[str] = []
    for variant in variants:
        judged = judge(variant.for_, facts, goal)
        wrong = [entry for entry in judged if entry.verdict == "no"]
        unknown = [entry for entry in judged if entry.verdict == "unknown"]
        if not wrong and not unknown:
            return variant
        if not wrong:
            return f"{unknown[0].key} could not be seen: {unknown[0].actual}"
        differs += [f"{entry.key} is {entry.actual}, not {entry.wanted}" for entry in wrong]
    return "; ".join(dict.fromkeys(differs))


def _planned(
    playbook: Playbook, step: Step, variant: Variant, facts: HostFacts, goal: Mapping[str, str], unseen: str | None
) -> PlannedStep:
    filled = _filler(playbook, goal, facts)
    family = HOST_FACTS["family"].read(facts).found if variant.packages else ""
    return PlannedStep(
        id=step.id,
        why=step.why,
        action=action_text(variant, playbook.name, filled),
        keeps=keeping(step, playbook.name),
        commands=commands_of(variant, playbook.name, family, filled),
        then=then_of(step, filled),
        repeat=step.repeat,
        restarts=step.restarts,
        reboot=step.reboot,
        way_back=_way_back(playbook, step, variant, facts, goal),
        unseen=unseen,
    )


def _way_back(playbook: Playbook, step: Step, variant: Variant, facts: HostFacts, goal: Mapping[str, str]) -> str | None:
    chosen = _choose(step.undo, facts, goal) if step.undo else ""
    undo = None if isinstance(chosen, str) else chosen
    if undo is None or not (variant.packages and variant.packages.install and facts.packages.known):
        return way_back_of(step, (variant,), undo, playbook.name, _filler(playbook, goal, facts))
    before = facts.packages.found
    names = [name.partition("=")[0] for name in variant.packages.install]
    older = [f"{name}={before[name]}" for name in names if name in before]
    new = [name for name in names if name not in before]
    parts = [f"remove {' '.join(new)}"] if new else []
    return ", ".join([*parts, *([f"install {' '.join(older)} again"] if older else [])])


def _hash(
    playbook: Playbook, host: str, goal: Mapping[str, str], steps: Sequence[PlannedStep], refusals: Sequence[Finding]
) -> str:
    """SHA-256 over everything that would be done, in hexadecimal digits."""
    text = json.dumps(
        {
            "playbook": playbook.hash,
            "host": host,
            "goal": dict(sorted(goal.items())),
            "steps": [
                [step.id, [[command.argv, command.stdin] for command in (*step.keeps, *step.commands)], step.then]
                for step in steps
            ],
            "refusals": [refusal.message for refusal in refusals],
        },
        sort_keys=True,
    )
    return hashlib.sha256(text.encode()).hexdigest()
