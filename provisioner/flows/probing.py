"""probe: a host says what it is, in one round trip; the answer for people and for programs."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from provisioner.findings import Seen
from provisioner.report.answer import Answer

if TYPE_CHECKING:
    from pathlib import Path

    from provisioner.commands import Runner
    from provisioner.facts import HostFacts
    from provisioner.flows.fleet import Host


def recording_of(record: Path, host: str) -> Path:
    """The folder for the recording of a host below `record`."""
    return record / host.replace("/", "_")


def recorded(host: Host, record: Path | None) -> Runner:
    """The host's runner; with `record`, one that keeps what the host says below that folder."""
    if record is None:
        return host.runner
    from provisioner.hosts.recording import RecordingRunner

    return RecordingRunner(host.runner, recording_of(record, host.name))


def probe_host(host: Host, record: Path | None) -> HostFacts:
    """All facts of one host; its recording goes below `record`."""
    from provisioner.hosts.probe import probe

    return probe(recorded(host, record))


def facts_answer(facts: HostFacts) -> Answer:
    """Facts as an answer: unknown where the GPUs or the driver could not be seen, which is what everything else hangs on."""
    from provisioner.facts import facts_data
    from provisioner.knowledge.registry import finding

    unseen = [(name, seen) for name, seen in (("gpus", facts.gpus), ("driver", facts.driver)) if not seen.known]
    findings = tuple(finding("host-fact-unseen", f"{facts.host}: {name} not seen: {seen.why_not}") for name, seen in unseen)
    return Answer(
        verdict="unknown" if unseen else "ok", findings=findings, fields={"facts": facts_data(facts), "rows": facts_rows(facts)}
    )


def facts_rows(facts: HostFacts) -> tuple[tuple[str, str], ...]:
    """Each fact as (label, text); one that was not seen says why."""
    rows: list[tuple[str, str]] = []
    for entry in dataclasses.fields(facts):
        seen = getattr(facts, entry.name)
        if isinstance(seen, Seen) and seen.why_not != "not asked":
            rows.append((entry.name, _text(seen.found) if seen.known else f"not seen: {seen.why_not}"))
    return tuple(rows)


def rows_text(rows: tuple[tuple[str, str], ...]) -> str:
    """Rows for a terminal."""
    return "".join(f"{name:<16}{text}\n" for name, text in rows)


def _text(found: object) -> str:
    if found is None:
        return "none"
    if isinstance(found, bool):
        return "yes" if found else "no"
    if isinstance(found, tuple):
        return ", ".join(map(_text, found)) or "none"
    if isinstance(found, dict):
        return ", ".join(f"{key} {entry}" for key, entry in found.items()) or "none"
    if dataclasses.is_dataclass(found):
        values = ((entry.name, getattr(found, entry.name)) for entry in dataclasses.fields(found))
        return " ".join(f"{name}={_text(entry)}" for name, entry in values if entry not in {None, "", ()})
    return str(found)
