"""provisioner mirror: what a lock will ask for, and a folder that has it, for a site without internet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from provisioner.cli import console, options

if TYPE_CHECKING:
    from provisioner.cli.options import Common

_SITE = click.option("--site", type=options.FILE, metavar="FILE", help="site.yaml: where things come from here.")


@click.group("mirror")
def command() -> None:
    """Name, or fetch, everything that a lock will ask for."""


@command.command("list")
@click.argument("lock_file", type=options.FILE, metavar="LOCK")
@_SITE
@options.common
def list_(lock_file: Path, site: Path | None, common: Common) -> int:
    """Print every package with its version, the images, the indexes and the distribution's packages."""
    from provisioner.flows.files import read_lock_file
    from provisioner.flows.inputs import matrix_with, site_of
    from provisioner.flows.mirror import list_answer, list_text

    answer = list_answer(read_lock_file(lock_file), site_of(site), matrix_with(common.matrix))
    return console.emit(answer, list_text(answer.fields["items"]), as_json=common.json)


@command.command("fetch")
@click.argument("lock_file", type=options.FILE, metavar="LOCK")
@click.option("--to", type=options.FILE, default=Path("mirror"), show_default=True, metavar="DIR", help="The folder to fill.")
@click.option("--engine", type=click.Choice(["docker", "podman"]), default="docker", show_default=True)
@_SITE
@options.common
def fetch(lock_file: Path, to: Path, engine: str, site: Path | None, common: Common) -> int:
    """Download the wheels, each checked against the lock, and the images; write DIR/site.yaml that points at them.

    The images are pulled and saved by the container engine of this machine, so there must be one. Packages of the distribution
    are not brought: `mirror list` names them, and the build asks the distribution's archive.
    """
    from provisioner.files.mirror import refuse_foreign_site
    from provisioner.flows.files import read_lock_file
    from provisioner.flows.inputs import matrix_with, site_of
    from provisioner.flows.mirror import fetch_answer, fetch_text

    if not common.force:
        refuse_foreign_site(to)
    lock, where = read_lock_file(lock_file), site_of(site)
    answer = fetch_answer(lock, where, matrix_with(common.matrix), to, program=engine, named=str(lock_file), tell=console.err)
    return console.emit(answer, fetch_text(answer, lock_file, to, engine), as_json=common.json)
