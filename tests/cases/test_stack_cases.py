"""Every case of kind a and every vector: right verdict, right cause first, a first remedy that resolves; controls not flagged."""

from __future__ import annotations

import pytest

from tests.cases.stack import Case, cases, faults


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.id)
def test_the_answer_is_the_expected_one(case: Case) -> None:
    assert faults(case) == []


def test_both_kinds_are_there_with_their_controls() -> None:
    kinds = {case.kind: [found.verdict for found in cases() if found.kind == case.kind] for case in cases()}
    assert kinds.keys() == {"a", "vectors"}
    assert all({"ok", "conflict"} <= set(verdicts) for verdicts in kinds.values())
