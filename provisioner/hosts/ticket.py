"""Plans as text for a change ticket: everything that would be done, so that who approves it need not run anything. Pure."""

from __future__ import annotations

import hashlib
import shlex
import textwrap
from collections import Counter
from typing import TYPE_CHECKING, Final

from provisioner.hosts.actions import KEEP, RESTORE, SAME, WRITE
from provisioner.hosts.sections import NOT_RECORDED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from provisioner.facts import HostFacts
    from provisioner.findings import Finding
    from provisioner.hosts.plan import Plan, PlannedStep

_WIDTH: Final = 100
_SHORT: Final = 1000  # characters of a file that are shown; a signing key is longer, a configuration is not
_FACTS_ONLY: Final = (
    "whether a step is done already could not be seen: this recording holds facts only. "
    "`provisioner plan HOST --record DIR` records the checks of the steps too."
)


def about_host(facts: HostFacts) -> str:
    """System, driver and engine of a host in one line."""
    system, driver, engine = facts.system, facts.driver, facts.engine
    flavour = driver.found.flavour if driver.known and driver.found else None
    return ", ".join(
        (
            system.found.name if system.known else f"system not seen ({system.why_not})",
            f"driver not seen ({driver.why_not})"
            if not driver.known
            else f"NVIDIA driver {driver.found.version}{f' ({flavour} modules)' if flavour else ''}"
            if driver.found
            else "no NVIDIA driver",
            f"engine not seen ({engine.why_not})"
            if not engine.known
            else f"{engine.found.name} {engine.found.version}"
            if engine.found
            else "no container engine",
        )
    )


def plan_text(plan: Plan) -> str:
    """The plan of one host: plain text, 100 columns but for commands that are longer."""
    return _text((plan,))


def plans_text(plans: Mapping[str, Sequence[Plan]]) -> str:
    """The plans of several hosts; hosts whose plans are equal share one text."""
    groups: list[list[Sequence[Plan]]] = []
    for of_host in plans.values():
        alike = next((group for group in groups if list(map(_key, group[0])) == list(map(_key, of_host))), None)
        if alike is None:
            groups.append([of_host])
        else:
            alike.append(of_host)
    return "\n".join(_text(alike) for group in groups for alike in zip(*group, strict=True))


def _key(plan: Plan) -> tuple[object, ...]:
    """What makes two hosts' plans equal: all but the host and the plan's id."""
    return plan.playbook, dict(plan.goal), plan.about, plan.steps, [_message(refusal, plan) for refusal in plan.refusals]


def _message(refusal: Finding, plan: Plan) -> str:
    return refusal.message.removeprefix(f"{plan.host}: ")


def _text(plans: Sequence[Plan]) -> str:
    plan = plans[0]
    hosts = ", ".join(each.host for each in plans)
    goal = ", ".join(f"{key} {given}" for key, given in plan.goal.items()) or "none"
    ids = [f"Plan id: {plan.hash}"] if len(plans) == 1 else [f"Plan id of {each.host}: {each.hash}" for each in plans]
    lines = [
        *_wrapped("Plan for ", f"{hosts}: {plan.playbook}"),
        *_wrapped("", _summary(plan)),
        *(_wrapped("Host: ", plan.about) if plan.about else []),
        *_wrapped("Goal: ", goal),
        *ids,
        "",
    ]
    if plan.empty:
        return "\n".join([*lines, "Nothing to do: the host is as the playbook wants it.", ""])
    if plan.steps and all(step.unseen == NOT_RECORDED for step in plan.steps):
        lines += [*_wrapped("Note: ", _FACTS_ONLY), ""]
    refused = _refused(plan, several=len(plans) > 1)
    lines += refused
    for number, step in enumerate(plan.steps, start=1):
        lines += [*_step(number, step), ""]
    if refused:
        lines += refused if plan.steps else []
    elif plan.export:
        lines += [
            f"To do it: {plan.export}",
            "          on the host: sudo bash host-setup.sh --dry-run, then without --dry-run",
            "",
        ]
    return "\n".join(lines)


def _summary(plan: Plan) -> str:
    """What it comes to, in one line."""
    if plan.empty:
        return "nothing to do"
    count = len(plan.steps)
    restarts = Counter(text.partition(" (")[0] for step in plan.steps for text in step.restarts)
    reboots = sum(step.reboot for step in plan.steps)
    unseen = sum(step.unseen is not None for step in plan.steps)
    parts = [
        *(["REFUSED, nothing may be done"] if plan.refusals else []),
        f"{count} step{'' if count == 1 else 's'}",
        ", ".join(f"restarts {name} {_times(number)}" for name, number in restarts.items()) or "no restart",
        f"reboots {_times(reboots)}" if reboots else "no reboot",
        *([f"{unseen} could not be checked and may be done already"] if unseen else []),
    ]
    return "; ".join(parts)


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


def _refused(plan: Plan, *, several: bool) -> list[str]:
    lines: list[str] = []
    for refusal in plan.refusals:
        lines += _wrapped("REFUSED: ", _message(refusal, plan) if several else refusal.message)
        for remedy in refusal.remedies:
            lines += _wrapped("  what to do: ", remedy.text)
    return [*lines, "", "Nothing of this may be done before that is settled.", ""] if lines else []


def _step(number: int, step: PlannedStep) -> list[str]:
    lines = _wrapped(f"{number}. ", f"{step.id}: {step.action}") + _wrapped("   why: ", step.why)
    if step.unseen:
        lines += _wrapped("   not seen: ", f"whether this is done already ({step.unseen})")
    lines.append("   as root:")
    for command in (*step.keeps, *step.commands):
        lines += _command(command.argv, command.stdin)
    if step.reboot:
        lines.append("   reboot: yes; the check holds after it")
    if step.restarts:
        lines += _wrapped("   restarts: ", ", ".join(step.restarts))
    if step.then:
        lines += ["   check after:", *_command(step.then, "")]
    return lines + _wrapped("   way back: ", step.way_back or "NONE")


def _command(argv: Sequence[str], stdin: str) -> list[str]:
    """A command as one would type it; the tool's own sh texts by what they do."""
    script, arguments = (argv[2], argv[4:]) if tuple(argv[:2]) == ("sh", "-c") and len(argv) > 4 else ("", ())  # noqa: PLR2004 - sh -c TEXT sh ARG…
    if script == KEEP:
        return [f"     keep {arguments[0]}", f"       as {arguments[1]}"]
    if script == RESTORE:
        return [f"     put {arguments[0]} back", f"       from {arguments[1]}"]
    if script == SAME:
        return [f"     {arguments[0]} has mode {arguments[2]} and the SHA-256", f"     {arguments[1]}"]
    if script == WRITE:
        return [f"     write {arguments[0]}, mode {arguments[1]}:", *_content(stdin)]
    return _typed(argv)


def _content(text: str) -> list[str]:
    if len(text) > _SHORT:
        digest = hashlib.sha256(text.encode()).hexdigest()
        return [f"       {len(text.encode())} bytes, which the exported script shows; SHA-256", f"       {digest}"]
    return [f"     | {line}".rstrip() for line in text.splitlines()]


def _typed(argv: Sequence[str]) -> list[str]:
    """A command with its arguments on as many lines as it needs; a shell reads them as one."""
    lines = [""]
    for word in map(shlex.quote, argv):
        if lines[-1] and len(lines[-1]) + len(word) > _WIDTH - 10:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return [
        f"     {'' if number == 0 else '  '}{line}{'' if number == len(lines) - 1 else chr(32) + chr(92)}"
        for number, line in enumerate(lines)
    ]


def _wrapped(label: str, text: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=label, subsequent_indent=" " * len(label), break_long_words=False, break_on_hyphens=False
    )
