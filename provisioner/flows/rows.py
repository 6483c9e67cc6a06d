"""matrix: the rows of the compatibility matrix, with the documents they come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from provisioner.errors import UsageError
from provisioner.findings import Evidence
from provisioner.report.answer import Answer, plain

if TYPE_CHECKING:
    from provisioner.stack.matrix import Matrix


def sections() -> tuple[str, ...]:
    """The sections of the matrix, in the order of the file."""
    from provisioner.stack.rows import SECTIONS

    return tuple(SECTIONS)


def listed(matrix: Matrix, section: str) -> Answer:
    """The rows of a section by their ids."""
    from provisioner.stack.rows import key_of

    if section not in sections():
        raise UsageError(f"the matrix has no section {section}", hint=f"sections are {', '.join(sections())}")
    keys = [key_of(section, row) for row in matrix.rows(section)]
    return Answer(verdict="ok", fields={"section": section, "collected": matrix.collected, "ids": keys})


def shown(matrix: Matrix, key: str) -> Answer:
    """Every row with the id `key` (`torch 2.9.1 cu128 linux/amd64`, `580`), and its documents in full.

    `SECTION ID` (`cuda 12.8`), as answers cite their rows, means that section only.
    """
    from provisioner.stack.rows import key_of

    first, _, rest = key.partition(" ")
    named = {section: rest for section in sections() if section == first and rest} or dict.fromkeys(sections(), key)
    found: list[dict[str, Any]] = [
        {"section": section, "row": _filled(row), "documents": _documents(matrix, row)}
        for section, wanted in named.items()
        for row in matrix.rows(section)
        if key_of(section, row).casefold() == wanted.casefold()
    ]
    if not found:
        raise UsageError(f"no row of the matrix has the id {key!r}", hint="provisioner matrix list SECTION shows the ids")
    return Answer(verdict="ok", fields={"id": key, "collected": matrix.collected, "rows": found})


def _filled(row: object) -> dict[str, Any]:
    whole: dict[str, Any] = plain(row)
    return {name: entry for name, entry in whole.items() if entry not in (None, [], {}, "")}


def _documents(matrix: Matrix, row: object) -> list[str]:
    ids: tuple[str, ...] = getattr(row, "source", ())
    sources = (matrix.source(each) for each in ids)
    return [source.document for source in sources if source]


def checked(matrix: Matrix) -> Answer:
    """The invariants across the rows: a fault for each that is broken."""
    from provisioner.knowledge.registry import finding
    from provisioner.stack.invariants import check

    faults = [
        finding("matrix-row-wrong", str(fault), evidence=(Evidence(file="compat_matrix.yaml", text=str(fault)),))
        for fault in check(matrix)
    ]
    counts = {section: len(matrix.rows(section)) for section in sections()}
    return Answer(verdict="fault" if faults else "ok", findings=tuple(faults), fields={"sha256": matrix.sha256, "rows": counts})
