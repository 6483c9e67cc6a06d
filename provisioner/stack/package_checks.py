"""What one release of a package needs: of the GPUs, the driver, Python and the C library, and of the framework's build."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provisioner.stack.answer import Judgement, Note
from provisioner.stack.bases import base_of
from provisioner.stack.gpus import cubin_runs, ptx_runs
from provisioner.stack.packages import Pick, bounds_of, pythons_for
from provisioner.versions import Version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provisioner.stack.asked import Asked
    from provisioner.stack.rows import ImageRow, Variant

RULE = "packages-fit"
#: Findings that say that a release does not run on a GPU.
ON_GPU = frozenset({"package-min-arch", "package-max-arch", "package-arch-not-in-build"})


def pinned_python(asked: Asked) -> str | None:
    """The Python that the request or its image pins."""
    if asked.python is not None or asked.image is None:
        return asked.python
    return base_of(asked.matrix, asked.image, asked.flavour or "slim").python


def alone(asked: Asked, pick: Pick) -> Iterator[Judgement]:
    """What the release needs of GPU, driver, Python and C library."""
    if asked.gpu is not False:
        yield from _on_gpus(asked, pick)
        yield from _on_drivers(asked, pick)
    row, pinned = pick.row, pinned_python(asked)
    if pinned is not None and not pythons_for(row, (pinned,)):
        has = f"Python {', '.join(row.pythons)}" if row.pythons else f"Python {row.requires_python}"
        yield asked.refuse(RULE, "no-wheel-for-python", f"{pick} exists for {has}, and {pinned} was asked", rows_of(pick))
    if row.glibc is not None:
        yield from _on_system(asked, pick, row.glibc)


def rows_of(pick: Pick) -> list[tuple[str, object]]:
    """The row that says what the release needs, for a refusal."""
    return [("packages", pick.row)]


def _on_gpus(asked: Asked, pick: Pick) -> Iterator[Judgement]:
    row = pick.row
    as_near = "" if pick.listed else f" ({row.note})"
    for target in asked.targets:
        if row.min_capability is not None and target.capability < row.min_capability:
            fact = f"{pick} needs a GPU of compute capability {row.min_capability} or higher{as_near}, and {target} is below"
            yield asked.refuse(RULE, "package-min-arch", fact, [*rows_of(pick), *target.rows()])
        elif row.max_capability is not None and target.capability > row.max_capability:
            fact = f"{pick} runs on GPUs up to compute capability {row.max_capability}{as_near}, and {target} is above"
            yield asked.refuse(RULE, "package-max-arch", fact, [*rows_of(pick), *target.rows()])
        elif row.sass is not None and not (
            any(cubin_runs(sm, target.capability) for sm in row.sass) or any(ptx_runs(sm, target.capability) for sm in row.ptx)
        ):
            fact = f"{pick} holds {', '.join(sm.sm for sm in row.sass) or 'no machine code'}, and none of it runs on {target}"
            yield asked.refuse(RULE, "package-arch-not-in-build", fact, [*rows_of(pick), *target.rows()])


def _on_drivers(asked: Asked, pick: Pick) -> Iterator[Judgement]:
    """The release's own floor, and that of its CUDA major. cuda-compat brings what a driver lacks, so no floor decides then."""
    row = pick.row
    if asked.request.cuda_compat:
        return
    majors = {row.cuda_major} if row.cuda_major is not None else {minor.major for minor in row.cuda_minors}
    floors = [cuda.min_driver for cuda in asked.matrix.cuda if cuda.version.major in majors and cuda.min_driver is not None]
    for machine in asked.machines:
        driver = machine.driver
        rows = [*rows_of(pick), *([("drivers", driver.branch)] if driver.branch else [])]
        if driver.version is None:
            continue
        if row.min_driver is not None and driver.version < row.min_driver:
            fact = f"{pick} needs driver {row.min_driver} or newer, and this is {driver}"
            yield asked.refuse(RULE, "package-needs-newer-driver", fact, rows)
        elif floors and driver.version < min(floors) and not row.sdist_only:
            fact = f"{pick} is linked with CUDA {min(majors)}, which needs driver {min(floors)} or newer, and this is {driver}"
            yield asked.refuse(RULE, "package-needs-newer-driver", fact, rows)


def _on_system(asked: Asked, pick: Pick, floor: Version) -> Iterator[Judgement]:
    request, system = asked.request, asked.image_system
    if request.libc == "musl" or (system is not None and system.libc == "musl"):
        fact = f"the wheels of {pick} need glibc, and the image has musl: pip says that no distribution matches"
        yield asked.refuse(RULE, "musl-no-wheel", fact, rows_of(pick))
        return
    if request.glibc is not None and request.glibc < floor:
        fact = f"{pick} needs glibc {floor} or newer, and {request.glibc} was asked"
        yield asked.refuse(RULE, "glibc-too-old", fact, rows_of(pick))
    if system is not None and system.glibc is not None and system.glibc < floor:
        fact = f"{pick} needs glibc {floor} or newer, and {system.name} has {system.glibc}"
        yield asked.refuse(RULE, "glibc-too-old", fact, [*rows_of(pick), ("systems", system)])


def beside(asked: Asked, build: Variant, pick: Pick) -> Iterator[Judgement]:
    """What the release needs of the framework's build: its version, its CUDA major, its cuDNN."""
    row = pick.row
    release = asked.matrix.row("releases", f"{build.framework} {build.version}")
    for name, text in row.requires.items():
        bounds = bounds_of(text)
        if name == build.framework and bounds is not None and build.version not in bounds:
            fact = f"{pick} needs {name}{text}, and this is {build.framework} {build.version}"
            yield asked.refuse(RULE, "companion-mismatch", fact, rows_of(pick))
        goes = release.companions.get(name) if release else None
        wanted = any(item.name == name for item in asked.wants.companions)
        if wanted and bounds is not None and goes is not None and goes[0].isdigit() and Version(goes) not in bounds:
            fact = f"{pick} needs {name}{text}, and {goes} goes with {build.framework} {build.version}"
            yield asked.refuse(RULE, "companion-mismatch", fact, [*rows_of(pick), ("releases", release)])
    goes = release.companions.get(row.package) if release else None
    if goes is not None and row.version not in (bounds_of(f"=={goes}" if goes[0].isdigit() else goes) or (row.version,)):
        fact = f"{build.framework} {build.version} goes with {row.package} {goes}, and this is {pick}"
        yield asked.refuse(RULE, "companion-mismatch", fact, [*rows_of(pick), ("releases", release)])
    recipe = asked.matrix.recipe(row.recipe) if row.recipe else None
    if recipe is not None and recipe.cuda_min is not None and build.cuda is not None and build.cuda < recipe.cuda_min:
        fact = f"{pick} is compiled with CUDA {recipe.cuda_min} or newer, and the {build.tag} build is CUDA {build.cuda}"
        yield asked.refuse(RULE, "cuda-too-old-to-compile", fact, [("recipes", recipe), ("variants", build)])
    if build.cuda is not None:
        yield from _cuda_fits(asked, build, pick)


def in_image(asked: Asked, pick: Pick) -> Iterator[Judgement]:
    """Without a framework that brings CUDA: the image that is pinned has what the release takes from the system."""
    image = _image_with_cuda(asked)
    if pick.row.cuda_from == "system" and image is not None and image.cuda is not None and not _brought(pick):
        yield from _majors_fit(asked, pick, image.cuda, image.cudnn, f"the image has CUDA {image.cuda}", ("images", image))


def _image_with_cuda(asked: Asked) -> ImageRow | None:
    """The pinned image, where it has the CUDA libraries."""
    return asked.image if asked.image is not None and asked.flavour not in {None, "slim", "base"} else None


def _brought(pick: Pick) -> bool:
    """Whether the extras that were asked bring the CUDA libraries."""
    extras = pick.row.extras
    return extras is not None and set(extras.split(",")) <= set(pick.item.extras.strip("[]").replace(" ", "").split(","))


def _cuda_fits(asked: Asked, build: Variant, pick: Pick) -> Iterator[Judgement]:
    """The CUDA and cuDNN majors that the release is linked with are there: from the build, or from the image that is pinned."""
    row, cuda = pick.row, build.cuda
    if row.sdist_only or cuda is None:  # compiled against what is there; or a CPU stack
        return
    this = f"the {build.tag} build of {build.framework} {build.version}"
    if row.cuda_minors:
        majors = {minor.major for minor in row.cuda_minors}
        if cuda.major not in majors:
            has = ", ".join(map(str, sorted(majors)))
            fact = f"{pick} has libraries for CUDA {has}, and {this} is for CUDA {cuda.major}"
            yield asked.refuse(RULE, "cuda-major-mismatch-in-package", fact, [*rows_of(pick), ("variants", build)])
        return
    inside = build.framework in row.requires
    if (row.cuda_from == "wheels" or _brought(pick)) and not inside:
        return
    image = None if inside else _image_with_cuda(asked)
    brings = f"{this} brings CUDA {cuda.major}"
    if image is not None and image.cuda is not None:
        if image.cuda.major == row.cuda_major:
            return
        brings += f", and the image has {image.cuda}"
    if row.cuda_from is None and not inside and row.cuda_major not in {None, cuda.major}:
        fact = f"{pick} is linked with CUDA {row.cuda_major}, and {brings}; whether it brings its own is not in the data"
        yield Note(rule=RULE, finding="cuda-major-differs-in-package", fact=fact)
        return
    yield from _majors_fit(asked, pick, cuda, build.cudnn, brings, ("variants", build))


def _majors_fit(
    asked: Asked, pick: Pick, cuda: Version, cudnn: Version | None, brings: str, row: tuple[str, object]
) -> Iterator[Judgement]:
    needs = pick.row
    if needs.cuda_major is not None and needs.cuda_major != cuda.major:
        fact = f"{pick} is linked with CUDA {needs.cuda_major}, and {brings}: it does not find its libraries"
        yield asked.refuse(RULE, "cuda-major-mismatch-in-package", fact, [*rows_of(pick), row])
    elif needs.cudnn_major is not None and cudnn is not None and needs.cudnn_major != cudnn.major:
        fact = f"{pick} loads cuDNN {needs.cudnn_major}, and {brings} and cuDNN {cudnn}: it does not find it"
        yield asked.refuse(RULE, "cudnn-major-mismatch-in-package", fact, [*rows_of(pick), row])
