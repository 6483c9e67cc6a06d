"""What is pinned beside a build, for its own bounds let through what does not run here.

A build that asks for a range of cuDNN or NCCL gets the newest of that range when it is installed, and that one may have dropped
the GPU. So the range is closed below the first release that has, or the build is refused where nothing is left of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from provisioner.stack.asked import Target
from provisioner.stack.package_rows import Library
from provisioner.stack.wants import Requirement, parse_requirement
from provisioner.values import value
from provisioner.versions import Version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provisioner.stack.answer import Judgement
    from provisioner.stack.asked import Asked
    from provisioner.stack.rows import Variant

_BELOW = frozenset({"<", "<="})
_ABOVE = frozenset({">=", ">", "==", "~="})


@value
class Closed:
    """A requirement of the build, the release below which it stays, and the row and the GPU that say so."""

    requirement: Requirement
    below: Version
    row: Library
    target: Target

    @property
    def empty(self) -> bool:
        """Whether the build asks for nothing but what has dropped the GPU."""
        bounds = self.requirement.bounds.bounds if self.requirement.bounds else ()
        return any(sign in _ABOVE and bound >= self.below for sign, bound in bounds)

    @property
    def text(self) -> str:
        """The pin, as pip is given it."""
        return f"{self.requirement.name}<{self.below}"


def ranges_fit(asked: Asked, build: Variant) -> Iterator[Judgement]:
    """The libraries that the build asks for as ranges have a release that runs on every GPU; which is then what it gets."""
    for closed in _closed(asked, build):
        name, row = closed.requirement.name, closed.row
        since = f"from {closed.below} on {name} runs on compute capability {row.min_capability} or higher"
        if closed.empty:
            fact = f"the {build.tag} build of {build.framework} {build.version} asks for {closed.requirement.text}; {since}, and "
            fact += f"{closed.target} is below"
            rows = [("variants", build), ("libraries", row), *closed.target.rows()]
            yield asked.refuse("libraries-fit", "library-min-arch", fact, rows)
        else:
            fact = f"{name} stays below {closed.below}: {since}, and this is {closed.target}"
            yield asked.because(fact, "libraries", row)


def pins_beside(asked: Asked, build: Variant) -> tuple[str, ...]:
    """The pins that are installed beside `build`; not those whose distribution the request names itself."""
    named = {item.name for item in asked.wants.others}
    pins = (*build.pins, *(closed.text for closed in _closed(asked, build)))
    return tuple(pin for pin in dict.fromkeys(pins) if parse_requirement(pin).name not in named)


def _closed(asked: Asked, build: Variant) -> Iterator[Closed]:
    if build.cuda is None or asked.gpu is False or not asked.targets:
        return
    target = min(asked.targets, key=lambda target: target.capability)
    for text in build.libraries:
        requirement = parse_requirement(text)
        rows = [
            row
            for row in asked.matrix.libraries
            if row.cuda_major == build.cuda.major
            and row.library in requirement.name.split("-")
            and row.min_capability is not None
        ]
        dropped = [row for row in rows if row.min_capability and row.min_capability > target.capability]
        if not dropped:
            continue
        first = min(dropped, key=lambda row: row.first)
        ends = [row.before for row in rows if row.before is not None and row.before <= first.first]
        below = max(ends, default=first.first)
        bounds = requirement.bounds.bounds if requirement.bounds else ()
        if not any(sign in _BELOW and bound <= below for sign, bound in bounds):
            yield Closed(requirement=requirement, below=below, row=first, target=target)
