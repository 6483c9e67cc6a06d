"""The one shape of every answer: findings with evidence, reasons and remedies, and the verdict that follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from provisioner.values import value

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")

Severity = Literal["error", "warning", "info"]
Verdict = Literal["ok", "conflict", "fault", "unknown"]
Status = Literal["pass", "warn", "fail", "skip", "unknown"]
Layer = Literal["hardware", "driver", "library", "container", "code", "stack", "file", "host"]

#: The exit code of each verdict (`contracts.md`, JSON). Codes of exceptions stand in `errors`.
EXIT: Mapping[Verdict, int] = {"ok": 0, "conflict": 4, "fault": 7, "unknown": 8}


@value
class Because:
    """Why something is so: a fact, and the document or the row that says it."""

    fact: str
    source: str

    def __str__(self) -> str:
        return f"{self.fact} ({self.source})"


@value
class Evidence:
    """Where a finding was seen: a place in a file, or the text of an output. `line` counts from 1, 0 for none."""

    file: str = ""
    line: int = 0
    text: str = ""


@value
class Remedy:
    """What helps. `changes` are fields of the request that have been resolved again with this value, and work."""

    text: str
    commands: tuple[str, ...] = ()
    changes: Mapping[str, str] = field(default_factory=dict)


@value
class Finding:
    """One thing that was found. `id` is a row of `knowledge/findings.yaml`; `rule` a lint rule (SB012) or the resolver's rule."""

    id: str
    rule: str | None = None
    severity: Severity
    message: str
    evidence: tuple[Evidence, ...] = ()
    because: tuple[Because, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    ask: tuple[str, ...] = ()


@value
class CheckResult:
    """What one check says. Unseen is `unknown` or `skip`, never `pass`."""

    name: str
    layer: Layer
    status: Status
    message: str
    evidence: str = ""
    finding: Finding | None = None


class Seen(Generic[T]):
    """A fact that was looked for: found, or not seen with the reason.

    Absent and unseen are never the same value: a host without a driver is `Seen(None)`, a host that would not say is
    `Seen.unseen("permission denied")`. Reading `found` of an unseen fact raises LookupError, so that "could not look" cannot
    turn into an answer by accident.
    """

    __slots__ = ("_found", "why_not")

    _found: T | None
    why_not: str | None

    def __init__(self, found: T) -> None:
        """A fact that was seen, and is `found`."""
        self._found = found
        self.why_not = None

    @classmethod
    def unseen(cls, why_not: str) -> Seen[T]:
        """A fact that could not be looked at, for the reason `why_not`."""
        seen: Seen[T] = cls.__new__(cls)
        seen._found = None
        seen.why_not = why_not or "not seen"
        return seen

    @property
    def known(self) -> bool:
        """Whether the fact was seen."""
        return self.why_not is None

    @property
    def found(self) -> T:
        """The value that was seen; LookupError when it was not."""
        if self.why_not is not None:
            raise LookupError(self.why_not)
        return self._found  # type: ignore[return-value]  # seen: T by construction

    def or_none(self) -> T | None:
        """The value, or None when it is absent or was not seen: for display only, never for a decision."""
        return self._found

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Seen):
            return NotImplemented
        return (self._found, self.why_not) == (other._found, other.why_not)

    def __hash__(self) -> int:
        return hash((self._found, self.why_not))

    def __repr__(self) -> str:
        return f"Seen({self._found!r})" if self.known else f"Seen.unseen({self.why_not!r})"


def verdict_of(findings: Iterable[Finding], *, question: bool = False) -> Verdict:
    """The verdict over `findings`: ok while none is above info, else conflict for a question, fault for what exists."""
    if all(finding.severity == "info" for finding in findings):
        return "ok"
    return "conflict" if question else "fault"
