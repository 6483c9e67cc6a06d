"""How a CUDA build meets a driver: native, by minor version compatibility, by forward compatibility, or not at all.

The driver decides; a toolkit on the host decides nothing (NVIDIA, CUDA Compatibility).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from provisioner.stack.answer import Judgement
from provisioner.stack.lock import Compatibility
from provisioner.values import value
from provisioner.versions import Version

if TYPE_CHECKING:
    from collections.abc import Iterable

    from provisioner.stack.asked import Asked, Machine
    from provisioner.stack.rows import Cuda, Variant

#: The best first; a stack for several machines has the worst of theirs.
MODES: tuple[Compatibility, ...] = ("native", "minor-version", "forward", "none")
#: Segments whose GPUs cuda-compat supports.
DATA_CENTRE = frozenset({"datacenter", "grace"})


@value
class Meeting:
    """How one kind of machine meets a CUDA minor: the mode, or None when it does not, and what the rule says."""

    mode: Compatibility | None
    says: Judgement


def meet(asked: Asked, cuda: Cuda, machine: Machine) -> Meeting:
    """How the driver of `machine` runs what was built with `cuda`."""
    driver = machine.driver
    if driver.version is None:
        return _free(asked, cuda, machine)
    if _is_native(cuda, machine):
        return _native_or_mismatch(asked, cuda, machine)
    if asked.request.cuda_compat and (forward := _forward(asked, cuda, machine)) is not None:
        return forward
    if cuda.min_driver is not None and driver.version >= cuda.min_driver:
        fact = (
            f"{driver} runs CUDA {cuda.version} by minor version compatibility, which holds from {cuda.min_driver} on; "
            f"native is {cuda.native_driver or 'a later branch'}"
        )
        return Meeting(mode="minor-version", says=asked.because(fact, "cuda", cuda))
    return Meeting(mode=None, says=_too_old(asked, cuda, machine))


def _is_native(cuda: Cuda, machine: Machine) -> bool:
    """By the driver that the toolkit was released with; where that is not known, by the CUDA that the branch reports."""
    driver = machine.driver
    if cuda.native_driver is not None and driver.version is not None:
        return driver.version >= cuda.native_driver
    return driver.branch is not None and driver.branch.max_cuda >= cuda.version


def _free(asked: Asked, cuda: Cuda, machine: Machine) -> Meeting:
    """The driver may be chosen: one that drives the GPUs must run this CUDA. `upgrade` means a native one where there is one."""
    floor = floor_of(asked, cuda, (machine,))
    if floor is None:
        return Meeting(mode="native", says=asked.because(f"which driver CUDA {cuda.version} needs is not known", "cuda", cuda))
    able = [row for row in machine.branches if (row.latest or row.first or Version(row.branch)) >= floor]
    if machine.branches and not able:
        names = " and ".join(str(target) for target in machine.targets)
        last = machine.branches[-1]
        fact = f"CUDA {cuda.version} needs driver {floor} or newer, and branch {last.branch} is the last that drives {names}"
        rows = (("cuda", cuda), ("drivers", last))
        return Meeting(mode=None, says=asked.refuse("driver-runs-cuda", "no-driver-for-gpu-and-cuda", fact, rows))
    native = cuda.native_driver
    chosen = machine.driver.text == "upgrade" and any(row.max_cuda >= cuda.version for row in able)
    if native is None or floor >= native or chosen:
        return Meeting(mode="native", says=asked.because(f"CUDA {cuda.version} needs driver {floor} or newer", "cuda", cuda))
    fact = f"CUDA {cuda.version} needs driver {floor} or newer; it is native from {native} on, and minor version compatible below"
    return Meeting(mode="minor-version", says=asked.because(fact, "cuda", cuda))


def floor_of(asked: Asked, cuda: Cuda | None, machines: Iterable[Machine]) -> Version | None:
    """The lowest driver that runs `cuda` on one of the machines: the CUDA major's floor, or that of its GPUs' first branches.

    Of several machines the lowest counts: an image that asks for more would not start on a member of a pool that fits.
    """
    own = (cuda.min_driver or cuda.native_driver) if cuda else None
    lowest = []
    for machine in machines:
        floors = [own]
        for target in machine.targets:
            first = target.architecture.first_driver if target.architecture else None
            branch = asked.matrix.driver(first) if first else None
            floors.append(branch.first if branch else None)
        lowest.append(max((floor for floor in floors if floor is not None), default=None))
    return min((floor for floor in lowest if floor is not None), default=own)


def _native_or_mismatch(asked: Asked, cuda: Cuda, machine: Machine) -> Meeting:
    driver = machine.driver
    if asked.request.cuda_compat and driver.branch is not None:
        row = asked.matrix.row("forward_compat", f"{cuda.version} {driver.branch.branch}")
        if row is not None and row.state == "X":
            fact = (
                f"cuda-compat of CUDA {cuda.version} is older than {driver}: programs that find it fail with "
                "cudaErrorSystemDriverMismatch (803). The driver runs this CUDA without it"
            )
            rows = (("forward_compat", row),)
            return Meeting(mode=None, says=asked.refuse("driver-runs-cuda", "cuda-compat-older-than-driver", fact, rows))
        if row is None:
            fact = f"what cuda-compat of CUDA {cuda.version} does on {driver} is not in the data; the driver runs it without"
            unknown = asked.refuse("driver-runs-cuda", "cuda-compat-not-in-data", fact, certain=False)
            return Meeting(mode=None, says=unknown)
    fact = f"{driver} runs CUDA {cuda.version} natively" + (f" (from {cuda.native_driver} on)" if cuda.native_driver else "")
    return Meeting(mode="native", says=asked.because(fact, "cuda", cuda))


def _forward(asked: Asked, cuda: Cuda, machine: Machine) -> Meeting | None:
    driver = machine.driver
    if driver.branch is None:
        return None
    row = asked.matrix.row("forward_compat", f"{cuda.version} {driver.branch.branch}")
    if row is None or row.state != "C":
        return None
    others = [target for target in machine.targets if not target.segments <= DATA_CENTRE]
    if others:
        fact = f"cuda-compat works on data-centre GPUs only, and {others[0]} is none (cudaErrorCompatNotSupportedOnDevice, 804)"
        rows = (("forward_compat", row), *others[0].rows())
        return Meeting(mode=None, says=asked.refuse("driver-runs-cuda", "cuda-compat-not-on-this-gpu", fact, rows))
    fact = f"cuda-compat of CUDA {cuda.version} lets {driver} run it: forward compatibility on data-centre GPUs"
    return Meeting(mode="forward", says=asked.because(fact, "forward_compat", row))


def _too_old(asked: Asked, cuda: Cuda, machine: Machine) -> Judgement:
    driver = machine.driver
    rows = [("cuda", cuda), *([("drivers", driver.branch)] if driver.branch else [])]
    if cuda.min_driver is not None:
        fact = (
            f"CUDA {cuda.version.major} builds need driver {cuda.min_driver} or newer, and this is {driver}: "
            "minor version compatibility does not cross a CUDA major"
        )
        return asked.refuse("driver-runs-cuda", "driver-too-old-for-cuda-major", fact, rows)
    fact = f"CUDA {cuda.version} needs driver {cuda.native_driver or 'of a newer branch'} or newer, and this is {driver}"
    return asked.refuse("driver-runs-cuda", "driver-too-old", fact, rows)


def worst(modes: Iterable[Compatibility]) -> Compatibility:
    """The mode of several machines together."""
    return max(modes, key=MODES.index, default="none")


def mode_of(asked: Asked, build: Variant) -> Compatibility:
    """How the build meets the drivers: the worst over the machines; `none` for a CPU build, or where a rule was overridden."""
    cuda = asked.matrix.cuda_minor(build.cuda) if build.cuda else None
    if cuda is None:
        return "none"
    return worst(meet(asked, cuda, machine).mode or "none" for machine in asked.machines)
