"""From what was seen to findings: the causes first, what follows from them after, as information."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, cast

from provisioner.findings import Because, Finding, Severity
from provisioner.knowledge.signatures import numbers, remedy, signatures
from provisioner.values import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from provisioner.knowledge.matcher import Match, Scan, Sighting
    from provisioner.knowledge.signatures import NumberRow

Table = Literal["xids", "sxids", "cuda_errors", "nvml_errors"]
_TABLES = {"xid": "xids", "sxid": "sxids", "cuda-error": "cuda_errors", "nvml-error": "nvml_errors"}
_NAMES = {"xid": "Xid", "sxid": "SXid", "cuda-error": "CUDA error", "nvml-error": "NVML error"}
_SEVERITY: dict[str, Severity] = {
    "harmless": "info",
    "ok": "info",
    "unused": "warning",
    "follow": "warning",
    "unknown": "warning",
    "fatal": "error",
    "may-be-fatal": "warning",
    "non-fatal": "info",
}
_WHOSE = {"application": "usually the application", "hardware": "hardware or firmware", "app": "usually the application"}
_ORDER = {"error": 0, "warning": 1, "info": 2}
#: From the metal up: what lies below is more likely the cause.
_LAYERS = ("hardware", "driver", "container", "host", "file", "library", "stack", "code")


def findings_of(scan: Scan) -> tuple[Finding, ...]:
    """The findings of a text, the likeliest cause first; empty when nothing was recognised."""
    matches = scan.matches()
    causes = [match for match in matches if not any(_stronger(other, match) for other in matches)]
    causes = causes or list(matches)
    causes.sort(key=_rank)
    found = [_cause(match) for match in causes]
    found += [_consequence(match, causes) for match in matches if match not in causes]
    named = _once([_number(kind, said, sighting) for (kind, said), sighting in scan.numbers.items()])
    found += [entry for entry in named if not any(_covers(match, entry.id) for match in matches)]
    return tuple(sorted(found, key=lambda entry: _ORDER[entry.severity]))


def wrong_answers(found: Sequence[Finding]) -> dict[str, list[str]]:
    """Finding → what people try that does not help, for the causes among `found`."""
    rows = signatures()
    return {
        entry.id: list(rows[entry.id].wrong_answers)
        for entry in found
        if entry.severity != "info" and entry.id in rows and rows[entry.id].wrong_answers
    }


def _consequence(match: Match, causes: Sequence[Match]) -> Finding:
    says = f"follows from {_first_of(match, causes)}: {match.row.says}"
    return replace(_cause(match), severity="info", message=says, remedies=(), ask=())


def _covers(match: Match, id_: str) -> bool:
    """Whether a signature says already what the number `id_` says: xid-79-off-bus is xid-79."""
    return match.row.accounts_for(id_) or match.row.id.startswith(f"{id_}-")


def _stronger(one: Match, other: Match) -> bool:
    """Whether `one` explains `other`; where each explains the other, the one that was seen more surely does."""
    if one is other or not one.row.accounts_for(other.row.id):
        return False
    return not other.row.accounts_for(one.row.id) or one.certainty > other.certainty


def _rank(match: Match) -> tuple[int, int, int, int]:
    layer = _LAYERS.index(match.row.layer)
    return _ORDER[match.row.severity], -match.certainty, layer, match.evidence[0].line


def _first_of(match: Match, causes: Sequence[Match]) -> str:
    return next((cause.row.id for cause in causes if cause.row.accounts_for(match.row.id)), causes[0].row.id)


def _cause(match: Match) -> Finding:
    row = match.row
    return Finding(
        id=row.id,
        severity=row.severity,
        message=row.says,
        evidence=match.evidence,
        because=(Because(fact="what it means and what helps", source=row.source),),
        remedies=row.help(),
        ask=row.ask,
    )


def _number(kind: str, said: str, sighting: Sighting) -> Finding:
    """What one number, or its name, means."""
    rows, source = numbers(cast("Table", _TABLES[kind]))
    row = rows.get(int(said)) if said.isdigit() else _named(said, tuple(rows.values()))
    name = _NAMES[kind]
    if row is None:
        message = f"{name} {said} is not in the data: it is newer than them, or not a number of NVIDIA's"
        return Finding(id=f"{kind}-not-in-data", severity="warning", message=message, evidence=tuple(sighting.evidence))
    severity = "info" if row.code == 0 and kind.endswith("error") else _severity(row)
    parts = [f"{name} {row.code} ({row.name})", row.says, _WHOSE.get(row.kind, "" if kind != "sxid" else row.kind)]
    if sighting.gpus:
        parts.append(f"seen {sighting.count} times on {len(sighting.gpus)} GPU{'s' * (len(sighting.gpus) > 1)}")
    helps = [remedy(text) for text in (row.action, row.then) if text]
    if kind == "sxid":
        helps = [remedy("a fatal SXid needs a reset of all GPUs and switches of the fabric, or a reboot; others inform only")]
    return Finding(
        id=f"{kind}-{row.code}",
        severity=severity,
        message=": ".join(part for part in parts if part),
        evidence=tuple(sighting.evidence),
        because=(Because(fact=f"{name} {row.code}", source=source),),
        remedies=tuple(helps),
    )


def _severity(row: NumberRow) -> Severity:
    return _SEVERITY.get(row.kind, "error" if row.kind else "warning")


def _named(said: str, rows: Sequence[NumberRow]) -> NumberRow | None:
    """The row of a name; the driver's CUDA_ERROR_NO_DEVICE is the runtime's cudaErrorNoDevice."""
    plain = said.replace("_", "").lower()
    return next((row for row in rows if row.name.replace("_", "").lower() == plain), None)


def _once(found: Sequence[Finding]) -> list[Finding]:
    """Each id once: a text may give a number and its name."""
    kept: dict[str, Finding] = {}
    for entry in found:
        kept.setdefault(entry.id, entry)
    return list(kept.values())
