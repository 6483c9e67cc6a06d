"""What a TensorFlow wheel says of itself → rows of the matrix. Pure: an edge reads the few files inside the wheel.

build_info.py names the CUDA, the major of cuDNN and the targets that the build was made for (`compute_90` means machine code and
PTX for 9.0, `sm_80` machine code only: configure.py says so); METADATA the extra `and-cuda` with its cuDNN and NCCL, the Keras
and the bound on NumPy; the names in the listing Pythons, platform and glibc floor. One wheel is three builds: with CUDA of the
system, with the CUDA of its extra, and as it is on a machine without a GPU.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

from provisioner.stack.gpus import Capability
from provisioner.stack.rows import Release, Source, Variant
from provisioner.stack.upstream.wheels import (
    METADATA,
    Offer,
    UnreadableWheel,
    extras_of,
    glibc_of,
    pinned,
    pythons_of,
    requirements_of,
    tags_of,
)
from provisioner.values import replace, value
from provisioner.versions import Range, Version

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PROJECT = "tensorflow"
#: The member of a wheel that says what it was built with.
BUILD = "tensorflow/python/platform/build_info.py"
#: The first release that is read: from it on the extra names the libraries.
FIRST = Version("2.14.0")
#: From it on the wheels work with NumPy 2. Older wheels without an upper bound were built before there was one.
NUMPY2 = Version("2.18.0")
_EXTRA = "and-cuda"
#: What the wheels for arm64 without a build of their own ask for instead: a CPU build.
_ELSEWHERE = "tensorflow-cpu-aws"


@value
class WheelText:
    """The texts of one wheel that are read. `build`: its build_info.py, None where it has none."""

    name: str
    metadata: str
    build: str | None


def source_of(day: str) -> Source:
    """The document of rows that were read on `day` (ISO)."""
    what = f"{METADATA} and {BUILD}, read by range requests; and the listing"
    return Source(id=f"index_{PROJECT}_{day}", document=f"The wheels of {PROJECT} on the package index: {what}", retrieved=day)


def variants_of(text: WheelText, offers: Iterable[Offer], source: str) -> tuple[Variant, ...]:
    """The builds that one wheel is; UnreadableWheel when it says too little. `offers`: the wheels of its release and platform."""
    offers, tags = tuple(offers), tags_of(text.name)
    if tags is None:
        raise UnreadableWheel(f"{text.name} is no wheel of a release for Linux")
    wanted = requirements_of(text.metadata, tags.platform)
    elsewhere = text.build is None and _ELSEWHERE in wanted
    build = {"is_cuda_build": False} if elsewhere else _built(text)
    cpu = Variant(
        framework="tensorflow",
        version=tags.version,
        tag="cpu",
        platform=tags.platform,
        index="pypi",
        default=True,
        published="seen",
        pythons=pythons_of(offers),
        glibc=glibc_of(offers),
        download=None if elsewhere else next((offer.size for offer in offers if offer.name == text.name), None),
        pins=("numpy<2",) if tags.version < NUMPY2 and not re.search("<|~=", wanted.get("numpy", "")) else (),
        note="a CPU build, whatever extras it names",
        source=(source,),
        verified="metadata",
    )
    if not build["is_cuda_build"]:
        return (cpu,)
    cpu = replace(cpu, note="the same wheel as with CUDA: without a GPU it computes on the CPU", verified="derived")
    return (*_with_cuda(text, cpu, build), cpu)


def _built(text: WheelText) -> Mapping[str, Any]:
    """What build_info.py says."""
    match = re.search(r"^build_info = collections\.OrderedDict\((\[.*?\])\)\s*$", text.build or "", re.MULTILINE | re.DOTALL)
    try:
        found = dict(ast.literal_eval(match[1])) if match else {}
    except (ValueError, SyntaxError, TypeError):
        found = {}
    if not isinstance(found.get("is_cuda_build"), bool):
        raise UnreadableWheel(f"{text.name}: {BUILD} does not say whether it was built for CUDA")
    return found


def _with_cuda(text: WheelText, cpu: Variant, build: Mapping[str, Any]) -> tuple[Variant, ...]:
    named = build.get("cuda_compute_capabilities")
    words = [str(word) for word in named] if isinstance(named, list) else []
    if not re.fullmatch(r"\d+\.\d+(\.\d+)?", str(build.get("cuda_version"))) or not words:
        raise UnreadableWheel(f"{text.name}: {BUILD} does not say CUDA and targets")
    if not all(re.fullmatch(r"(sm|compute)_\d{2,3}[af]?", word) for word in words):
        raise UnreadableWheel(f"{text.name}: {BUILD} names targets in a form that is not known here: {' '.join(words)}")
    cuda = Version(str(build["cuda_version"])).minor
    libraries = {
        name: bounds
        for name, bounds in requirements_of(text.metadata, cpu.platform, extra=_EXTRA).items()
        if re.fullmatch(r"nvidia-(cudnn|nccl)-cu\d+", name)
    }
    base = replace(
        cpu,
        cuda=cuda,
        sass=tuple(sorted({Capability.parse(f"sm_{word.partition('_')[2]}") for word in words})),
        ptx=tuple(sorted({Capability.parse(word) for word in words if word.startswith("compute_")})),
        verified="metadata",
        note="",
    )
    system = replace(
        base,
        tag=f"cu{cuda}".replace(".", ""),
        cuda_from="system",
        cudnn=_least_cudnn(libraries, str(build.get("cudnn_version"))),
        note="cuDNN: the least that its extra asks for, of the major that it was built with",
        verified="derived",
    )
    if _EXTRA not in extras_of(text.metadata) or not libraries:
        return (system,)
    extra = replace(
        base,
        tag=_EXTRA,
        cuda_from="wheels",
        requirement=f"tensorflow[{_EXTRA}]=={cpu.version}",
        cudnn=pinned(libraries, r"nvidia-cudnn-cu\d+"),
        nccl=pinned(libraries, r"nvidia-nccl-cu\d+"),
        libraries=tuple(f"{name}{bounds}" for name, bounds in libraries.items() if not bounds.startswith("==")),
    )
    return system, extra


def _least_cudnn(libraries: Mapping[str, str], major: str) -> Version | None:
    """What its makers test with, as every release since 2.14 shows; None where the extra and build_info.py disagree."""
    bounds = next((bounds for name, bounds in libraries.items() if "cudnn" in name), "")
    least = next((bound for sign, bound in Range(bounds).bounds if sign in {"==", ">=", "~="}), None)
    return least.minor if least is not None and str(least.major) == major.partition(".")[0] else None


def release_of(text: WheelText, day: str | None, source: str) -> Release:
    """The row of the release: its day, its Keras and its bound on NumPy."""
    tags = tags_of(text.name)
    if tags is None:
        raise UnreadableWheel(f"{text.name} is no wheel of a release for Linux")
    wanted = requirements_of(text.metadata, tags.platform)
    return Release(
        framework="tensorflow",
        version=tags.version,
        date=day,
        companions={"keras": wanted["keras"]} if wanted.get("keras") else {},
        numpy2=tags.version >= NUMPY2,
        numpy=wanted.get("numpy", ""),
        source=(source,),
        verified="metadata",
    )
