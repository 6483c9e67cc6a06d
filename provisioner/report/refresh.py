"""What `matrix refresh` found, for a terminal: the diff by release, what trips, where rows were written, and what it cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from provisioner.report import text

if TYPE_CHECKING:
    from provisioner.report.answer import Answer

_MEGABYTE = 1_000_000


def refresh_text(answer: Answer) -> str:
    """The whole answer as text."""
    fields = answer.fields
    lines = [line for one in fields["releases"] for line in _release(fields["framework"], one)]
    if not fields["releases"]:
        lines.append(f"{fields['framework']}: the index lists no release that the data of {fields['collected']} lack")
    cost = fields["cost"]
    lines.append(f"read in {cost['requests']} requests, {cost['bytes'] / _MEGABYTE:.1f} MB, {cost['seconds']} s")
    if fields["written"]:
        lines.append(f"written: {fields['written']}")
    elif any(one["rows"] for one in fields["releases"]):
        trips = answer.verdict != "ok"
        lines.append("nothing was written" + (": see below" if trips else "; --write keeps these rows"))
    said = text.findings(answer.findings)
    return "\n".join(lines) + "\n" + (f"\n{said}" if said else "")


def _release(framework: str, one: dict[str, Any]) -> list[str]:
    head = f"{framework} {one['version']}"
    if one["state"] == "same":
        return [f"= {head}: as in the matrix"]
    if one["state"] == "new":
        return [f"+ {head}", *(f"    + {_row(row['row'])}" for row in one["rows"])]
    return [f"~ {head}", *(f"    {_change(change)}" for change in one["changes"])]


def _change(change: Any) -> str:  # noqa: ANN401 - a Change of the stack
    if change.fills:
        return f"+ {change.key}: {change.field} {change.now}"
    return f"~ {change.key}: {change.field} {change.was} -> {change.now}"


def _row(row: Any) -> str:  # noqa: ANN401 - a row of any section
    names = (
        *("tag", "platform", "date", "requirement", "cuda", "cudnn", "nccl", "libraries", "sass", "ptx", "pythons", "glibc"),
        *("download", "companions", "numpy", "note"),
    )
    shown = []
    for name in names:
        entry = getattr(row, name, None)
        if entry in (None, (), ""):
            continue
        if isinstance(entry, tuple):
            entry = " ".join(map(str, entry))
        elif isinstance(entry, dict):
            entry = ", ".join(f"{key} {bound}" for key, bound in entry.items())
        shown.append(f"{name} {entry}")
    return "; ".join(shown)
