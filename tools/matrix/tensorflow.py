"""TensorFlow: facts → its releases and its builds.

One wheel a release and platform. On linux/amd64 it is three builds here: with CUDA of the system (`cu125`), with the CUDA that
its extra pulls in (`and-cuda`, from 2.14 on), and as it is on a machine without a GPU (`cpu`).
Those for linux/arm64 have no CUDA.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from provisioner.stack.rows import Framework, Release, Variant
from provisioner.stack.upstream.tensorflow import NUMPY2
from provisioner.versions import Range, Version
from tools.matrix.facts import Facts, Row, bound_of, capabilities, glibc_of, level

if TYPE_CHECKING:
    from collections.abc import Iterator


def framework(facts: Facts) -> Framework:
    """TensorFlow itself."""
    return Framework(
        id="tensorflow",
        name="TensorFlow",
        cuda_from="system",
        smoke="tensorflow.py",
        under_minor_version=(
            "excluded: GPUs for which its wheels hold only PTX, which an older driver than its CUDA cannot compile",
        ),
        source=facts.sources("tensorflow", "wheel"),
        verified="metadata",
    )


def releases(facts: Facts) -> tuple[Release, ...]:
    """The releases with their Keras and their bound on NumPy."""
    return tuple(
        Release(
            framework="tensorflow",
            version=Version(row["version"]),
            date=str(row["date"]),
            companions={row["keras"].split()[0].split(">")[0]: bound_of([row["keras"]])} if row["keras"] else {},
            numpy2=Version(row["version"]) >= NUMPY2,
            numpy=bound_of(row["numpy"]),
            source=facts.sources("tensorflow", "wheel"),
            verified=level(
                row["verified"], *([] if "<" in row["numpy"][0] or Version(row["version"]) >= NUMPY2 else ["derived"])
            ),
        )
        for row in facts["tensorflow"]["releases"]
    )


def variants(facts: Facts) -> Iterator[Variant]:
    """The builds for both platforms."""
    for row in facts["tensorflow"]["releases"]:
        yield _gpu(facts, row, "")
        if row["and_cuda"]:
            yield _gpu(facts, row, "and-cuda")
        yield _cpu(facts, row)
        if row["aarch64"]:
            yield _arm64(facts, row)


def _gpu(facts: Facts, row: Row, extra: str) -> Variant:
    built, tested = Version(row["built_with"]["cuda"]), row["tested_with"]
    libraries = {name: bound for name, bound in (row["and_cuda"] or {}).items() if "cudnn" in name or "nccl" in name}
    exact = {name.split("-")[1]: Version(bound[2:]) for name, bound in libraries.items() if bound.startswith("==")}
    number = row["version"]
    return Variant(
        framework="tensorflow",
        version=Version(number),
        tag=extra or f"cu{built.minor}".replace(".", ""),
        platform="linux/amd64",
        index="pypi",
        default=True,
        published="seen",
        cuda=built.minor,
        cudnn=exact.get("cudnn") if extra else Version(tested["cudnn"]),
        nccl=exact.get("nccl") if extra else None,
        pythons=tuple(row["pythons"]),
        sass=capabilities(row["cubins"]),
        ptx=capabilities(row["ptx"]),
        glibc=Version(row["glibc_floor"]),
        download=row["wheel_bytes"],
        requirement=f"tensorflow[{extra}]=={number}" if extra else None,
        cuda_from="wheels" if extra else "system",
        pins=_pins(row),
        libraries=tuple(f"{name}{Range(bound)}" for name, bound in libraries.items() if not bound.startswith("=="))
        if extra
        else (),
        note=row.get("note", "") if extra else f"tested with CUDA {tested['cuda']} and cuDNN {tested['cudnn']}",
        source=facts.sources("tensorflow", ["wheel"] if extra else ["wheel", "tested_with"]),
        verified=level(row["verified"], *([] if extra else [tested["verified"]])),
    )


def _pins(row: Row) -> tuple[str, ...]:
    """A wheel that was built before NumPy 2 and sets no upper bound would get it."""
    open_ended = "<" not in bound_of(row["numpy"]) and "~=" not in bound_of(row["numpy"])
    return ("numpy<2",) if Version(row["version"]) < NUMPY2 and open_ended else ()


def _cpu(facts: Facts, row: Row) -> Variant:
    return Variant(
        framework="tensorflow",
        version=Version(row["version"]),
        tag="cpu",
        platform="linux/amd64",
        index="pypi",
        default=True,
        published="seen",
        pythons=tuple(row["pythons"]),
        glibc=Version(row["glibc_floor"]),
        download=row["wheel_bytes"],
        pins=_pins(row),
        note="the same wheel as with CUDA: without a GPU it computes on the CPU",
        source=facts.sources("tensorflow", "wheel"),
        verified="derived",
    )


def _arm64(facts: Facts, row: Row) -> Variant:
    (wheel,) = (entry for entry in facts["tensorflow_arm64"]["wheels"] if entry["version"] == row["version"])
    return Variant(
        framework="tensorflow",
        version=Version(row["version"]),
        tag="cpu",
        platform="linux/arm64",
        index="pypi",
        default=True,
        published="seen",
        pythons=tuple(wheel["pythons"]),
        glibc=glibc_of(wheel["wheel_tag"]),
        download=wheel.get("wheel_bytes"),
        pins=_pins(row),
        note="a CPU build, whatever extras it names",
        source=(*facts.sources("tensorflow", "wheel"), *facts.sources("tensorflow_arm64", "tensorflow_listing")),
        verified="metadata",
    )
