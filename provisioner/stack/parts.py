"""The rules on what no build changes: GPU and driver, kernel modules, fabric, MIG, compiler, the pinned image.

Each is a generator over judgements: a Because for what holds, a Refusal for what does not, a Note for what is not known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from provisioner.findings import Because
from provisioner.stack.answer import Judgement, Note
from provisioner.stack.asked import modules_for
from provisioner.stack.bases import base_of
from provisioner.stack.image_rules import image_runs
from provisioner.stack.library_rules import pinned_libraries
from provisioner.stack.lock import Refusal
from provisioner.stack.meeting import DATA_CENTRE
from provisioner.stack.option_rules import precision_there
from provisioner.versions import Version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provisioner.stack.asked import Asked, Machine, Target
    from provisioner.stack.rows import DriverBranch

_WSL = "NVIDIA, CUDA on WSL User Guide, Getting Started with CUDA on WSL 2 (docs.nvidia.com/cuda/wsl-user-guide)"


def gpu_has_driver(asked: Asked) -> Iterator[Judgement]:
    """The driver's branch still drives the GPU, and already does."""
    for machine in asked.machines:
        branch = machine.driver.branch
        if branch is None and machine.driver.version is not None:
            fact = f"{machine.driver} is older than every branch in the data of {asked.matrix.collected}"
            yield Refusal(rule="gpu-has-driver", finding="driver-not-in-data", fact=fact, certain=False)
            continue
        if branch is None:
            yield from _free(asked, machine)
            continue
        for target in machine.targets:
            rows = (("drivers", branch), ("architectures", target.architecture), *target.rows())
            if target.last_driver is not None and Version(branch.branch) > Version(target.last_driver):
                fact = f"branch {target.last_driver} is the last that drives {target}, and this is {machine.driver}"
                yield asked.refuse("gpu-has-driver", "gpu-dropped-by-driver", fact, rows)
            elif target.architecture is not None and target.architecture.id not in branch.architectures:
                yield _not_yet(asked, machine, target, branch)
            else:
                yield asked.because(f"{machine.driver} drives {target}", "drivers", branch)


def _free(asked: Asked, machine: Machine) -> Iterator[Judgement]:
    """Where the driver is free, one branch must drive all GPUs of a machine."""
    if machine.targets and not machine.branches and asked.matrix.drivers and modules_for(machine.targets, None):
        names = " and ".join(str(target) for target in machine.targets)
        rows = [row for target in machine.targets for row in (("architectures", target.architecture), *target.rows())]
        yield asked.refuse("gpu-has-driver", "no-driver-for-these-gpus", f"no driver branch drives {names} together", rows)


def _not_yet(asked: Asked, machine: Machine, target: Target, branch: DriverBranch) -> Judgement:
    architecture = target.architecture
    first = architecture.first_driver if architecture else None
    name = architecture.name if architecture else str(target)
    modules = " with the open kernel modules" if target.open_modules == "required" else ""
    needs = f"it needs driver branch {first} or newer{modules}" if first else f"branch {branch.branch} does not name {name}"
    fact = f"{machine.driver} does not know {target}: {name} came later; {needs}"
    rows = (("drivers", branch), ("architectures", architecture), *target.rows())
    return asked.refuse("gpu-has-driver", "gpu-newer-than-driver", fact, rows)


def modules_exist(asked: Asked) -> Iterator[Judgement]:
    """There is a kernel module flavour that drives all GPUs of a machine, and it is the one that was asked."""
    pinned = asked.request.kernel_modules
    for machine in asked.machines:
        branch = machine.driver.branch
        flavours = modules_for(machine.targets, branch)
        rows = [row for target in machine.targets for row in (("architectures", target.architecture), *target.rows())]
        rows += [("drivers", branch)] if branch else []
        names = " and ".join(str(target) for target in machine.targets) or "the GPUs"
        if not flavours:
            fact = f"no kernel module flavour of {machine.driver} drives {names}"
            yield asked.refuse("modules-exist", "no-kernel-module-flavour", fact, rows)
        elif pinned is not None and pinned not in flavours:
            why = f"{machine.driver} ships no other" if branch and branch.open_modules in {"none", "only flavour"} else names
            fact = f"the {pinned} kernel modules cannot be used here: only the {flavours[0]} ones can ({why})"
            yield asked.refuse("modules-exist", "wrong-kernel-module-flavour", fact, rows)
        elif rows:
            section, row = rows[0]
            yield asked.because(f"kernel modules for {names}: {' or '.join(flavours)}", section, row)


def gpu_fits_platform(asked: Asked) -> Iterator[Judgement]:
    """A GPU that is soldered to an Arm processor cannot be in a machine of another platform; Jetson has builds of its own."""
    for target in asked.targets:
        if target.segments == {"grace"} and asked.request.platform != "linux/arm64":
            fact = f"the processor beside {target} is aarch64: it needs linux/arm64, and {asked.request.platform} was asked"
            yield asked.refuse("gpu-fits-platform", "gpu-on-other-platform", fact, target.rows())
        elif target.segments == {"jetson"}:
            fact = f"{target} is a Jetson: its builds come with JetPack, and are not in the data of {asked.matrix.collected}"
            yield asked.refuse("gpu-fits-platform", "jetson-not-in-data", fact, target.rows(), certain=False)


def mig_exists(asked: Asked) -> Iterator[Judgement]:
    """A GPU that is to be split by MIG can be."""
    wanted = asked.request.options.get("mig")
    if not wanted or wanted.lower() in {"no", "false", "off"}:
        return
    for target in asked.targets:
        if any(gpu.mig is False for gpu in target.products):
            yield asked.refuse("mig-exists", "no-mig", f"{target} has no MIG, and options.mig asks for {wanted}", target.rows())
        elif not all(gpu.mig for gpu in target.products):
            yield Note(rule="mig-exists", finding="mig-not-known", fact=f"whether {target} has MIG is not in the data")


def fabric_matches(asked: Asked) -> Iterator[Judgement]:
    """Fabric Manager has exactly the driver's version."""
    wanted = asked.request.fabric_manager
    if wanted is None:
        return
    for machine in asked.machines:
        driver = machine.driver
        if driver.version is not None and len(driver.version.numbers) > 1 and driver.version != wanted:
            fact = f"Fabric Manager {wanted} and {driver}: they must be equal, else no CUDA program starts on NVSwitch machines"
            rows = [("drivers", driver.branch)] if driver.branch else []
            yield asked.refuse("fabric-matches", "fabric-manager-version-mismatch", fact, rows)


def compiler_fits(asked: Asked) -> Iterator[Judgement]:
    """The host compiler is one that nvcc of the pinned CUDA takes."""
    name, _, number = (asked.request.compiler or "").partition("-")
    toolkit = asked.request.toolkit or asked.request.cuda
    cuda = asked.matrix.cuda_minor(toolkit) if toolkit else None
    if name != "gcc" or not number or cuda is None:
        return
    if cuda.gcc_max is None:
        yield Note(rule="compiler-fits", finding="compiler-not-known", fact=f"which gcc CUDA {cuda.version} takes is not known")
    elif Version(number).major > Version(cuda.gcc_max).major:
        fact = f"nvcc of CUDA {cuda.version} takes gcc up to {cuda.gcc_max}, and gcc {number} was asked"
        yield asked.refuse("compiler-fits", "compiler-too-new-for-nvcc", fact, [("cuda", cuda)])
    else:
        yield asked.because(f"nvcc of CUDA {cuda.version} takes gcc up to {cuda.gcc_max}", "cuda", cuda)


def image_fits(asked: Asked) -> Iterator[Judgement]:
    """The pinned image is there for the platform, has the Python that was asked, and starts on the driver."""
    row = asked.image
    if row is None:
        return
    if row.published == "no":
        yield asked.refuse("image-fits", "no-such-image", f"image {asked.request.image} is not published", [("images", row)])
    if asked.request.platform not in row.platforms:
        fact = f"image {asked.request.image} is for {', '.join(row.platforms)}, and {asked.request.platform} was asked"
        yield asked.refuse("image-fits", "image-not-for-platform", fact, [("images", row)])
    python = base_of(asked.matrix, row, asked.flavour or "slim").python
    if asked.python is not None and python is not None and python != asked.python:
        fact = f"image {asked.request.image} has Python {python}, and {asked.python} was asked"
        yield asked.refuse("image-fits", "python-not-in-image", fact, [("images", row)])
    if row.cuda is not None:
        yield from _image_starts(asked)


def _image_starts(asked: Asked) -> Iterator[Judgement]:
    """The container toolkit compares the image's CUDA with the driver's, and knows nothing of minor version compatibility."""
    row = asked.image
    if row is None or row.cuda is None:
        return
    for machine in asked.machines:
        branch = machine.driver.branch
        if branch is None or row.cuda.minor <= branch.max_cuda:
            continue
        forward = asked.matrix.row("forward_compat", f"{row.cuda.minor} {branch.branch}")
        if (
            forward is not None
            and forward.state == "C"
            and all(t.segments and t.segments <= DATA_CENTRE for t in machine.targets)
        ):
            fact = f"image {asked.request.image} accepts branch {branch.branch} on data-centre GPUs: cuda-compat is in it"
            yield asked.because(fact, "forward_compat", forward)
            continue
        fact = (
            f"image {asked.request.image} starts only where the driver reports CUDA {row.cuda.minor} or newer, and "
            f"{machine.driver} reports {branch.max_cuda}. NVIDIA_DISABLE_REQUIRE=1 "
            "switches this check off where minor version compatibility is enough"
        )
        yield asked.refuse("image-fits", "image-requires-newer-driver", fact, [("images", row), ("drivers", branch)])


def driver_lives(asked: Asked) -> Iterator[Judgement]:
    """A branch that gets no more updates is said; it refuses nothing."""
    for branch in dict.fromkeys(machine.driver.branch for machine in asked.machines):
        if branch is not None and branch.status.startswith("eol"):
            since = f" since {branch.eol}" if branch.eol else ""
            fact = f"driver branch {branch.branch} gets no more updates{since}, security fixes among them: plan its successor"
            because = (asked.because(fact, "drivers", branch),)
            yield Note(rule="driver-lives", finding="driver-end-of-life", fact=fact, because=because)


def host_known(asked: Asked) -> Iterator[Judgement]:
    """A host whose system is not in the data is said; only a job that runs without a container depends on it."""
    if asked.request.os is None or asked.system is not None:
        return
    fact = f"the hosts' system {asked.request.os} is not in the data"
    if any(job.launcher == "venv" for job in asked.request.jobs):
        fact += ", and a job is to run there without a container"
        yield Refusal(rule="host-known", finding="system-not-in-data", fact=fact, certain=False)
    else:
        yield Note(rule="host-known", finding="system-not-in-data", fact=f"{fact}; jobs in containers do not depend on it")


def driver_is_of_windows(asked: Asked) -> Iterator[Judgement]:
    """Inside WSL 2 the driver is that of Windows: none is installed there, and its number is one of Windows."""
    there = asked.request.wsl or (asked.request.wsl is None and (asked.request.os or "").lower().startswith("wsl"))
    if not there or asked.gpu is False:
        return
    fact = (
        "on hosts that are WSL 2 install or update the driver on Windows, and none inside: it would hide Windows' libcuda.so "
        "(/usr/lib/wsl/lib); the number that nvidia-smi shows is Windows' own, and branches and floors here are those of Linux"
    )
    because = (Because(fact="no NVIDIA driver for Linux may be installed within WSL 2", source=_WSL),)
    yield Note(rule="driver-is-of-windows", finding="wsl-driver-is-windows", fact=fact, because=because)


#: Every rule on the parts, in the order in which causes are told.
PART_RULES = (
    gpu_fits_platform,
    gpu_has_driver,
    modules_exist,
    mig_exists,
    precision_there,
    fabric_matches,
    compiler_fits,
    pinned_libraries,
    image_fits,
    image_runs,
    driver_lives,
    driver_is_of_windows,
    host_known,
)
