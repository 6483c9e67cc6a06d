"""Why each build was kept or refused, and which refusals answer a request that nothing satisfies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provisioner.stack.asked import reason
from provisioner.stack.choice import preference
from provisioner.stack.lock import Candidate, Refusal
from provisioner.stack.meeting import mode_of
from provisioner.stack.reading import read
from provisioner.stack.resolve import Judged, judge_build, judge_parts, judged
from provisioner.stack.rules import FOR_GPU, FOR_PLATFORM, KIND_RULES, PINS, named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from provisioner.stack.asked import Asked
    from provisioner.stack.matrix import Matrix
    from provisioner.stack.request import Request
    from provisioner.stack.rows import Variant

_SHOWN = 8  # further refusals after those of the closest miss


def explain(request: Request, matrix: Matrix) -> tuple[Candidate, ...]:
    """Every build that the request's requirement takes, the newest release first, with what kept it or which rules refused it.

    Empty where the request names no framework, or something that is not in the matrix; `decide` says so. UsageError as there.
    """
    asked = read(request, matrix)
    if asked.problems:
        return ()
    parts = judge_parts(asked)
    candidates: list[Candidate] = []
    for release in asked.releases:
        for build in sorted(asked.builds(release), key=lambda build: preference(asked, build)):
            mine = judge_build(asked, build)
            refusals = (*parts.refusals, *mine.refusals)
            candidates.append(
                Candidate(
                    version=build.version,
                    variant=build.tag,
                    platform=build.platform,
                    index=build.index,
                    published=build.published,
                    kept=not refusals,
                    refused_by=refusals,
                    compatibility=None if refusals else mode_of(asked, build),
                    because=() if refusals else (*parts.because, *mine.because),
                )
            )
    return tuple(candidates)


def refusals_of(asked: Asked, parts: Judged, denied: Sequence[Variant] = ()) -> tuple[Refusal, ...]:
    """The refusals of a request that no build satisfies, the closest miss first. `denied`: builds that their index does not have.

    Closest is the build that fewest rules refuse, with those first that hold the pins; after its refusals comes one of each
    other kind. Where a build is refused only because something is not known, that alone is the answer, and no conflict.
    """
    builds = [build for release in asked.releases for build in asked.builds(release)]
    near = _nearest_kind(asked, builds)
    misses = [
        (build, (*judge_build(asked, build).refusals, *((_not_there(asked, build),) if build in denied else ())))
        for build in near or builds
    ]
    found = list(parts.refusals)
    if not near and builds:
        found.append(_no_such_build(asked, builds))
    ranked = sorted(misses, key=lambda miss: (_certain(miss[1]), len(miss[1]), preference(asked, miss[0])))
    if ranked and not _certain((*found, *ranked[0][1])):
        return (*found, *ranked[0][1])
    shown = 0
    for at, (_, refusals) in enumerate(ranked):
        for refusal in refusals:
            if refusal.rule == PINS and not near:
                continue
            known = {item.finding for item in found}
            if (at == 0 and refusal not in found) or (refusal.finding not in known and shown < _SHOWN):
                found.append(refusal)
                shown += at > 0
    return tuple(found)


def _not_there(asked: Asked, build: Variant) -> Refusal:
    fact = f"a document names {named(build)}, and {build.index} was asked and does not have it"
    because = (reason(asked.matrix, "variants", build),)
    return Refusal(rule="is-published", finding="build-not-published", fact=fact, because=because)


def _nearest_kind(asked: Asked, builds: Sequence[Variant]) -> Sequence[Variant]:
    """Of the builds that hold the pins: those for the platform and the GPU, else those for the platform, else any.

    Only the rules that tell these kinds apart are asked: the rest cost more, and most builds are of another kind.
    """
    misses = [(build, judged(asked, (item for rule in KIND_RULES for item in rule(asked, build))).refusals) for build in builds]
    for far in ({PINS, FOR_PLATFORM, FOR_GPU}, {PINS, FOR_PLATFORM}, {PINS}):
        near = [build for build, refusals in misses if not far & {item.rule for item in refusals}]
        if near:
            return near
    return ()


def _certain(refusals: Sequence[Refusal]) -> int:
    return sum(item.certain for item in refusals)


def _no_such_build(asked: Asked, builds: list[Variant]) -> Refusal:
    """No candidate is what was pinned: said once, with what there is."""
    request = asked.request
    pins = {
        "variant": request.variant,
        "local version": asked.wants.tag,
        "index": request.index if isinstance(request.index, str) or request.index is None else " or ".join(request.index),
        "CUDA": request.cuda,
        "cuDNN": request.cudnn,
        "NCCL": request.nccl,
    }
    pinned = ", ".join(f"{name} {pin}" for name, pin in pins.items() if pin is not None)
    newest = builds[0].version
    there = [build for build in builds if build.version == newest and build.platform == request.platform]
    elsewhere = [
        build for build in builds if build.tag == (request.variant or asked.wants.tag) and build.platform != request.platform
    ]
    name = f"{builds[0].framework} {newest}" if len({build.version for build in builds}) == 1 else builds[0].framework
    fact = f"{name} has no build with {pinned} for {request.platform}"
    fact += f"; {builds[0].framework} {newest} has {', '.join(sorted(build.tag for build in there)) or 'none there'}"
    untagged = [build for build in there if asked.wants.tag == build.tag and build.local == ""]
    if untagged:
        fact += (
            f". The wheels of {named(untagged[0])} for {untagged[0].platform} have no local version, so a pin on "
            f"+{asked.wants.tag} matches none of them: take them by their index, {untagged[0].index}"
        )
    if elsewhere:
        fact += f"; {named(elsewhere[0])} exists for {elsewhere[0].platform}"
    because = tuple(reason(asked.matrix, "variants", build) for build in there)
    return Refusal(rule=PINS, finding="no-such-build", fact=fact, because=because)
