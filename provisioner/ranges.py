"""Host names and ranges of them: `gpu[01-04]`, `r[1-2]n[01,03-05]`, as Slurm writes them."""

from __future__ import annotations

import itertools
import re
from typing import Final

#: A name of a host or a group. It is an argument of programs and a part of file names, so nothing else is allowed in it.
NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
#: More hosts than any inventory has; a wrong range must not eat the memory.
MOST: Final = 100_000
_BRACKETS: Final = re.compile(r"\[([^\[\]]*)\]")
_PART: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


def expand_range(text: str) -> tuple[str, ...]:
    """The names that `text` stands for, in order; ValueError with a sentence where it is no name and no range."""
    pieces = _BRACKETS.split(text)
    if "[" in "".join(pieces[::2]) or "]" in "".join(pieces[::2]):
        raise ValueError(f"{text[:80]!r}: a bracket has no partner (a range is written gpu[01-04])")
    choices = [(piece,) if index % 2 == 0 else _numbers(piece, text) for index, piece in enumerate(pieces)]
    count = 1
    for choice in choices:
        count *= len(choice)
    if count > MOST:
        raise ValueError(f"{text[:80]!r} stands for {count} hosts; more than {MOST} are taken for a mistake")
    names = tuple("".join(parts) for parts in itertools.product(*choices))
    for name in names[:1]:  # the rest differ in digits only
        if not NAME.fullmatch(name) or len(names[-1]) > 253:  # noqa: PLR2004 - the longest name in DNS
            raise ValueError(f"{text[:80]!r} is not the name of a host (letters, digits, and . _ - between them)")
    return names


def _numbers(piece: str, text: str) -> tuple[str, ...]:
    found: list[str] = []
    for part in piece.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(f"{text[:80]!r}: {part[:40]!r} is not a number or a range of numbers (gpu[01-04])")
        first, last = match[1], match[2] or match[1]
        if int(last) < int(first):
            raise ValueError(f"{text[:80]!r}: {part} counts down")
        if int(last) - int(first) + len(found) >= MOST:
            raise ValueError(f"{text[:80]!r}: {part} are more than {MOST} hosts")
        found += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return tuple(found)
