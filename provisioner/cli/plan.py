"""provisioner plan: what a host would still need, and what each step would do. Nothing is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from provisioner.cli import console, options
from provisioner.cli.hosts import HOSTS, each, told_recorded

if TYPE_CHECKING:
    from pathlib import Path

    from provisioner.cli.options import Common
    from provisioner.flows.fleet import Host
    from provisioner.hosts.plan import Plan
    from provisioner.report.answer import Answer


@click.command("plan", epilog=HOSTS)
@click.argument("hosts", nargs=-1, required=True, metavar="HOST...")
@options.goal
@click.option("-o", "--output", type=options.FILE, metavar="plan.json", help="Write the plans of all hosts there.")
@click.option("--record", type=options.FILE, metavar="DIR", help="Keep a recording of each host, for plan replay:DIR/HOST.")
@options.common
def command(
    hosts: tuple[str, ...],
    playbook: tuple[str, ...],
    goal: tuple[str, ...],
    output: Path | None,
    record: Path | None,
    common: Common,
) -> int:
    """Plan what playbooks would change on hosts: each step with its reason, its commands, what restarts, and the way back.

    Nothing is changed. Hosts whose plans are equal share one text.
    """
    from provisioner.flows.output import write_file
    from provisioner.flows.planning import Plans, plan_answer, plan_host, plans_json
    from provisioner.hosts.ticket import plan_text, plans_text

    wanted = Plans(playbooks=playbook, goals=goal)
    made: dict[str, tuple[Plan, ...]] = {}

    def one(host: Host) -> Answer:
        plans = plan_host(host, wanted, record)
        made[host.name] = plans
        return plan_answer(plans)

    code = each(
        hosts,
        common,
        one,
        lambda answer: "\n".join(plan_text(plan) for plan in answer.fields["plans"]),
        whole=lambda answers: plans_text({name: answer.fields["plans"] for name, answer in answers.items()}),
    )
    if record is not None:
        told_recorded(record, "plan", tuple(made))
    if output is not None and not made:
        console.err(f"not written: {output} (no host could be planned)")
    elif output is not None:
        write_file(output, plans_json(made), force=common.force)
        console.err(f"written: {output}")
    return code
