"""Base images, operating systems and measured sizes: facts → rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from provisioner.stack.rows import Closure, ImageRow, System
from provisioner.versions import Version
from tools.matrix.facts import LEVELS, PLATFORMS, Facts, Row, level, version

if TYPE_CHECKING:
    from collections.abc import Sequence


def images(facts: Facts) -> tuple[ImageRow, ...]:
    """The tags of nvidia/cuda, and of the slim Python images."""
    rows = []
    for row in facts["images"]["images"]:
        stated = row.get("platforms")
        platforms = stated or _by_rule(row["distro"])
        flavours = {re.sub(r"^cudnn\d", "cudnn", name): name for name in row["flavours"] if "tensorrt" not in name}
        listed = "2025-08" in row["status"]
        hub = row.get("cudnn_devel_on_hub_2026_08") or "2026-08" in row["status"]
        notes = [row["note"]] if "note" in row else []
        if not stated:
            notes.append("platforms by the rule of the catalogue")
        if row.get("complete") is False and "note" not in row:
            notes.append("other flavours are to be expected")
        rows.append(
            ImageRow(
                repository="nvidia/cuda",
                os=row["distro"],
                cuda=Version(row["cuda"]),
                cudnn=version(row.get("cudnn")),
                tags={flavour: f"{row['cuda']}-{name}-{row['distro']}" for flavour, name in sorted(flavours.items())},
                platforms=tuple(PLATFORMS[name] for name in platforms if name in PLATFORMS),
                last_seen="2026-08" if hub else "2025-08" if listed else "2026",
                maintained=False if "unsupported" in row["status"] else True if listed else None,
                note="; ".join(notes),
                source=facts.sources("images", row["source"]),
                verified=level(row["verified"], *([] if stated else ["derived"])),
            )
        )
    rows += [
        ImageRow(
            repository="python",
            os=row["os"],
            python=row["python"],
            tags={"slim": row["reference"].partition(":")[2]},
            published="seen" if row["first_seen"] or row["last_seen"] else "named",
            platforms=tuple(PLATFORMS[name] for name in row["platforms"]),
            first_seen=row["first_seen"],
            last_seen=row["last_seen"],
            maintained=row["maintained"],
            note=row.get("note", ""),
            source=facts.sources("python_images", row["source"]),
            verified=level(row["verified"]),
        )
        for row in facts["python_images"]["images"]
    ]
    return tuple(rows)


def _by_rule(distro: str) -> Sequence[str]:
    """`images.yaml` rules, multi_arch: Ubuntu from 20.04 on for both, older ones for amd64 only."""
    ubuntu = re.fullmatch(r"ubuntu([\d.]+)", distro)
    return ("amd64", "arm64") if ubuntu and Version(ubuntu[1]) >= Version("20.04") else ("amd64",)


def systems(facts: Facts) -> tuple[System, ...]:
    """The operating systems. The level is that of the C library; a weaker one of Python is said in the note."""
    return tuple(
        System(
            id=row["id"],
            name=row["name"],
            family=row["family"],
            release=tuple(row["release"]),
            libc=row.get("libc", "glibc"),
            glibc=version(row["glibc"]),
            python=row["python"],
            note="; ".join(filter(None, (row.get("note"), _python_level(row)))),
            source=facts.sources("systems", row["source"]),
            verified=level(row["verified"]),
        )
        for row in facts["systems"]["systems"]
    )


def _python_level(row: Row) -> str:
    weaker = LEVELS.index(row["python_verified"]) > LEVELS.index(row["verified"])
    return f"python is of level {row['python_verified']}" if weaker else ""


def closures(facts: Facts) -> tuple[Closure, ...]:
    """Measured sizes; the CUDA part is known to 10 MB."""
    return tuple(
        Closure(
            requirement=row["requirement"],
            python=row["python"],
            platform=PLATFORMS[row["machine"]],
            packages=row["packages"],
            download=row["download_bytes"],
            unpacked=row["unpacked_bytes"],
            cuda_download=round(row["nvidia_and_cuda_download_gb"] * 100) * 10_000_000,
            source=("sizes",),
            verified=level(row["verified"]),
        )
        for row in facts["sizes"]["closures"]
    )
