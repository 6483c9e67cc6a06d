"""provisioner up: the whole line, from a request to a container that was built and proved."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from provisioner.cli import console, options
from provisioner.cli.hosts import reach

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provisioner.cli.options import Common
    from provisioner.report.run import Stage


@click.command("up")
@click.argument("request", type=options.FILE, required=False, metavar="[REQUEST.yaml]")
@click.option("--to", "folder", type=options.FILE, default=Path("out"), show_default=True, metavar="DIR", help="Where files go.")
@click.option("--site", type=options.FILE, metavar="FILE", help="site.yaml: mirrors, proxies, CA, Slurm.")
@click.option("--network", type=click.Choice(["none", "host"]), help="The network of RUN steps; the engine's own when left out.")
@click.option("--user", metavar="UID:GID", help="Test as this user instead of the image's own.")
@options.proof
@options.common
def command(request: Path | None, folder: Path, on: tuple[str, ...], common: Common, **given: object) -> int:
    """Do everything: probe, resolve, lock, render, plan, build, test, report.

    Without a request it takes the shipped example, and without a host a recording of one. It never changes a host.
    """
    from provisioner.flows.prove import Proof
    from provisioner.flows.reporting import keep
    from provisioner.flows.up import Audience, UpAsked, up
    from provisioner.report.run import answer, stage_line

    site = given["site"]
    asked = UpAsked(
        request=request,
        site=site if isinstance(site, Path) else None,
        on=on,
        to=folder,
        force=common.force,
        matrix=common.matrix,
        reach=reach(common),
        proof=Proof(
            tag=options.text(given["tag"]),
            program=str(given["engine"]),
            network=options.network(given["network"]),
            user=options.text(given["user"]),
        ),
    )
    with _progress() as (started, said):

        def ended(stage: Stage) -> None:
            said(stage_line(stage))

        run = up(asked, Audience(said=said, started=started, ended=ended, tell=said if console.progress() else None))
    paths = keep(run, folder)
    if not run.exit and not on and run.lock is not None:
        console.err(f"next: provisioner build {folder} --on HOST, then provisioner test {folder} --on HOST")
    return console.emit(
        answer(run), "".join(f"{path}\n" for path in (*(folder / name for name in run.files), *paths)), as_json=common.json
    )


@contextlib.contextmanager
def _progress() -> Iterator[tuple[options.Tell, options.Tell]]:
    """What tells that a stage began, and what prints a line: with a spinner on a terminal, plainly elsewhere."""
    if not console.progress():
        yield (lambda _: None), console.err
        return
    import rich.console
    import rich.status
    import rich.text

    terminal = rich.console.Console(stderr=True, highlight=False)
    with rich.status.Status("", console=terminal) as status:
        yield (
            (lambda name: status.update(rich.text.Text(f"{name} …"))),
            (lambda line: terminal.print(rich.text.Text(console.clean(line)))),
        )
