"""Words of a request that mean nothing, or too much."""

from __future__ import annotations

import pytest

from provisioner.stack.compiled import shipped_matrix
from provisioner.stack.request import Request
from provisioner.stack.resolve import decide

MATRIX = shipped_matrix()


@pytest.mark.parametrize(
    "bounds", [">=2,<1", ">2.9,<=2.9", "==2.9.1,==2.8.0", "==2.9.1,!=2.9.1", "~=2.1,>=3", ">=99,<98", "<1,>=2", "==2.9.1,<2.9.1"]
)
def test_bounds_that_no_version_meets_are_a_conflict(bounds: str) -> None:
    decision = decide(Request(packages=(f"torch{bounds}",), gpus=("a100",)), MATRIX)
    assert decision.verdict == "conflict"
    assert decision.refusals[0].finding == "no-such-release"
    assert f"torch{bounds}: no version of anything is " in decision.refusals[0].fact
    assert decision.remedies


@pytest.mark.parametrize("bounds", [">=99", "<1", "==99.0", ">=0.4,<1", "==0.4.1", "~=99.1"])
def test_bounds_beyond_the_data_stay_unknown(bounds: str) -> None:
    assert decide(Request(packages=(f"torch{bounds}",), gpus=("a100",)), MATRIX).verdict == "unknown"


@pytest.mark.parametrize("bounds", [">=2.9.1,<=2.9.1", "~=2.8,<2.9", ">=2,!=2.9.1,<3", "==2.9.1,>=2"])
def test_bounds_that_a_release_meets(bounds: str) -> None:
    assert decide(Request(packages=(f"torch{bounds}",), gpus=("a100",)), MATRIX).verdict == "ok"


def test_a_name_of_many_products_shows_a_dozen() -> None:
    fact = decide(Request(packages=("torch",), gpus=("rtx",)), MATRIX).refusals[0].fact
    assert fact.count("(sm_") == 12
    total = sum("rtx" in gpu.name.lower() or any("rtx" in name.lower() for name in gpu.aliases) for gpu in MATRIX.gpus)
    assert f", … and {total - 12} more; name one of them" in fact
    few = decide(Request(packages=("torch",), gpus=("rtx 3050",)), MATRIX).refusals[0].fact
    assert "more; name" not in few
