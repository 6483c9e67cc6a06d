"""What the resolver answers: judgements of single rules, and the decision over a whole request."""

from __future__ import annotations

from typing import Literal

from provisioner.findings import Because, Remedy
from provisioner.stack.lock import Candidate, Refusal, Stack
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
class Decision:
    """The answer to a request.

    `ok`: it holds; `stack` is None only where the request asks for no framework, and so only whether its parts fit.
    `conflict`: it cannot hold. `unknown`: it goes beyond the data. For both `refusals` say why, the closest miss first; the
    remedies stand with the first refusal. `candidates` are filled by `explain` only.
    """

    verdict: Literal["ok", "conflict", "unknown"]
    stack: Stack | None = None
    refusals: tuple[Refusal, ...] = ()
    notes: tuple[Note, ...] = ()
    candidates: tuple[Candidate, ...] = ()

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        """What helps, the cheapest first; each was resolved again and works."""
        return self.refusals[0].remedies if self.refusals else ()
