"""provisioner probe: what hosts say of themselves, in one round trip each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from provisioner.cli import console, options
from provisioner.cli.hosts import each

if TYPE_CHECKING:
    from pathlib import Path

    from provisioner.cli.options import Common
    from provisioner.facts import HostFacts
    from provisioner.flows.fleet import Host
    from provisioner.report.answer import Answer


@click.command("probe")
@click.argument("hosts", nargs=-1, required=True, metavar="HOST...")
@click.option("-o", "--output", type=options.FILE, metavar="facts.json", help="Write the facts of all hosts there.")
@click.option("--record", type=options.FILE, metavar="DIR", help="Keep a recording of each host, for replay:DIR/HOST.")
@options.common
def command(hosts: tuple[str, ...], output: Path | None, record: Path | None, common: Common) -> int:
    """Ask hosts for their facts. Nothing but `sh` is needed there, and nothing is changed."""
    from provisioner.flows.output import write_file
    from provisioner.flows.probing import facts_answer, probe_host, rows_text

    seen: dict[str, HostFacts] = {}

    def one(host: Host) -> Answer:
        facts = probe_host(host, record / host.name.replace("/", "_") if record else None)
        seen[host.name] = facts
        return facts_answer(facts)

    code = each(hosts, common, one, lambda answer: rows_text(answer.fields["rows"]))
    if output is not None:
        from provisioner.facts import facts_json

        write_file(output, facts_json(tuple(seen.values())), force=common.force)
        console.err(f"written: {output} ({len(seen)} hosts)")
    return code
