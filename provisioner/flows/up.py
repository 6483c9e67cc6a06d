"""up: the straight line from a request to a container that was built and proved, as a list of stages.

Each stage takes what the earlier ones made and adds its own. A stage that fails ends the line: what follows is `not-run`, and
only the report is still written. No stage changes a host: `plan` says what one would need.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import provisioner
from provisioner.errors import ProvisionerError
from provisioner.flows.fleet import Host, Reach, at_once, host_of, targets
from provisioner.flows.inputs import Gathered, matrix_with, read_request, site_of
from provisioner.flows.prove import Proof
from provisioner.report.answer import HOST_EXIT_ORDER
from provisioner.report.run import HostReport, Run, Stage, StageStatus
from provisioner.values import replace, value

if TYPE_CHECKING:
    from collections.abc import Callable

    from provisioner.facts import HostFacts
    from provisioner.files.site import Site
    from provisioner.files.tree import Tree
    from provisioner.findings import Finding
    from provisioner.hosts.inventory import Target
    from provisioner.stack.answer import Decision
    from provisioner.stack.lock import Lock
    from provisioner.stack.matrix import Matrix
    from provisioner.stack.request import Request

    Tell = Callable[[str], None]

T = TypeVar("T")

EXAMPLE = ("examples", "request.yaml")
RECORDING = Path(provisioner.__file__).parent / "data" / "recordings" / "ubuntu2404-rtx5090"
_IS_A_RECORDING = (
    "No host was named, so this is the shipped example on a recording: what the host says is replayed, everything else is "
    "computed now. Name a real one with --on HOST."
)


@value
class UpAsked:
    """What was typed. `request` None: the shipped example."""

    request: Path | None = None
    site: Path | None = None
    on: tuple[str, ...] = ()
    to: Path = Path("out")
    force: bool = False
    matrix: Path | None = None
    reach: Reach = Reach()
    proof: Proof = Proof()


@dataclass
class _Line:
    """What the stages have made so far; the only thing that changes while a run goes on."""

    asked: UpAsked
    matrix: Matrix
    request: Request
    site: Site
    hosts: tuple[Host, ...]
    tell: Tell | None
    facts: dict[str, HostFacts] = field(default_factory=dict)
    decision: Decision | None = None
    lock: Lock | None = None
    tree: Tree | None = None
    findings: list[Finding] = field(default_factory=list)
    reports: dict[str, HostReport] = field(default_factory=dict)

    @property
    def recorded(self) -> bool:
        return any(host.recording for host in self.hosts)

    def note(self, host: str, **changes: object) -> None:
        """Add to what is reported of a host."""
        recording = any(each.name == host and each.recording for each in self.hosts)
        self.reports[host] = replace(self.reports.get(host, HostReport(host=host, recording=recording)), **changes)


@value
class _Done:
    """How a stage ended, where it did not raise. `exit` above 0 with status failed is a bad answer, not an error."""

    status: StageStatus = "passed"
    says: tuple[str, ...] = ()
    exit: int = 0


@value
class Audience:
    """Who is told while a run goes on: what must be known first, that a stage began and ended, lines that a long one makes."""

    said: Tell
    started: Tell
    ended: Callable[[Stage], None]
    tell: Tell | None = None


def up(asked: UpAsked, audience: Audience) -> Run:
    """Run every stage in order."""
    from provisioner.resources import resource

    matrix = matrix_with(asked.matrix)
    request = read_request(asked.request or resource(*EXAMPLE))
    reach = asked.reach
    shipped = asked.request is None and not asked.on
    wanted = _shipped_recording() if shipped else targets(asked.on, reach)
    hosts = tuple(host_of(target, reach, _named(audience.tell)) for target in wanted)
    line = _Line(asked=asked, matrix=matrix, request=request, site=site_of(asked.site), hosts=hosts, tell=audience.tell)
    run = Run(
        id=f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(3)}",
        generator=f"provisioner {provisioner.__version__}",
        said=(_IS_A_RECORDING,) if shipped else (),
    )
    for sentence in run.said:
        audience.said(sentence)
    stages: list[Stage] = []
    try:
        for name, stage in STAGES:
            audience.started(name)
            stages.append(_one(name, stage, line, failed=any(done.status == "failed" for done in stages)))
            audience.ended(stages[-1])
    finally:
        for host in hosts:
            host.runner.close()
    return replace(
        run,
        stages=tuple(stages),
        lock=line.lock,
        findings=tuple(line.findings),
        hosts=tuple(line.reports.values()),
        files=tuple(line.tree.files) if line.tree else (),
    )


def _shipped_recording() -> tuple[Target, ...]:
    from provisioner.hosts.inventory import Target

    return (Target(name=f"recording {RECORDING.name}", kind="replay", folder=str(RECORDING)),)


def _named(tell: Tell | None) -> Callable[[str, str], None] | None:
    return (lambda host, text: tell(f"{host}: {text}")) if tell else None


def _one(name: str, stage: Callable[[_Line], _Done], line: _Line, *, failed: bool) -> Stage:
    if failed:
        return Stage(name=name, status="not-run", says=("an earlier stage failed",))
    start = time.monotonic()
    try:
        done = stage(line)
    except ProvisionerError as error:
        says = (error.message, *((f"what to do: {error.hint}",) if error.hint else ()))
        if tail := getattr(error, "tail", ""):
            says = (*says, *tail.splitlines())
        done = _Done(status="failed", says=says, exit=error.exit)
    return Stage(name=name, status=done.status, seconds=round(time.monotonic() - start, 2), exit=done.exit, says=done.says)


def _probe(line: _Line) -> _Done:
    """Ask every host for its facts."""
    from provisioner.flows.probing import facts_rows, probe_host

    if not line.hosts:
        return _Done(status="skipped", says=("no host was named: --on HOST",))
    line.facts = dict(zip(_names(line), at_once(line.hosts, lambda host: probe_host(host, None)), strict=True))
    for name, facts in line.facts.items():
        line.note(name, facts=facts_rows(facts))
    says = tuple(_host_says(facts) for facts in line.facts.values())
    return _Done(status="replayed" if line.recorded else "passed", says=says)


def _host_says(facts: HostFacts) -> str:
    gpus = facts.gpus.or_none()
    names = ", ".join(dict.fromkeys(gpu.name for gpu in gpus)) if gpus else facts.gpus.why_not or "no GPU"
    driver = facts.driver.or_none()
    system = facts.system.or_none()
    where = system.name if system else "system unknown"
    return f"{facts.host}: {where}, {names}, driver {driver.version if driver else 'none seen'}"


def _resolve(line: _Line) -> _Done:
    """The request becomes a stack; facts of the hosts fill what it leaves free."""
    from provisioner.flows.answers import decide, decision_findings
    from provisioner.flows.checks import differences
    from provisioner.flows.files import stack_of
    from provisioner.stack.request import request_of_facts

    if not line.request.gpus and not line.request.pool and line.facts:
        line.request = request_of_facts(tuple(line.facts.values()), line.matrix, line.request)
    decision = decide(Gathered(request=line.request, named_site=line.site), line.matrix)
    line.decision = decision
    line.findings += decision_findings(decision)
    if len(decision.shares) > 1:
        stack_of(decision)  # raises, and says which stacks there are and how to lock each
    if decision.stack is None:
        says = tuple(refusal.fact for refusal in decision.refusals[:3]) or ("nothing to build: the request names no framework",)
        remedies = tuple(f"works: {remedy.text}" for remedy in decision.remedies[:3])
        return _Done(status="failed", says=says + remedies, exit={"conflict": 4, "unknown": 8}.get(decision.verdict, 4))
    stack = decision.stack
    drivers = {served.driver for share in decision.shares for served in share.members}
    differs = [found for facts in line.facts.values() for found in differences(stack, facts, drivers)]
    line.findings += differs
    built = f"{stack.framework} {stack.version} {stack.variant}"
    first = f"{built}, Python {stack.python}, {stack.image.reference}, {stack.compatibility}"
    notes = (f"note: {note.fact}" for note in decision.notes)
    return _Done(says=(first, *(f"warning: {found.message}" for found in differs), *notes))


def _lock(line: _Line) -> _Done:
    """The stack becomes a lock, with hashes where the index answers."""
    from provisioner.flows.files import lock_of, not_pinned

    if line.decision is None:
        return _Done(status="skipped", says=("no stack",))
    gathered = Gathered(request=line.request, named_site=line.site)
    line.lock = lock_of(line.decision, gathered, line.matrix, hashes=True, tell=line.tell)
    pins = line.lock.pins
    if unpinned := not_pinned(line.lock, gathered, line.matrix):
        line.findings.append(unpinned)
    if pins.why_not:
        return _Done(says=(f"packages are not pinned: {pins.why_not}",))
    return _Done(says=(f"{len(pins.packages)} packages pinned with hashes",))


def _render(line: _Line) -> _Done:
    """The lock becomes files."""
    from provisioner.files.tree import write_tree
    from provisioner.flows.files import render_tree

    if line.lock is None:
        return _Done(status="skipped", says=("no lock",))
    line.tree, said = render_tree(line.lock, line.site, line.matrix)
    write_tree(line.tree, line.asked.to, force=line.asked.force)
    return _Done(says=(f"{len(line.tree.files)} files in {line.asked.to}/", *said))


def _plan(line: _Line) -> _Done:
    """What each host would still need; nothing of it is done."""
    from provisioner.flows.planning import Plans, plan_host
    from provisioner.hosts.plan import plan_text

    if line.lock is None or line.lock.stack.cuda is None:
        return _Done(status="skipped", says=("a CPU stack needs nothing of its host but an engine",))
    if not line.hosts:
        return _Done(status="skipped", says=("no host was named",))
    wanted = Plans(lock=line.lock)
    says: list[str] = []
    refusals: list[Finding] = []
    for name, plans in zip(_names(line), at_once(line.hosts, lambda host: plan_host(host, wanted)), strict=True):
        line.note(name, plan="\n".join(plan_text(plan) for plan in plans))
        steps = sum(len(plan.steps) for plan in plans)
        refused = [refusal.message for plan in plans for refusal in plan.refusals]
        refusals += [refusal for plan in plans for refusal in plan.refusals]
        says.append(f"{name}: {'; '.join(refused) if refused else f'{steps} steps to do' if steps else 'nothing to do'}")
    line.findings += refusals
    if refusals:
        return _Done(status="failed", says=tuple(says), exit=7)
    return _Done(status="replayed" if line.recorded else "passed", says=tuple(says))


def _build(line: _Line) -> _Done:
    """Each host builds the image; the context travels on standard input."""
    from provisioner.flows.prove import build_on, keep_validation

    why = _not_on_a_machine(line, "builds")
    if why or line.tree is None or line.lock is None:
        return _Done(status="skipped", says=(why or "no tree",))
    tree, lock, site = line.tree, line.lock, line.site
    images = at_once(line.hosts, lambda host: build_on(host.runner, tree, lock, site, line.asked.proof, tell=host.tell))
    for name, image in zip(_names(line), images, strict=True):
        line.note(name, image=f"{image.reference} {image.id}")
        keep_validation(line.asked.to, lock, {"by": "build", "host": name, "status": "pass", "image": image})
    return _Done(says=tuple(f"{name}: {image.reference}" for name, image in zip(_names(line), images, strict=True)))


def _test(line: _Line) -> _Done:
    """The smoke test runs in a container on each host."""
    from provisioner.flows.prove import checks_answer, keep_validation, prove_on
    from provisioner.proof.build import default_tag

    why = _not_on_a_machine(line, "tests")
    if why or line.lock is None:
        return _Done(status="skipped", says=(why or "no lock",))
    lock, proof = line.lock, line.asked.proof
    image = proof.tag or default_tag(lock)
    results = at_once(
        line.hosts, lambda host: prove_on(host.runner, image, lock, line.facts.get(host.name), proof, tell=host.tell)
    )
    says, codes = [], set()
    for name, checks in zip(_names(line), results, strict=True):
        answer = checks_answer(checks)
        line.note(name, checks=checks, findings=answer.findings)
        keep_validation(line.asked.to, lock, {"by": "test", "host": name, "image": image, "checks": checks})
        codes.add(answer.code)
        bad = [f"{check.name}: {check.message}" for check in checks if check.status not in {"pass", "skip"}]
        counts = Counter(check.status for check in checks)
        told = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
        says.append(f"{name}: checks: {told}" + (f"; {'; '.join(bad)}" if bad else ""))
    code = next(code for code in HOST_EXIT_ORDER if code in codes)
    return _Done(status="failed" if code else "passed", says=tuple(says), exit=code)


def _not_on_a_machine(line: _Line, what: str) -> str | None:
    if not line.hosts:
        return f"no host was named: --on local {what} here, --on HOST over SSH"
    return f"a recording {what} nothing: --on HOST" if line.recorded else None


def _names(line: _Line) -> tuple[str, ...]:
    return tuple(host.name for host in line.hosts)


#: The line itself.
STAGES: tuple[tuple[str, Callable[[_Line], _Done]], ...] = (
    ("probe", _probe),
    ("resolve", _resolve),
    ("lock", _lock),
    ("render", _render),
    ("plan", _plan),
    ("build", _build),
    ("test", _test),
)
