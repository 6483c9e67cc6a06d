"""provisioner test: the smoke test in a container of an image, here or on hosts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from provisioner.cli import options
from provisioner.cli.hosts import each

if TYPE_CHECKING:
    from provisioner.cli.options import Common
    from provisioner.flows.fleet import Host
    from provisioner.report.answer import Answer


@click.command("test")
@click.argument("image", metavar="IMAGE|DIR")
@options.proof
@click.option("--lock", "lock_file", type=options.FILE, metavar="FILE", help="The lock that the image must hold to.")
@click.option("--level", type=click.IntRange(0, 5), help="The highest level to run: 1 import, 3 device, 4 kernel, 5 matrices.")
@click.option("--user", metavar="UID:GID", help="Run as this user instead of the image's own.")
@options.common
def command(image: str, on: tuple[str, ...], lock_file: Path | None, common: Common, **given: object) -> int:
    """Run the smoke test in a container: no network, no capability, read-only root, nothing left behind."""
    from provisioner.flows.files import read_lock_file
    from provisioner.flows.prove import Proof, checks_answer, keep_validation, lock_beside, prove_on
    from provisioner.hosts.probe import probe
    from provisioner.proof.build import default_tag
    from provisioner.report.text import checks

    folder = Path(image) if Path(image).is_dir() else None
    lock = read_lock_file(lock_file) if lock_file else lock_beside(folder) if folder else None
    proof = Proof(
        tag=options.text(given["tag"]), program=str(given["engine"]), user=options.text(given["user"]), level=_level(given)
    )
    if folder is not None:
        if lock is None:
            raise click.UsageError(f"{image} is a folder without stack.lock.yaml; name an image, or a rendered tree")
        image = proof.tag or default_tag(lock)

    def one(host: Host) -> Answer:
        facts = None if lock and lock.stack.cuda is None else probe(host.runner, ("gpus", "pci", "engine", "cdi"))
        results = prove_on(host.runner, image, lock, facts, proof, tell=host.tell)
        if folder and lock:
            keep_validation(folder, lock, {"by": "test", "host": host.name, "image": image, "checks": results})
        return checks_answer(results)

    return each(on, common, one, lambda answer: checks(answer.fields["checks"]))


def _level(given: dict[str, object]) -> int | None:
    level = given["level"]
    return level if isinstance(level, int) else None
