"""What people read is made from the rows, and CI fails when it is stale."""

from __future__ import annotations

import pytest

from provisioner.stack.compiled import shipped_matrix
from tools.build_docs import PAGE, claims, page


def test_the_page_on_compatibility_is_what_the_matrix_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(shipped_matrix()), "run: make docs"


def test_the_page_names_what_runs_on_which_gpu() -> None:
    text = page(shipped_matrix())
    assert "| 7.0 | Volta |" in text
    assert "| 2.10.0 | **cu128** | 12.8 | 9.10.2.21 |" in text
    for heading in ("## GPU generations", "## CUDA", "## Driver branches", "## Claims that circulate"):
        assert f"\n{heading}\n" in text


@pytest.mark.parametrize("claim", claims(), ids=lambda claim: claim.claim)
def test_the_rows_that_a_claim_points_to_exist(claim: object) -> None:
    rows = claim.rows  # type: ignore[attr-defined]  # a Claim
    assert [row for row in rows if shipped_matrix().row("variants", row) is None] == []
