"""Smallest sets of builds that cover the members of a pool: exact, and in a fixed order.

A smaller set comes before a larger one; of one size, a set of one release, the newest first; then the set whose oldest release
is newest; then what each member prefers by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from provisioner.stack.rows import Variant
from provisioner.values import value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@value
class Choice:
    """A build that runs on the members in `liking`: member → its preference, smallest first. `age` 0 is the newest release."""

    key: str
    build: Variant
    age: int
    liking: Mapping[int, tuple[object, ...]]

    def beats(self, other: Choice) -> bool:
        """Whether a set never needs `other`: this one runs wherever that does, and no member likes it less."""
        if self is other or not other.liking.keys() <= self.liking.keys() or self.age > other.age:
            return False
        if self.age < other.age:
            return True
        mine = [self.liking[member] for member in other.liking]
        return all(one <= two for one, two in zip(mine, other.liking.values(), strict=True)) and (
            mine != [*other.liking.values()] or len(self.liking) > len(other.liking) or self.key < other.key
        )


#: Which members get which build.
Cover = tuple[tuple[Choice, tuple[int, ...]], ...]


def covers(choices: Sequence[Choice], members: int, *, fewest: int = 1) -> Iterator[Cover]:
    """The covers of members 0 … `members` - 1 by at least `fewest` builds, in the order of preference.

    Exact: no cover that is smaller or, within its size, preferred is left out. Nothing where a member has no build.
    """
    if not set(range(members)) <= {member for choice in choices for member in choice.liking}:
        return
    ages = sorted({choice.age for choice in choices})
    lasting = [one for one in choices if not any(other.beats(one) for other in choices)]
    for size in range(max(fewest, 1), members + 1):
        for age in ages:
            of_one_release = [choice for choice in choices if choice.age == age]
            yield from _of_size(of_one_release, members, size)
        yield from _of_size(lasting, members, size)


def _of_size(choices: Sequence[Choice], members: int, size: int) -> list[Cover]:
    """The covers by exactly `size` builds, the preferred first, each once."""
    found = {tuple(choice.key for choice, _ in cover): cover for cover in _search(choices, members, size)}
    return sorted((cover for cover in found.values() if len(cover) == size), key=_rank)


def _search(choices: Sequence[Choice], members: int, size: int, taken: tuple[Choice, ...] = ()) -> Iterator[Cover]:
    """Branch on the first member that has no build yet."""
    open_ = next((at for at in range(members) if not any(at in choice.liking for choice in taken)), None)
    if open_ is None:
        yield _shared(taken, members)
    elif len(taken) < size:
        for choice in choices:
            if open_ in choice.liking:
                yield from _search(choices, members, size, (*taken, choice))


def _shared(taken: Sequence[Choice], members: int) -> Cover:
    """Each member takes the newest release of those that run on it, then what it prefers; what nobody takes is left out."""
    best = [
        min((one for one in taken if at in one.liking), key=lambda one: (one.age, one.liking[at], one.key))
        for at in range(members)
    ]
    groups: dict[str, list[int]] = {}
    for at, choice in enumerate(best):
        groups.setdefault(choice.key, []).append(at)
    by_key = {choice.key: choice for choice in best}
    return tuple((by_key[key], tuple(group)) for key, group in groups.items())


def _rank(cover: Cover) -> tuple[object, ...]:
    at = {member: choice for choice, group in cover for member in group}
    chosen = [at[member] for member in sorted(at)]
    oldest_first = sorted((choice.age for choice in chosen), reverse=True)
    return (
        oldest_first,
        [choice.liking[member] for member, choice in enumerate(chosen)],
        [choice.key for choice in chosen],
    )
