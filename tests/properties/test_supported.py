"""No false alarm: requests for default builds on GPUs and drivers that support them are answered, whatever else is drawn.

What supports what is worked out here from the rows alone: code for the GPU, a branch that drives it, a driver that the CUDA of
the build was released with or that came later.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from provisioner.stack.compiled import shipped_matrix
from provisioner.stack.gpus import cubin_runs
from provisioner.stack.request import Request
from provisioner.stack.resolve import decide
from provisioner.versions import Version

if TYPE_CHECKING:
    from provisioner.stack.rows import DriverBranch, Gpu, Variant

MATRIX = shipped_matrix()
COUNT = 300
BUILDS = tuple(row for row in MATRIX.variants if row.default and row.cuda and row.sass and row.published == "seen")
IMAGES = {(row.python, platform) for row in MATRIX.images if row.repository == "python" for platform in row.platforms}


def runs(build: Variant, gpu: Gpu) -> bool:
    """Code for the GPU, cuDNN for it, and a machine that such a GPU can be in."""
    floors = [
        row.min_capability
        for row in MATRIX.libraries
        if build.cuda and build.cudnn and row.library == "cudnn" and row.cuda_major == build.cuda.major
        if row.first <= build.cudnn and (row.before is None or build.cudnn < row.before)
    ]
    return (
        gpu.segment != "jetson"
        and (gpu.segment != "grace" or build.platform == "linux/arm64")
        and any(cubin_runs(sm, gpu.capability) for sm in build.sass or ())
        and all(floor is None or gpu.capability >= floor for floor in floors)
        and (build.min_capability is None or gpu.capability >= build.min_capability)
    )


def drives(branch: DriverBranch, gpu: Gpu, build: Variant) -> bool:
    architecture = MATRIX.architecture(gpu.architecture)
    last = gpu.last_driver or (architecture.last_driver if architecture else None)
    cuda = MATRIX.cuda_minor(build.cuda) if build.cuda else None
    needs_open = (gpu.open_modules or (architecture.open_modules if architecture else "")) == "required"
    needs_proprietary = (gpu.open_modules or (architecture.open_modules if architecture else "")) == "unsupported"
    return (
        gpu.architecture in branch.architectures
        and (last is None or int(branch.branch) <= int(last))
        and not (needs_open and branch.open_modules == "none")
        and not (needs_proprietary and branch.open_modules == "only flavour")
        and cuda is not None
        and cuda.native_driver is not None
        and branch.latest is not None
        and branch.latest >= cuda.native_driver
    )


def drawn() -> list[Request]:
    draw = random.Random(20261201)  # the same requests each time
    found: list[Request] = []
    while len(found) < COUNT:
        build = draw.choice(BUILDS)
        gpus = [gpu for gpu in MATRIX.gpus if runs(build, gpu)]
        gpu = draw.choice(gpus)
        branches = [branch for branch in MATRIX.drivers if drives(branch, gpu, build)]
        if not branches:
            continue
        pythons = [python for python in build.pythons if (python, build.platform) in IMAGES]
        framework = MATRIX.framework(build.framework)
        from_system = (build.cuda_from or (framework.cuda_from if framework else None)) == "system"
        extras = build.requirement.partition("==")[0] if build.requirement else build.framework
        found.append(
            Request(
                packages=(f"{extras}=={build.version}",),
                gpus=(gpu.name,),
                driver=str(draw.choice(branches).latest),
                platform=build.platform,
                python=draw.choice([None, *pythons]) if not from_system else None,
            )
        )
    return found


REQUESTS = drawn()


def test_there_are_as_many_as_promised_of_every_framework() -> None:
    assert len(REQUESTS) == COUNT
    asked = {request.packages[0].partition("==")[0].partition("[")[0] for request in REQUESTS}
    assert asked == {row.framework for row in BUILDS}
    assert {request.platform for request in REQUESTS} == {"linux/amd64", "linux/arm64"}
    assert all(Version(request.driver) for request in REQUESTS)


@pytest.mark.parametrize("at", range(0, COUNT, 50))
def test_nothing_that_is_supported_is_flagged(at: int) -> None:
    flagged = [
        (request.packages, request.gpus, request.driver, request.python, decision.refusals[0].fact)
        for request in REQUESTS[at : at + 50]
        if (decision := decide(request, MATRIX, remedies=False)).verdict != "ok"
    ]
    assert flagged == []
