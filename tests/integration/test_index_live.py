"""matrix refresh against the live package index: the shipped default builds, read again. Without one it is skipped.

One release of each framework is read, 26 MB; the five newest where PROVISIONER_REQUIRE names `index`.
"""

from __future__ import annotations

import pytest

from provisioner.edges.index import Unreachable
from provisioner.flows.refresh import Wish, refresh
from tests.testbed.require import MissingPartError, may_fetch, need


@pytest.mark.lane("packages")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("framework", ["torch", "tensorflow", "jax"])
def test_the_live_index_says_what_the_matrix_says(framework: str) -> None:
    with need("index"):
        try:
            answer = refresh(Wish(framework=framework, again=5 if may_fetch("index") else 1), "2026-12-01")
        except Unreachable as failure:
            raise MissingPartError(failure.message) from failure
    print(answer.fields["cost"])  # pytest shows it where the test fails
    assert [found.message for found in answer.findings if found.id == "refresh-list-shrinks"] == []
    known = [one for one in answer.fields["releases"] if one["state"] != "new"]
    assert known
    assert [change for one in known for change in one["changes"] if not change.fills] == []
