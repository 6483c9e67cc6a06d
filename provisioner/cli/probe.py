"""provisioner probe: what hosts say of themselves, in one round trip each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from provisioner.cli import console, options
from provisioner.cli.hosts import HOSTS, each, told_recorded

if TYPE_CHECKING:
    from pathlib import Path

    from provisioner.cli.options import Common
    from provisioner.facts import HostFacts
    from provisioner.flows.fleet import Host
    from provisioner.report.answer import Answer


@click.command("probe", epilog=HOSTS)
@click.argument("hosts", nargs=-1, required=True, metavar="HOST...")
@click.option("-o", "--output", type=options.FILE, metavar="facts.json", help="Write the facts of all hosts there.")
@click.option("--record", type=options.FILE, metavar="DIR", help="Keep a recording of each host, for probe replay:DIR/HOST.")
@options.common
def command(hosts: tuple[str, ...], output: Path | None, record: Path | None, common: Common) -> int:
    """Ask hosts for their facts. Nothing but `sh` is needed there, and nothing is changed."""
    from provisioner.flows.output import write_file
    from provisioner.flows.probing import facts_answer, probe_host, rows_text

    asked: list[str] = []
    seen: dict[str, HostFacts] = {}

    def one(host: Host) -> Answer:
        asked.append(host.name)
        facts = probe_host(host, record)
        seen[host.name] = facts
        return facts_answer(facts)

    code = each(hosts, common, one, lambda answer: rows_text(answer.fields["rows"]))
    if record is not None:
        told_recorded(record, "probe", tuple(seen))
    if output is not None and not seen:
        console.err(f"not written: {output} (0 of {len(asked)} hosts answered)")
    elif output is not None:
        from provisioner.facts import facts_json

        write_file(output, facts_json(tuple(seen[host] for host in sorted(seen, key=asked.index))), force=common.force)
        console.err(f"written: {output} ({len(seen)} of {len(asked)} hosts)")
    return code
