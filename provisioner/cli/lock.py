"""provisioner lock: the answer of `resolve` as stack.lock.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from provisioner.cli import console, options
from provisioner.cli.asking import decided

if TYPE_CHECKING:
    from provisioner.cli.options import Common
    from provisioner.findings import Finding
    from provisioner.flows.inputs import Asked


@click.command("lock")
@options.request
@click.option("--hashes", is_flag=True, help="Pin the whole dependency set with hashes (asks the package index).")
@click.option("--member", metavar="NAME", help="Of a pool that needs several stacks: lock the one of this member.")
@click.option("-o", "--output", type=options.FILE, default=Path("stack.lock.yaml"), show_default=True, metavar="FILE")
@options.common
def command(asked: Asked, hashes: bool, member: str | None, output: Path, common: Common) -> int:  # noqa: FBT001 - click's flag
    """Write the resolved stack to stack.lock.yaml: portable, no address, no secret, no timestamp."""
    from provisioner.errors import UsageError
    from provisioner.flows.answers import decision_answer, decision_text
    from provisioner.flows.files import for_member, lock_of, not_pinned
    from provisioner.flows.output import write_file
    from provisioner.report.answer import Answer
    from provisioner.stack.lock import lock_text

    if hashes and asked.offline:
        raise UsageError("--hashes asks the package index, --offline forbids it", hint="leave one of them out")
    matrix, gathered, decision = decided(asked, common)
    decision = for_member(decision, member)
    answer = decision_answer(decision, gathered.hosts)
    if decision.stack is None:
        return console.emit(answer, decision_text(decision), as_json=common.json)
    lock = lock_of(decision, gathered, matrix, hashes=hashes, tell=console.err if console.progress() else None)
    bare = not_pinned(lock, gathered, matrix) if hashes else None
    if bare is not None:  # a lock that lacks what was asked for is not written: nobody would look into it again
        answer = Answer(
            verdict="unknown", findings=(bare, *answer.findings), fields={**answer.fields, "file": None, "pins": lock.pins}
        )
        return console.emit(answer, _unwritten(bare, output), as_json=common.json)
    write_file(output, lock_text(lock), force=common.force)
    text = decision_text(decision) + f"\nwritten: {output} ({_pinned(len(lock.pins.packages), lock.pins.why_not)})\n"
    fields = {**answer.fields, "file": str(output), "pins": lock.pins}
    return console.emit(Answer(verdict=answer.verdict, findings=answer.findings, fields=fields), text, as_json=common.json)


def _unwritten(bare: Finding, output: Path) -> str:
    works = "".join(f"  what to do: {remedy.text}\n" for remedy in bare.remedies)
    return f"{bare.message}\n{works}{output} was not written.\n"


def _pinned(count: int, why_not: str | None) -> str:
    return f"no package pinned: {why_not}" if why_not else f"{count} packages pinned with hashes"
