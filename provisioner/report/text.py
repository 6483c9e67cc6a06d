"""Answers as plain text for a terminal, a log or a ticket: no colour, so that nothing hangs on it."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from provisioner.findings import Because, CheckResult, Finding, Remedy
    from provisioner.stack.lock import Candidate, Refusal, Size, Stack

_WIDTH = 118
_SOURCE = 100  # a source longer than this is cut where a line is read; nothing is cut in JSON
_MODE = {
    "native": "native: the driver is as new as the build's CUDA",
    "minor-version": "minor version compatibility: the driver is older than the build's CUDA, of the same CUDA major",
    "forward": "forward compatibility: cuda-compat in the image stands in for a newer driver (data-centre GPUs only)",
    "none": "no GPU: this is the CPU build",
}


def stack(found: Stack) -> str:
    """A stack as `resolve` prints it: what was chosen, for what, why, and last the one command to type."""
    head = [f"{found.framework} {found.version}", found.variant]
    head += [f"CUDA {found.cuda}"] if found.cuda else []
    head += [f"cuDNN {found.cudnn}"] if found.cudnn else []
    head += [f"Python {found.python}", found.platform]
    lines = [" · ".join(head)]
    rows = [("for", _target(found)), ("mode", _mode(found))]
    rows.append(("image", f"{found.image.reference} ({found.image.flavour})"))
    if found.min_driver:
        flavours = " or ".join(found.kernel_modules) or "any"
        last = f", branch {found.last_driver} at most (the last that drives them)" if found.last_driver else ""
        rows.append(("driver", f">= {found.min_driver}{last}, {flavours} kernel modules"))
    if found.driver == "upgrade" and found.driver_branch:
        flavours = " or ".join(found.kernel_modules) or "any"
        rows.append(("install", f"driver branch {found.driver_branch} with the {flavours} kernel modules"))
    if found.published == "named":
        rows.append(("note", "a document names this build, nobody was seen using it: confirm that the index has it"))
    if found.size:
        rows.append(("size", size(found.size)))
    rows += [("limits" if not index else "", sentence) for index, sentence in enumerate(found.excludes)]
    rows += [("allowed", f"rule {rule} was overridden by --allow") for rule in found.allowed]
    rows += [("because" if not index else "", shown(reason)) for index, reason in enumerate(found.because)]
    lines += _table(rows)
    return "\n".join([*lines, "", found.command]) + "\n"


def _mode(found: Stack) -> str:
    if found.driver == "any" and found.compatibility == "minor-version":
        return f"minor version compatibility from driver {found.min_driver} on; the limits say from which one on it is native"
    return _MODE[found.compatibility]


def shown(reason: Because) -> str:
    """A reason with the row that says it, for `provisioner matrix show ROW`, which names the documents in full."""
    row, colon, _ = reason.source.partition(": ")
    return f"{reason.fact} [{row}]" if colon else brief(reason)


def brief(reason: Because) -> str:
    """A reason with the row it stands in and the first of its documents; the whole list is in `--json` and in the report."""
    first, _, others = reason.source.partition("; ")
    more = f" and {others.count('; ') + 1} more" if others else ""
    if len(first) > _SOURCE:
        first = first[: first.rfind(" ", 0, _SOURCE)].rstrip(",;: ") + " …"
    return f"{reason.fact} [{first}{more}]"


def size(found: Size) -> str:
    """`4.1 GB to download, 7.2 GB on disk (measured: …); 3.0 GB of it are CUDA libraries: …`."""
    disk = f", {_gb(found.unpacked)} on disk" if found.unpacked is not None else ""
    twice = (
        f"; {_gb(found.cuda)} of the download are CUDA libraries: a CUDA base image would hold them twice" if found.cuda else ""
    )
    return f"{_gb(found.download)} to download{disk} ({found.basis}){twice}"


def _gb(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.0f} MB"  # noqa: PLR2004 - 0.1 GB and up read as GB


def _target(found: Stack) -> str:
    if not found.capabilities:
        return "no GPU" if found.compatibility == "none" else "any GPU that the build has code for"
    targets = ", ".join(f"{capability.sm}" for capability in found.capabilities)
    names = ", ".join(found.gpus)
    driver = "any driver that is new enough" if found.driver == "any" else f"driver {found.driver}"
    return f"{names} ({targets}), {driver}" if names else f"{targets}, {driver}"


def refusals(found: Sequence[Refusal], headline: str) -> str:
    """Why there is no stack: each rule that said no with its source, then what helps, the first remedy first."""
    lines = [headline]
    for refusal in found:
        lines += _wrap(f"{refusal.rule}: {refusal.fact}", "  - ", "    ")
        lines += [line for reason in refusal.because for line in _wrap(f"source: {brief(reason)}", "    ", "      ")]
    remedies = unique(remedy for refusal in found for remedy in refusal.remedies)
    if remedies:
        proved = all(remedy.changes for remedy in remedies)
        lines += ["", "What works (each was resolved again):" if proved else "What helps:"]
        lines += [line for remedy in remedies for line in _remedy(remedy)]
    return "\n".join(lines) + "\n"


def unique(remedies: Iterable[Remedy]) -> list[Remedy]:
    """The remedies in their order, each text once: several rules may be cured by the same change."""
    seen: dict[str, Remedy] = {}
    for remedy in remedies:
        seen.setdefault(remedy.text, remedy)
    return list(seen.values())


def _remedy(remedy: Remedy) -> Iterator[str]:
    yield from _wrap(remedy.text, "  * ", "    ")
    for command in remedy.commands:
        yield f"      {command}"


def candidates(found: Sequence[Candidate]) -> str:
    """Every build that was considered: kept, or each rule that refused it."""
    lines: list[str] = []
    for candidate in found:
        head = f"{candidate.version}+{candidate.variant}"
        if candidate.kept:
            lines.append(f"kept     {head}")
            continue
        lines.append(f"refused  {head}")
        for refusal in candidate.refused_by:
            lines += _wrap(f"{refusal.rule}: {refusal.fact}", "         - ", "           ")
    return "\n".join(lines) + "\n"


def findings(found: Sequence[Finding]) -> str:
    """Findings with severity, evidence, reasons and remedies, each under the other."""
    lines: list[str] = []
    for entry in found:
        lines += _wrap(f"{entry.severity}: {entry.message} [{entry.id}]", "", "  ")
        for seen in entry.evidence:
            place = f"{seen.file}:{seen.line}: " if seen.file and seen.line else f"{seen.file}: " if seen.file else ""
            lines += [f"  | {line}" for line in f"{place}{seen.text}".splitlines()]
        lines += [line for reason in entry.because for line in _wrap(f"because {brief(reason)}", "  ", "    ")]
        lines += [line for remedy in entry.remedies for line in _remedy(remedy)]
        lines += [f"  to tell: {command}" for command in entry.ask]
    return "\n".join(lines) + "\n" if lines else ""


def checks(found: Sequence[CheckResult]) -> str:
    """Check results, one line each, the evidence under those that did not pass."""
    lines: list[str] = []
    for check in found:
        lines.append(f"{check.status:<8}{check.name}: {check.message}")
        if check.evidence and check.status not in {"pass", "skip"}:
            lines += [f"        | {line}" for line in check.evidence.splitlines()]
    return "\n".join(lines) + "\n" if lines else ""


def wrapped(sentence: str, first: str, rest: str) -> str:
    """A sentence folded to the width of a page, with a line feed."""
    return "\n".join(_wrap(sentence, first, rest)) + "\n"


def _table(rows: Sequence[tuple[str, str]]) -> list[str]:
    indent = " " * 12
    return [line for name, text in rows for line in _wrap(text, f"  {name:<10}", indent)]


def _wrap(text: str, first: str, rest: str) -> list[str]:
    """`text` folded to the width of a page; a long word, such as a digest or an address, is never broken."""
    folded = textwrap.wrap(
        text, _WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )
    return folded or [first.rstrip()]
