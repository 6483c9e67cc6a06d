"""What a PyTorch wheel says of itself → rows of the matrix. Pure: an edge reads the few files inside the wheel.

The method is the one by which the shipped rows were read: the names in the listing say Pythons, platform and glibc floor,
torch/version.py the CUDA, METADATA the cuDNN, the NCCL and the companions, and the architecture list in libtorch_python.so what
the build holds machine code for. From 2.11 on a table in torch/cuda/__init__.py names the architectures too: it is compared.
"""

from __future__ import annotations

import ast
import email.parser
import re
from collections.abc import Iterable, Mapping

from provisioner.errors import ProvisionerError
from provisioner.stack.gpus import Capability
from provisioner.stack.rows import Platform, Release, Source, Variant
from provisioner.values import replace, value
from provisioner.versions import Range, Version

#: The projects on the index: the framework's own, then the companions whose release follows it; of which all of one minor fit.
PROJECT, VISION, AUDIO = "torch", "torchvision", "torchaudio"
#: The members of a wheel that are read.
VERSION, TABLE, LIBRARY, METADATA = "torch/version.py", "torch/cuda/__init__.py", "torch/lib/libtorch_python.so", "METADATA"
MACHINES: Mapping[str, Platform] = {"x86_64": "linux/amd64", "aarch64": "linux/arm64"}
#: The wheel that is read when there is one for it; the shipped sizes are those of this Python.
_USUAL = ("cp312", "cp311", "cp310", "cp313")
_NAME = re.compile(
    r"(?P<project>[^-]+)-(?P<version>[^-]+)(?:-\d[^-]*)?-(?P<python>[^-]+)-(?P<abi>[^-]+)-(?P<platform>[^-]+)\.whl"
)
_GLIBC = re.compile(r"manylinux(?:_(\d+)_(\d+)|2014|2010|1)_(x86_64|aarch64)")
_WORD = rb"(?:sm|compute)_\d{2,3}[af]?"
_ARCHITECTURES = re.compile(rb"\x00(" + _WORD + rb"(?: " + _WORD + rb")*)\x00")
_NUMPY2 = b"numpy._core"
_OVERLAP = 4096  # bytes; neither text is longer
#: Where a release of torchvision lies that belongs to one of torch: days between their uploads, and how many are looked at.
_NEAR = 3


class UnreadableWheel(ProvisionerError):  # noqa: N818 - as the errors of this tool are called
    """A wheel does not say what its kind always said; the message says which, and the row cannot be made."""


@value
class Offer:
    """A wheel in the listing of an index: its file name, its size in bytes and the day of its upload where that is said."""

    name: str
    size: int | None = None
    day: str | None = None


@value
class Tags:
    """What a wheel's file name says. `python` None: any of them. `glibc` is the lowest C library of its platform tags."""

    version: Version
    python: str | None
    platform: Platform
    glibc: Version


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


def tags_of(name: str) -> Tags | None:
    """The tags of a wheel of a final release for Linux, None for every other file."""
    match = _NAME.fullmatch(name)
    if match is None or not re.fullmatch(r"\d+(\.\d+)*", match["version"]):
        return None
    floors = [(_floor(found), found[3]) for found in _GLIBC.finditer(match["platform"])]
    if not floors:
        return None
    python = re.fullmatch(r"cp(\d)(\d+)", match["python"])
    threaded = "t" if match["abi"].endswith("t") else ""
    return Tags(
        version=Version(match["version"]),
        python=f"{python[1]}.{python[2]}{threaded}" if python else None,
        platform=MACHINES[floors[0][1]],
        glibc=min(floor for floor, _ in floors),
    )


def _floor(tag: re.Match[str]) -> Version:
    """The C library that a tag promises (PEP 513, 571, 599, 600). The last wheels that said manylinux1 were made on 2.17."""
    return Version(f"{tag[1]}.{tag[2]}") if tag[1] else Version("2.17")


def releases_in(offers: Iterable[Offer]) -> tuple[Version, ...]:
    """The final releases that have a wheel for Linux, oldest first."""
    return tuple(sorted({tags.version for offer in offers if (tags := tags_of(offer.name)) is not None}))


def offers_of(offers: Iterable[Offer], version: Version, platform: Platform) -> tuple[Offer, ...]:
    """The wheels of one release for one platform, the one to read first."""
    here = [(tags, offer) for offer in offers if (tags := tags_of(offer.name)) is not None]
    chosen = [offer for tags, offer in here if (tags.version, tags.platform) == (version, platform)]
    return tuple(sorted(chosen, key=lambda offer: _preferred(offer.name)))


def _preferred(name: str) -> tuple[int, str]:
    _, _, python, abi, _ = name.removesuffix(".whl").rsplit("-", 4)
    return (_USUAL.index(python) if python in _USUAL and not abi.endswith("t") else len(_USUAL), name)


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
    listed = {offer.name: tags for offer in offers if (tags := tags_of(offer.name)) is not None}
    own = listed[text.name]
    number, cuda = _said(text)
    public, _, tag = number.partition("+")
    if Version(public) != own.version:
        raise UnreadableWheel(f"{text.name}: torch/version.py calls itself {number}")
    words = (text.library.architectures or "").split()
    if cuda is not None and not words:
        raise UnreadableWheel(f"{text.name}: no architecture list was found in libtorch_python.so")
    pythons = {tags.python for tags in listed.values() if tags.python is not None}
    if not pythons or any("abi3" in name for name in listed):
        raise UnreadableWheel(f"{text.name}: its file names do not say for which Pythons the release is")
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
        cudnn=_pinned(wanted, r"nvidia-cudnn-cu\d+") if cuda else None,
        nccl=_pinned(wanted, r"nvidia-nccl-cu\d+") if cuda else None,
        pythons=tuple(sorted(pythons, key=_python_order)),
        sass=tuple(sorted(Capability.parse(word) for word in words if word.startswith("sm_"))) if cuda else None,
        ptx=tuple(sorted(Capability.parse(word) for word in words if word.startswith("compute_"))) if cuda else (),
        glibc=max(tags.glibc for tags in listed.values()),
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


def _python_order(python: str) -> tuple[Version, bool]:
    return Version(python.removesuffix("t")), python.endswith("t")


def _said(text: WheelText) -> tuple[str, Version | None]:
    """The version and the CUDA in torch/version.py."""
    number = re.search(r"^__version__\s*=\s*['\"]([^'\"]+)['\"]", text.version, re.MULTILINE)
    cuda = re.search(r"^cuda\b[^=]*=\s*(?:['\"](\d+\.\d+)[^'\"]*['\"]|None)", text.version, re.MULTILINE)
    if number is None or cuda is None:
        raise UnreadableWheel(f"{text.name}: torch/version.py does not say version and CUDA")
    return number[1], Version(cuda[1]) if cuda[1] else None


def requirements_of(metadata: str, platform: Platform = "linux/amd64") -> Mapping[str, str]:
    """What METADATA asks for by name, its bounds as text; extras and what is for other machines stay out."""
    found: dict[str, str] = {}
    machine = next(name for name, known in MACHINES.items() if known == platform)
    for line in email.parser.HeaderParser().parsestr(metadata).get_all("Requires-Dist", []):
        wanted, _, marker = str(line).partition(";")
        match = re.match(r"\s*([A-Za-z0-9._-]+)\s*(?:\[[^\]]*\])?\s*\(?([^)]*)\)?\s*$", wanted)
        named = re.search(r"platform_machine\s*==\s*['\"](\w+)['\"]", marker)
        system = re.search(r"(?:platform_system|sys_platform)\s*==\s*['\"](\w+)['\"]", marker)
        if match is None or "extra ==" in marker or (named and named[1] != machine):
            continue
        if system is None or system[1].lower() == "linux":
            found.setdefault(match[1].lower().replace("_", "-"), match[2].replace(" ", ""))
    return found


def _pinned(wanted: Mapping[str, str], name: str) -> Version | None:
    bounds = next((bounds for project, bounds in wanted.items() if re.fullmatch(name, project)), "")
    return Version(bounds.removeprefix("==")) if re.fullmatch(r"==[\d.]+", bounds) else None


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
