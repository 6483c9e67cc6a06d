"""resolve and explain: from a gathered request to an answer that can be printed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from provisioner.findings import Finding
from provisioner.report import text
from provisioner.report.answer import Answer
from provisioner.report.stack import stack_json
from provisioner.values import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from provisioner.files.site import Site
    from provisioner.flows.inputs import Gathered
    from provisioner.stack.answer import Decision, Note
    from provisioner.stack.lock import Candidate, Refusal
    from provisioner.stack.matrix import Matrix
    from provisioner.stack.rows import Variant

_HEADLINE = {
    "conflict": "No stack satisfies this request.",
    "unknown": "The data do not reach that far, so this is neither a yes nor a no.",
}
_OPEN = "The question is open, so this is neither a yes nor a no."


def decide(gathered: Gathered, matrix: Matrix, *, offline: bool = False) -> Decision:
    """The resolver's decision over a gathered request.

    A build that only a document names is chosen only where its index confirms it; offline nothing is asked, and it ranks last.
    """
    from provisioner.stack.resolve import decide as decide_request

    if gathered.unseen:
        return _open_question(gathered.unseen)
    from provisioner.flows.images import look_into

    request, rows, said = look_into(gathered.request, matrix)
    decision = decide_request(request, rows, confirmed=None if offline else _confirmer(gathered, matrix))
    return replace(decision, notes=(_looked(said), *decision.notes)) if said else decision


def _looked(said: str) -> Note:
    from provisioner.stack.answer import Note

    return Note(rule="image-known", finding="image-looked-into", fact=said)


def _open_question(why: str) -> Decision:
    """Nothing was named and this machine cannot say: the question stays open, and says what closes it."""
    from provisioner.findings import Remedy
    from provisioner.stack.answer import Decision
    from provisioner.stack.lock import Refusal

    remedies = (
        Remedy(text="name the GPU of the hosts: --gpu h100 --driver 550"),
        Remedy(text="give what the hosts say: --facts facts.json, or pasted nvidia-smi by --facts -"),
        Remedy(text="ask for the CPU build: --gpu none"),
    )
    return Decision(verdict="unknown", refusals=(Refusal(rule="gpu", finding="no-gpu-named", fact=why, remedies=remedies),))


def _confirmer(gathered: Gathered, matrix: Matrix) -> Callable[[Variant], bool | None]:
    """Ask an index, once for each build, whether it has a build that only a document names; None where it does not answer."""

    def confirm(variant: Variant) -> bool | None:
        import os

        from provisioner.edges.index import Access, has_build
        from provisioner.files.site import NO_INDEX, index_address, read_address

        site, addresses = gathered.site, index_addresses(matrix)
        address = index_address(site, variant.index, addresses.get(variant.index))
        if address == NO_INDEX:
            return None
        return has_build(
            variant.framework,
            str(variant.version),
            variant.tag,
            variant.platform,
            address=read_address(address, os.environ) if address else None,
            access=Access(ca=site.ca_pem, proxies=proxies_of(site)),
        )

    return confirm


def proxies_of(site: Site) -> Mapping[str, str]:
    """The site's proxies by scheme, read from the environment where the site says so."""
    import os

    from provisioner.files.site import read_address

    named = (("http", site.proxies.http), ("https", site.proxies.https), ("no", site.proxies.no))
    return {scheme: read_address(text, os.environ) for scheme, text in named if text}


def index_addresses(matrix: Matrix) -> Mapping[str, str | None]:
    """Symbolic index id → address; None stands for the client's own default."""
    return {row.id: row.url for row in matrix.indexes}


def decision_answer(decision: Decision, hosts: Sequence[str] = ()) -> Answer:
    """The decision as an answer: `stack`, `stacks`, `alternatives`, refusals and notes as findings.

    `hosts` are those whose facts made a request without a pool; the hosts of a pool stand in its decision.
    """
    from provisioner.report.pool import alternatives_json, shares_json

    found = decision.stack
    stacks = shares_json(decision.shares)
    if not stacks and found is not None:
        stacks = [{"stack": stack_json(found), "gpus": list(found.gpus), "hosts": list(hosts), "members": []}]
    fields: dict[str, Any] = {"stacks": stacks, "stack": stack_json(found) if found else None}
    fields["alternatives"] = alternatives_json(decision.alternatives)
    return Answer(verdict=decision.verdict, findings=decision_findings(decision), fields=fields)


def explain_answer(decision: Decision, hosts: Sequence[str] = ()) -> Answer:
    """As `decision_answer`, with every candidate and each rule that refused it."""
    answer = decision_answer(decision, hosts)
    listed = [_candidate_json(candidate) for candidate in decision.candidates]
    return Answer(verdict=answer.verdict, findings=answer.findings, fields={**answer.fields, "candidates": listed})


def decision_findings(decision: Decision) -> tuple[Finding, ...]:
    """Refusals and notes as findings, severity by the registry."""
    return (*map(_finding, decision.refusals), *map(_finding, decision.notes))


def _finding(entry: Refusal | Note) -> Finding:
    """A refusal has the severity of its row; a note neither refuses nor passes, and is information whatever its row says."""
    from provisioner.stack.answer import Note

    if isinstance(entry, Note):  # without a look at its row: that a stack was found must not wait for the registry
        return Finding(id=entry.finding, rule=entry.rule, severity="info", message=entry.fact, because=tuple(entry.because))
    from provisioner.knowledge.registry import finding

    return finding(entry.finding, entry.fact, because=entry.because, remedies=entry.remedies, rule=entry.rule)


def _candidate_json(candidate: Candidate) -> dict[str, Any]:
    refused = [
        {"rule": refusal.rule, "fact": refusal.fact, "source": "; ".join(str(reason) for reason in refusal.because)}
        for refusal in candidate.refused_by
    ]
    return {"version": str(candidate.version), "variant": candidate.variant, "kept": candidate.kept, "refused_by": refused}


def decision_text(decision: Decision) -> str:
    """The decision for a terminal."""
    notes = "".join(f"note: {note.fact}\n" for note in decision.notes if note.finding != "pool-alternative")
    if decision.shares:
        from provisioner.report.pool import pool

        return notes + pool(decision.shares, decision.alternatives)
    if decision.verdict != "ok":
        asked_nothing = any(refusal.finding == "no-gpu-named" for refusal in decision.refusals)
        return text.refusals(decision.refusals, _OPEN if asked_nothing else _HEADLINE[decision.verdict]) + notes
    if decision.stack is None:
        return "ok: the named parts fit together\n" + notes
    return notes + text.stack(decision.stack)


def explain_text(decision: Decision) -> str:
    """Every candidate, then the decision."""
    return text.candidates(decision.candidates) + "\n" + decision_text(decision)
