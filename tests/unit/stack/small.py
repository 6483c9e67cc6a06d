"""A matrix small enough to see at one glance, for tests of single rules: one framework `frame` with two releases, three GPUs."""

from __future__ import annotations

from typing import Any

from provisioner.stack.gpus import Capability
from provisioner.stack.matrix import Matrix
from provisioner.stack.rows import (
    Architecture,
    ComputeCapability,
    Cuda,
    DriverBranch,
    ForwardCompat,
    Framework,
    Gpu,
    ImageRow,
    Index,
    Release,
    Source,
    System,
    Variant,
)
from provisioner.versions import Version

SAID: dict[str, Any] = {"source": ("doc",), "verified": "source"}


def sm(*texts: str) -> tuple[Capability, ...]:
    return tuple(map(Capability.parse, texts))


def variant(version: str, tag: str, **changes: Any) -> Variant:  # noqa: ANN401 - fields of any row
    """A seen build for linux/amd64 with sm_70 and sm_90, Python 3.11 and 3.12, glibc 2.28."""
    cuda = None if tag == "cpu" else Version(f"{tag[2:-1]}.{tag[-1]}")
    fields: dict[str, Any] = {
        "framework": "frame",
        "version": Version(version),
        "tag": tag,
        "platform": "linux/amd64",
        "index": f"frames/{tag}",
        "published": "seen",
        "cuda": cuda,
        "pythons": ("3.11", "3.12"),
        "sass": None if cuda is None else sm("sm_70", "sm_90"),
        "glibc": Version("2.28"),
        **SAID,
    }
    return Variant(**{**fields, **changes})


def driver(branch: str, max_cuda: str, *architectures: str, **changes: Any) -> DriverBranch:  # noqa: ANN401 - fields of any row
    fields: dict[str, Any] = {
        "branch": branch,
        "type": "PB",
        "max_cuda": Version(max_cuda),
        "first": Version(f"{branch}.10"),
        "latest": Version(f"{branch}.90"),
        "architectures": architectures,
        "open_modules": "available",
        "status": "supported",
        **SAID,
    }
    return DriverBranch(**{**fields, **changes})


def slim(python: str, system: str, **changes: Any) -> ImageRow:  # noqa: ANN401 - fields of any row
    fields: dict[str, Any] = {
        "repository": "python",
        "os": system,
        "python": python,
        "tags": {"slim": f"{python}-slim-{system}"},
        "platforms": ("linux/amd64",),
        "maintained": True,
        **SAID,
    }
    return ImageRow(**{**fields, **changes})


def gpu(name: str, architecture: str, capability: str, **changes: Any) -> Gpu:  # noqa: ANN401 - fields of any row
    fields = {"segment": "datacenter", "architecture": architecture, "capability": Capability.parse(capability), **SAID}
    return Gpu(**{"name": name, **fields, **changes})


def cuda(version: str, native: str, floor: str | None, *targets: str, **changes: Any) -> Cuda:  # noqa: ANN401 - fields of any row
    return Cuda(
        **{
            "version": Version(version),
            "native_driver": Version(native),
            "min_driver": Version(floor) if floor else None,
            "sm": sm(*targets),
            **SAID,
            **changes,
        }
    )


def matrix(**changes: tuple[Any, ...]) -> Matrix:
    """The small matrix, with whole sections replaced."""
    rows: dict[str, tuple[Any, ...]] = {
        "sources": (Source(id="doc", document="The Document"),),
        "architectures": (
            Architecture(id="old", name="Old", open_modules="unsupported", first_driver="500", last_driver="600", **SAID),
            Architecture(id="mid", name="Mid", open_modules="supported", first_driver="500", **SAID),
            Architecture(id="new", name="New", open_modules="required", first_driver="600", **SAID),
        ),
        "capabilities": (
            ComputeCapability(
                capability=Capability(7, 0), architecture="old", first_cuda=Version("9.0"), last_cuda=Version("12.9"), **SAID
            ),
            ComputeCapability(capability=Capability(9, 0), architecture="mid", first_cuda=Version("11.8"), **SAID),
            ComputeCapability(capability=Capability(12, 0), architecture="new", first_cuda=Version("12.8"), **SAID),
        ),
        "gpus": (
            gpu("Alpha A7", "old", "7.0", last_driver="600"),
            gpu("Beta B9", "mid", "9.0"),
            gpu("Gamma C12", "new", "12.0", segment="geforce", mig=False),
            gpu("Gamma C12 Max", "mid", "9.0"),
        ),
        "drivers": (
            driver("500", "12.1", "old", "mid", open_modules="none", status="eol"),
            driver("550", "12.6", "old", "mid"),
            driver("600", "13.0", "old", "mid", "new", type="LTS"),
            driver("650", "13.2", "mid", "new", open_modules="only flavour"),
        ),
        "cuda": (
            cuda("12.1", "500.10", "500.10", "sm_70", "sm_90"),
            cuda("12.6", "550.10", "500.10", "sm_70", "sm_90"),
            cuda("13.0", "600.10", "600.10", "sm_90", "sm_120"),
        ),
        "forward_compat": (
            ForwardCompat(cuda=Version("13.0"), branch="550", state="C", **SAID),
            ForwardCompat(cuda=Version("12.6"), branch="600", state="X", **SAID),
        ),
        "indexes": (
            Index(id="home", **SAID),
            *(
                Index(id=f"frames/{tag}", url=f"https://frames.example/{tag}", **SAID)
                for tag in ("cpu", "cu121", "cu126", "cu130")
            ),
        ),
        "frameworks": (
            Framework(
                id="frame",
                name="Frame",
                cuda_from="wheels",
                companions=("frame-vision",),
                smoke="frame.py",
                under_minor_version=("not excluded: the frame's own compiler",),
                **SAID,
            ),
        ),
        "releases": (
            Release(framework="frame", version=Version("1.0.0"), companions={"frame-vision": "0.1.0"}, **SAID),
            Release(framework="frame", version=Version("2.0.0"), companions={"frame-vision": ">=0.2,<0.3"}, **SAID),
        ),
        "variants": (
            variant("1.0.0", "cpu"),
            variant("1.0.0", "cu121", index="home", default=True),
            variant("1.0.0", "cu126"),
            variant("2.0.0", "cpu"),
            variant("2.0.0", "cu126", pythons=("3.11", "3.12", "3.13", "3.13t")),
            variant(
                "2.0.0",
                "cu130",
                index="home",
                default=True,
                sass=sm("sm_90", "sm_120"),
                pythons=("3.11", "3.12", "3.13", "3.13t"),
            ),
        ),
        "images": (
            slim("3.11", "debian11", maintained=False),
            slim("3.11", "debian12"),
            slim("3.12", "debian12"),
            slim("3.12", "debian13"),
            slim("3.13", "debian13"),
            ImageRow(
                repository="nvidia/cuda",
                os="ubuntu1",
                cuda=Version("13.0.1"),
                tags={"base": "13.0.1-base-ubuntu1", "devel": "13.0.1-devel-ubuntu1"},
                platforms=("linux/amd64",),
                **SAID,
            ),
        ),
        "systems": (
            System(id="debian11", name="Debian 11", family="debian", glibc=Version("2.27"), **SAID),
            System(id="debian12", name="Debian 12", family="debian", glibc=Version("2.36"), **SAID),
            System(id="debian13", name="Debian 13", family="debian", glibc=Version("2.41"), **SAID),
            System(id="ubuntu1", name="Ubuntu 1", family="debian", glibc=Version("2.35"), python="3.12", **SAID),
            System(id="musly", name="Musly", family="other", libc="musl", **SAID),
        ),
        **changes,
    }
    sections = {name: (lambda found=found: found) for name, found in rows.items()}
    return Matrix(collected="2026-01-01", sha256="0" * 64, sections=sections)
