"""A host that is not what the request says: of a pool it may be any member."""

from __future__ import annotations

from pathlib import Path

from provisioner.flows.checks import differences
from provisioner.hosts.probe import probe
from provisioner.hosts.recording import ReplayRunner
from provisioner.stack.compiled import shipped_matrix
from provisioner.stack.request import PoolMember, Request
from provisioner.stack.resolve import resolve

V100 = probe(ReplayRunner(Path(__file__).parents[2] / "recordings" / "ubuntu2204-v100"))


def test_a_host_of_a_pool_has_the_driver_of_one_of_its_members() -> None:
    """The stack names the lowest driver of the pool, and this host, a member, has a higher one."""
    pool = (PoolMember(name="a", gpu="a100", driver="535"), PoolMember(name="v", gpu="v100", driver="580"))
    stack = resolve(Request(pool=pool, packages=("torch==2.9.1",)), shipped_matrix())
    assert stack.driver == "535"
    assert [found.id for found in differences(stack, V100)] == ["host-differs-from-request"]
    assert list(differences(stack, V100, {"535", "580"})) == []
    (found,) = differences(stack, V100, {"535", "570"})
    assert "has driver 580.95.05, the request is for 535 or 570" in found.message
    assert list(differences(stack, V100, {"535", "any"})) == []
