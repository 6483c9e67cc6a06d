"""The rules on a build variant: whether this build can be taken for this request, and why.

Each rule is a named generator over judgements: a Because for what holds, a Refusal for what does not, a Note for a fact that is
not known, which neither refuses nor passes. BUILD_RULES is their table, in the order in which causes are told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from provisioner.stack.answer import Judgement, Note
from provisioner.stack.around import known_around
from provisioner.stack.asked import extras_that_choose
from provisioner.stack.bases import choose_base, has_base
from provisioner.stack.gpus import cubin_runs, ptx_runs
from provisioner.stack.library_pins import ranges_fit
from provisioner.stack.library_rules import assembler_fits, libraries_fit, numpy_fits
from provisioner.stack.lock import Refusal
from provisioner.stack.meeting import meet, mode_of
from provisioner.stack.option_rules import extensions_compile
from provisioner.stack.package_rules import packages_fit
from provisioner.stack.packages import picks, pin_of
from provisioner.stack.pythons import choose_python
from provisioner.stack.system_cuda import from_system, image_has_libraries, image_holds_no_copy
from provisioner.stack.wants import parse_requirement
from provisioner.versions import Range, Version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from provisioner.stack.asked import Asked, Machine, Target
    from provisioner.stack.gpus import Capability
    from provisioner.stack.rows import System, Variant

    Rule = Callable[[Asked, Variant], Iterator[Judgement]]

#: The rule whose refusals say only that a build is not the one that was pinned: such a build is no near miss.
PINS = "pins-hold"
FOR_PLATFORM = "built-for-platform"
FOR_GPU = "is-for-gpu"


def named(build: Variant) -> str:
    """A build in a sentence."""
    return f"the {build.tag} build of {build.framework} {build.version}" if build.framework else f"CUDA {build.cuda}"


def index_for(asked: Asked, build: Variant) -> str | None:
    """The index to take a build from: the first of the asked ones that serves it, or its own; None when no asked one does.

    An index that carries the build's tag in its id (`pytorch/cu128`) serves every build with that tag, the default one too.
    """
    request = asked.request
    wanted = (request.index,) if isinstance(request.index, str) else request.index or (build.index,)
    for index in wanted:
        if index in {build.index, *build.also}:
            return index
        if index.rpartition("/")[2] == build.tag:
            return next((row.id for row in asked.matrix.indexes if row.id.rpartition("/")[2] == build.tag), None)
    return None


def pins_hold(asked: Asked, build: Variant) -> Iterator[Judgement]:
    """The build is the one that the request pins: by tag, by index, by CUDA, cuDNN or NCCL."""
    request = asked.request
    if request.variant is not None and build.tag != request.variant.lower():
        yield Refusal(rule=PINS, finding="no-such-build", fact=f"variant {request.variant} was asked, and this is {named(build)}")
    if asked.wants.tag is not None and asked.wants.tag != (build.tag if build.local is None else build.local):
        these = f"whose wheels have {f'the local version {build.local}' if build.local else 'no local version'}"
        this = named(build) if build.local is None else f"{named(build)} for {build.platform}, {these}"
        yield Refusal(rule=PINS, finding="no-such-build", fact=f"local version {asked.wants.tag} was asked, and this is {this}")
    yield from _extras_hold(asked, build)
    if request.index and index_for(asked, build) is None:
        asked_index = request.index if isinstance(request.index, str) else " or ".join(request.index)
        fact = f"index {asked_index} was asked, and {named(build)} comes from {' or '.join((build.index, *build.also))}"
        yield Refusal(rule=PINS, finding="no-such-build", fact=fact)
    for library, wanted, has in (
        ("CUDA", request.cuda, build.cuda),
        ("cuDNN", request.cudnn, build.cudnn),
        ("NCCL", request.nccl, build.nccl),
    ):
        if wanted is None:
            continue
        ranges = [item for item in map(parse_requirement, build.libraries) if library.lower() in item.name.split("-")]
        if has is None and any(item.bounds is not None and wanted not in item.bounds for item in ranges):
            fact = f"{library} {wanted} was asked, and {named(build)} needs {ranges[0].text}"
            yield Refusal(rule=PINS, finding="no-such-build", fact=fact)
        elif has is None and ranges:
            yield asked.because(f"{named(build)} takes {ranges[0].text}", "variants", build)
        elif has is None and library != "CUDA" and build.cuda is not None:
            yield Note(rule=PINS, finding="library-not-known", fact=f"which {library} {named(build)} brings is not known")
        elif has is None or not (has.within(wanted) or wanted.within(has)):
            fact = f"{library} {wanted} was asked, and {named(build)} has {has or 'none'}"
            yield Refusal(rule=PINS, finding="no-such-build", fact=fact)


def _extras_hold(asked: Asked, build: Variant) -> Iterator[Judgement]:
    """Where extras choose the build (requirement `name[tag]`), those that were asked choose this one."""
    wanted = extras_that_choose(asked)
    if wanted and build.tag not in wanted:
        extras = ",".join(sorted(wanted))
        yield Refusal(rule=PINS, finding="no-such-build", fact=f"the extras {extras} were asked, and this is {named(build)}")


def built_for_platform(asked: Asked, build: Variant) -> Iterator[Judgement]:
    """The build exists for the platform."""
    if build.platform != asked.request.platform:
        fact = f"{named(build)} exists for {build.platform} only, and {asked.request.platform} was asked"
        yield asked.refuse(FOR_PLATFORM, "no-build-for-platform", fact, [("variants", build)])


def is_published(asked: Asked, build: Variant) -> Iterator[Judgement]:
    """The build was seen in use, or at least named by a document."""
    if build.published == "no":
        yield asked.refuse("is-published", "build-not-published", f"{named(build)} was never published", [("variants", build)])
    elif build.published == "named":
        fact = f"a document names {named(build)}, and nobody was seen using it: check that its index has it"
        yield Note(rule="is-published", finding="build-named-only", fact=fact)


def is_for_gpu(asked: Asked, build: Variant) -> Iterator[Judgement]:
    """A CPU build never satisfies a request with a GPU, and a request for no GPU takes nothing else."""
    if asked.gpu and build.cuda is None:
        where = f" from {build.index}" if build.default else ""
        fact = f"{named(build)} for {build.platform}{where} is CPU only: it runs, and never uses the GPU"
        yield asked.refuse(FOR_GPU, "cpu-only-wheel", fact, [("variants", build)])
    elif asked.gpu is False and build.cuda is not None:
        fact = f"{named(build)} is for GPUs, and a CPU stack was asked (gpus: none)"
        yield Refusal(rule=FOR_GPU, finding="gpu-build-without-gpu", fact=fact)


def runs_on_gpu(asked: Asked, build: Variant) -> Iterator[Judgement]:
    """The build holds machine code for each GPU, or PTX that the driver may compile."""
    if build.cuda is None:
        return
    for machine in asked.machines:
        for target in machine.targets:
            yield from _runs_on(asked, build, machine, target)


def _runs_on(asked: Asked, build: Variant, machine: Machine, target: Target) -> Iterator[Judgement]:
    cuda = asked.matrix.cuda_minor(build.cuda) if build.cuda else None
    row = target.row
    rows: list[tuple[str, object]] = [("variants", build)] if build.framework else []
    if cuda is not None and row is not None and row.last_cuda is not None and row.last_cuda.major < cuda.version.major:
        holds = f", and {named(build)} holds {_shown(build)}" if build.framework else ""
        major, sm = cuda.version.major, target.capability.sm
        fact = f"CUDA {major} has no {sm} (CUDA {row.last_cuda} is the last that can target {target}){holds}"
        yield asked.refuse("runs-on-gpu", "arch-dropped-by-cuda-major", fact, [("cuda", cuda), ("capabilities", row), *rows])
        return
    rows += [("cuda", cuda)] if cuda else []
    rows += [("capabilities", row)] if row else []
    if build.min_capability is not None and target.capability < build.min_capability:
        fact = f"{named(build)} is for compute capability {build.min_capability} and higher, and {target} is below"
        yield asked.refuse("runs-on-gpu", "gpu-below-floor-of-build", fact, rows)
        return
    if build.sass is None:
        if cuda is not None and not any(cubin_runs(sm, target.capability) for sm in cuda.sm):
            fact = f"no target of CUDA {cuda.version} runs on {target}, so {named(build)} cannot hold code for it"
            yield asked.refuse("runs-on-gpu", "arch-not-in-build", fact, rows)
        else:
            yield from _guessed(asked, build, target)
        return
    fitting = [sm for sm in build.sass if cubin_runs(sm, target.capability)]
    section, source = rows[0]
    if fitting:
        yield asked.because(f"{named(build)} holds {max(fitting).sm}, which runs on {target}", section, source)
    elif not [sm for sm in build.ptx if ptx_runs(sm, target.capability)]:
        fact = f"{named(build)} holds {_shown(build)}; none of it runs on {target}: every launch fails with 'no kernel image'"
        yield asked.refuse("runs-on-gpu", "arch-not-in-build", fact, rows)
    elif cuda is not None and meet(asked, cuda, machine).mode not in {"native", "forward"} and machine.driver.version is not None:
        fact = (
            f"{named(build)} has only PTX for {target}, which {machine.driver} does not compile under minor version compatibility"
        )
        yield asked.refuse("runs-on-gpu", "ptx-needs-native-driver", fact, rows)
    else:
        yield asked.because(f"the driver compiles the PTX of {named(build)} for {target}", section, source)


def _guessed(asked: Asked, build: Variant, target: Target) -> Iterator[Judgement]:
    """A build whose list is not known: a note, or no yes at all where the known ones around it lack the GPU."""
    fact = f"whether {named(build)} for {build.platform} holds code for {target} is not known"
    around = known_around(asked.matrix, build, target.capability)
    if not around or any(_holds(row, target.capability) for row in around):
        yield Note(rule="runs-on-gpu", finding="arch-list-not-known", fact=fact)
        return
    near = " and ".join(f"{row.version} {row.tag}" for row in around[:2])
    fact += f", and what is known around it for {build.platform} ({build.framework} {near}) holds none"
    yield asked.refuse("runs-on-gpu", "arch-list-not-known", fact, [("variants", row) for row in around[:2]], certain=False)


def _holds(build: Variant, gpu: Capability) -> bool:
    return any(cubin_runs(sm, gpu) for sm in build.sass or ()) or any(ptx_runs(sm, gpu) for sm in build.ptx)


def _shown(build: Variant) -> str:
    if build.sass is None:
        return "code for GPUs that are not known"
    code = ", ".join(sm.sm for sm in build.sass) or "no machine code"
    ptx = ", ".join(f"compute_{sm.major}{sm.minor}" for sm in build.ptx)
    return f"{code} and PTX for {ptx}" if ptx else f"{code}, no PTX"


def driver_runs_cuda(asked: Asked, build: Variant) -> Iterator[Judgement]:
    """The driver of each machine runs the build's CUDA."""
    if build.cuda is None:
        return
    cuda = asked.matrix.cuda_minor(build.cuda)
    if cuda is None:
        fact = f"CUDA {build.cuda} has no row in the data: which driver {named(build)} needs is not known"
        yield Refusal(rule="driver-runs-cuda", finding="cuda-not-in-data", fact=fact, certain=False)
        return
    for machine in asked.machines:
        yield meet(asked, cuda, machine).says


def has_c_library(asked: Asked, build: Variant) -> Iterator[Judgement]:
    """The C library is glibc, and new enough: of the image where one is pinned, of the hosts where jobs run without one."""
    request = asked.request
    musl = [system for system in _systems(asked) if system.libc == "musl"]
    if request.libc == "musl" or musl:
        where = musl[0].name if musl else "the image"
        fact = f"{where} has musl, and {named(build)} needs glibc: pip says that no distribution matches"
        rows = [("variants", build), *[("systems", system) for system in musl]]
        yield asked.refuse("has-c-library", "musl-no-wheel", fact, rows)
        return
    if build.glibc is None:
        yield Note(rule="has-c-library", finding="glibc-floor-not-known", fact=f"which glibc {named(build)} needs is not known")
        return
    if request.glibc is not None and request.glibc < build.glibc:
        fact = f"{named(build)} needs glibc {build.glibc} or newer, and {request.glibc} was asked"
        yield asked.refuse("has-c-library", "glibc-too-old", fact, [("variants", build)])
    for system in _systems(asked):
        if system.glibc is not None and system.glibc < build.glibc:
            fact = f"{named(build)} needs glibc {build.glibc} or newer, and {system.name} has {system.glibc}"
            yield asked.refuse("has-c-library", "glibc-too-old", fact, [("variants", build), ("systems", system)])


def host_has_c_library(asked: Asked, build: Variant) -> Iterator[Judgement]:
    """A host whose C library is older than the build needs runs it in a container only; that is said."""
    host = asked.system
    if host is None or host in _systems(asked) or build.glibc is None or host.glibc is None or host.glibc >= build.glibc:
        return
    fact = f"{host.name} has glibc {host.glibc}, and {named(build)} needs {build.glibc}: on these hosts in a container only"
    because = (asked.because(fact, "systems", host),)
    yield Note(rule="has-c-library", finding="glibc-of-host-too-old", fact=fact, because=because)


def _systems(asked: Asked) -> list[System]:
    on_hosts = any(job.launcher == "venv" for job in asked.request.jobs)
    return [system for system in (asked.image_system, asked.system if on_hosts else None) if system is not None]


def has_python(asked: Asked, build: Variant) -> Iterator[Judgement]:
    """The build exists for the Python that was asked."""
    if not build.pythons:
        yield Note(rule="has-python", finding="pythons-not-known", fact=f"for which Pythons {named(build)} exists is not known")
    elif asked.python is not None and asked.python not in build.pythons:
        fact = f"{named(build)} exists for Python {', '.join(build.pythons)}, and {asked.python} was asked"
        yield asked.refuse("has-python", "no-wheel-for-python", fact, [("variants", build)])
    elif asked.image is not None and (python := choose_python(asked, build)) is not None and python not in build.pythons:
        fact = f"{named(build)} exists for Python {', '.join(build.pythons)}, and image {asked.request.image} has {python}"
        yield asked.refuse("has-python", "no-wheel-for-python", fact, [("variants", build), ("images", asked.image)])


def companions_fit(asked: Asked, build: Variant) -> Iterator[Judgement]:
    """The companions that were asked with a version are those that go with the release."""
    release = asked.matrix.row("releases", f"{build.framework} {build.version}")
    for item in asked.wants.others:  # what goes with the release too, though it is no companion that is installed with it
        goes = release.companions.get(item.name) if release else None
        if goes is None or item.bounds is None or pin_of(item) is None or picks(asked.matrix, item, asked.request.platform):
            continue
        if not _overlap(item.bounds, goes):
            fact = f"{build.framework} {build.version} goes with {item.name} {goes}, and {item.text} was asked"
            yield asked.refuse("companions-fit", "companion-mismatch", fact, [("releases", release)])
    for item in asked.wants.companions:
        goes = release.companions.get(item.name) if release else None
        if goes is None:
            fact = f"which {item.name} goes with {build.framework} {build.version} is not known: it is left to the package index"
            yield Note(rule="companions-fit", finding="companion-not-known", fact=fact)
        elif item.bounds is not None and not _overlap(item.bounds, goes):
            fact = f"{build.framework} {build.version} goes with {item.name} {goes}, and {item.text} was asked"
            yield asked.refuse("companions-fit", "companion-mismatch", fact, [("releases", release)])
        else:
            yield asked.because(f"{item.name} {goes} goes with {build.framework} {build.version}", "releases", release)


def _overlap(asked: Range, goes: str) -> bool:
    """Whether the companion's version is within the bounds; where the row has bounds, whether a pin of the request meets them."""
    if goes[0].isdigit():
        return Version(goes) in asked
    bounds = Range(goes)
    pins = [bound for sign, bound in asked.bounds if sign == "=="]
    return all(pin in bounds for pin in pins)


def has_image(asked: Asked, build: Variant) -> Iterator[Judgement]:
    """There is a base image for one of the build's Pythons with a C library that is new enough."""
    python = choose_python(asked, build)
    if python is None:
        wanted = f"Python {asked.python}" if asked.python else "any of its Pythons"
        where = f" on {asked.image_system.name}" if asked.image_system else ""
        fact = f"the catalogue has no base image{where} for {named(build)} with {wanted} on {asked.request.platform}"
        if from_system(asked, build):
            fact += f": it would have to have CUDA {build.cuda}" + (f" and cuDNN {build.cudnn}" if build.cudnn else "")
        known = has_base(asked, (asked.python,) if asked.python else build.pythons)
        yield Refusal(rule="has-image", finding="no-image", fact=fact, certain=known)
        return
    base = choose_base(asked, build, python, forward=mode_of(asked, build) == "forward")
    if base is None:
        return
    fact = f"{base.image().reference} has Python {python}"
    if base.python is None:
        yield Note(rule="has-image", finding="image-python-not-known", fact=f"whether the image has Python {python} is not known")
    elif base.takes(build.glibc):
        fact += " and a C library that is new enough"
    if base.row.maintained is False:
        yield Note(
            rule="has-image",
            finding="image-not-maintained",
            fact=f"{base.row.repository} on {base.row.os} is no longer maintained",
        )
    yield asked.because(fact, "images", base.row)


#: Every rule on a build, in the order in which causes are told. The last ones cost most.
BUILD_RULES: tuple[Rule, ...] = (
    pins_hold,
    built_for_platform,
    is_published,
    is_for_gpu,
    runs_on_gpu,
    driver_runs_cuda,
    has_c_library,
    host_has_c_library,
    has_python,
    companions_fit,
    packages_fit,
    numpy_fits,
    assembler_fits,
    libraries_fit,
    ranges_fit,
    image_has_libraries,
    image_holds_no_copy,
    extensions_compile,
    has_image,
)
#: Those whose refusals have the rules PINS, FOR_PLATFORM and FOR_GPU: whether a build is of the kind that was asked.
KIND_RULES: tuple[Rule, ...] = (pins_hold, built_for_platform, is_for_gpu)
#: Those that also decide where no framework is asked, only a CUDA.
BARE_RULES: tuple[Rule, ...] = (runs_on_gpu, driver_runs_cuda)
