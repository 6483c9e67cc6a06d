"""GPU names as people write them, matched with the names that the driver reports.

A name is split into words at spaces, hyphens, other marks and letter/digit borders; the words that say nothing of the product
(NVIDIA, GeForce, Tesla, Quadro, PRO) are dropped; what is asked must stand in the name as words that follow one another. So
`a100` finds the A100 boards and not the RTX A1000, `t4` the T4 and not the T400. Where somebody does write a dropped word and
it stands in some of those names at that place, these are meant: `RTX PRO 6000` is not the Quadro RTX 6000.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from provisioner.stack.matrix import Matrix
    from provisioner.stack.rows import Gpu

_WORD = re.compile(r"[a-z]+|\d+")
_SAYS_NOTHING = frozenset({"nvidia", "geforce", "tesla", "quadro", "pro"})


def match_gpus(asked: str, matrix: Matrix) -> tuple[Gpu, ...]:
    """The products that `asked` may mean, in the matrix's order; none when it names none of them.

    A full name, or a full alias, stands for its product alone, spelt exactly or in other case; older drivers print `GeForce RTX
    3090` for `NVIDIA GeForce RTX 3090`. `sm_90` is for the caller.
    """
    text = asked.strip()
    low = text.lower()
    full = {low, f"nvidia {low}"} if low.split(" ", 1)[0] in _SAYS_NOTHING else {low}
    for same in (lambda name: name == text, lambda name: name.lower() in full):
        exact = tuple(gpu for gpu in matrix.gpus if any(map(same, (gpu.name, *gpu.aliases))))
        if exact:
            return exact
    words = _telling(_words(text))
    if not words:
        return ()
    near = (gpu for gpu in matrix.gpus if _may_hold(gpu, words))
    found = tuple(gpu for gpu in near if any(_holds(_telling(name), words) for name in _names(gpu)))
    spelt = tuple(gpu for gpu in found if any(_holds(name, _words(text)) for name in _names(gpu)))
    return spelt if spelt and words != _words(text) else found


@functools.cache
def _words(name: str) -> tuple[str, ...]:
    """`NVIDIA H100 80GB HBM3` → nvidia h 100 80 gb hbm 3."""
    return tuple(_WORD.findall(name.lower()))


def _telling(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word for word in words if word not in _SAYS_NOTHING)


def _may_hold(gpu: Gpu, words: tuple[str, ...]) -> bool:
    """Whether the names have these letters and digits at all: most have not, and need not be split."""
    text = " ".join((gpu.name, *gpu.aliases)).lower()
    return all(word in text for word in words)


def _names(gpu: Gpu) -> tuple[tuple[str, ...], ...]:
    return tuple(map(_words, (gpu.name, *gpu.aliases)))


def _holds(words: tuple[str, ...], asked: tuple[str, ...]) -> bool:
    return any(words[at : at + len(asked)] == asked for at in range(len(words) - len(asked) + 1))
