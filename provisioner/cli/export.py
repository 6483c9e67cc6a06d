"""provisioner export: a playbook as a script that a host runs by itself."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from provisioner.cli import console, options

if TYPE_CHECKING:
    from pathlib import Path

    from provisioner.cli.options import Common


@click.command("export")
@click.argument("form", type=click.Choice(["shell"]), metavar="shell")
@click.option(
    "--os", "os_id", required=True, metavar="ID", help="The hosts' system: ubuntu22.04, ubuntu24.04, debian12, debian13."
)
@options.goal
@click.option("--site", type=options.FILE, metavar="FILE", help="site.yaml: proxies.")
@click.option("-o", "--output", type=options.FILE, metavar="FILE", help="Write it there instead of to standard output.")
@options.common
def command(
    form: str,
    os_id: str,
    playbook: tuple[str, ...],
    goal: tuple[str, ...],
    site: Path | None,
    output: Path | None,
    common: Common,
) -> int:
    """Export a playbook as one shell script, with --dry-run in it, that does the same steps with the same checks."""
    from provisioner.flows.output import write_file
    from provisioner.flows.planning import export_script
    from provisioner.report.answer import Answer

    text = export_script(playbook, goal, os_id, site)
    if output is None:
        return console.emit(Answer(verdict="ok", fields={"form": form, "script": text}), text, as_json=common.json)
    write_file(output, text, force=common.force, mode=0o755)
    console.err(f"on the host: sudo bash {shlex.quote(output.name)} --dry-run")
    return console.emit(Answer(verdict="ok", fields={"form": form, "file": str(output)}), f"{output}\n", as_json=common.json)
