"""provisioner lock: the answer of `resolve` as stack.lock.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from provisioner.cli import console, options

if TYPE_CHECKING:
    from provisioner.cli.options import Common
    from provisioner.flows.inputs import Asked


@click.command("lock")
@options.request
@click.option("--hashes", is_flag=True, help="Pin the whole dependency set with hashes (asks the package index).")
@click.option("--member", metavar="NAME", help="Of a pool that needs several stacks: lock the one of this member.")
@click.option("-o", "--output", type=options.FILE, default=Path("stack.lock.yaml"), show_default=True, metavar="FILE")
@options.common
def command(asked: Asked, hashes: bool, member: str | None, output: Path, common: Common) -> int:  # noqa: FBT001 - click's flag
    """Write the resolved stack to stack.lock.yaml: portable, no address, no secret, no timestamp."""
    from provisioner.flows.answers import decide, decision_answer, decision_text
    from provisioner.flows.files import for_member, lock_of
    from provisioner.flows.inputs import gather, matrix_with
    from provisioner.flows.output import write_file
    from provisioner.report.answer import Answer
    from provisioner.stack.lock import lock_text

    matrix = matrix_with(common.matrix)
    gathered = gather(asked, matrix)
    for sentence in gathered.said:
        console.err(sentence)
    decision = for_member(decide(gathered, matrix, offline=asked.offline), member)
    answer = decision_answer(decision, gathered.hosts)
    if decision.stack is None:
        return console.emit(answer, decision_text(decision), as_json=common.json)
    lock = lock_of(decision, gathered, matrix, hashes=hashes, tell=console.err if console.progress() else None)
    write_file(output, lock_text(lock), force=common.force)
    text = decision_text(decision) + f"\nwritten: {output} ({_pinned(len(lock.pins.packages), lock.pins.why_not)})\n"
    fields = {**answer.fields, "file": str(output), "pins": lock.pins}
    return console.emit(Answer(verdict=answer.verdict, findings=answer.findings, fields=fields), text, as_json=common.json)


def _pinned(count: int, why_not: str | None) -> str:
    return f"no package pinned: {why_not}" if why_not else f"{count} packages pinned with hashes"
