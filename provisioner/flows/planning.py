"""plan and export: what playbooks would change on a host, and the same as a script."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from provisioner.errors import UsageError
from provisioner.flows.files import CONTAINER_TOOLKIT, read_lock_file
from provisioner.report.answer import Answer, plain
from provisioner.values import value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from provisioner.flows.fleet import Host
    from provisioner.hosts.plan import Plan
    from provisioner.hosts.playbook import Playbook
    from provisioner.stack.lock import Lock


@value
class Plans:
    """Which playbooks, and the goal: a lock, or KEY=VALUE texts (a text that names a file is a lock too)."""

    playbooks: tuple[str, ...] = ()
    goals: tuple[str, ...] = ()
    lock: Lock | None = None


def plan_host(host: Host, wanted: Plans, record: Path | None = None) -> tuple[Plan, ...]:
    """Probe a host with the playbooks' own questions, and plan. Nothing is changed. Its recording goes below `record`."""
    from provisioner.flows.probing import recorded
    from provisioner.hosts.plan import plan, step_checks
    from provisioner.hosts.playbook import load_playbook
    from provisioner.hosts.probe import probe

    plans: list[Plan] = []
    runner = recorded(host, record)
    for name in wanted.playbooks or (CONTAINER_TOOLKIT,):
        playbook = load_playbook(name)
        goal = goal_for(playbook, wanted)
        facts = probe(runner, steps=step_checks(playbook, goal))
        plans.append(plan(playbook, facts, goal))
    return tuple(plans)


def goal_for(playbook: Playbook, wanted: Plans) -> Mapping[str, str]:
    """The goal of a playbook: its defaults, then the lock, then KEY=VALUE."""
    from provisioner.hosts.plan import goal_of

    lock, texts = wanted.lock, []
    for text in wanted.goals:
        if "=" in text:
            texts.append(text)
        elif Path(text).exists():
            lock = read_lock_file(Path(text))
        else:
            raise UsageError(f"--goal {text}: neither KEY=VALUE nor a lock that is there")
    return goal_of(playbook, texts, lock=lock)


def plan_answer(plans: Sequence[Plan]) -> Answer:
    """Plans as an answer: steps left are exit 0, a refusal is 7."""
    from provisioner.hosts.plan import plan_fields

    refused = tuple(refusal for plan in plans for refusal in plan.refusals)
    fields = [plan_fields(plan) for plan in plans]
    whole = fields[0] if len(fields) == 1 else {"steps": [step for each in fields for step in _steps(each)]}
    return Answer(verdict="fault" if refused else "ok", findings=refused, fields={**whole, "plans": plans})


def _steps(fields: Mapping[str, object]) -> list[object]:
    steps = fields["steps"]
    return steps if isinstance(steps, list) else []


def plans_json(plans: Mapping[str, Sequence[Plan]]) -> str:
    """plan.json: the plans of each host."""
    hosts = [{"host": host, "plans": plain(tuple(entries))} for host, entries in plans.items()]
    return json.dumps({"format": 1, "hosts": hosts}, ensure_ascii=False, indent=2) + "\n"


def export_script(playbooks: Sequence[str], goals: Sequence[str], os_id: str, site: Path | None) -> str:
    """One playbook as a shell script for hosts of one system."""
    from provisioner.flows.inputs import site_of
    from provisioner.hosts.export import export_shell
    from provisioner.hosts.playbook import load_playbook

    if len(playbooks) > 1:
        raise UsageError("export writes one playbook at a time", hint="call it once for each --playbook")
    playbook = load_playbook(playbooks[0] if playbooks else CONTAINER_TOOLKIT)
    goal = goal_for(playbook, Plans(goals=tuple(goals)))
    return export_shell(playbook, os_id, goal, proxies=site_of(site).proxies)
