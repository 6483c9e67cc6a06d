"""Packages beside a framework, and how they compile: facts → rows, one a release and platform."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from provisioner.stack.gpus import Capability
from provisioner.stack.rows import PackageRow, Recipe
from provisioner.versions import Version
from tools.matrix.facts import PLATFORMS, Facts, Row, capabilities, glibc_of, level, python_of, version

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from provisioner.stack.rows import Platform

#: The newest Python that any wheel in the data has: what an abi3 wheel is counted for reaches to it.
_NEWEST = 15
_ANY: tuple[Platform | None, str | None, tuple[str, ...] | None] = (None, None, None)


def packages(facts: Facts) -> Iterator[PackageRow]:
    """The releases of all packages."""
    for key, package in facts["companions"]["packages"].items():
        for name, rows in package.items():
            if not name.startswith("releases"):
                continue
            distribution = facts["packages"]["names"].get(f"{key} {name}", key)
            for row in rows:
                for platform, tag, pythons in _wheels(facts, distribution, row):
                    yield _row(facts, distribution, row, platform, tag, pythons)


def _wheels(facts: Facts, name: str, row: Row) -> Iterator[tuple[Platform | None, str | None, tuple[str, ...] | None]]:
    """Platform, platform tag and Pythons of each wheel; one without a platform when it is of pure Python or an sdist."""
    number = Version(row["version"])
    wheels: Mapping[str, list[str]] | None = row.get("wheels")
    if named_wheels := [entry for entry in facts["packages"]["wheels"] if entry["package"] == name and _covers(entry, number)]:
        for entry in named_wheels:
            yield PLATFORMS[_machine(entry["tag"])], entry["tag"], None
    elif wheels is None and "platforms" in row:
        named = tuple(row["pythons"]) if "pythons" in row else None
        for tag in row["platforms"]:
            yield PLATFORMS[_machine(tag)], tag, named
    elif not wheels or "any" in wheels:
        yield _ANY
    else:
        for tag, names in wheels.items():
            yield PLATFORMS[_machine(tag)], tag, _pythons(names, row.get("python"))


def _machine(tag: str) -> str:
    return "aarch64" if tag.endswith("aarch64") else "x86_64"


def _pythons(names: list[str], requires: str | None) -> tuple[str, ...] | None:
    """`cp311-abi3` is 3.11 and what follows, as far as it asks; None for wheels that any Python takes."""
    if any(name.startswith("py") for name in names):
        return None
    below = re.search(r"<3\.(\d+)", requires or "")
    last = min(_NEWEST, int(below[1]) - 1) if below else _NEWEST
    found: set[str] = set()
    for name in names:
        first = python_of(name.removesuffix("-abi3"))
        found.add(first)
        if name.endswith("-abi3"):
            found |= {f"3.{minor}" for minor in range(int(first.split(".")[1]), last + 1)}
    return tuple(sorted(found, key=lambda text: (int(text.rstrip("t").split(".")[1]), text.endswith("t"))))


def _row(
    facts: Facts, name: str, row: Row, platform: Platform | None, tag: str | None, pythons: tuple[str, ...] | None
) -> PackageRow:
    own, number = facts["packages"], Version(row["version"])
    cuda: Row = next((entry for entry in own["cuda"] if entry["package"] == name), {})
    floors = [entry for entry in own["floors"] if entry["package"] == name and _covers(entry, number)]
    merged = {key: entry[key] for entry in floors for key in entry}
    minor = row.get("cuda")
    major = row.get("cuda_major") or cuda.get("cuda_major") or (int(minor.split(".")[0]) if minor else None)
    scanned = row.get("cubins", merged.get("sass"))
    floor_glibc = version(merged.get("glibc"))
    tag_glibc = (
        glibc_of(tag) if tag and not tag.startswith("manylinux1_") else None
    )  # that tag is nominal: newer libraries are asked
    named = ["package_metadata", *(entry["source"] for entry in floors)]
    named += ["package_scan"] if "cubins" in row or str(row.get("cuda_from", "")).startswith("libcudart") else []
    named += ["onnxruntime_cuda"] if "source" in row else []
    return PackageRow(
        package=name,
        version=number,
        platform=platform,
        date=str(row["date"]),
        requires_python=row.get("python"),
        pythons=pythons,
        glibc=max(filter(None, (floor_glibc, tag_glibc)), default=None) if platform else None,
        requires=_requires(row) | merged.get("requires", {}),
        cuda_major=major,
        cuda=Version(minor) if minor and "." in minor else None,
        cuda_minors=tuple(Version(f"{text[:-1]}.{text[-1]}") for text in row.get("cuda_libs", ())),
        cuda_from=cuda.get("cuda_from"),
        extras=cuda.get("extras") if "extras_from" in cuda and number >= Version(cuda["extras_from"]) else None,
        cudnn_major=row.get("cudnn_major") or cuda.get("cudnn_major"),
        min_driver=version(row.get("min_driver_linux") or merged.get("min_driver")),
        min_capability=Capability.parse(merged["min_capability"]) if "min_capability" in merged else None,
        sass=None if scanned is None else capabilities(scanned),
        ptx=capabilities(row.get("ptx", merged.get("ptx", ()))),
        ptxas=next((Version(e["ptxas"]) for e in own["ptxas"] if (e["package"], e["version"]) == (name, row["version"])), None),
        sdist_only=bool(row.get("sdist_only")),
        recipe=next((recipe["id"] for recipe in own["recipes"] if name in recipe["packages"]), None),
        download=row.get("bytes"),
        note=cuda.get("note", ""),
        source=facts.sources("packages", list(dict.fromkeys(named))),
        verified=level(row.get("verified", "metadata"), *(entry["verified"] for entry in floors)),
    )


def _covers(floor: Row, number: Version) -> bool:
    first, before = version(floor["first"]), version(floor["before"])
    return (first is None or number >= first) and (before is None or number < before)


def _requires(row: Row) -> dict[str, str]:
    """Distribution → bound, from the list of requirements or from the fields of a package that has them apart."""
    found = {name: row[name] for name in ("torch", "torchvision", "torchaudio") if row.get(name)}
    for text in row.get("requires") or ():
        name, _, bound = re.fullmatch(r"([A-Za-z0-9._-]+?)(\[[^\]]*\])?((?:[<>=!~].*)?)", text).groups()  # type: ignore[union-attr]
        found[re.sub(r"[-_.]+", "-", name).lower()] = bound.strip()
    return found


def recipes(facts: Facts) -> tuple[Recipe, ...]:
    """How packages compile."""
    return tuple(
        Recipe(
            id=row["id"],
            packages=tuple(row["packages"]),
            when=row["when"],
            devel=row["devel"],
            build_needs=tuple(row.get("build_needs", ())),
            isolation=row.get("isolation", True),
            arch_variable=row.get("arch_variable"),
            arch_format=row.get("arch_format"),
            arch_default=row.get("arch_default"),
            jobs_variable=row.get("jobs_variable"),
            environment=row.get("environment", {}),
            cuda_min=version(row.get("cuda_min")),
            note=row.get("note", ""),
            source=facts.sources("packages", row["source"]),
            verified=level(row["verified"]),
        )
        for row in facts["packages"]["recipes"]
    )
