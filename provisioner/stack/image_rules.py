"""Whether a whole image runs on the GPUs and drivers, where it is asked about by itself and nothing is to be installed in it.

That it starts is a rule of its own (`parts.image_fits`): the container toolkit compares the image's CUDA with what the driver
reports, and is stricter than CUDA. Here is what remains: GPU code, and the driver where that is still to be chosen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from provisioner.stack.answer import Judgement, Note
from provisioner.stack.choice import branch_of
from provisioner.stack.gpus import ptx_runs
from provisioner.stack.lock import Refusal
from provisioner.stack.meeting import DATA_CENTRE
from provisioner.stack.rows import Variant
from provisioner.stack.rules import runs_on_gpu
from provisioner.values import replace
from provisioner.versions import Version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provisioner.stack.asked import Asked, Machine, Target
    from provisioner.stack.rows import Cuda, ImageRow


def image_runs(asked: Asked) -> Iterator[Judgement]:
    """The image's CUDA can have code for the GPUs, and a driver starts it."""
    row = asked.image
    if row is None or asked.wants.framework is not None or asked.request.cuda is not None:
        return
    name = asked.request.image or row.repository
    cuda = asked.matrix.cuda_minor(row.cuda) if row.cuda is not None else None
    if row.cuda is None:
        fact = f"image {name} has no CUDA of its own: it starts on any driver; what is installed in it decides about the GPU"
        yield Note(rule="image-runs", finding="image-without-cuda", fact=fact)
    elif cuda is None:
        fact = f"image {name} has CUDA {row.cuda}, which has no row in the data: what it runs on is not known"
        yield Refusal(rule="image-runs", finding="cuda-not-in-data", fact=fact, certain=False)
    else:
        build = _as_build(asked, cuda)
        for machine in asked.machines:
            for target in machine.targets:
                yield from _has_code(asked, build, machine, target)
            if machine.driver.version is None:
                yield from _driver_for(asked, row, build, machine)


def _has_code(asked: Asked, build: Variant, machine: Machine, target: Target) -> Iterator[Judgement]:
    """The CUDA has a target for the GPU; where it came before the GPU, PTX may still run, and nobody said that there is any."""
    alone = replace(asked, machines=(replace(machine, targets=(target,)),))
    for item in runs_on_gpu(alone, build):
        newer = any(ptx_runs(sm, target.capability) for sm in build.sass or ())
        if isinstance(item, Refusal) and item.finding == "arch-not-in-build" and newer:
            fact = (
                f"CUDA {build.cuda} in image {asked.request.image} came before {target}: only code that was compiled as PTX runs "
                "on it, and whether the image holds such code is not in the data"
            )
            yield Refusal(rule="image-runs", finding="image-older-than-gpu", fact=fact, because=item.because, certain=False)
        else:
            yield item


def _as_build(asked: Asked, cuda: Cuda) -> Variant:
    """The image as a build with machine code for all that its CUDA can target."""
    return Variant(
        framework="",
        version=cuda.version,
        tag="",
        platform=asked.request.platform,
        index="",
        published="seen",
        cuda=cuda.version,
        pythons=(),
        sass=tuple(sm for sm in cuda.sm if not sm.suffix),
        source=cuda.source,
        verified=cuda.verified,
    )


def _driver_for(asked: Asked, row: ImageRow, build: Variant, machine: Machine) -> Iterator[Judgement]:
    """Where the driver is free: the lowest that starts the image; for `upgrade` the branch to install."""
    if row.cuda is None or not (machine.targets or machine.branches):
        return
    wanted, name = row.cuda.minor, asked.request.image
    able = [branch for branch in machine.branches if branch.max_cuda >= wanted]
    centre = bool(machine.targets) and all(target.segments and target.segments <= DATA_CENTRE for target in machine.targets)
    compat = [
        branch.branch
        for branch in machine.branches
        if centre
        and (known := asked.matrix.row("forward_compat", f"{wanted} {branch.branch}")) is not None
        and known.state == "C"
    ]
    if not able and not compat:
        last = machine.branches[-1] if machine.branches else None
        names = " and ".join(str(target) for target in machine.targets)
        fact = f"image {name} starts only where the driver reports CUDA {wanted} or newer, and no driver of {names} does"
        if last is not None:
            fact += f": branch {last.branch} is the last, and reports {last.max_cuda}"
        rows = [("drivers", last)] if last is not None else []
        yield asked.refuse("image-runs", "no-driver-for-gpu-and-cuda", fact, rows)
        return
    first = min(able, key=lambda branch: Version(branch.branch), default=None)
    fact = f"image {name} starts where the driver reports CUDA {wanted} or newer"
    if first is not None:
        fact += f": branch {first.branch} ({first.first or first.branch}) is the first that does"
    if compat:
        fact += f"; with the cuda-compat in it also on branch {', '.join(compat)}"
    yield asked.because(fact, "drivers", first or machine.branches[0])
    if machine.driver.text == "upgrade":
        branch, why = branch_of(replace(asked, machines=(machine,)), build)
        if branch is not None:
            yield from why
