"""GPUs, drivers and CUDA: facts → rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from provisioner.stack.gpus import Capability
from provisioner.stack.rows import (
    Architecture,
    ComputeCapability,
    Cuda,
    CudaRelease,
    DriverBranch,
    ForwardCompat,
    Gpu,
)
from provisioner.versions import Version
from tools.matrix.facts import Facts, Row, capabilities, level, version

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def architectures(facts: Facts) -> tuple[Architecture, ...]:
    """The GPU generations. A first driver that is no branch of ours (367) is left out: it is older than every row."""
    branches = {row["branch"] for row in facts["drivers"]["branches"]}
    return tuple(
        Architecture(
            id=row["id"],
            name=row["name"],
            precisions=tuple(name for name in ("bf16", "tf32", "fp8", "fp4") if row["precisions"][name] is True)
            if "precisions" in row
            else None,
            open_modules=row["open_kernel_modules"],
            first_driver=row.get("first_driver_branch") if row.get("first_driver_branch") in branches else None,
            last_driver=row.get("last_driver_branch"),
            source=facts.sources("architectures", row["source"]),
            verified=level(row["verified"]),
        )
        for row in facts["architectures"]["architectures"]
    )


def compute_capabilities(facts: Facts) -> tuple[ComputeCapability, ...]:
    """The compute capabilities."""
    return tuple(
        ComputeCapability(
            capability=Capability.parse(row["cc"]),
            architecture=row["arch"],
            first_cuda=version(row["first_cuda"]),
            last_cuda=version(row["last_cuda"]),
            source=facts.sources("architectures", row["source"]),
            verified=level(row["verified"]),
        )
        for row in facts["architectures"]["compute_capabilities"]
    )


def gpus(facts: Facts) -> tuple[Gpu, ...]:
    """The products. `likely` and `unknown` MIG are not known; a remembered memory size is left out."""
    aliases: Mapping[str, Sequence[str]] = facts["gpu_aliases"]["aliases"]
    rows = facts["gpus"]["gpus"]
    strangers = aliases.keys() - {row["name"] for row in rows}
    if strangers:
        raise SystemExit(f"gpu_aliases.yaml: no GPU has the name {', '.join(sorted(strangers))}")
    found = []
    for row in rows:
        also = [*row.get("other_driver_names", ()), *aliases.get(row["name"], ())]
        if row.get("nvidia_smi_name"):
            also.append(row["nvidia_smi_name"])
        first = row.get("first_named_in_open_modules") or {}
        named = row["compute_capability"]
        numbers = sorted(Capability.parse(text) for text in (named if isinstance(named, list) else [named]))
        sources = facts.sources("gpus", row["source"])
        if row["name"] in aliases:
            sources += facts.sources("gpu_aliases", "gpu_names")
        found.append(
            Gpu(
                name=row["name"],
                aliases=tuple(alias for alias in dict.fromkeys(also) if not _is_spelling(alias, row["name"])),
                segment=row["segment"],
                architecture=row["arch"],
                capability=numbers[0],
                or_capability=numbers[1] if numbers[1:] else None,
                open_modules=row["open_kernel_modules"],
                last_driver=row["last_driver_branch"],
                first_driver_seen=version(first.get("driver")),
                mig=row["mig"] if isinstance(row["mig"], bool) else None,
                memory_gb=row.get("memory_gb") if row.get("memory_verified") != "recall" else None,
                fabric_manager="fabric_manager" in row,
                source=sources,
                verified=level(row["verified"]),
            )
        )
    return tuple(found)


def _is_spelling(alias: str, name: str) -> bool:
    """Whether the matching rule takes `alias` for the name itself: other case, or without NVIDIA."""
    return alias.lower().removeprefix("nvidia ") == name.lower().removeprefix("nvidia ")


def drivers(facts: Facts) -> tuple[DriverBranch, ...]:
    """The driver branches. `first` comes from the CUDA release tables: the tags of the open modules name betas as well."""
    paired: dict[str, list[Version]] = {}
    for row in facts["cuda"]["releases"]:
        if row["driver_linux_x86_64"] and _is_released(row):
            paired.setdefault(row["paired_driver_branch"], []).append(Version(row["driver_linux_x86_64"]))
    rows = []
    for row in facts["drivers"]["branches"]:
        tagged = row.get("open_module_tags", {}).get("first")
        known = paired.get(row["branch"]) or [Version(text) for text in (tagged, row["latest"]) if text]
        rows.append(
            DriverBranch(
                branch=row["branch"],
                type=row["type"],
                max_cuda=Version(row["max_cuda"]),
                first=min(known) if known else None,
                latest=version(row["latest"]),
                release_date=_date(row["release_date"]),
                eol=_date(row["eol"]),
                architectures=tuple(row["architectures"]),
                open_modules=row["open_modules"],
                status=row["status"],
                note=row.get("note", ""),
                source=facts.sources("drivers", row["source"]),
                verified=level(row["verified"]),
            )
        )
    return tuple(rows)


def _is_released(row: Row) -> bool:
    return not re.search(r"RC|preview", row["label"])


def _date(text: object) -> str | None:
    return None if text is None else str(text)


def cuda(facts: Facts) -> tuple[Cuda, ...]:
    """The CUDA minors; the native driver is the one of the first general release of the minor."""
    native: dict[str, Version] = {}
    for row in facts["cuda"]["releases"]:
        if row["driver_linux_x86_64"] and _is_released(row):
            driver = Version(row["driver_linux_x86_64"])
            native[row["minor"]] = min(native.get(row["minor"], driver), driver)
    rows = []
    for row in facts["cuda"]["minors"]:
        compiler = [source for source in row["host_compiler_source"] if source in facts["cuda"]["sources"]]
        notes = [row["note"]] if "note" in row else []
        if row["host_compiler_verified"] != row["verified"]:
            notes.append(f"gcc_max is of level {row['host_compiler_verified']}")
        rows.append(
            Cuda(
                version=Version(row["version"]),
                native_driver=native.get(row["version"]),
                native_branch=row["paired_driver_branch"],
                min_driver=version(row["min_driver_minor_compat"]),
                sm=capabilities(row["sm"]),
                gcc_max=row["host_gcc_max"],
                note="; ".join(notes),
                source=facts.sources("cuda", [*row["source"], *row["sm_source"], *compiler]),
                verified=level(row["verified"], row["sm_verified"]),
            )
        )
    return tuple(rows)


def cuda_releases(facts: Facts) -> tuple[CudaRelease, ...]:
    """The CUDA toolkit releases."""
    return tuple(
        CudaRelease(
            version=Version(row["version"]),
            minor=Version(row["minor"]),
            driver=version(row["driver_linux_x86_64"]),
            release_date=_date(row["release_date"]),
            note="; ".join(filter(None, (_unusual(row["label"]), row.get("note"), row.get("conflict")))),
            source=facts.sources("cuda", row["source"]),
            verified=level(row["verified"]),
        )
        for row in facts["cuda"]["releases"]
    )


def _unusual(label: str) -> str:
    return "release candidate" if "RC" in label else ""


def forward_compat(facts: Facts) -> tuple[ForwardCompat, ...]:
    """NVIDIA's table; for older CUDA the branches that the official images accept from data-centre brands (`cuda>=` aside)."""
    table = facts["cuda"]["forward_compat"]
    rows = {
        (minor, branch): ForwardCompat(
            cuda=Version(minor),
            branch=branch,
            state=state,
            source=facts.sources("cuda", table["source"]),
            verified=level(table["verified"]),
        )
        for minor, states in table["matrix"].items()
        for branch, state in zip(table["columns"], states, strict=True)
    }
    older = table["older_from_images"]
    for minor, branches in older["table"].items():
        for branch in branches:
            rows.setdefault(
                (minor, branch),
                ForwardCompat(
                    cuda=Version(minor),
                    branch=branch,
                    state="C",
                    note="accepted by NVIDIA_REQUIRE_CUDA of the official image",
                    source=facts.sources("cuda", older["source"]),
                    verified="derived",
                ),
            )
    return tuple(rows.values())
