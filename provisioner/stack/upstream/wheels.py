"""What every wheel on an index says by its name and in its METADATA: Pythons, platform, C library, requirements. Pure."""

from __future__ import annotations

import email.parser
import re
from typing import TYPE_CHECKING

from provisioner.errors import ProvisionerError
from provisioner.stack.rows import Platform
from provisioner.values import value
from provisioner.versions import Range, Version

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

METADATA = "METADATA"
MACHINES: Mapping[str, Platform] = {"x86_64": "linux/amd64", "aarch64": "linux/arm64"}
#: The wheel that is read when there is one for it; the shipped sizes are those of this Python.
_USUAL = ("cp312", "cp311", "cp310", "cp313")
_NAME = re.compile(
    r"(?P<project>[^-]+)-(?P<version>[^-]+)(?:-\d[^-]*)?-(?P<python>[^-]+)-(?P<abi>[^-]+)-(?P<platform>[^-]+)\.whl"
)
_FINAL = re.compile(r"\d+(\.\d+)*(\.post\d+)?")
_GLIBC = re.compile(r"manylinux(?:_(\d+)_(\d+)|2014|2010|1)_(x86_64|aarch64)")


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


def tags_of(name: str) -> Tags | None:
    """The tags of a wheel of a final release for Linux, None for every other file."""
    match = _NAME.fullmatch(name)
    if match is None or not _FINAL.fullmatch(match["version"]):
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


def pure_releases(offers: Iterable[Offer]) -> Mapping[Version, Offer]:
    """The final releases that have one wheel for every machine, each with it."""
    found: dict[Version, Offer] = {}
    for offer in offers:
        match = _NAME.fullmatch(offer.name)
        if match is not None and match["platform"] == "any" and _FINAL.fullmatch(match["version"]):
            found[Version(match["version"])] = offer
    return found


def releases_named(names: Iterable[str]) -> tuple[Version, ...]:
    """The final releases of which any of the files is, for Linux, for every machine, or as source."""
    found: set[Version] = set()
    for name in names:
        tags = tags_of(name)
        source = name.removesuffix(".tar.gz").rpartition("-")[2] if name.endswith(".tar.gz") else ""
        found |= {tags.version} if tags else set()
        found |= {Version(source)} if _FINAL.fullmatch(source) else set()
        found |= set(pure_releases([Offer(name=name)]))
    return tuple(sorted(found))


def offers_of(offers: Iterable[Offer], version: Version, platform: Platform) -> tuple[Offer, ...]:
    """The wheels of one release for one platform, the one to read first."""
    here = [(tags, offer) for offer in offers if (tags := tags_of(offer.name)) is not None]
    chosen = [offer for tags, offer in here if (tags.version, tags.platform) == (version, platform)]
    return tuple(sorted(chosen, key=lambda offer: _preferred(offer.name)))


def _preferred(name: str) -> tuple[int, str]:
    _, _, python, abi, _ = name.removesuffix(".whl").rsplit("-", 4)
    return (_USUAL.index(python) if python in _USUAL and not abi.endswith("t") else len(_USUAL), name)


def pythons_of(offers: Iterable[Offer]) -> tuple[str, ...]:
    """For which Pythons the wheels of one release and platform are; UnreadableWheel when their names do not say."""
    offers = tuple(offers)
    listed = [tags for offer in offers if (tags := tags_of(offer.name)) is not None]
    pythons = {tags.python for tags in listed if tags.python is not None}
    if not pythons or any("abi3" in offer.name for offer in offers):
        name = offers[0].name if offers else "a release without wheels"
        raise UnreadableWheel(f"{name}: its file names do not say for which Pythons the release is")
    return tuple(sorted(pythons, key=lambda python: (Version(python.removesuffix("t")), python.endswith("t"))))


def glibc_of(offers: Iterable[Offer]) -> Version:
    """The C library that every one of the wheels is content with."""
    return max(tags.glibc for offer in offers if (tags := tags_of(offer.name)) is not None)


def first_day(offers: Iterable[Offer]) -> str | None:
    """The day on which the first of the wheels was uploaded."""
    return min((offer.day for offer in offers if offer.day), default=None)


def requirements_of(metadata: str, platform: Platform = "linux/amd64", *, extra: str = "") -> Mapping[str, str]:
    """What METADATA asks for by name, its bounds as text; what is for other machines stays out.

    Without `extra` what every install asks for, with it what that extra adds.
    """
    found: dict[str, str] = {}
    machine = next(name for name, known in MACHINES.items() if known == platform)
    for line in email.parser.HeaderParser().parsestr(metadata).get_all("Requires-Dist", []):
        wanted, _, marker = str(line).partition(";")
        match = re.match(r"\s*([A-Za-z0-9._-]+)\s*(?:\[[^\]]*\])?\s*\(?([^)]*)\)?\s*$", wanted)
        named = re.findall(r"platform_machine\s*==\s*['\"](\w+)['\"]", marker)
        system = re.search(r"(?:platform_system|sys_platform)\s*==\s*['\"](\w+)['\"]", marker)
        of_extra = re.search(r"extra\s*==\s*['\"]([\w.-]+)['\"]", marker)
        if match is None or (of_extra[1].replace("_", "-") if of_extra else "") != extra or (named and machine not in named):
            continue
        if system is None or system[1].lower() == "linux":
            found.setdefault(match[1].lower().replace("_", "-"), match[2].replace(" ", ""))
    return found


def extras_of(metadata: str) -> tuple[str, ...]:
    """The extras that METADATA names."""
    return tuple(map(str, email.parser.HeaderParser().parsestr(metadata).get_all("Provides-Extra", [])))


def accepted(python: str, metadata: str) -> bool:
    """Whether Requires-Python of METADATA lets a Python (`3.14t`) through; one that cannot be read lets every one."""
    text = str(email.parser.HeaderParser().parsestr(metadata).get("Requires-Python", ""))
    try:
        return not text or Version(python.removesuffix("t")) in Range(text)
    except ValueError:
        return True


def pinned(wanted: Mapping[str, str], name: str) -> Version | None:
    """The version to which the project that `name` (a pattern) means is pinned exactly."""
    bounds = next((bounds for project, bounds in wanted.items() if re.fullmatch(name, project)), "")
    return Version(bounds.removeprefix("==")) if re.fullmatch(r"==[\d.]+", bounds) else None
