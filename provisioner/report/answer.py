"""One answer of one verb: the object that `--json` prints, whole (`contracts.md`, JSON)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from provisioner.errors import DataError, HostError, ProvisionerError
from provisioner.findings import EXIT, Evidence, Finding, Remedy, Verdict
from provisioner.values import value

#: Several hosts answer at once; the exit code is the first of these that occurs (`contracts.md`, JSON).
HOST_EXIT_ORDER = (6, 5, 7, 8, 0)
#: From the worst verdict to the best.
VERDICT_ORDER: tuple[Verdict, ...] = ("fault", "conflict", "unknown", "ok")


@value
class Answer:
    """A verdict with its findings, and the fields that belong to the verb. `exit` None: the one of the verdict."""

    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    exit: int | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def code(self) -> int:
        """The exit code."""
        return EXIT[self.verdict] if self.exit is None else self.exit

    def json(self) -> str:
        """The object as JSON text with a line feed, the same bytes for the same answer."""
        whole = {
            "format": 1,
            "verdict": self.verdict,
            "exit": self.code,
            "findings": [plain(entry) for entry in self.findings],
            **{key: plain(entry) for key, entry in self.fields.items()},
        }
        return json.dumps(whole, ensure_ascii=False, indent=2) + "\n"


def plain(record: Any) -> Any:  # noqa: ANN401 - plain data of any shape
    """`record` as JSON data with every key of the contract, defaults and nulls included."""
    import dataclasses

    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        return {entry.name.rstrip("_"): plain(getattr(record, entry.name)) for entry in dataclasses.fields(record)}
    if isinstance(record, Mapping):
        return {str(key): plain(entry) for key, entry in record.items()}
    if isinstance(record, list | tuple | set | frozenset):
        return [plain(entry) for entry in record]
    if record is None or isinstance(record, bool | int | float | str):
        return record
    return str(record)


def of_error(error: ProvisionerError) -> Answer:
    """The answer that an error is: its message as a finding, each mistake of a file as evidence with its place.

    The verdict says what is known of the question, and an error leaves it open; the exit code is the error's.
    """
    evidence: tuple[Evidence, ...] = ()
    if isinstance(error, DataError):
        evidence = tuple(Evidence(file=problem.file, line=problem.line, text=problem.message) for problem in error.problems)
    elif tail := getattr(error, "tail", ""):
        evidence = (Evidence(text=tail),)
    remedies = (Remedy(text=error.hint),) if error.hint else ()
    said = Finding(id=_id(error), severity="error", message=error.message, evidence=evidence, remedies=remedies)
    extra: dict[str, Any] = {"error": {"kind": _id(error), "message": error.message, "hint": error.hint}}
    if isinstance(error, HostError):
        extra["host"] = error.host
    return Answer(verdict="unknown", findings=(said,), exit=error.exit, fields=extra)


def worst(answers: Mapping[str, Answer]) -> tuple[Verdict, int]:
    """The verdict and the exit code over several hosts: the worst verdict, the first exit of HOST_EXIT_ORDER that occurs."""
    verdict: Verdict = next((one for one in VERDICT_ORDER if any(each.verdict == one for each in answers.values())), "ok")
    codes = {answer.code for answer in answers.values()}
    return verdict, next((code for code in HOST_EXIT_ORDER if code in codes), max(codes, default=0))


def _id(error: ProvisionerError) -> str:
    """HostKeyError → host-key-error: the class is the id."""
    name = type(error).__name__
    return "".join(("-" if char.isupper() and index else "") + char.lower() for index, char in enumerate(name))
