"""What the resolver answers: judgements of single rules, and the decision over a whole request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from provisioner.findings import Because, Remedy
from provisioner.stack.lock import Candidate, Refusal, Stack
from provisioner.stack.rows import ModuleFlavour
from provisioner.values import value


@value
class Note:
    """What neither refuses nor passes, and is said: a fact that is not known, a package that the matrix does not know."""

    rule: str
    finding: str
    fact: str
    because: tuple[Because, ...] = ()


#: What one rule says about one thing.
Judgement = Because | Refusal | Note


@value
class Served:
    """A member of a pool beside the stack that it gets.

    `driver_branch` is that of its driver, or where it may change (`upgrade`) the one to install, with the flavours of kernel
    modules that drive its GPUs. `hosts` are written out.
    """

    name: str
    gpus: tuple[str, ...]
    driver: str
    driver_branch: str | None = None
    kernel_modules: tuple[ModuleFlavour, ...] = ()
    hosts: tuple[str, ...] = ()
    count: int | None = None


@value
class Share:
    """One stack of a pool, and the members that get it."""

    stack: Stack
    members: tuple[Served, ...]


@value
class Alternative:
    """Another answer for a pool, proved by deciding: what it is, which stacks, the changes of the request, and its price."""

    what: Literal["newest-set", "newest-single-stack", "driver-change"]
    shares: tuple[Share, ...]
    price: str
    changes: Mapping[str, str] = field(default_factory=dict)


@value
class Decision:
    """The answer to a request.

    `ok`: it holds; `stack` is None where the request asks for no framework, and so only whether its parts fit, and where a pool
    needs several: `shares` are the stacks of a pool with its members, one or several, and `alternatives` what else it could have.
    `conflict`: it cannot hold. `unknown`: it goes beyond the data. For both `refusals` say why, the closest miss first; the
    remedies stand with the first refusal. `candidates` are filled by `explain` only.
    """

    verdict: Literal["ok", "conflict", "unknown"]
    stack: Stack | None = None
    refusals: tuple[Refusal, ...] = ()
    notes: tuple[Note, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    shares: tuple[Share, ...] = ()
    alternatives: tuple[Alternative, ...] = ()

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        """What helps, the cheapest first; each was resolved again and works."""
        return self.refusals[0].remedies if self.refusals else ()
