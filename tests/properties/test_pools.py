"""Sets of stacks are minimal (against brute force), in order, and a larger pool never has more choice."""

from __future__ import annotations

import functools
import itertools
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from provisioner.stack.compiled import shipped_matrix
from provisioner.stack.covers import Choice, Cover, covers
from provisioner.stack.matrix import SECTIONS, Matrix
from provisioner.stack.request import PoolMember, Request
from provisioner.stack.resolve import decide
from tests.unit.stack.small import variant

MATRIX = shipped_matrix()
FRAMEWORK = MATRIX.frameworks[0].id
GPUS = tuple(gpu for gpu in MATRIX.gpus if gpu.segment not in {"jetson", "grace"})
DRIVERS = tuple(sorted({version for row in MATRIX.drivers for version in (row.first, row.latest) if version is not None}))
RELEASES = tuple(row.version for row in MATRIX.releases_of(FRAMEWORK))
MEMBERS = 5

quick = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
slow = settings(quick, max_examples=25)


@st.composite
def choices(draw: st.DrawFn) -> list[Choice]:
    found = []
    for number in range(draw(st.integers(1, 7))):
        members = draw(st.sets(st.integers(0, MEMBERS - 1), min_size=1))
        liking = {member: (draw(st.integers(0, 2)),) for member in sorted(members)}
        build = variant(f"{number}.0", "cu126")
        found.append(Choice(key=f"build{number}", build=build, age=draw(st.integers(0, 3)), liking=liking))
    return found


def brute_force(found: list[Choice]) -> int | None:
    """The size of the smallest set of builds that runs on all members; None where there is none."""
    for size in range(1, len(found) + 1):
        for group in itertools.combinations(found, size):
            if {member for choice in group for member in choice.liking} >= set(range(MEMBERS)):
                return size
    return None


@quick
@given(choices())
def test_the_first_cover_is_as_small_as_any(found: list[Choice]) -> None:
    first = next(covers(found, MEMBERS), None)
    smallest = brute_force(found)
    if smallest is None:
        assert first is None
        return
    assert first is not None
    assert len(first) == smallest
    served = [member for _, group in first for member in group]
    assert sorted(served) == list(range(MEMBERS))
    assert all(member in choice.liking for choice, group in first for member in group)
    alike = [
        max(choice.age for choice in group)
        for group in itertools.combinations(found, smallest)
        if len({choice.age for choice in group}) == 1
        and {member for choice in group for member in choice.liking} >= set(range(MEMBERS))
    ]
    ages = {choice.age for choice, _ in first}
    if alike:  # one release for all, the newest that does it
        assert ages == {min(alike)}
    else:
        assert max(_oldest_first(first)) == min(max(_of_best(group)) for group in _groups(found, smallest))


def _groups(found: list[Choice], size: int) -> list[tuple[Choice, ...]]:
    everyone = set(range(MEMBERS))
    return [
        group
        for group in itertools.combinations(found, size)
        if {member for choice in group for member in choice.liking} >= everyone
    ]


def _of_best(group: tuple[Choice, ...]) -> list[int]:
    return [min(choice.age for choice in group if member in choice.liking) for member in range(MEMBERS)]


def _oldest_first(cover: Cover) -> list[int]:
    return sorted((choice.age for choice, group in cover for _ in group), reverse=True)


@quick
@given(choices(), st.randoms(use_true_random=False))
def test_the_order_of_what_is_given_does_not_matter(found: list[Choice], random: Any) -> None:  # noqa: ANN401 - a Random
    turned = found[:]
    random.shuffle(turned)
    assert _keys(next(covers(found, MEMBERS), None)) == _keys(next(covers(turned, MEMBERS), None))


def _keys(cover: Cover | None) -> list[tuple[str, tuple[int, ...]]] | None:
    return None if cover is None else sorted((choice.key, group) for choice, group in cover)


@st.composite
def pools(draw: st.DrawFn) -> Request:
    count = draw(st.integers(1, 4))
    members = tuple(
        PoolMember(
            name=f"m{number}",
            gpu=draw(st.sampled_from(GPUS)).name,
            driver=draw(st.one_of(st.just("any"), st.just("upgrade"), st.sampled_from(DRIVERS).map(str))),
        )
        for number in range(count)
    )
    pinned = draw(st.one_of(st.none(), st.sampled_from(RELEASES)))
    return Request(pool=members, packages=(f"{FRAMEWORK}=={pinned}" if pinned else FRAMEWORK,))


@slow
@given(pools(), st.sampled_from(GPUS), st.sampled_from(DRIVERS))
def test_another_member_never_widens_the_choice(request: Request, gpu: Any, driver: Any) -> None:  # noqa: ANN401 - rows
    more = PoolMember(name="more", gpu=gpu.name, driver=str(driver))
    before = decide(request, MATRIX, remedies=False)
    after = decide(Request(pool=(*request.pool, more), packages=request.packages), MATRIX, remedies=False)
    if after.verdict == "ok":
        assert before.verdict == "ok"
        assert len(before.shares) <= len(after.shares)
        if before.stack is not None and after.stack is not None and before.stack.sass and after.stack.sass:
            assert before.stack.version >= after.stack.version


@slow
@given(pools())
def test_every_stack_of_a_pool_is_one_of_its_members(request: Request) -> None:
    decision = decide(request, MATRIX)
    served = [member.name for share in decision.shares for member in share.members]
    assert sorted(served) == (sorted(member.name for member in request.pool) if decision.verdict == "ok" else [])
    assert (decision.stack is not None) == (len(decision.shares) == 1)
    for share in decision.shares:
        for member in share.members:
            row = next(row for row in request.pool if row.name == member.name)
            alone = Request(gpus=row.gpus, driver=row.driver, packages=(f"{FRAMEWORK}=={share.stack.version}",))
            answer = decide(Request(**{**_plain(alone), "variant": share.stack.variant}), MATRIX, remedies=False)
            assert answer.verdict == "ok"


def _plain(request: Request) -> dict[str, Any]:
    return {name: getattr(request, name) for name in Request.__dataclass_fields__}


@slow
@given(pools())
def test_the_same_pool_gives_the_same_answer(request: Request) -> None:
    turned = {name: (lambda name=name: tuple(reversed(MATRIX.rows(name)))) for name in ("variants", "images", "releases")}
    sections = {name: functools.partial(MATRIX.rows, name) for name in SECTIONS}
    other = Matrix(collected=MATRIX.collected, sha256=MATRIX.sha256, sections={**sections, **turned})
    one, two = decide(request, MATRIX), decide(request, other)
    assert one.shares == two.shares
    assert one.alternatives == two.alternatives
    assert [remedy.changes for remedy in one.remedies] == [remedy.changes for remedy in two.remedies]
