"""The console cases: right verdict, right cause first, a remedy that agrees with the fix, and no wrong answer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from provisioner.findings import Finding, verdict_of
from provisioner.knowledge.diagnosis import findings_of
from provisioner.knowledge.matcher import Scan

FOLDER = Path(__file__).parents[2] / "cases" / "console"
CAUSES = yaml.safe_load((FOLDER / "causes.yaml").read_text(encoding="utf-8"))
CASES: list[dict[str, Any]] = [
    case
    for path in sorted(FOLDER.glob("?-*.yaml"))
    for case in yaml.safe_load(path.read_text(encoding="utf-8"))["cases"]
    if case["input"]["form"] == "console"
]


def _diagnose(text: str) -> tuple[Finding, ...]:
    scan = Scan()
    scan.feed(text)
    return findings_of(scan)


def _words(texts: list[str]) -> set[str]:
    return {word for text in texts for word in re.findall(r"[a-z][a-z0-9]{3,}", text.lower())} - {"with", "that", "from", "into"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_a_console_case_is_diagnosed(case: dict[str, Any]) -> None:
    found, expected = _diagnose(case["input"]["text"]), case["expected"]
    assert found
    assert verdict_of(found) == expected["verdict"]
    assert found[0].id == CAUSES.get(expected["cause"], expected["cause"])
    said = " ".join(f"{entry.text} {' '.join(entry.commands)}" for entry in found[0].remedies).lower()
    if expected["verdict"] == "fault":
        wanted = _words(expected["fix"])
        assert len(wanted & _words([said])) >= min(3, len(wanted)), wanted - _words([said])
    everything = " ".join(entry.text.lower() for each in found for entry in each.remedies)
    for wrong in expected.get("wrong_answers", []):
        assert wrong.lower() not in everything


def test_score_per_kind(capsys: pytest.CaptureFixture[str]) -> None:
    """What `make cases` prints."""
    score: dict[str, list[bool]] = {}
    for case in CASES:
        cause = CAUSES.get(case["expected"]["cause"], case["expected"]["cause"])
        score.setdefault(case["kind"], []).append(_diagnose(case["input"]["text"])[0].id == cause)
    with capsys.disabled():
        print("\n" + "\n".join(f"{kind}: {sum(right)} of {len(right)}" for kind, right in sorted(score.items())))
    assert all(all(right) for right in score.values())
