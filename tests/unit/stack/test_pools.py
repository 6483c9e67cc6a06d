"""Pools on the small matrix: one stack or the smallest set, who gets which, the alternatives, the member that nothing serves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from provisioner.decode import decode
from provisioner.errors import RequestError, UsageError
from provisioner.stack.changes import apply_changes
from provisioner.stack.request import PoolMember, Request
from provisioner.stack.resolve import decide, resolve
from provisioner.versions import Version
from tests.unit.stack.small import driver, matrix, sm, variant

if TYPE_CHECKING:
    from provisioner.stack.answer import Alternative, Decision

MATRIX = matrix()
ALPHA = PoolMember(name="alpha", gpu="Alpha A7", driver="550.20", hosts="a[1-2]")
BETA = PoolMember(name="beta", gpu="Beta B9", driver="550.20", hosts="b1,b[03-04]")
GAMMA = PoolMember(name="gamma", gpu="Gamma C12", driver="600.20", count=5)


def ask(*pool: PoolMember, packages: tuple[str, ...] = ("frame",), rows: Any = MATRIX, **fields: Any) -> Decision:  # noqa: ANN401
    return decide(Request(pool=pool, packages=packages, **fields), rows)


def who(decision: Decision) -> list[tuple[str, str, list[str]]]:
    """Release, build and members of each stack."""
    return [
        (str(share.stack.version), share.stack.variant, [member.name for member in share.members]) for share in decision.shares
    ]


def other(decision: Decision, what: str) -> Alternative:
    return next(one for one in decision.alternatives if one.what == what)


def test_one_stack_for_all_where_there_is_one() -> None:
    decision = ask(ALPHA, BETA)
    assert decision.verdict == "ok"
    assert decision.stack is not None
    assert who(decision) == [("2.0.0", "cu126", ["alpha", "beta"])]
    assert decision.shares[0].stack == decision.stack
    assert decision.shares[0].members[1].hosts == ("b1", "b03", "b04")
    assert [member.count for member in decision.shares[0].members] == [2, 3]


def test_the_smallest_set_where_there_is_none_and_who_gets_which() -> None:
    decision = ask(ALPHA, BETA, GAMMA)
    assert decision.verdict == "ok"
    assert decision.stack is None
    assert who(decision) == [("2.0.0", "cu126", ["alpha", "beta"]), ("2.0.0", "cu130", ["gamma"])]
    assert decision.shares[1].members[0].count == 5
    assert decision.shares[1].stack.gpus == ("Gamma C12",)
    split = next(note for note in decision.notes if note.finding == "pool-split")
    assert split.fact.startswith("no one build runs on all members: ")
    assert "2 stacks is the smallest set" in split.fact


def test_each_stack_of_a_set_is_the_answer_for_its_members() -> None:
    for share in ask(ALPHA, BETA, GAMMA).shares:
        rows = tuple(row for row in (ALPHA, BETA, GAMMA) if row.name in {member.name for member in share.members})
        assert resolve(Request(pool=rows, packages=("frame",)), MATRIX) == share.stack


def test_a_set_of_one_release_comes_before_one_of_the_newest_releases() -> None:
    """Gamma could have 3.0.0; Alpha cannot, so both have 2.0.0, and 3.0.0 is the alternative."""
    rows = (*MATRIX.variants, variant("3.0.0", "cu130", index="home", default=True, sass=sm("sm_120")))
    releases = (*MATRIX.releases, *(release for release in _release("3.0.0")))
    bigger = matrix(variants=rows, releases=releases)
    decision = ask(ALPHA, GAMMA, rows=bigger)
    assert who(decision) == [("2.0.0", "cu126", ["alpha"]), ("2.0.0", "cu130", ["gamma"])]
    assert (
        decision.shares[1].stack.because[0].fact == "frame 2.0.0 makes the smallest set of stacks with those of the other members"
    )
    newest = other(decision, "newest-set")
    assert [str(share.stack.version) for share in newest.shares] == ["2.0.0", "3.0.0"]
    assert "gamma has frame 3.0.0 instead of 2.0.0" in newest.price


def _release(version: str) -> tuple[Any, ...]:
    from provisioner.values import replace

    return (replace(MATRIX.releases[-1], version=Version(version)),)


def test_the_driver_change_that_unites_them_is_proved() -> None:
    decision = ask(BETA, GAMMA)
    assert who(decision) == [("2.0.0", "cu126", ["beta"]), ("2.0.0", "cu130", ["gamma"])]
    change = other(decision, "driver-change")
    assert list(change.changes) == ["pool.beta.driver"]
    assert change.price.startswith("frame 2.0.0 cu130 instead of frame 2.0.0 cu126 and frame 2.0.0 cu130; driver branch ")
    assert "on beta (3 hosts) instead of 550.20" in change.price
    again = decide(apply_changes(Request(pool=(BETA, GAMMA), packages=("frame",)), change.changes), MATRIX)
    assert again.stack is not None
    assert again.stack == change.shares[0].stack


def test_no_driver_change_is_promised_that_does_not_unite() -> None:
    """Alpha needs sm_70 and Gamma sm_120: whatever the driver, no build has both."""
    assert [one.what for one in ask(ALPHA, GAMMA).alternatives] == []


def test_one_stack_at_the_price_of_the_pinned_build() -> None:
    newer = PoolMember(name="beta", gpu="Beta B9", driver="600.20")
    rows = (
        variant("1.0.0", "cu130", index="home", default=True, sass=sm("sm_90", "sm_120")),
        variant("2.0.0", "cu126", sass=sm("sm_90")),
        variant("2.0.0", "cu130", index="home", default=True, sass=sm("sm_120")),
    )
    decision = ask(newer, GAMMA, packages=("frame==2.0.0",), rows=matrix(variants=rows))
    assert len(decision.shares) == 2
    single = other(decision, "newest-single-stack")
    assert single.price == "frame 1.0.0 cu130 instead of frame 2.0.0 cu126 and frame 2.0.0 cu130"
    request = Request(pool=(newer, GAMMA), packages=("frame==2.0.0",))
    assert decide(apply_changes(request, single.changes), matrix(variants=rows)).stack == single.shares[0].stack


def test_a_newer_stack_after_a_driver_change_is_an_alternative_to_one_stack() -> None:
    decision = ask(PoolMember(name="x", gpu="Beta B9", driver="500.20"), BETA, packages=("frame",), variant="cu121")
    assert decision.stack is not None
    assert decision.alternatives == ()  # the pin holds, and no driver changes that


def test_a_member_that_nothing_satisfies_is_named_with_its_reasons_and_what_helps() -> None:
    lost = PoolMember(name="lost", gpu="Gamma C12", driver="550.20")
    decision = ask(ALPHA, lost)
    assert decision.verdict == "conflict"
    assert decision.shares == ()
    assert {refusal.fact.split(":")[0] for refusal in decision.refusals} == {"lost"}
    assert decision.refusals[0].finding == "gpu-newer-than-driver"
    assert decision.remedies
    for remedy in decision.remedies:
        again = decide(apply_changes(Request(pool=(ALPHA, lost), packages=("frame",)), remedy.changes), MATRIX)
        assert again.verdict == "ok", remedy
    assert "pool.lost.driver" in decision.remedies[0].changes
    assert decision.remedies[-1].changes == {"pool.lost": ""}


def test_a_member_that_goes_beyond_the_data_leaves_the_question_open() -> None:
    decision = ask(ALPHA, PoolMember(name="next", gpu="Delta D20"))
    assert decision.verdict == "unknown"
    assert decision.refusals[0].fact.startswith("next: no GPU in the data")


def test_a_build_whose_code_is_not_known_does_not_unite_what_known_builds_serve() -> None:
    rows = (
        variant("1.0.0", "cu130", sass=None),
        variant("2.0.0", "cu126", sass=sm("sm_90")),
        variant("2.0.0", "cu130", index="home", default=True, sass=sm("sm_120")),
    )
    beta = PoolMember(name="beta", gpu="Beta B9", driver="600.20")
    decision = ask(beta, GAMMA, rows=matrix(variants=rows))
    assert who(decision) == [("2.0.0", "cu126", ["beta"]), ("2.0.0", "cu130", ["gamma"])]
    assert decision.notes[0].fact.startswith("whether the cu130 build of frame 1.0.0 holds code for all members is not known")
    assert [one.what for one in decision.alternatives] == []  # and it is no alternative either
    guess = ask(beta, GAMMA, rows=matrix(variants=rows[:1]))
    assert who(guess) == [("1.0.0", "cu130", ["beta", "gamma"])]  # where no member has a better one it is the answer, and said
    assert any(note.finding == "arch-list-not-known" for note in guess.notes)


def test_the_branch_of_one_stack_drives_every_member() -> None:
    """Beta alone would get the long-lived 650; Alpha ends with 600, so that is what both get."""
    drivers = (*MATRIX.drivers[:2], driver("600", "13.0", "old", "mid", "new"), driver("650", "13.2", "mid", "new", type="LTS"))
    alpha, beta = (PoolMember(name=gpu, gpu=gpu, driver="upgrade") for gpu in ("Alpha A7", "Beta B9"))
    rows = matrix(drivers=drivers)
    assert [share.stack.driver_branch for share in ask(beta, rows=rows).shares] == ["650"]
    decision = ask(beta, alpha, rows=rows)
    assert decision.stack is not None
    assert decision.stack.driver_branch == "600"


def test_machines_of_two_platforms_never_share_an_image() -> None:
    rows = (*MATRIX.variants, variant("2.0.0", "cu126", platform="linux/arm64"))
    images = tuple(
        row if row.repository != "python" else type(row)(**{**_fields(row), "platforms": ("linux/amd64", "linux/arm64")})
        for row in MATRIX.images
    )
    arm = PoolMember(name="arm", gpu="Beta B9", driver="550.20", platform="linux/arm64")
    decision = ask(BETA, arm, rows=matrix(variants=rows, images=images))
    assert [(share.stack.platform, [member.name for member in share.members]) for share in decision.shares] == [
        ("linux/amd64", ["beta"]),
        ("linux/arm64", ["arm"]),
    ]
    assert "platforms" in decision.notes[0].fact


def _fields(row: Any) -> dict[str, Any]:  # noqa: ANN401 - a row
    return {name: getattr(row, name) for name in type(row).__dataclass_fields__}


def test_upgrade_names_the_branch_and_the_flavour_of_each_member() -> None:
    decision = ask(
        PoolMember(name="alpha", gpu="Alpha A7", driver="upgrade"), PoolMember(name="gamma", gpu="Gamma C12", driver="upgrade")
    )
    told = {member.name: (member.driver_branch, member.kernel_modules) for share in decision.shares for member in share.members}
    assert told == {"alpha": ("600", ("proprietary",)), "gamma": ("600", ("open",))}


def test_machines_with_two_kinds_of_gpu_get_one_stack() -> None:
    both = PoolMember(name="both", gpu="Beta B9", beside=("Gamma C12",), driver="600.20")
    assert who(ask(both)) == [("2.0.0", "cu130", ["both"])]
    impossible = PoolMember(name="both", gpu="Alpha A7", beside=("Gamma C12",), driver="600.20")
    assert ask(impossible).verdict == "conflict"


def test_one_stack_is_not_made_of_several() -> None:
    with pytest.raises(UsageError, match="needs 2 stacks"):
        resolve(Request(pool=(ALPHA, GAMMA), packages=("frame",)), MATRIX)


def test_a_pool_without_a_framework_asks_whether_its_parts_fit() -> None:
    assert ask(ALPHA, GAMMA, packages=()).verdict == "ok"
    refused = ask(ALPHA, PoolMember(name="lost", gpu="Gamma C12", driver="550.20"), packages=())
    assert refused.verdict == "conflict"
    assert refused.refusals[0].fact.startswith("lost: ")


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ("pool: [{name: a, gpu: x, hosts: 'gpu[01-'}]", (2, 8), "a bracket has no partner"),
        ("pool: [{name: a, gpu: x, hosts: 'gpu[01-04]', count: 3}]", (2, 8), "count: 3, and hosts names 4"),
        ("pool: [{name: a, gpu: x}, {name: a, gpu: y}]", (1, 1), "the member 'a' stands there twice"),
        ("pool: [{name: a, gpu: x, hosts: 'n[1-3]'}, {name: b, gpu: y, hosts: n2}]", (1, 1), "the host 'n2' stands there twice"),
        ("gpus: [h100]\npool: [{name: a, gpu: x}]", (1, 1), "keep one of them"),
    ],
)
def test_a_pool_that_says_nothing_clear_is_refused_with_its_place(text: str, place: tuple[int, int], says: str) -> None:
    with pytest.raises(RequestError) as caught:
        decode(f"format: 1\n{text}\n", "request.yaml", Request, RequestError)
    (problem,) = caught.value.problems
    assert says in problem.message
    assert (problem.line, problem.column) == place


@pytest.mark.parametrize(
    ("hosts", "names"),
    [
        ("gpu[01-03]", ("gpu01", "gpu02", "gpu03")),
        ("r[1-2]n[1,3],login1", ("r1n1", "r1n3", "r2n1", "r2n3", "login1")),
        ("root@[fd00::7]:2222,replay:dir/x[1]", ("root@[fd00::7]:2222", "replay:dir/x[1]")),
        ("", ()),
    ],
)
def test_hosts_are_written_out(hosts: str, names: tuple[str, ...]) -> None:
    assert PoolMember(name="a", gpu="x", hosts=hosts).host_names == names


def test_a_change_of_a_member_that_is_not_there_is_an_error() -> None:
    with pytest.raises(KeyError):
        apply_changes(Request(pool=(ALPHA,)), {"pool.nobody.driver": "600"})
    changed = apply_changes(Request(pool=(ALPHA, BETA)), {"pool.alpha.gpus": "x, y", "pool.beta.driver": ""})
    assert [(member.gpus, member.driver) for member in changed.pool] == [(("x", "y"), "550.20"), (("Beta B9",), "any")]
