"""provisioner report: the report of a run that was kept."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from provisioner.cli import console, options

if TYPE_CHECKING:
    from provisioner.cli.options import Common


@click.command("report")
@click.argument("run", required=False, metavar="[RUN]")
@click.option("--format", "form", type=click.Choice(["md", "json"]), default="md", show_default=True)
@options.common
def command(run: str | None, form: str, common: Common) -> int:
    """Print the report of a run of `up`; the newest when none is named."""
    from provisioner.flows.reporting import kept

    if common.json or form == "json":
        sys.stdout.write(kept(run, "json"))
    else:
        console.out(kept(run, "md"))
    return 0
