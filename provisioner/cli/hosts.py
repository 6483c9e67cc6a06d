"""Printing of what several hosts answered: each under its name, nothing of one hidden by another."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from provisioner.cli import console

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

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


#: What HOST may be, in the help of the verbs that take it.
HOSTS = """HOST is a name or a group of the inventory (all: every host of it), a name of ~/.ssh/config, a range (gpu[01-04]),
    user@address[:port], local, or replay:FOLDER for a recording (replay:NAME for one that comes with the tool)."""


def told_recorded(record: Path, verb: str, hosts: Sequence[str]) -> None:
    """Say where recordings were put, and how each is replayed."""
    from provisioner.flows.probing import recording_of

    for host in hosts:
        folder = recording_of(record, host)
        console.err(f"recorded: {folder} (replay it: provisioner {verb} {shlex.quote(f'replay:{folder}')})")


def each(
    names: Sequence[str],
    common: Common,
    one: Callable[[Host], Answer],
    text: Callable[[Answer], str],
    *,
    show_progress: bool = True,
    whole: Callable[[Mapping[str, Answer]], str] | None = None,
) -> int:
    """Do `one` on each host (on this machine when none is named), print the answers, return the exit code.

    `whole` prints the hosts that answered together, where their answers may be alike; else `text` prints each.
    """
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
            if whole is None:
                console.out((f"== {name}\n" if several else "") + text(answer))
        if whole is not None:
            console.out(whole({name: answer for name, answer in answers.items() if "error" not in answer.fields}))
    return console.emit(together(answers), "", as_json=common.json)
