"""Printing of what several hosts answered: each under its name, nothing of one hidden by another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provisioner.cli import console

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from provisioner.cli.options import Common
    from provisioner.flows.fleet import Host, Reach
    from provisioner.report.answer import Answer


def reach(common: Common) -> Reach:
    """How the command line says that hosts are reached."""
    from provisioner.flows.fleet import Reach

    return Reach(
        inventory=common.inventory,
        ssh_config=common.ssh_config,
        known_hosts=common.known_hosts,
        accept_new_host_keys=common.accept_new_host_keys,
        fingerprints=common.fingerprints,
        said=console.err,
    )


def each(
    names: Sequence[str],
    common: Common,
    one: Callable[[Host], Answer],
    text: Callable[[Answer], str],
    *,
    show_progress: bool = True,
) -> int:
    """Do `one` on each host (on this machine when none is named), print the answers, return the exit code."""
    from provisioner.flows.fleet import on_each, together
    from provisioner.report.text import findings

    tell = (lambda host, line: console.err(f"{host}: {line}")) if show_progress and console.progress() else None
    answers = on_each(names or ("local",), reach(common), one, tell=tell)
    several = len(answers) > 1
    if not common.json:
        for name, answer in answers.items():
            if "error" in answer.fields:
                console.err(f"provisioner: {findings(answer.findings).rstrip()}")
                continue
            console.out((f"== {name}\n" if several else "") + text(answer))
    return console.emit(together(answers), "", as_json=common.json)
