"""Write compat_matrix.yaml from collected facts: the same facts give the same bytes.

    python tools/build_matrix.py --facts FOLDER [--to compat_matrix.yaml]

FOLDER holds architectures, gpus, drivers, cuda, images, pytorch, sizes and host_setup .yaml; what this project collected by
itself stands in tools/facts. Every row keeps the ids of its sources; the catalogue is merged from the files.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from provisioner.stack.gpus import Capability
from provisioner.stack.matrix_text import format_matrix
from provisioner.stack.rows import (
    Architecture,
    Closure,
    ComputeCapability,
    Cuda,
    CudaRelease,
    DriverBranch,
    ForwardCompat,
    Framework,
    Gpu,
    ImageRow,
    Index,
    MatrixFile,
    Platform,
    Release,
    Source,
    System,
    Variant,
    Verified,
)
from provisioner.versions import Version

Row = Mapping[str, Any]

OWN = Path(__file__).resolve().parent / "facts"
LEVELS: Sequence[Verified] = ("metadata", "source", "derived", "secondary", "recall")
PLATFORMS: Mapping[str, Platform] = {
    "amd64": "linux/amd64",
    "x86_64": "linux/amd64",
    "linux/amd64": "linux/amd64",
    "arm64": "linux/arm64",
    "aarch64": "linux/arm64",
    "linux/arm64": "linux/arm64",
}
#: The oldest PyTorch release whose rows the matrix has.
FIRST_TORCH = Version("1.13")


class Facts:
    """The fact files, and the catalogue of sources merged from them: one id for one text."""

    def __init__(self, folder: Path) -> None:
        """Read the files of `folder`, and of tools/facts."""
        self._files: dict[str, Any] = {}
        for path in (*sorted(folder.glob("*.yaml")), *sorted(OWN.glob("*.yaml"))):
            self._files[path.stem] = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)  # noqa: S506 - CSafeLoader is the safe one
        self._documents: dict[str, str] = {}
        self._dates: dict[str, str] = {}

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - whatever the file holds
        return self._files[name]

    def sources(self, file: str, named: object) -> tuple[str, ...]:
        """The ids of the sources that a row of `file` names (an id, a list of ids, a mapping of what → id), entered in the catalogue."""
        ids: Iterable[Any]
        if isinstance(named, Mapping):
            ids = named.values()
        else:
            ids = named if isinstance(named, list) else (named,)
        return tuple(dict.fromkeys(self._enter(file, str(entry)) for entry in ids))

    def _enter(self, file: str, source: str) -> str:
        content = self._files[file]
        catalogue: Mapping[str, Any] = content.get("sources") or content["meta"]["sources"]
        known = source if source in catalogue else source.split(" ", 1)[0]  # "wheel (CUDA, sm …)"
        if known not in catalogue:
            raise SystemExit(f"{file}.yaml: source {source!r} is not in its catalogue")
        document = _document(catalogue[known])
        for name in (known, f"{known}-{file.replace('_', '-')}"):  # two files, one id, two texts: both are kept
            if self._documents.setdefault(name, document) == document:
                self._dates[name] = str(content["meta"]["collected"])
                return name
        raise SystemExit(f"{file}.yaml: source {source!r} has two texts in one file")

    def catalogue(self) -> tuple[Source, ...]:
        """The sources that rows name."""
        return tuple(
            Source(id=name, document=document, retrieved=self._dates[name]) for name, document in self._documents.items()
        )


def _document(entry: object) -> str:
    if isinstance(entry, Mapping):
        return str(entry.get("document") or entry.get("url") or entry.get("what"))
    return " ".join(str(entry).split())


def level(*texts: object) -> Verified:
    """The weakest of the levels; a text such as "metadata (fat-binary scan)" counts by its first word."""
    return max((_level(text) for text in texts), key=LEVELS.index)


def _level(text: object) -> Verified:
    word = re.split(r"[ (,;]", str(text))[0]
    for known in LEVELS:
        if known == word:
            return known
    raise SystemExit(f"{text!r} is no level of verification")


def version(text: object) -> Version | None:
    """A version, or None for null."""
    return None if text is None else Version(str(text))


def capabilities(numbers: Iterable[object]) -> tuple[Capability, ...]:
    """Cubin targets of 90, "90", 90a."""
    return tuple(sorted(Capability.parse(f"sm_{number}") for number in numbers))


def architectures(facts: Facts) -> tuple[Architecture, ...]:
    """The GPU generations. A first driver that is no branch of ours (367) is left out: it is older than every row."""
    branches = {row["branch"] for row in facts["drivers"]["branches"]}
    return tuple(
        Architecture(
            id=row["id"],
            name=row["name"],
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
                aliases=tuple(dict.fromkeys(also)),
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


def drivers(facts: Facts) -> tuple[DriverBranch, ...]:
    """The driver branches. The CUDA release tables name drivers that were released, the tags of the open modules betas as well."""
    paired: dict[str, list[Version]] = {}
    for row in facts["cuda"]["releases"]:
        if row["driver_linux_x86_64"] and _is_released(row):
            paired.setdefault(row["paired_driver_branch"], []).append(Version(row["driver_linux_x86_64"]))
    rows = []
    for row in facts["drivers"]["branches"]:
        tagged = row.get("open_module_tags", {}).get("first")
        known = paired.get(row["branch"]) or [Version(text) for text in (tagged, row["latest"]) if text]
        sources = facts.sources("drivers", row["source"])
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
                source=sources,
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
    """NVIDIA's table; for older CUDA what the official images accept from data-centre brands, which is forward compatibility too."""
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


def releases(facts: Facts) -> tuple[Release, ...]:
    """The PyTorch releases with their companions as versions or bounds."""
    return tuple(
        Release(
            framework="torch",
            version=Version(row["version"]),
            date=str(row["date"]),
            companions={
                name: bound for name in ("torchvision", "torchaudio", "triton") if (bound := companion(row[name])) is not None
            },
            numpy2=row["numpy2_abi"],
            source=facts.sources("pytorch", "wheel"),
            verified="metadata",
        )
        for row in torch_releases(facts)
    )


def torch_releases(facts: Facts) -> list[Row]:
    """The releases of PyTorch that the matrix has."""
    return [row for row in facts["pytorch"]["releases"] if Version(row["version"]) >= FIRST_TORCH]


def companion(text: str | None) -> str | None:
    """`0.29.2 (asks for …)` → 0.29.2; `==3.7.1 ; python_version …` → 3.7.1; `A (…) or B (…)` → >=A and the minor of A."""
    if text is None:
        return None
    first = re.match(r"(==|~=)?(\d[\w.]*)", text)
    if first is None:
        raise SystemExit(f"{text!r} is no companion release")
    if " or " in text:
        major, minor, *_ = map(int, first[2].split("."))
        return f">={first[2]},<{major}.{minor + 1}"
    return f"~={first[2]}" if first[1] == "~=" else first[2]


def variants(facts: Facts) -> tuple[Variant, ...]:
    """The CUDA builds of PyTorch for both platforms, and the CPU builds."""
    rows: list[Variant] = []
    for release in torch_releases(facts):
        rows += [_amd64(facts, release, build) for build in release["builds"]]
        rows += _arm64(facts, release)
    rows += _unlisted(facts, rows)
    rows += _cpu(facts)
    return tuple(rows)


def _amd64(facts: Facts, release: Row, build: Row) -> Variant:
    notes = [build["note"]] if "note" in build else []
    sass = build["sm"]
    if "note_37" in build:  # listed by the build script, and its cuDNN does not know Kepler
        sass = [target for target in sass if target != 37]  # noqa: PLR2004 - sm_37, of which the note speaks
        notes.append(build["note_37"])
    named = build["source"] if isinstance(build["source"], Mapping) else {"": build["source"]}
    ids = [text for text in named.values() if not text.startswith("inferred")]
    notes += [f"{what} {text}" for what, text in named.items() if text.startswith("inferred")]
    default = build["pypi_default"]
    return Variant(
        framework="torch",
        version=Version(release["version"]),
        tag=build["suffix"],
        platform="linux/amd64",
        index="pypi" if default else f"pytorch/{build['suffix']}",
        default=default,
        published=build.get("published", "seen"),
        cuda=Version(build["cuda"]),
        cudnn=version(build["cudnn"]),
        nccl=version(build["nccl"]),
        pythons=tuple(release["pythons_linux_x86_64"]),
        sass=capabilities(sass),
        glibc=Version(str(release["linux_x86_64"]["glibc_floor"]).split()[0]),
        download=build.get("wheel_bytes"),
        note="; ".join(notes),
        source=facts.sources("pytorch", ids),
        verified=level(build["verified"]),
    )


def _arm64(facts: Facts, release: Row) -> Iterable[Variant]:
    """The CUDA builds for arm64. Their own list of Pythons was not read: the one of linux/amd64 stands for it."""
    facts_of = release["linux_aarch64"]
    tag = facts_of.get("pypi_tag")
    glibc = (
        None if tag is None else Version(tag.split("_", 1)[1].split("_aarch64")[0].replace("_", ".") if "_2_" in tag else "2.17")
    )
    builds = [*facts_of.get("cuda_builds_on_pytorch_index", ())]
    if facts_of["cuda"] is not None:
        builds.append({**facts_of, "default": True})
    cudas = {build["suffix"]: build["cuda"] for build in release["builds"]}
    for build in builds:
        default = build.get("default", False)
        suffix = build["suffix"]
        sass = build["sm"]
        yield Variant(
            framework="torch",
            version=Version(release["version"]),
            tag=suffix,
            platform="linux/arm64",
            index="pypi" if default else f"pytorch/{suffix}",
            default=default,
            published="seen"
            if default
            else next((b.get("published", "seen") for b in release["builds"] if b["suffix"] == suffix), "named"),
            cuda=Version(cudas.get(suffix) or f"{suffix[2:-1]}.{suffix[-1]}"),
            pythons=tuple(release["pythons_linux_x86_64"]),
            sass=None if sass is None else capabilities(sass),
            glibc=glibc,
            note="Pythons as of linux/amd64",
            source=facts.sources("pytorch", build["source"]),
            verified=level(build["verified"], "derived"),
        )


def _cpu(facts: Facts) -> Iterable[Variant]:
    """The CPU builds: one row for both indexes where the default index serves it as well (arm64 up to 2.10)."""
    by_build: dict[tuple[str, str], dict[str, Row]] = {}
    for row in facts["pytorch_cpu"]["builds"]:
        by_build.setdefault((row["version"], row["platform"]), {})[row["index"]] = row
    for (number, platform), by_index in by_build.items():
        default = "default" in by_index
        row = by_index["default" if default else "cpu"]
        also = default and "cpu" in by_index and by_index["cpu"]["published"] == "seen"
        yield Variant(
            framework="torch",
            version=Version(number),
            tag="cpu",
            platform=PLATFORMS[platform],
            index="pypi" if default else "pytorch/cpu",
            also=("pytorch/cpu",) if also else (),
            default=default,
            published=row["published"] or "named",  # inferred only: to be confirmed by the index before it is chosen
            pythons=tuple(row["pythons"]),
            glibc=version(row["glibc"]),
            download=row["wheel_bytes"],
            note=row.get("note", ""),
            source=facts.sources("pytorch_cpu", row["source"]),
            verified=level(row["verified"]),
        )


def _unlisted(facts: Facts, known: Iterable[Variant]) -> Iterable[Variant]:
    """Builds that were seen in a list of an index and that pytorch.yaml lacks: with the Pythons that were seen, targets unknown."""
    listed = {(str(row.version), row.tag, row.platform) for row in known}
    for row in facts["pytorch_cpu"]["cuda_builds"]:
        if (row["version"], row["suffix"], row["platform"]) in listed:
            continue
        yield Variant(
            framework="torch",
            version=Version(row["version"]),
            tag=row["suffix"],
            platform=PLATFORMS[row["platform"]],
            index=f"pytorch/{row['suffix']}",
            published="seen",
            cuda=_cuda_of(row["suffix"]),
            pythons=tuple(row["pythons_seen"]),
            note="seen in the listing of its index, not read",
            source=facts.sources("pytorch_cpu", row["source"]),
            verified=level(row["verified"]),
        )


def _cuda_of(tag: str) -> Version:
    return Version(f"{tag[2:-1]}.{tag[-1]}")  # cu128


def indexes(facts: Facts, rows: Iterable[Variant]) -> tuple[Index, ...]:
    """PyPI, and the index of each tag that a build has."""
    source = facts.sources("pytorch", "uv")
    tags = sorted({row.tag for row in rows} | {"cpu"})
    return (
        Index(id="pypi", source=source, verified="source"),
        *(
            Index(id=f"pytorch/{tag}", url=f"https://download.pytorch.org/whl/{tag}", source=source, verified="source")
            for tag in tags
        ),
    )


def frameworks(facts: Facts) -> tuple[Framework, ...]:
    """The frameworks."""
    return (
        Framework(
            id="torch",
            name="PyTorch",
            cuda_from="wheels",
            companions=("torchvision", "torchaudio"),
            smoke="torch.py",
            source=facts.sources("pytorch", "wheel"),
            verified="metadata",
        ),
    )


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
    name, number = re.fullmatch(r"([a-z]+)([\d.]+)", distro).groups()
    return ("amd64", "arm64") if name == "ubuntu" and Version(number) >= Version("20.04") else ("amd64",)


def systems(facts: Facts) -> tuple[System, ...]:
    """The operating systems of hosts and images."""
    return tuple(
        System(
            id=row["id"],
            name=row["name"],
            family=row["family"],
            release=tuple(row["release"]),
            libc=row.get("libc", "glibc"),
            glibc=version(row["glibc"]),
            python=row["python"],
            note=row.get("note", ""),
            source=facts.sources("systems", row["source"]),
            verified=level(row["verified"]),
        )
        for row in facts["systems"]["systems"]
    )


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


def build(folder: Path) -> MatrixFile:
    """The whole matrix from the facts in `folder`."""
    facts = Facts(folder)
    builds = variants(facts)
    meta = facts["sizes"]["meta"]
    parts: dict[str, Any] = {
        "architectures": architectures(facts),
        "capabilities": compute_capabilities(facts),
        "gpus": gpus(facts),
        "drivers": drivers(facts),
        "cuda": cuda(facts),
        "cuda_releases": cuda_releases(facts),
        "forward_compat": forward_compat(facts),
        "indexes": indexes(facts, builds),
        "frameworks": frameworks(facts),
        "releases": releases(facts),
        "variants": builds,
        "images": images(facts),
        "systems": systems(facts),
        "closures": closures(facts),
    }
    measured = Source(id="sizes", document=f"First-hand: {' '.join(meta['method'].split())}", retrieved=str(meta["collected"]))
    return MatrixFile(
        schema=1, collected=str(facts["pytorch"]["meta"]["collected"]), sources=(*facts.catalogue(), measured), **parts
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Write the file; exit 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--facts", type=Path, required=True, metavar="FOLDER", help="the collected facts")
    parser.add_argument("--to", type=Path, default=OWN.parent.parent / "compat_matrix.yaml", help="the file to write")
    options = parser.parse_args(argv)
    options.to.write_text(format_matrix(build(options.facts)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
