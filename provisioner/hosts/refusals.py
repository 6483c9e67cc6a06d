"""Why a plan refuses: one finding for each reason, with what is there, what is needed, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provisioner.findings import Because, Finding, Remedy
from provisioner.hosts.conditions import HOST_FACTS, NONE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from provisioner.facts import HostFacts
    from provisioner.hosts.conditions import Condition, Judged
    from provisioner.hosts.playbook import Step, Variant

_SEE = "make it visible (provisioner probe says how it was asked), then plan again"


def not_met(needs: Mapping[str, Condition], judged: Iterable[Judged], host: str, whose: str) -> list[Finding]:
    """One refusal for each need that is not met or could not be seen."""
    findings: list[Finding] = []
    for entry in judged:
        if entry.verdict == "yes":
            continue
        fact = HOST_FACTS.get(entry.key)
        called = fact.called if fact else entry.key
        because = (Because(fact=f"needs {entry.key}: {needs[entry.key]}", source=whose),)
        if entry.verdict == "unknown":
            message = f"{host}: {called} could not be seen ({entry.actual}), and {whose} needs {entry.wanted}"
            findings.append(_unseen(message, because))
            continue
        there = f"there is no {called}" if entry.actual == NONE else f"{called} is {entry.actual}"
        message = f"{host}: {there}; {whose} needs {entry.wanted}"
        findings.append(_refused(message, fact.remedy if fact else "name another goal", because))
    return findings


def no_way(host: str, step: str, why: str) -> Finding:
    """The refusal of a step that has no variant for the host."""
    remedy = f"use another host or another goal, or add a variant to the step {step} of the playbook"
    return _refused(f"{host}: the step {step} has no way for this host: {why}", remedy)


def not_root(facts: HostFacts) -> list[Finding]:
    """A refusal where nothing can be done as root."""
    fact = HOST_FACTS["sudo"]
    if not facts.sudo.known:
        return [_unseen(f"{facts.host}: whether commands can run as root could not be seen ({facts.sudo.why_not})")]
    if facts.sudo.found:
        return []
    user = facts.user.found if facts.user.known else "the user"
    return [_refused(f"{facts.host}: {user} is not root and has no sudo without a password", fact.remedy)]


def held(facts: HostFacts, left: Sequence[tuple[Step, Variant]], fill: Callable[[str], str]) -> list[Finding]:
    """A refusal for each package on hold that a step would change; a step that takes the hold away first may."""
    changing = [(step, variant.packages) for step, variant in left if variant.packages]
    if not any(packages.install or packages.remove for _, packages in changing):
        return []
    if not facts.holds.known:
        return [_unseen(f"{facts.host}: which packages are on hold could not be seen ({facts.holds.why_not})")]
    holds = set(facts.holds.found)
    before = facts.packages.found if facts.packages.known else {}
    findings: list[Finding] = []
    for step, packages in changing:
        holds -= set(packages.unhold)
        for text in (*map(fill, packages.install), *packages.remove):
            name, _, version = text.partition("=")
            if name in holds and not (version and before.get(name) == version):
                message = f"{facts.host}: {name} is on hold, and the step {step.id} would change it"
                findings.append(_refused(message, f"ask who holds it, then: apt-mark unhold {name}"))
    return findings


def _refused(message: str, remedy: str, because: tuple[Because, ...] = ()) -> Finding:
    return Finding(id="plan-refused", severity="error", message=message, because=because, remedies=(Remedy(text=remedy),))


def _unseen(message: str, because: tuple[Because, ...] = ()) -> Finding:
    return Finding(id="host-fact-unseen", severity="warning", message=message, because=because, remedies=(Remedy(text=_SEE),))
