"""Single sets of builds, by hand: what is left out of a search, and what comes first."""

from __future__ import annotations

from provisioner.stack.covers import Choice, Cover, covers
from tests.unit.stack.small import variant


def choice(key: str, age: int, *members: int, liking: int = 0) -> Choice:
    return Choice(key=key, build=variant("1.0.0", "cu126"), age=age, liking=dict.fromkeys(members, (liking,)))


def first(*found: Choice, members: int = 2, fewest: int = 1) -> dict[str, tuple[int, ...]] | None:
    cover: Cover | None = next(covers(found, members, fewest=fewest), None)
    return None if cover is None else {one.key: group for one, group in cover}


def test_two_builds_that_are_alike_do_not_drop_each_other() -> None:
    assert first(choice("a", 0, 0), choice("b", 0, 0), choice("c", 1, 1)) == {"a": (0,), "c": (1,)}


def test_no_member_is_left_further_behind_than_need_be() -> None:
    found = (choice("a", 0, 0), choice("b", 3, 1, 2), choice("y", 1, 0, 1), choice("z", 2, 2))
    assert first(*found, members=3) == {"y": (0, 1), "z": (2,)}


def test_one_release_for_all_beats_newer_ones_apart() -> None:
    found = (choice("new", 0, 0), choice("a", 1, 0), choice("b", 1, 1))
    assert first(*found) == {"a": (0,), "b": (1,)}


def test_a_member_takes_what_it_prefers() -> None:
    found = (choice("a", 0, 0, 1, liking=1), choice("b", 0, 1, 2, liking=0))
    assert first(*found, members=3) == {"a": (0,), "b": (1, 2)}


def test_a_set_of_at_least_so_many_and_a_member_without_a_build() -> None:
    assert first(choice("both", 0, 0, 1), choice("a", 0, 0)) == {"both": (0, 1)}
    assert first(choice("both", 0, 0, 1), choice("a", 0, 0, liking=-1), fewest=2) == {"a": (0,), "both": (1,)}
    assert first(choice("a", 0, 0)) is None
