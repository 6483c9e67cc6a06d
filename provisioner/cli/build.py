"""provisioner build: a rendered tree becomes an image, here or on hosts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from provisioner.cli import options
from provisioner.cli.hosts import each

if TYPE_CHECKING:
    from provisioner.cli.options import Common
    from provisioner.flows.fleet import Host


@click.command("build")
@click.argument("folder", type=options.FILE, metavar="DIR")
@options.proof
@click.option("--push", is_flag=True, help="Push the image to its registry afterwards.")
@click.option("--secret", multiple=True, metavar="ID=FILE", help="A secret of the build, in a file on this machine.")
@click.option("--network", type=click.Choice(["none", "host"]), help="The network of RUN steps; the engine's own when left out.")
@click.option("--site", type=options.FILE, metavar="FILE", help="The site.yaml that the tree was rendered with.")
@options.common
def command(folder: Path, on: tuple[str, ...], common: Common, **given: object) -> int:
    """Build the Dockerfile of DIR. The context travels to the host on standard input; nothing else is written there."""
    from provisioner.flows.inputs import site_of
    from provisioner.flows.prove import Proof, build_on, keep_validation, lock_beside
    from provisioner.report.answer import Answer

    site_file = given.pop("site")
    site = site_of(site_file if isinstance(site_file, Path) else None)
    lock = lock_beside(folder)
    proof = Proof(
        tag=options.text(given["tag"]),
        program=str(given["engine"]),
        push=bool(given["push"]),
        secrets=options.pairs(given["secret"], "--secret"),
        network=options.network(given["network"]),
    )

    def one(host: Host) -> Answer:
        image = build_on(host.runner, folder, lock, site, proof, tell=host.tell)
        if lock:
            keep_validation(folder, lock, {"by": "build", "host": host.name, "status": "pass", "image": image})
        return Answer(verdict="ok", fields={"image": image})

    return each(on, common, one, lambda answer: f"{answer.fields['image'].reference} {answer.fields['image'].id}\n")
