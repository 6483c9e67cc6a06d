"""The finding registry: one row of `findings.yaml` for each finding that the tool can make.

A row says which layer the finding belongs to, how severe it is, and what it means in one sentence. Where in the code a finding is
made, only its id, its message and its evidence stand there; severity is never decided twice.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from provisioner.decode import load
from provisioner.findings import Because, Evidence, Finding, Layer, Remedy, Severity
from provisioner.values import value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@value
class FindingRow:
    """One finding that the tool can make. `was` holds ids that it had before: ids are stable, and old ones stay known."""

    id: str
    layer: Layer
    severity: Severity
    means: str
    source: str
    was: tuple[str, ...] = ()


@value
class FindingsFile:
    """findings.yaml."""

    format: Literal[1]
    findings: tuple[FindingRow, ...]


@functools.cache
def registry() -> Mapping[str, FindingRow]:
    """Every row by its id. DataError when the shipped file is wrong, which a test excludes."""
    rows = load(Path(__file__).with_name("findings.yaml"), FindingsFile).findings
    return {row.id: row for row in rows}


def finding(
    id_: str,
    message: str,
    *,
    evidence: Sequence[Evidence] = (),
    because: Sequence[Because] = (),
    remedies: Sequence[Remedy] = (),
    ask: Sequence[str] = (),
    rule: str | None = None,
) -> Finding:
    """The finding `id_` with its registered severity; KeyError for an id that has no row (a bug, and tested)."""
    return Finding(
        id=id_,
        rule=rule,
        severity=registry()[id_].severity,
        message=message,
        evidence=tuple(evidence),
        because=tuple(because),
        remedies=tuple(remedies),
        ask=tuple(ask),
    )
