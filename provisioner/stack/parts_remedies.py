"""What helps where no build is to blame: another name for the GPU, another driver, flavour, CUDA, image, compiler, or no MIG.

Each is a value out of the matrix that is put into the request, and proved by deciding again.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from provisioner.findings import Remedy
from provisioner.stack.catalogue import nearest_images
from provisioner.stack.changes import apply_changes, known_others
from provisioner.stack.image_remedies import newer_images, older_images
from provisioner.stack.packages import picks
from provisioner.stack.resolve import proved
from provisioner.stack.wants import parse_requirement
from provisioner.values import replace
from provisioner.versions import Version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from provisioner.stack.asked import Asked
    from provisioner.stack.lock import Refusal

    #: One change and the sentence that says what to do.
    Proposal = tuple[dict[str, str], str]
    #: Findings, what helps against them, and how many of these remedies are shown.
    Row = tuple[frozenset[str], Callable[[Asked], Iterable[Proposal]], int]

_TRIES = 40  # proposals of one kind; more than there are branches
_EACH = 2  # remedies of one kind
_NAMES = 8  # GPU names
_FEW = 4  # capabilities that are tried


def remedies_for_parts(asked: Asked, refusals: Sequence[Refusal]) -> Iterator[Remedy]:
    """The changes of single parts that help against `refusals`, each proved."""
    yield from _proved(asked, refusals, _TABLE)


def last_resorts(asked: Asked, refusals: Sequence[Refusal]) -> Iterator[Remedy]:
    """The changes that give up a part of the request, each proved."""
    yield from _proved(asked, refusals, _LAST)


def _proved(asked: Asked, refusals: Sequence[Refusal], table: Iterable[Row]) -> Iterator[Remedy]:
    findings = {item.finding for item in refusals}
    for wanted, propose, most in table:
        if not wanted & findings:
            continue
        shown = 0
        for changes, text in itertools.islice(propose(asked), _TRIES):
            decision = proved(apply_changes(asked.request, changes), asked.matrix)
            if decision is not None:
                yield Remedy(text=text, commands=(decision.stack.command,) if decision.stack else (), changes=changes)
                shown += 1
            if shown == most:
                break


def _gpu_names(asked: Asked) -> Iterator[Proposal]:
    from provisioner.stack.gpu_names import match_gpus

    words = list(asked.request.gpus)
    for at, word in enumerate(words):
        found = match_gpus(word, asked.matrix)
        kinds = {(gpu.capability, gpu.open_modules, gpu.last_driver): gpu for gpu in reversed(found)}
        for gpu in dict.fromkeys((*reversed(kinds.values()), *found)):  # one of each kind first
            names = [*words[:at], gpu.name, *words[at + 1 :]]
            yield {"gpus": ", ".join(names)}, f"say which GPU it is: {gpu.name} ({gpu.capability.sm})"


def _drivers(asked: Asked) -> Iterator[Proposal]:
    """Branches that drive the GPUs: the supported ones first, and the newest of them. With a framework the levers find them."""
    if asked.request.pool or asked.wants.framework is not None:
        return
    machine = asked.machines[0]
    for row in sorted(machine.branches, key=lambda row: (row.status == "supported", Version(row.branch)), reverse=True):
        yield {"driver": row.branch}, f"driver branch {row.branch} instead of {asked.request.driver}"


def _modules(asked: Asked) -> Iterator[Proposal]:
    for flavour in ("open", "proprietary"):
        if flavour != asked.request.kernel_modules:
            yield {"kernel_modules": flavour}, f"the {flavour} kernel modules"


def _cudas(asked: Asked) -> Iterator[Proposal]:
    if asked.wants.framework is None and asked.request.cuda is not None:
        for row in reversed(asked.matrix.cuda):
            yield {"cuda": str(row.version)}, f"CUDA {row.version} instead of {asked.request.cuda}"


def _no_compat(_: Asked) -> Iterator[Proposal]:
    yield {"cuda_compat": ""}, "no cuda-compat: the driver runs this CUDA by itself"


def _images(asked: Asked) -> Iterator[Proposal]:
    for reference in nearest_images(asked.request.image or "", asked.matrix):
        yield {"image": reference}, f"the image {reference}"


def _fabric(asked: Asked) -> Iterator[Proposal]:
    for machine in asked.machines:
        if machine.driver.version is not None:
            yield (
                {"fabric_manager": str(machine.driver.version)},
                f"Fabric Manager {machine.driver.version}, the version of the driver",
            )


def _no_mig(_: Asked) -> Iterator[Proposal]:
    yield {"options.mig": ""}, "use the whole GPU: leave options.mig out"


def _compiler(asked: Asked) -> Iterator[Proposal]:
    cuda = asked.matrix.cuda_minor(asked.request.cuda) if asked.request.cuda else None
    if cuda is not None and cuda.gcc_max is not None:
        yield (
            {"compiler": f"gcc-{Version(cuda.gcc_max).major}"},
            f"gcc {cuda.gcc_max}, the newest that nvcc of CUDA {cuda.version} takes",
        )


def _platforms(asked: Asked) -> Iterator[Proposal]:
    for platform in ("linux/amd64", "linux/arm64"):
        if platform != asked.request.platform:
            yield {"platform": platform}, f"platform {platform} instead of {asked.request.platform}"


def _releases(asked: Asked) -> Iterator[Proposal]:
    """Other releases of the packages where no framework is asked for; with one, the levers find them."""
    if asked.wants.framework is not None:
        return
    for item in known_others(asked):
        others = tuple("".join(text.split()) for text in asked.request.packages if text.strip() != item.text)
        for pick in picks(asked.matrix, replace(item, bounds=None, text=item.name), asked.request.platform):
            yield {"packages": " ".join((*others, pick.text))}, f"{pick.text} instead of {item.text}"


def _libraries(asked: Asked) -> Iterator[Proposal]:
    """Older releases of the pinned cuDNN or NCCL that builds or images of the data have."""
    if asked.wants.framework is not None:
        return
    for name, text in (("cudnn", "cuDNN"), ("nccl", "NCCL")):
        pinned = getattr(asked.request, name)
        rows = (*asked.matrix.variants, *asked.matrix.images)
        known = {version for row in rows if (version := getattr(row, name, None)) is not None}
        for version in sorted((version for version in known if pinned is not None and version < pinned), reverse=True):
            yield {name: str(version)}, f"{text} {version} instead of {pinned}"


def _apart(asked: Asked) -> Iterator[Proposal]:
    """One framework here, and the others in environments of their own."""
    wanted = [asked.matrix.framework(parse_requirement(text).name) for text in asked.request.packages]
    for keeps in filter(None, wanted):
        away = {name for row in asked.matrix.frameworks if row != keeps for name in (row.id, *row.companions)}
        left = [text for text in asked.request.packages if parse_requirement(text).name not in away]
        changes = {"packages": " ".join("".join(text.split()) for text in left)}
        yield changes, f"an environment of its own for each framework: only {keeps.id} in this one"


def _half(asked: Asked) -> Iterator[Proposal]:
    yield {"options.dtype": "float16"}, f"float16 instead of {asked.request.options.get('dtype')}"
    yield {"options.dtype": ""}, "the precision of the framework: leave options.dtype out"


def _toolkits(asked: Asked) -> Iterator[Proposal]:
    for row in reversed(asked.matrix.cuda):
        yield {"toolkit": str(row.version)}, f"the toolkit of CUDA {row.version} instead of {asked.request.toolkit}"


def _devel(asked: Asked) -> Iterator[Proposal]:
    """The flavour of the pinned image that has the compiler."""
    row = asked.image
    for flavour in ("cudnn-devel", "devel") if row is not None else ():
        if row is not None and flavour in row.tags:
            reference = f"{row.repository}:{row.tags[flavour]}"
            yield {"image": reference}, f"the image {reference}, which has nvcc"


def _without_compiling(_: Asked) -> Iterator[Proposal]:
    yield {"options.torch_compile": ""}, "run eagerly: leave options.torch_compile out"


def _without_packages(asked: Asked) -> Iterator[Proposal]:
    """The request without a package that does not run on the GPU, and without the option that asks for it."""
    framework = asked.wants.framework
    for item in asked.wants.others:
        left = ["".join(text.split()) for text in asked.request.packages if text.strip() != item.text]
        if framework is not None and asked.wants.asked is None:
            left.insert(0, framework.id)
        if not left or len(left) > len(asked.request.packages):
            continue
        changes = {"packages": " ".join(left)}
        text = f"do without {item.name}: the rest runs on this GPU"
        if "attn_implementation" in asked.request.options:
            changes["options.attn_implementation"] = ""
            text += "; leave options.attn_implementation out, so that the attention of the framework itself is taken"
        yield changes, text


def _other_gpus(asked: Asked) -> Iterator[Proposal]:
    if len(asked.targets) != 1 or asked.request.pool:
        return
    here = asked.targets[0].capability
    known = [pick.row for item in asked.wants.others for pick in picks(asked.matrix, item, asked.request.platform)[:1]]
    floor = max((row.min_capability for row in known if row.min_capability is not None), default=here)
    rows = [
        row for row in asked.matrix.capabilities if row.capability > here and row.capability >= floor and row.last_cuda is None
    ]
    for row in sorted(rows, key=lambda row: row.capability)[:_FEW]:
        if row.first_cuda is not None:
            yield {"gpus": row.capability.sm}, f"a GPU of compute capability {row.capability}, with its machine"


_TOO_OLD = frozenset({"package-min-arch", "package-max-arch", "package-arch-not-in-build"})
_OF_PACKAGE = _TOO_OLD | {
    "cuda-major-mismatch-in-package",
    "cudnn-major-mismatch-in-package",
    "glibc-too-old",
    "no-wheel-for-python",
    "package-needs-newer-driver",
    "package-not-for-platform",
}
_TABLE: tuple[Row, ...] = (
    (frozenset({"two-frameworks"}), _apart, 3),
    (_OF_PACKAGE, _releases, 1),
    (frozenset({"precision-not-on-gpu"}), _half, 1),
    (frozenset({"toolkit-of-another-cuda-major", "toolkit-does-not-know-gpu"}), _toolkits, 1),
    (frozenset({"no-compiler-in-image"}), _devel, 1),
    (frozenset({"library-min-arch", "library-max-arch"}), _libraries, 1),
    (frozenset({"gpu-ambiguous"}), _gpu_names, _NAMES),
    (frozenset({"gpu-on-other-platform", "image-not-for-platform"}), _platforms, 1),
    (frozenset({"wrong-kernel-module-flavour"}), _modules, 1),
    (frozenset({"gpu-newer-than-driver", "gpu-dropped-by-driver", "wrong-kernel-module-flavour"}), _drivers, _EACH),
    (frozenset({"cuda-compat-older-than-driver", "cuda-compat-not-in-data", "cuda-compat-not-on-this-gpu"}), _no_compat, 1),
    (frozenset({"arch-dropped-by-cuda-major", "arch-not-in-build", "no-such-cuda"}), _cudas, 1),
    (frozenset({"driver-too-old", "driver-too-old-for-cuda-major"}), _cudas, 1),
    (frozenset({"no-such-image"}), _images, _EACH),
    (frozenset({"arch-dropped-by-cuda-major", "image-requires-newer-driver", "no-driver-for-gpu-and-cuda"}), older_images, 1),
    (frozenset({"image-older-than-gpu"}), newer_images, 1),
    (frozenset({"image-requires-newer-driver"}), _drivers, 1),
    (frozenset({"fabric-manager-version-mismatch"}), _fabric, 1),
    (frozenset({"no-mig"}), _no_mig, 1),
    (frozenset({"compiler-too-new-for-nvcc"}), _compiler, 1),
)
#: What is tried last, for it gives up a part of what was asked.
_LAST: tuple[Row, ...] = (
    (frozenset({"bundled-ptxas-too-old"}), _without_compiling, 1),
    (_TOO_OLD, _without_packages, 1),
    (_TOO_OLD, _other_gpus, 1),
)
