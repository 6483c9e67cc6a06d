"""Versions as this field writes them: numbers with dots, compared as numbers, printed as they were read.

`packaging.Version` would print driver 580.65.06 as 580.65.6, a version that nobody ever released.
"""

from __future__ import annotations

import functools
import operator
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_FORM = re.compile(r"[0-9]+(\.[0-9]+)*([.+~-]?[A-Za-z0-9][A-Za-z0-9.+~-]*)?")
_LONGEST = 200  # characters; wheels of nightly builds have versions of 40
_NUMBERS = re.compile(r"[0-9]+(?:\.[0-9]+)*")


class Version:
    """A version that keeps its text (`580.65.06`) and is ordered by its leading numbers (580, 65, 6).

    What follows the numbers (`rc1`, `+cu128`, `t` of a free-threaded Python) takes part in equality and, last, in order.
    """

    __slots__ = ("_order", "numbers", "suffix", "text")

    text: str
    numbers: tuple[int, ...]
    suffix: str
    _order: tuple[tuple[int, ...], str]

    def __init__(self, text: str) -> None:
        """Read `text`; ValueError when it does not begin with a number."""
        head = _NUMBERS.match(text)
        if head is None or len(text) > _LONGEST or not _FORM.fullmatch(text):
            message = f"{text[:80]!r} is not a version (numbers with dots, such as 580.65.06)"
            raise ValueError(message)
        self.text = text
        self.numbers = tuple(map(int, head.group().split(".")))
        self.suffix = text[head.end() :]
        numbers = self.numbers
        while len(numbers) > 1 and numbers[-1] == 0:  # 13 equals 13.0: documents write either
            numbers = numbers[:-1]
        self._order = numbers, self.suffix  # once: the resolver compares versions by the ten thousand

    @classmethod
    def parse(cls, text: str) -> Version:
        """The version written as `text`; ValueError with a sentence otherwise."""
        return cls(text)

    @property
    def major(self) -> int:
        """The first number: of a driver its branch, of CUDA its major release."""
        return self.numbers[0]

    @property
    def minor(self) -> Version:
        """The first two numbers: CUDA 12.8 of 12.8.1."""
        return _minor(self.text) if len(self.numbers) > 2 or self.suffix else self  # noqa: PLR2004 - CUDA 12.8 has two

    def within(self, prefix: Version) -> bool:
        """Whether this version is one of `prefix`: 12.8.1 is within 12.8 and within 12."""
        return self.numbers[: len(prefix.numbers)] == prefix.numbers

    def __eq__(self, other: object) -> bool:
        return self._order == other._order if isinstance(other, Version) else NotImplemented

    def __lt__(self, other: Version) -> bool:
        return self._order < other._order

    # All four are written out: what functools would make of one costs a call more, and the resolver compares all the time.
    def __le__(self, other: Version) -> bool:
        return self._order <= other._order

    def __gt__(self, other: Version) -> bool:
        return self._order > other._order

    def __ge__(self, other: Version) -> bool:
        return self._order >= other._order

    def __hash__(self) -> int:
        return hash(self._order)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Version({self.text!r})"


@functools.lru_cache(maxsize=4096)
def _minor(text: str) -> Version:
    """The first two numbers of a version: few texts, asked for by the ten thousand."""
    return Version(".".join(text.split(".")[:2]))


class Range:
    """Bounds on a version: `>=580`, `>=2.7,<2.9`, `==2.9.1`; a bare version stands for `==`."""

    __slots__ = ("bounds", "text")

    text: str
    bounds: tuple[tuple[str, Version], ...]

    def __init__(self, text: str) -> None:
        """Read `text`; ValueError when a part of it is not a bound."""
        bounds: list[tuple[str, Version]] = []
        for part in filter(None, (piece.strip() for piece in text.split(","))):
            match = re.fullmatch(r"(>=|<=|==|!=|~=|>|<)?\s*(\S+)", part)
            if match is None:
                message = f"{part[:80]!r} is not a bound on a version (such as >=580 or ==2.9.1)"
                raise ValueError(message)
            bound = Version(match[2])
            if match[1] == "~=" and len(bound.numbers) == 1:
                message = f"{part!r} is not a bound on a version: ~= needs two numbers (~={bound}.0)"
                raise ValueError(message)
            bounds.append((match[1] or "==", bound))
        self.text = text
        self.bounds = tuple(bounds)

    @classmethod
    def parse(cls, text: str) -> Range:
        """The range written as `text`; ValueError with a sentence otherwise."""
        return cls(text)

    def __contains__(self, version: Version) -> bool:
        return all(_holds(version, sign, bound) for sign, bound in self.bounds)

    def __eq__(self, other: object) -> bool:
        return self.bounds == other.bounds if isinstance(other, Range) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.bounds)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Range({self.text!r})"


def _holds(version: Version, sign: str, bound: Version) -> bool:
    if sign == "~=":
        return version >= bound and version.within(Version(bound.text.rpartition(".")[0]))
    if sign in _ORDER:
        return _ORDER[sign](version, bound)
    # a bound without a local part is met by any: ==2.9.1 by 2.9.1+cu128 (PEP 440)
    plain = Version(version.text.partition("+")[0]) if "+" in version.suffix and "+" not in bound.suffix else version
    return (plain == bound) == (sign == "==")


_ORDER: Mapping[str, Callable[[Version, Version], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
