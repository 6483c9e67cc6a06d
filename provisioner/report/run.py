"""One run of `up`: its stages in order with their honest status, and the report of it in Markdown, JSON and on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from provisioner.findings import CheckResult, Finding, Verdict
from provisioner.report.answer import Answer, plain
from provisioner.stack.lock import Lock
from provisioner.values import value

if TYPE_CHECKING:
    from collections.abc import Iterable

#: passed: it was done. replayed: done with a host's recorded answers. skipped: there was nothing to do it on, `says` tells why.
#: failed: it was tried, see `exit`. not-run: an earlier stage failed.
StageStatus = Literal["passed", "replayed", "skipped", "failed", "not-run"]


@value
class Stage:
    """One stage of a run. `exit` is the code that it would give the command; `says` what a reader must know of it."""

    name: str
    status: StageStatus
    seconds: float = 0.0
    exit: int = 0
    says: tuple[str, ...] = ()


@value
class HostReport:
    """What one host said and did: findings, and the checks that ran in the container on it."""

    host: str
    recording: bool = False
    facts: tuple[tuple[str, str], ...] = ()  # label, text
    plan: str = ""
    image: str = ""
    findings: tuple[Finding, ...] = ()
    checks: tuple[CheckResult, ...] = ()


@value
class Run:
    """A whole run. `said` stands at the top of every report: that the host is a recording, where the request came from."""

    id: str
    generator: str
    said: tuple[str, ...] = ()
    stages: tuple[Stage, ...] = ()
    lock: Lock | None = None
    findings: tuple[Finding, ...] = ()
    hosts: tuple[HostReport, ...] = ()
    files: tuple[str, ...] = ()

    @property
    def exit(self) -> int:
        """The exit of the first failed stage, else 0."""
        return next((stage.exit for stage in self.stages if stage.status == "failed"), 0)

    @property
    def verdict(self) -> Verdict:
        """What the run says of the request: ok where every stage that could run did."""
        by_exit: dict[int, Verdict] = {0: "ok", 4: "conflict", 7: "fault"}
        return by_exit.get(self.exit, "unknown")


def answer(run: Run) -> Answer:
    """The run as the object that `--json` prints."""
    from provisioner.report.stack import stack_json

    found = stack_json(run.lock.stack) if run.lock else None
    hosts = [_host_json(host) for host in run.hosts]
    fields: dict[str, Any] = {"run": run.id, "generator": run.generator, "said": run.said, "stages": run.stages}
    fields |= {"stack": found, "hosts": hosts, "files": run.files}
    every = (*run.findings, *(finding for host in run.hosts for finding in host.findings))
    return Answer(verdict=run.verdict, findings=every, exit=run.exit, fields=fields)


def _host_json(host: HostReport) -> dict[str, Any]:
    failed = any(check.status in {"fail", "warn"} for check in host.checks)
    whole: dict[str, Any] = plain(host)
    return {**whole, "facts": dict(host.facts), "verdict": "fault" if failed else "ok", "error": None}


def stage_line(stage: Stage) -> str:
    """`passed    render      0.1 s  12 files in out/`: one stage for a terminal."""
    seconds = f"{stage.seconds:6.1f} s" if stage.status not in {"skipped", "not-run"} else "        "
    says = f"  {stage.says[0]}" if stage.says else ""
    rest = "".join(f"\n{'':32}{sentence}" for sentence in stage.says[1:])
    return f"{stage.status:<10}{stage.name:<10}{seconds}{says}{rest}"


def markdown(run: Run) -> str:
    """The report for people: what was asked, what was chosen and why, what each stage did, what each host showed."""
    parts = [f"# GPU environment report\n\n{run.generator}, run `{run.id}`\n"]
    parts += [f"> **Note.** {sentence}\n" for sentence in run.said]
    parts.append(_table(("stage", "status", "seconds", "what it says"), (_stage_row(stage) for stage in run.stages)))
    if run.lock:
        parts.append(_stack_section(run.lock))
    if run.findings:
        parts.append("## Findings\n\n" + _findings(run.findings))
    parts += [_host_section(host) for host in run.hosts]
    if run.files:
        parts.append("## Files\n\n" + "\n".join(f"- `{name}`" for name in run.files) + "\n")
    return "\n".join(parts)


def _stage_row(stage: Stage) -> tuple[str, ...]:
    return stage.name, stage.status, f"{stage.seconds:.1f}", " ".join(stage.says)


def _stack_section(lock: Lock) -> str:
    from provisioner.report import text

    stack = lock.stack
    rows = [
        ("framework", f"{stack.framework} {stack.version}, build `{stack.variant}` from `{stack.index}`"),
        ("CUDA, cuDNN", f"{stack.cuda or 'none'}, {stack.cudnn or 'none'}"),
        ("Python, platform", f"{stack.python}, {stack.platform}"),
        ("base image", f"`{stack.image.reference}`"),
        ("for", ", ".join(stack.gpus) or ("no GPU" if stack.compatibility == "none" else "any GPU")),
        ("driver", f"asked {stack.driver}, at least {stack.min_driver}" if stack.min_driver else "none is needed"),
        ("mode", stack.compatibility),
        ("size", text.size(stack.size) if stack.size else "not known"),
        ("packages", f"{len(lock.pins.packages)} pinned, {'with' if lock.pins.hashed else 'without'} hashes"),
    ]
    if lock.pins.why_not:
        rows.append(("not pinned", lock.pins.why_not))
    reasons = "\n".join(f"- {_cell(str(reason))}" for reason in stack.because)
    excludes = "".join(f"- {_cell(sentence)}\n" for sentence in stack.excludes)
    return (
        "## Stack\n\n"
        + _table(("", ""), rows)
        + f"\n```sh\n{stack.command}\n```\n\n### Why\n\n{reasons}\n"
        + (f"\n### What this mode excludes\n\n{excludes}" if excludes else "")
    )


def _host_section(host: HostReport) -> str:
    kind = " (a recording, not a machine)" if host.recording else ""
    parts = [f"## Host {host.host}{kind}\n"]
    if host.facts:
        parts.append(_table(("fact", "answer"), host.facts))
    if host.plan:
        parts.append(f"### What it still needs\n\n```text\n{host.plan.rstrip()}\n```\n")
    if host.image:
        parts.append(f"Image built: `{host.image}`\n")
    if host.checks:
        rows = ((check.name, check.status, check.message) for check in host.checks)
        parts.append("### Checks in the container\n\n" + _table(("check", "status", "what it says"), rows))
    if host.findings:
        parts.append("### Findings\n\n" + _findings(host.findings))
    return "\n".join(parts)


def _findings(found: Iterable[Finding]) -> str:
    lines: list[str] = []
    for entry in found:
        lines.append(f"- **{entry.severity}** {_cell(entry.message)} (`{entry.id}`)")
        lines += [f"  - {_cell(remedy.text)}" for remedy in entry.remedies]
    return "\n".join(lines) + "\n"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [" | ".join(head), " | ".join("---" for _ in head), *(" | ".join(map(_cell, row)) for row in rows)]
    return "\n".join(f"| {line} |" for line in lines) + "\n"


def _cell(text: str) -> str:
    """Text that stays inside its cell, whatever a host said: no line feed, no bar, no markup of its own."""
    flat = " ".join(text.split())
    return flat.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("[", "\\[")
