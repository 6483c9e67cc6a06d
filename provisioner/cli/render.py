"""provisioner render: the files of a lock."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from provisioner.cli import console, options

if TYPE_CHECKING:
    from provisioner.cli.options import Common


@click.command("render")
@click.argument("lock", type=options.FILE, metavar="stack.lock.yaml")
@click.option(
    "--to", "folder", type=options.FILE, required=True, metavar="DIR", help="The folder to write; made when it is not there."
)
@click.option("--only", metavar="NAME,…", help="Some outputs: dockerfile, sbatch, host-setup, uv.")
@click.option("--site", type=options.FILE, metavar="FILE", help="site.yaml: mirrors, proxies, CA, Slurm.")
@options.common
def command(lock: Path, folder: Path, only: str | None, site: Path | None, common: Common) -> int:
    """Render the files of a lock: Dockerfile, requirements, sbatch scripts, host set-up script."""
    from provisioner.files.tree import write_tree
    from provisioner.flows.files import read_lock_file, render_tree
    from provisioner.flows.inputs import matrix_with, site_of
    from provisioner.report.answer import Answer

    wanted = tuple(name.strip() for name in only.split(",") if name.strip()) if only is not None else None
    tree, said = render_tree(read_lock_file(lock), site_of(site), matrix_with(common.matrix), only=wanted)
    write_tree(tree, folder, force=common.force)
    for sentence in said:
        console.err(sentence)
    answer = Answer(verdict="ok", fields={"folder": str(folder), "files": list(tree.files), "said": said})
    return console.emit(answer, "".join(f"{folder / name}\n" for name in tree.files), as_json=common.json)
