"""The command line: one file a verb, no decisions. A verb is loaded when it is used."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from provisioner.errors import ProvisionerError

if TYPE_CHECKING:
    from collections.abc import Sequence

INTERRUPTED = 130


def run(arguments: Sequence[str]) -> int:  # noqa: PLR0911 - one exit for each way that a command ends
    """Run one command line and return its exit code; every error becomes one message, or one JSON object under --json."""
    import click

    from provisioner.cli import console
    from provisioner.cli.group import group

    as_json = "--json" in arguments
    try:
        code = group.main(args=list(arguments), prog_name="provisioner", standalone_mode=False)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except (click.Abort, KeyboardInterrupt):
        console.err("interrupted")
        return INTERRUPTED
    except click.UsageError as mistake:
        return console.usage(mistake, as_json=as_json)
    except ProvisionerError as error:
        return console.fail(error, as_json=as_json)
    except BrokenPipeError:  # `provisioner … | head`: the reader has what it wanted
        console.drop_stdout()
        return 0
    except Exception as bug:  # noqa: BLE001 - the last line of defence: a bug says that it is one
        return console.bug(bug, as_json=as_json)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        console.drop_stdout()
    return int(code or 0)
