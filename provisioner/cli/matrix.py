"""provisioner matrix: look into the compatibility matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from provisioner.cli import console, options

if TYPE_CHECKING:
    from pathlib import Path

    from provisioner.cli.options import Common


@click.group("matrix")
def command() -> None:
    """Look into the compatibility matrix: its rows, and the documents they come from."""


@command.command("list")
@click.argument("section")
@options.common
def list_(section: str, common: Common) -> int:
    """List the ids of a section.

    Sections are sources, architectures, capabilities, gpus, drivers, cuda, cuda_releases, forward_compat, indexes, frameworks,
    releases, variants, images, systems and closures.
    """
    from provisioner.flows.inputs import matrix_with
    from provisioner.flows.rows import listed

    answer = listed(matrix_with(common.matrix), section)
    return console.emit(answer, "".join(f"{key}\n" for key in answer.fields["ids"]), as_json=common.json)


@command.command("show")
@click.argument("id_", metavar="ID", nargs=-1, required=True)
@options.common
def show(id_: tuple[str, ...], common: Common) -> int:
    """Show a row with every field and every document, by its id or as answers cite it.

    provisioner matrix show torch 2.9.1 cu128 linux/amd64, or provisioner matrix show cuda 13.0
    """
    from provisioner.flows.inputs import matrix_with
    from provisioner.flows.rows import shown

    answer = shown(matrix_with(common.matrix), " ".join(id_))
    return console.emit(answer, "\n".join(_row(row) for row in answer.fields["rows"]), as_json=common.json)


def _row(found: dict[str, object]) -> str:
    row, documents = found["row"], found["documents"]
    lines = [str(found["section"])]
    lines += [f"  {name:<16}{_text(entry)}" for name, entry in (row.items() if isinstance(row, dict) else ()) if name != "source"]
    lines += [f"  document        {document}" for document in (documents if isinstance(documents, list) else ())]
    return "\n".join(lines) + "\n"


def _text(entry: object) -> str:
    if isinstance(entry, list):
        return ", ".join(map(str, entry))
    if isinstance(entry, dict):
        return ", ".join(f"{key}: {value}" for key, value in entry.items())
    return str(entry)


@command.command("check")
@click.option("--online", is_flag=True, help="Ask the package index too whether it serves the default builds.")
@click.option("--site", type=options.FILE, metavar="FILE", help="site.yaml: mirrors and proxies.")
@options.common
def check(*, online: bool, site: Path | None, common: Common) -> int:
    """Check the invariants across all rows, with the rows of --matrix on top."""
    from provisioner.flows.inputs import matrix_with
    from provisioner.flows.rows import checked
    from provisioner.report.text import findings

    matrix = matrix_with(common.matrix)
    answer = checked(matrix)
    if online:
        from provisioner.flows.refresh import with_online

        answer = with_online(answer, matrix, site)
    rows = ", ".join(f"{count} {section}" for section, count in answer.fields["rows"].items())
    return console.emit(answer, findings(answer.findings) or f"ok: {rows}\n", as_json=common.json)


@command.command("refresh")
@click.argument("framework")
@click.option("--again", type=click.IntRange(0, 100), default=0, metavar="N", help="Read the N newest known releases too.")
@click.option("--write", is_flag=True, help="Keep the rows: in a checkout in the matrix, else in the user's data folder.")
@click.option("--accept", is_flag=True, help="Accept floors and ceilings that move.")
@click.option("--site", type=options.FILE, metavar="FILE", help="site.yaml: mirrors and proxies.")
@options.common
def refresh(*, framework: str, again: int, write: bool, accept: bool, site: Path | None, common: Common) -> int:
    """Read new releases of torch, tensorflow or jax from the package index, inside the wheels, and show what differs."""
    import datetime as dt

    from provisioner.flows.refresh import Wish
    from provisioner.flows.refresh import refresh as read
    from provisioner.report.refresh import refresh_text

    tell = console.err if console.progress() else (lambda _: None)
    wish = Wish(framework=framework, again=again, write=write, accept=accept, site=site, matrix=common.matrix)
    answer = read(wish, dt.datetime.now(dt.UTC).date().isoformat(), tell)
    return console.emit(answer, refresh_text(answer), as_json=common.json)
