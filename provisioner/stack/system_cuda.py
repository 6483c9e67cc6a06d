"""Builds that take CUDA from the system: the image must have the libraries, in releases that the build loads and the GPU knows.

Within a CUDA major a library that is as new or newer is loaded; cuDNN too, of the same major and not older than what the build
was tested with. A cuDNN that is not known is no yes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from provisioner.stack.answer import Note
from provisioner.stack.asked import reason
from provisioner.stack.sizes import predict_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provisioner.stack.answer import Judgement
    from provisioner.stack.asked import Asked
    from provisioner.stack.rows import ImageRow, Library, Variant
    from provisioner.versions import Version

_RULE = "image-has-libraries"
_LIBRARIES = ("runtime", "devel")  # how the names of the flavours with CUDA libraries end
_CUDNN = "cudnn"


def from_system(asked: Asked, build: Variant) -> bool:
    """Whether the build needs the CUDA libraries of its image."""
    framework = asked.wants.framework
    brings = build.cuda_from or (framework.cuda_from if framework else "wheels")
    return build.cuda is not None and brings == "system"


def serves(asked: Asked, build: Variant, row: ImageRow, flavour: str) -> bool:
    """Whether an image has what a build that takes CUDA from the system loads, for every GPU."""
    return missing(build, row, flavour) is None and _dropped(asked, build, row) is None


def missing(build: Variant, row: ImageRow, flavour: str) -> tuple[str, str] | None:
    """What the image lacks: the finding, and the end of a sentence that begins with the image; None when nothing."""
    if row.cuda is None or not flavour.endswith(_LIBRARIES):
        return "image-without-libraries", "has no CUDA libraries"
    if build.cuda is not None and (row.cuda.major != build.cuda.major or row.cuda.minor < build.cuda.minor):
        return "image-cuda-mismatch", f"has CUDA {row.cuda}"
    if build.cudnn is not None:
        return _missing_cudnn(build.cudnn, row, flavour)
    return None


def _missing_cudnn(wanted: Version, row: ImageRow, flavour: str) -> tuple[str, str] | None:
    if _CUDNN not in flavour:
        return "image-without-libraries", "has no cuDNN"
    if row.cudnn is None or row.cudnn.major != wanted.major or row.cudnn < wanted:
        return "image-cudnn-mismatch", f"has cuDNN {row.cudnn}" if row.cudnn else "has a cuDNN of which the release is not known"
    return None


def _dropped(asked: Asked, build: Variant, row: ImageRow) -> Library | None:
    """The row that says that the image's cuDNN does not know one of the GPUs."""
    if row.cudnn is None or build.cudnn is None or row.cuda is None:
        return None
    for found in asked.matrix.libraries_of(_CUDNN, row.cuda.major, row.cudnn):
        lowest = found.min_capability
        if lowest is not None and any(target.capability < lowest for target in asked.targets):
            return found
    return None


def image_has_libraries(asked: Asked, build: Variant) -> Iterator[Judgement]:
    """The image that was asked has the libraries that the build takes from it."""
    if asked.image is None or asked.gpu is False or not from_system(asked, build):
        return
    row = asked.image
    rows = [("variants", build), ("images", row)]
    wanted = f"CUDA {build.cuda}" + (f" and cuDNN {build.cudnn} or a newer one of its major" if build.cudnn else "")
    named = f"the {build.tag} build of {build.framework} {build.version} takes {wanted} from the image"
    lacks = missing(build, row, asked.flavour or "")
    dropped = _dropped(asked, build, row)
    if lacks is not None:
        yield asked.refuse(_RULE, lacks[0], f"{named}, and {asked.request.image} {lacks[1]}", rows)
    elif dropped is not None:
        below = min(asked.targets, key=lambda target: target.capability)
        fact = f"cuDNN {row.cudnn} of {asked.request.image} runs on compute capability {dropped.min_capability} or higher, "
        yield asked.refuse(_RULE, "library-min-arch", f"{fact}and {below} is below", [*rows, ("libraries", dropped)])
    else:
        yield asked.because(f"{named}, and {asked.request.image} has them", "images", row)


def image_holds_no_copy(asked: Asked, build: Variant) -> Iterator[Judgement]:
    """The image that was asked does not hold what the wheels bring; where it does, the download for nothing is said.

    No note where something is compiled, or takes CUDA from the image: there the image's copy is used.
    """
    row, flavour = asked.image, asked.flavour or ""
    if row is None or row.cuda is None or not row.os or build.cuda is None or from_system(asked, build):
        return
    if not flavour.endswith(_LIBRARIES) or asked.request.purpose == "build":
        return
    from provisioner.stack.package_rules import settle  # which asks here whether a build takes CUDA from its image

    picked = settle(asked, build).picks
    if any(pick.row.recipe or pick.row.cuda_from == "system" for pick in picked):
        return
    size = predict_size(asked.matrix, build, asked.python or build.pythons[-1])
    much = f" ({size.cuda / 1e9:.1f} GB to download)" if size is not None and size.cuda else ""
    fact = (
        f"{asked.request.image} holds the CUDA libraries that the wheels of {build.framework} {build.version} bring as well{much}"
        ", and nothing uses the image's: a slim or base image is enough to run"
    )
    because = (reason(asked.matrix, "images", row),)
    yield Note(rule=_RULE, finding="cuda-libraries-twice", fact=fact, because=because)
