"""provisioner diagnose: why the GPU cannot be used, from what programs printed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from provisioner.cli import console, options

if TYPE_CHECKING:
    from provisioner.cli.options import Common

_HELP = """Say what is wrong from pasted console text, kernel logs, nvidia-smi, tracebacks, or nvidia-bug-report.log.gz.

\b
sudo dmesg | provisioner diagnose
provisioner diagnose nvidia-bug-report.log.gz train.log
"""


@click.command("diagnose", help=_HELP)
@click.argument("files", nargs=-1, metavar="[FILE...|-]", type=click.Path(path_type=Path, allow_dash=True))
@options.common
def command(files: tuple[Path, ...], common: Common) -> int:
    """Say what is wrong from what programs printed."""
    from provisioner.flows.diagnosing import diagnose, diagnose_text

    answer = diagnose(files)
    return console.emit(answer, diagnose_text(answer), as_json=common.json)
