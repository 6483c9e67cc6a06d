"""provisioner resolve: one consistent stack for a request, or why there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from provisioner.cli import console, options
from provisioner.cli.asking import decided

if TYPE_CHECKING:
    from provisioner.cli.options import Common
    from provisioner.flows.inputs import Asked


# \b is click's mark for lines that stay as they are
_HELP = """Resolve one consistent stack: build, CUDA, cuDNN, Python, base image.

\b
provisioner resolve torch==2.9.1 --gpu h100 --driver 535.183.01
nvidia-smi | provisioner resolve torch --facts -
"""


@click.command("resolve", help=_HELP)
@options.request
@options.common
def command(asked: Asked, common: Common) -> int:
    """Resolve one consistent stack: build, CUDA, cuDNN, Python, base image."""
    from provisioner.flows.answers import decision_answer, decision_text

    _, gathered, decision = decided(asked, common)
    return console.emit(decision_answer(decision, gathered.hosts), decision_text(decision), as_json=common.json)
