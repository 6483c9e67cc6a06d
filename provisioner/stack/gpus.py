"""Compute capabilities and code targets: which machine code runs on which GPU."""

from __future__ import annotations

import functools
import re

_TEXT = re.compile(r"(?:sm_|compute_)?(\d{2,3}|\d{1,2}\.\d)([af]?)")


@functools.total_ordering
class Capability:
    """A compute capability (9.0), or the target that code was compiled for (sm_90, sm_90a, compute_90).

    `suffix` is "" for a plain target, `a` for an architecture-specific one (runs on exactly that capability), `f` for a
    family-specific one. Ordered by major and minor.
    """

    __slots__ = ("major", "minor", "suffix")

    major: int
    minor: int
    suffix: str

    def __init__(self, major: int, minor: int, suffix: str = "") -> None:
        """Capability `major`.`minor`."""
        self.major, self.minor, self.suffix = major, minor, suffix

    @classmethod
    def parse(cls, text: str) -> Capability:
        """Read `9.0`, `90`, `sm_90`, `sm_90a` or `compute_90`; ValueError otherwise."""
        match = _TEXT.fullmatch(text.strip().lower())
        if match is None:
            message = f"{text!r} is not a compute capability: MAJOR.MINOR, or sm_ with both digits"
            raise ValueError(message)
        digits = match[1].replace(".", "")
        return cls(int(digits[:-1]), int(digits[-1]), match[2])

    @property
    def sm(self) -> str:
        """The cubin target: sm_90a."""
        return f"sm_{self.major}{self.minor}{self.suffix}"

    def _key(self) -> tuple[int, int, str]:
        return self.major, self.minor, self.suffix

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Capability) else NotImplemented

    def __lt__(self, other: Capability) -> bool:
        return self._key() < other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}{self.suffix}"

    def __repr__(self) -> str:
        return f"Capability({self.major}, {self.minor}, {self.suffix!r})"


def cubin_runs(target: Capability, gpu: Capability) -> bool:
    """Whether machine code for `target` runs on `gpu`: the same major, an equal or higher minor.

    Source: Blackwell Compatibility Guide 1.2.
    `sm_90a` runs on 9.0 only; `sm_100f` on its family, the same major with an equal or higher minor.
    """
    if target.suffix == "a":
        return (target.major, target.minor) == (gpu.major, gpu.minor)
    return target.major == gpu.major and target.minor <= gpu.minor


def ptx_runs(target: Capability, gpu: Capability) -> bool:
    """Whether PTX for `target` can be compiled by the driver for `gpu`: equal or newer, and not architecture-specific."""
    return not target.suffix and (target.major, target.minor) <= (gpu.major, gpu.minor)
