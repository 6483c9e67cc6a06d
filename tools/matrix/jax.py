"""JAX: facts → its releases and its builds, which are its extras: `cuda12`, `cuda13`, and none for the CPU.

A release whose jaxlib is no longer on the package index (0.4.0 to 0.4.12, 0.4.14 to 0.4.17) cannot be installed from it
and has no row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from provisioner.stack.gpus import Capability
from provisioner.stack.rows import Framework, Platform, Release, Variant
from provisioner.versions import Range, Version
from tools.matrix.facts import Facts, Row, bound_of, capabilities, glibc_of, level, python_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from provisioner.stack.rows import Published

#: From it on NumPy 2 is supported (milestone of jax.yaml, metadata).
_NUMPY2 = Version("0.4.26")
#: What a release asks for at least, where what it was built with was not read (milestones of jax.yaml, CHANGELOG).
_LEAST: Sequence[tuple[Version, str]] = (
    (Version("0.4.26"), "12.1"),
    (Version("0.4.24"), "12.3"),
    (Version("0.4.17"), "12.2"),
)
#: From it on the bounds on cuDNN have an upper end.
_BOUNDED = Version("0.4.26")
_BUCKET = "only on the vendor's page of links, which is no package index"


def framework(facts: Facts) -> Framework:
    """JAX itself."""
    return Framework(
        id="jax",
        name="JAX",
        cuda_from="wheels",
        companions=("jaxlib",),
        smoke="jax.py",
        under_minor_version=("not excluded: jit, for the wheels bring their own ptxas",),
        source=facts.sources("jax", "metadata"),
        verified="metadata",
    )


def releases(facts: Facts) -> tuple[Release, ...]:
    """The releases with their jaxlib and their bound on NumPy."""
    return tuple(
        Release(
            framework="jax",
            version=Version(row["version"]),
            date=str(row["date"]),
            companions={"jaxlib": bound_of([row["jaxlib"]]) if row["jaxlib"] else row["version"]},
            numpy2=Version(row["version"]) >= _NUMPY2,
            numpy=_numpy(row),
            source=facts.sources("jax", "metadata"),
            verified="metadata" if row["jaxlib"] else "derived",
        )
        for row, _ in _listed(facts)
    )


def _numpy(row: Row) -> str:
    named = row["numpy"]
    return named if isinstance(named, str) else bound_of(named)


def _listed(facts: Facts) -> Iterator[tuple[Row, Mapping[str, Row]]]:
    """Each release with the wheels of the newest jaxlib that it takes: platform → row."""
    wheels: dict[Version, dict[str, Row]] = {}
    for row in facts["jaxlib"]["wheels"]:
        wheels.setdefault(Version(row["version"]), {})[row["platform"]] = row
    for row in facts["jax"]["releases"]:
        takes = Range(bound_of([row["jaxlib"]]) if row["jaxlib"] else f"=={row['version']}")
        found = [version for version in wheels if version in takes]
        if found:
            yield row, wheels[max(found)]


def variants(facts: Facts) -> Iterator[Variant]:
    """The builds for both platforms."""
    listed = list(_listed(facts))
    for at, (row, wheels) in enumerate(listed):
        for platform in sorted(wheels):
            yield _cpu(facts, row, wheels[platform])
        before: Row = next((older["cuda"] for older, _ in listed[at + 1 :] if older["cuda"]), {})
        for tag, build in row["cuda"].items():
            plugin = {**before.get(tag, {}), **build} if "no plugin release" in row.get("note", "") else build
            yield from _gpu(facts, row, tag, plugin, wheels)


def _cpu(facts: Facts, row: Row, wheel: Row) -> Variant:
    return Variant(
        framework="jax",
        version=Version(row["version"]),
        tag="cpu",
        platform=wheel["platform"],
        index="pypi",
        default=True,
        published="seen",
        pythons=tuple(wheel["pythons"]),
        glibc=glibc_of(wheel["wheel_tag"]),
        pins=_pins(row, {}),
        source=(*facts.sources("jax", "metadata"), *facts.sources("jaxlib", "jaxlib_listing")),
        verified="metadata",
    )


def _gpu(facts: Facts, row: Row, tag: str, build: Row, wheels: Mapping[str, Row]) -> Iterator[Variant]:
    pythons = [python_of(name) for name in build.get("pythons") or ()]
    there = bool(pythons) and tag in row["extras"]
    tags = {_platform(name): name for name in build.get("platforms") or ()}
    for platform, wheel in sorted(wheels.items()):
        if there and platform not in tags:
            continue
        yield _build(facts, row, tag, build, wheel, tags.get(wheel["platform"]) if there else None)


def _platform(tag: str) -> Platform:
    return "linux/arm64" if tag.endswith("aarch64") else "linux/amd64"


def _build(facts: Facts, row: Row, tag: str, build: Row, wheel: Row, wheel_tag: str | None) -> Variant:
    version = Version(row["version"])
    cuda, how = _cuda(facts, version, tag, build)
    sass, ptx, targets, target_source = _targets(facts, version, tag, build)
    pythons = [python_of(name) for name in build.get("pythons") or ()]
    pins = build.get("plugin_pins") or build.get("extra_pins") or {}
    notes = ["its CUDA libraries have lower bounds only: the newest of that CUDA major are installed", *how, *targets]
    published: Published = "seen" if wheel_tag else "no"
    if wheel_tag is None:
        notes = [_BUCKET if tag != "cuda13" else "the extra is named, the packages that it asks for do not exist"]
    elif "note" in row:
        notes.append(row["note"])
    return Variant(
        framework="jax",
        version=version,
        tag=tag,
        platform=wheel["platform"],
        index="pypi",
        default=True,
        published=published,
        cuda=cuda,
        pythons=tuple(python for python in pythons if python in wheel["pythons"]) or tuple(wheel["pythons"]),
        sass=sass,
        ptx=ptx,
        glibc=max(glibc_of(wheel_tag or wheel["wheel_tag"]), glibc_of(wheel["wheel_tag"])),
        requirement=f"jax[{tag}]=={row['version']}",
        libraries=tuple(
            name if bound == "*" else f"{name}{bound}" for name, bound in pins.items() if "cudnn" in name or "nccl" in name
        ),
        pins=_pins(row, pins),
        min_capability=_floor(build),
        note="; ".join(notes),
        source=(
            *facts.sources("jax", ["metadata", "tags"] if "built_for" in build or "built_with" in build else ["metadata"]),
            *facts.sources("jaxlib", ["jaxlib_listing", *target_source]),
        ),
        verified=level(build.get("verified") or "metadata", "source", *(["derived"] if how or targets else [])),
    )


def _pins(row: Row, libraries: Mapping[str, str]) -> tuple[str, ...]:
    """A jaxlib that was built for NumPy 1 or cuDNN 8, and sets no upper bound, would get the next (milestones of jax.yaml)."""
    number = Version(row["version"])
    pins = ["numpy<2"] if number < _NUMPY2 and "<" not in _numpy(row) else []
    if number < _BOUNDED:
        pins += [f"{name}<9" for name, bound in libraries.items() if "cudnn" in name and "<" not in bound]
    return tuple(pins)


def _floor(build: Row) -> Capability | None:
    floor = build.get("min_cc")
    return Capability.parse(str(floor)) if floor else None


def _cuda(facts: Facts, version: Version, tag: str, build: Row) -> tuple[Version, list[str]]:
    """What it was built with; else, with a note, what a neighbour was built with or what it asks for at least."""
    if "built_with" in build:
        return Version(build["built_with"]["cuda"]).minor, []
    known = [
        (Version(row["version"]), row["cuda"][tag]["built_with"]["cuda"])
        for row in facts["jax"]["releases"]
        if "built_with" in row["cuda"].get(tag, {})
    ]
    older = [entry for entry in known if entry[0] < version]
    if older:
        number, cuda = max(older)
        return Version(cuda).minor, [f"CUDA as of {number}"]
    if known:
        least = next((cuda for first, cuda in _LEAST if version >= first), None)
        if least is not None and tag == "cuda12":
            return Version(least), [f"asks for CUDA {least} or newer; what it was built with was not read"]
        number, cuda = min(known)
        return Version(cuda).minor, [f"CUDA as of {number}"]
    return Version("11.8"), ["CUDA 11.8 is the newest that it takes"]


def _targets(
    facts: Facts, version: Version, tag: str, build: Row
) -> tuple[tuple[Capability, ...] | None, tuple[Capability, ...], list[str], list[str]]:
    """Cubins, PTX, a note and a source. `compute_90` in its build files means both, as the scan of 0.12.0.1 confirms."""
    for row in facts["jaxlib"]["targets"]:
        if (row["version"], row["tag"]) == (str(version), tag):
            return capabilities(row["sass"]), capabilities(row["ptx"]), [], ["scan"]
    if "built_for" in build:
        return _read(build["built_for"])
    (scanned,) = (row for row in facts["jaxlib"]["targets"] if row["tag"] == tag) if tag != "cuda11" else (None,)
    older = [
        (Version(row["version"]), row["cuda"][tag]["built_for"])
        for row in facts["jax"]["releases"]
        if "built_for" in row["cuda"].get(tag, {}) and Version(row["version"]) < version
    ]
    if scanned and older:
        number, listed = max(older)
        sass, ptx, _, _ = _read(listed)
        if (
            sass == capabilities(scanned["sass"])
            and ptx == capabilities(scanned["ptx"])
            and version < Version(scanned["version"])
        ):
            return sass, ptx, [f"targets as of {number} and {scanned['version']}, which agree"], ["scan"]
    return None, (), [], []


def _read(listed: Sequence[str]) -> tuple[tuple[Capability, ...], tuple[Capability, ...], list[str], list[str]]:
    numbers = [name.partition("_")[2] for name in listed]
    return capabilities(numbers), capabilities(name[8:] for name in listed if name.startswith("compute_")), [], []
