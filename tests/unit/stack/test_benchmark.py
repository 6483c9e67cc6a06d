"""The requests that `make bench` times: the same each time, a fair mix, and twice the rows where it says so."""

from __future__ import annotations

from benchmarks.answers import doubled, drawn
from provisioner.stack.compiled import shipped_matrix
from provisioner.stack.resolve import decide

MATRIX = shipped_matrix()


def test_the_draw_is_the_same_each_time_and_neither_all_yes_nor_all_no() -> None:
    requests = drawn(MATRIX, 200)
    assert requests == drawn(MATRIX, 200)
    assert {request.packages[0][:3] for request in requests} == {row.id[:3] for row in MATRIX.frameworks}
    ok = sum(decide(request, MATRIX, remedies=False).verdict == "ok" for request in requests)
    assert 0.2 <= ok / len(requests) <= 0.8


def test_twice_the_framework_rows_are_other_releases_and_nothing_else_changes() -> None:
    twice = doubled(MATRIX)
    for section in ("releases", "variants"):
        assert len(twice.rows(section)) == 2 * len(MATRIX.rows(section))
    assert twice.rows("packages") == MATRIX.rows("packages")
    framework = MATRIX.frameworks[0].id
    assert len({row.version for row in twice.releases_of(framework)}) == 2 * len(MATRIX.releases_of(framework))
