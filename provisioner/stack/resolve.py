"""Request x Matrix → Stack: every build is judged by the rules, and the preferred one of those that fit is taken.

`decide` answers every request with a value; `resolve` is the same for those who want the stack or an error. Both are pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from provisioner.errors import NoStackError, UsageError
from provisioner.findings import Because
from provisioner.stack.answer import Decision, Judgement, Note
from provisioner.stack.around import is_guess
from provisioner.stack.choice import make_stack, preference
from provisioner.stack.library_rules import NUMPY
from provisioner.stack.lock import Refusal, Stack
from provisioner.stack.meeting import mode_of
from provisioner.stack.package_rules import packages_alone
from provisioner.stack.packages import by_name
from provisioner.stack.parts import PART_RULES
from provisioner.stack.reading import read
from provisioner.stack.rows import Variant
from provisioner.stack.rules import BARE_RULES, BUILD_RULES
from provisioner.values import replace, value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from provisioner.stack.asked import Asked
    from provisioner.stack.matrix import Matrix
    from provisioner.stack.request import Request
    from provisioner.stack.rows import Release

    #: Asks the index whether it has a build that a document only names: yes, no, or None for "could not ask".
    Confirm = Callable[[Variant], bool | None]


def resolve(request: Request, matrix: Matrix, *, confirmed: Confirm | None = None) -> Stack:
    """The stack for `request`. NoStackError with the refusals where there is none; UsageError where no framework is asked for."""
    decision = decide(request, matrix, confirmed=confirmed)
    if decision.refusals:
        raise NoStackError(
            decision.refusals[0].fact,
            decision.refusals,
            hint=decision.remedies[0].text if decision.remedies else None,
        )
    if decision.stack is None and decision.shares:
        raise UsageError(
            f"the pool needs {len(decision.shares)} stacks, and one was asked for", hint="decide gives all of them: shares"
        )
    if decision.stack is None:
        raise UsageError(
            "the request names no framework, so there is no stack to choose",
            hint=f"add a package: {', '.join(row.id for row in matrix.frameworks)}",
        )
    return decision.stack


def decide(request: Request, matrix: Matrix, *, confirmed: Confirm | None = None, remedies: bool = True) -> Decision:
    """The answer to `request`. UsageError where a word of it has no meaning; everything else is a verdict.

    `confirmed` asks an index about a build that is only named, see `Confirm`; without it such a build is taken only where no
    build that was seen fits. `remedies`: look for changes that help, each proved by deciding again.

    The members of a pool get one stack where there is one, else the smallest set of stacks that covers them.
    """
    if request.pool:
        from provisioner.stack.pools import decide_pool

        return decide_pool(request, matrix, confirmed=confirmed, remedies=remedies)
    return decide_together(request, matrix, confirmed=confirmed, remedies=remedies)


def decide_together(request: Request, matrix: Matrix, *, confirmed: Confirm | None = None, remedies: bool = True) -> Decision:
    """As `decide`, with one stack for all machines of the request, or none."""
    asked = read(request, matrix)
    if asked.problems:
        return _refused(asked, asked.problems, remedies=remedies)
    parts = judge_parts(asked)
    if asked.wants.framework is None:
        return _parts_only(asked, parts, remedies=remedies)
    denied: list[Variant] = []
    if not parts.refusals:
        build = best_build(asked, confirmed=_noting(denied, confirmed))
        if build is not None:
            return kept(asked, build, parts)
    from provisioner.stack.explain import refusals_of

    return _refused(asked, refusals_of(asked, parts, denied), remedies=remedies, denied=denied)


def proved(request: Request, matrix: Matrix, *, confirmed: Confirm | None = None) -> Decision | None:
    """The decision for a request that holds, None for one that does not, without the work of saying why."""
    if request.pool:
        decision = decide(request, matrix, confirmed=confirmed, remedies=False)
        return decision if decision.verdict == "ok" else None
    asked = read(request, matrix)
    if asked.problems:
        return None
    parts = judge_parts(asked)
    if asked.wants.framework is None:
        decision = _parts_only(asked, parts, remedies=False)
        return decision if decision.verdict == "ok" else None
    build = None if parts.refusals else best_build(asked, confirmed=confirmed)
    return None if build is None else kept(asked, build, parts)


def _noting(denied: list[Variant], confirmed: Confirm | None) -> Confirm | None:
    """`confirmed`, with the builds that an index does not have noted in `denied`."""
    if confirmed is None:
        return None

    def confirm(build: Variant) -> bool | None:
        answer = confirmed(build)
        if answer is False:
            denied.append(build)
        return answer

    return confirm


@value
class Judged:
    """All that the rules said about one thing. `allowed` are the rules that refused and were overridden."""

    because: tuple[Because, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    notes: tuple[Note, ...] = ()
    allowed: tuple[str, ...] = ()


def judged(asked: Asked, judgements: Iterable[Judgement]) -> Judged:
    """Sort judgements, with what `--allow` overrides apart."""
    because: list[Because] = []
    refusals: list[Refusal] = []
    notes: list[Note] = []
    allowed: list[str] = []
    for item in judgements:
        match item:
            case Because():
                because.append(item)
            case Note():
                notes.append(item)
            case Refusal() if asked.allows(item):
                names = [name for name in (item.rule, item.finding) if name in asked.request.allow]
                allowed += names
                because.append(Because(fact=f"overridden by --allow {names[0]}: {item.fact}", source="the request"))
            case Refusal():
                refusals.append(item)
    return Judged(
        because=tuple(because),
        refusals=tuple(refusals),
        notes=tuple(notes),
        allowed=tuple(dict.fromkeys(allowed)),
    )


def _and(one: Judged, other: Judged) -> Judged:
    return Judged(
        because=(*one.because, *other.because),
        refusals=(*one.refusals, *other.refusals),
        notes=(*one.notes, *other.notes),
        allowed=(*one.allowed, *other.allowed),
    )


def judge_parts(asked: Asked) -> Judged:
    """What the rules say about the parts of the request that no build changes."""
    return judged(asked, (item for rule in PART_RULES for item in rule(asked)))


def judge_build(asked: Asked, build: Variant) -> Judged:
    """What all rules say about one build."""
    return judged(asked, (item for rule in BUILD_RULES for item in rule(asked, build)))


def fits(asked: Asked, build: Variant) -> bool:
    """Whether no rule refuses `build`; stops at the first that does."""
    return not any(isinstance(item, Refusal) and not asked.allows(item) for rule in BUILD_RULES for item in rule(asked, build))


def best_build(asked: Asked, *, confirmed: Confirm | None = None, releases: Sequence[Release] | None = None) -> Variant | None:
    """The preferred build that fits, or None. `releases` are tried in this order; by default the newest first."""
    order = asked.releases if releases is None else releases
    if asked.request.prefer == "native":
        native = _first(asked, _kept_builds(asked, order, only="native"), confirmed)
        if native is not None:
            return native
    return _first(asked, _kept_builds(asked, order), confirmed)


def _kept_builds(asked: Asked, releases: Iterable[Release], only: Literal["native"] | None = None) -> Iterator[Variant]:
    for release in releases:
        kept = [build for build in asked.builds(release) if fits(asked, build)]
        if only is not None:
            kept = [build for build in kept if build.cuda is None or mode_of(asked, build) == only]
        yield from sorted(kept, key=lambda build: preference(asked, build))


def _first(asked: Asked, builds: Iterator[Variant], confirmed: Confirm | None) -> Variant | None:
    """The first build that was seen, or that its index confirms, and of which it is known that it has code for the GPUs.

    Else the first of which that is not known; else the first that is only named.
    """
    guessed: Variant | None = None
    named: Variant | None = None
    for build in builds:
        answer = True if build.published == "seen" else confirmed(build) if confirmed is not None else None
        if answer and not (asked.targets and is_guess(build)):
            return build
        if answer and guessed is None:
            guessed = build
        if answer is None and named is None:
            named = build
    return guessed or named


def kept(asked: Asked, build: Variant, parts: Judged) -> Decision:
    """The decision for `build`, which fits."""
    mine = judge_build(asked, build)
    stack = make_stack(asked, build, (*parts.because, *mine.because), (*parts.allowed, *mine.allowed))
    extra = tuple(
        Note(
            rule="package-known",
            finding="package-not-in-data",
            fact=f"{item.name} is not in the data: it goes along as it is, and nothing here says whether it fits",
        )
        for item in asked.wants.others
        if item.name not in by_name(asked.matrix) and item.name != NUMPY
    )
    notes = (*parts.notes, *mine.notes, *extra)
    stack = replace(stack, notes=tuple(dict.fromkeys(note.fact for note in notes)))
    return Decision(verdict="ok", stack=stack, notes=(*notes, *_unused(asked, stack.allowed)))


def _unused(asked: Asked, allowed: Sequence[str]) -> tuple[Note, ...]:
    """An `--allow` that overrode nothing is said: it may be misspelt."""
    idle = [name for name in asked.request.allow if name not in allowed]
    return tuple(Note(rule="allow", finding="nothing-to-allow", fact=f"--allow {name} overrode nothing here") for name in idle)


def _parts_only(asked: Asked, parts: Judged, *, remedies: bool) -> Decision:
    """No framework is asked, only whether the parts fit. A CUDA is judged as a build that holds all its toolkit can target."""
    strangers = [item.name for item in asked.wants.others if item.name not in by_name(asked.matrix)]
    if strangers:
        return _refused(asked, (_no_framework(asked, strangers),), remedies=remedies)
    cuda = asked.request.cuda
    found = _and(parts, judged(asked, packages_alone(asked)))
    if cuda is not None:
        row = asked.matrix.cuda_minor(cuda)
        if row is None:
            return _refused(asked, (_no_cuda(asked),), remedies=remedies)
        plain = tuple(sm for sm in row.sm if not sm.suffix)
        build = Variant(
            framework="",
            version=cuda,
            tag="",
            platform=asked.request.platform,
            index="",
            published="seen",
            cuda=row.version,
            pythons=(),
            sass=plain,
            ptx=() if asked.request.code == "sass" else plain,
            source=row.source,
            verified=row.verified,
        )
        bare = judged(asked, (item for rule in BARE_RULES for item in rule(asked, build)))
        found = _and(found, bare)
    if found.refusals:
        return _refused(asked, found.refusals, remedies=remedies)
    said = tuple(Note(rule="parts-fit", finding="part-fits", fact=item.fact, because=(item,)) for item in found.because)
    return Decision(verdict="ok", notes=(*found.notes, *said))


def _no_framework(asked: Asked, names: Sequence[str]) -> Refusal:
    """Packages were asked that the matrix does not know, and no framework: nothing here can say what they need."""
    known = asked.matrix.frameworks
    fact = f"no framework of the data of {asked.matrix.collected} is among the packages {', '.join(names)}"
    called = [row.id for row in known if row.name.lower() in names]
    close = [row.id for row in known if any(name.startswith(row.id) for name in names)]
    if called or close:
        fact += f"; did you mean {(called or close)[0]}?"
    else:
        fact += f" (known: {', '.join(row.id for row in known)})"
    return Refusal(rule="package-known", finding="package-not-in-data", fact=fact, certain=False)


def _no_cuda(asked: Asked) -> Refusal:
    known = [row.version for row in asked.matrix.cuda]
    cuda = asked.request.cuda
    newer = bool(known) and cuda is not None and cuda > known[-1]
    if newer or not known:
        fact = f"CUDA {cuda} is newer than the data of {asked.matrix.collected}"
        return Refusal(rule="cuda-known", finding="cuda-not-in-data", fact=fact, certain=False)
    return Refusal(rule="cuda-known", finding="no-such-cuda", fact=f"there is no CUDA toolkit {cuda}")


def _refused(asked: Asked, refusals: Sequence[Refusal], *, remedies: bool, denied: Sequence[Variant] = ()) -> Decision:
    verdict: Literal["conflict", "unknown"] = "conflict" if any(item.certain for item in refusals) else "unknown"
    if remedies and refusals:
        from provisioner.stack.remedies import with_remedies

        refusals = with_remedies(asked, refusals, denied)
    return Decision(verdict=verdict, refusals=tuple(refusals))
