"""provisioner explain: every candidate, and each rule that kept or refused it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from provisioner.cli import console, options
from provisioner.cli.asking import decided

if TYPE_CHECKING:
    from provisioner.cli.options import Common
    from provisioner.flows.inputs import Asked


@click.command("explain")
@options.request
@options.common
def command(asked: Asked, common: Common) -> int:
    """Show every candidate build, and each rule that kept or refused it."""
    from provisioner.flows.answers import explain_answer, explain_text
    from provisioner.stack.explain import explain
    from provisioner.values import replace

    matrix, gathered, decision = decided(asked, common)
    if not gathered.unseen:
        decision = replace(decision, candidates=explain(gathered.request, matrix))
    return console.emit(explain_answer(decision, gathered.hosts), explain_text(decision), as_json=common.json)
