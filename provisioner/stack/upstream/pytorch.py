"""What a PyTorch wheel says of itself → rows of the matrix. Pure: an edge reads the few files inside the wheel.

The method is the one by which the shipped rows were read: the names in the listing say Pythons, platform and glibc floor,
torch/version.py the CUDA, METADATA the cuDNN, the NCCL and the companions, and the architecture list in libtorch_python.so what
the build holds machine code for. From 2.11 on a table in torch/cuda/__init__.py names the architectures too: it is compared.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping

from provisioner.stack.gpus import Capability
from provisioner.stack.rows import Release, Source, Variant
from provisioner.stack.upstream.wheels import (
    MACHINES,
    METADATA,
    Offer,
    UnreadableWheel,
    glibc_of,
    pinned,
    pythons_of,
    releases_in,
    requirements_of,
    tags_of,
)
from provisioner.values import replace, value
from provisioner.versions import Range, Version

#: The projects on the index: the framework's own, then the companions whose release follows it; of which all of one minor fit.
PROJECT, VISION, AUDIO = "torch", "torchvision", "torchaudio"
#: The members of a wheel that are read.
VERSION, TABLE, LIBRARY = "torch/version.py", "torch/cuda/__init__.py", "torch/lib/libtorch_python.so"
_WORD = rb"(?:sm|compute)_\d{2,3}[af]?"
_ARCHITECTURES = re.compile(rb"\x00(" + _WORD + rb"(?: " + _WORD + rb")*)\x00")
_NUMPY2 = b"numpy._core"
_OVERLAP = 4096  # bytes; neither text is longer
#: Where a release of torchvision lies that belongs to one of torch: days between their uploads, and how many are looked at.
_NEAR = 3


@value
class Library:
    """What is looked for in libtorch_python.so: the architecture list, and whether it knows the module that NumPy 2 has."""

    architectures: str | None
    numpy2: bool


@value
class WheelText:
    """The texts of one wheel that are read. `table`: torch/cuda/__init__.py."""

    name: str
    version: str
    metadata: str
    table: str | None
    library: Library


def source_of(day: str) -> Source:
    """The document of rows that were read on `day` (ISO)."""
    what = f"{METADATA}, {VERSION} and the architecture list in {LIBRARY}, read by range requests; and the listing"
    return Source(id=f"index_{day}", document=f"The wheels of {PROJECT} on the package index: {what}", retrieved=day)


def scan(pieces: Iterable[bytes]) -> Library:
    """Look through libtorch_python.so piece by piece, no further than needed."""
    architectures: str | None = None
    numpy2, before = False, b""
    for piece in pieces:
        here = before + piece
        found = _ARCHITECTURES.search(here)
        architectures = architectures or (found[1].decode("ascii") if found else None)
        numpy2 = numpy2 or _NUMPY2 in here
        if architectures and numpy2:
            break
        before = here[-_OVERLAP:]
    return Library(architectures=architectures, numpy2=numpy2)


def variant_of(text: WheelText, offers: Iterable[Offer], source: str) -> Variant:
    """The row of a default build; UnreadableWheel when it says too little.

    `offers` are the wheels of its release and platform.
    """
    offers = tuple(offers)
    own = tags_of(text.name)
    if own is None:
        raise UnreadableWheel(f"{text.name} is no wheel of a release for Linux")
    number, cuda = _said(text)
    public, _, tag = number.partition("+")
    if Version(public) != own.version:
        raise UnreadableWheel(f"{text.name}: torch/version.py calls itself {number}")
    words = (text.library.architectures or "").split()
    if cuda is not None and not words:
        raise UnreadableWheel(f"{text.name}: no architecture list was found in libtorch_python.so")
    wanted = requirements_of(text.metadata, own.platform)
    size = next((offer.size for offer in offers if offer.name == text.name), None)
    return Variant(
        framework="torch",
        version=own.version,
        tag=tag or (f"cu{cuda.text.replace('.', '')}" if cuda else "cpu"),
        platform=own.platform,
        index="pypi",
        default=True,
        published="seen",
        cuda=cuda,
        cudnn=pinned(wanted, r"nvidia-cudnn-cu\d+") if cuda else None,
        nccl=pinned(wanted, r"nvidia-nccl-cu\d+") if cuda else None,
        pythons=pythons_of(offers),
        sass=tuple(sorted(Capability.parse(word) for word in words if word.startswith("sm_"))) if cuda else None,
        ptx=tuple(sorted(Capability.parse(word) for word in words if word.startswith("compute_"))) if cuda else (),
        glibc=glibc_of(offers),
        download=size,
        source=(source,),
        verified="metadata",
    )


def unread_builds(variants: Iterable[Variant]) -> tuple[Variant, ...]:
    """The CPU build of a new release: every one had it, nobody saw this one, and its index confirms it first."""
    return tuple(
        replace(
            row,
            tag="cpu",
            index="pytorch/cpu",
            default=False,
            published="named",
            cuda=None,
            cudnn=None,
            nccl=None,
            sass=None,
            ptx=(),
            download=None,
            note="every release before had it; Pythons and glibc are taken from the default wheels of the release",
            verified="derived",
        )
        for row in variants
        if row.platform == "linux/amd64" and row.cuda is not None
    )


def _said(text: WheelText) -> tuple[str, Version | None]:
    """The version and the CUDA in torch/version.py."""
    number = re.search(r"^__version__\s*=\s*['\"]([^'\"]+)['\"]", text.version, re.MULTILINE)
    cuda = re.search(r"^cuda\b[^=]*=\s*(?:['\"](\d+\.\d+)[^'\"]*['\"]|None)", text.version, re.MULTILINE)
    if number is None or cuda is None:
        raise UnreadableWheel(f"{text.name}: torch/version.py does not say version and CUDA")
    return number[1], Version(cuda[1]) if cuda[1] else None


def disagreements(text: WheelText, row: Variant) -> tuple[str, ...]:
    """Where the table in torch/cuda/__init__.py says something else than the library; the library wins."""
    match = re.search(r"^PYTORCH_RELEASES_CODE_CC[^=\n]*= (\{.*?^\})", text.table or "", re.MULTILINE | re.DOTALL)
    if match is None or row.cuda is None:
        return ()
    try:
        here = ast.literal_eval(match[1]).get(str(row.cuda.minor))
    except (ValueError, SyntaxError, AttributeError):
        return ("the table in torch/cuda/__init__.py has a form that is not known here",)
    machine = next(name for name, known in MACHINES.items() if known == row.platform)
    held = {int(target.sm.removeprefix("sm_")) for target in row.sass or () if not target.suffix}
    if isinstance(here, Mapping):
        named = here.get(machine, set())
        return (
            ()
            if named == held
            else (f"its table names {_shown(named)} for CUDA {row.cuda}, and the library holds {_shown(held)}",)
        )
    if here is None or not held <= set(here):  # until 2.12 one list stood for all machines
        return (f"its table names {_shown(here or ())} for CUDA {row.cuda}, and the library holds {_shown(held)}",)
    return ()


def _shown(targets: Iterable[int]) -> str:
    return ", ".join(f"sm_{target}" for target in sorted(targets)) or "nothing"


def near_in_time(offers: Iterable[Offer], day: str | None) -> tuple[Version, ...]:
    """The releases whose upload is nearest to `day`, a few, the nearest first; none where the index does not say days."""
    import datetime as dt

    days: dict[Version, str] = {}
    for offer in offers:
        tags = tags_of(offer.name)
        if tags is not None and offer.day is not None:
            days[tags.version] = min(offer.day, days.get(tags.version, offer.day))
    if day is None:
        return ()
    wanted = dt.date.fromisoformat(day)
    away = {version: abs((dt.date.fromisoformat(known) - wanted).days) for version, known in days.items()}
    return tuple(sorted(days, key=lambda version: (away[version], -version.numbers[0], version)))[:_NEAR]


def line_of(offers: Iterable[Offer], version: Version) -> tuple[Version, ...]:
    """The releases of torchaudio that may belong to a torch: those of its own minor, else of the newest minor before it."""
    known = [release for release in releases_in(offers) if release.minor <= version.minor]
    return tuple(release for release in known if release.minor == known[-1].minor) if known else ()


def companion_bound(candidates: Mapping[Version, str], version: Version, *, line: bool) -> str | None:
    """Which of `candidates` (release → its METADATA) goes with torch `version`: the one that pins it, else what accepts it.

    `line`: then all of one minor, as a bound. None when none does.
    """
    takes: list[Version] = []
    for release, metadata in candidates.items():
        bounds = requirements_of(metadata).get("torch", "")
        if bounds == f"=={version}":
            return str(release)
        try:
            accepted = not bounds or version in Range(bounds)
        except ValueError:
            continue
        takes += [release] if accepted else []
    if not takes:
        return None
    if not line:
        return str(takes[0])
    first = min(takes)
    return f">={first},<{first.numbers[0]}.{first.numbers[1] + 1}"


def release_of(text: WheelText, day: str | None, companions: Mapping[str, str | None], source: str) -> Release:
    """The row of the release: its day, and the companions that were found, with the triton that METADATA asks for."""
    tags = tags_of(text.name)
    if tags is None:
        raise UnreadableWheel(f"{text.name} is no wheel of a release for Linux")
    bounds = requirements_of(text.metadata, tags.platform).get("triton")
    triton = bounds.removeprefix("==") if bounds else None
    found = {**companions, "triton": triton}
    return Release(
        framework="torch",
        version=tags.version,
        date=day,
        companions={name: bound for name, bound in found.items() if bound},
        numpy2=text.library.numpy2,
        source=(source,),
        verified="metadata",
    )
