"""provisioner import: what a project already has → request.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from provisioner.cli import console, options

if TYPE_CHECKING:
    from provisioner.cli.options import Common


@click.command("import")
@click.argument("files", nargs=-1, required=True, type=options.FILE, metavar="FILE...")
@click.option("-o", "output", type=options.FILE, metavar="FILE", help="Write the request there instead of printing it.")
@options.common
def command(files: tuple[Path, ...], output: Path | None, common: Common) -> int:
    """Make a request from requirements.txt, pyproject.toml, uv.lock, pixi.toml, environment.yml or a Dockerfile."""
    from provisioner.decode import dump_yaml, encode, read_text
    from provisioner.errors import RequestError
    from provisioner.files.importing import imported, reader_of
    from provisioner.flows.output import write_file
    from provisioner.report.answer import Answer

    for path in files:
        reader_of(str(path))  # a name that nobody reads is said before a file is opened
    made = imported([(str(path), read_text(path, RequestError)) for path in files])
    text = dump_yaml(made.request)
    said = [str(one) for one in made.said]
    if not made.request.gpus:
        said.append("no GPU is named in such files: add gpus: and driver:, or give --gpu and --driver")
    if output is not None:
        write_file(output, text, force=common.force)
    for sentence in said:
        console.err(sentence)
    fields = {"request": encode(made.request), "said": said, "file": str(output) if output else None}
    answer = Answer(verdict="ok", fields=fields)
    return console.emit(answer, f"wrote {output}\n" if output else text, as_json=common.json)
