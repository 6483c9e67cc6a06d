"""What resolve, explain and lock begin with: the request that was typed, and the decision over it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provisioner.cli import console

if TYPE_CHECKING:
    from provisioner.cli.options import Common
    from provisioner.flows.inputs import Asked, Gathered
    from provisioner.stack.answer import Decision
    from provisioner.stack.matrix import Matrix


def decided(asked: Asked, common: Common) -> tuple[Matrix, Gathered, Decision]:
    """The matrix, the gathered request and the decision; where the request came from is said on standard error."""
    from provisioner.flows.answers import decide
    from provisioner.flows.inputs import gather, matrix_with

    matrix = matrix_with(common.matrix)
    gathered = gather(asked, matrix)
    for sentence in gathered.said:
        console.err(sentence)
    return matrix, gathered, decide(gathered, matrix, offline=asked.offline)
