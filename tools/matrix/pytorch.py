"""PyTorch: facts → its releases, its builds, and the indexes that have them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from provisioner.stack.rows import Framework, Index, Platform, Release, Variant
from provisioner.versions import Version
from tools.matrix.facts import PLATFORMS, Facts, Row, capabilities, glibc_of, level, version

#: The oldest PyTorch release whose rows the matrix has.
FIRST = Version("1.8")
#: What pytorch_cpu.yaml says by the name of a field that the matrix does not have.
_UNSEEN = "Pythons not in pythons_seen are taken from the default wheels of the release"


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
    return [row for row in facts["pytorch"]["releases"] if Version(row["version"]) >= FIRST]


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
    rows += _old_cpu(facts)
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
    also, reasons = _also(facts, release["version"], build["suffix"], "linux/amd64") if default else ((), ())
    return Variant(
        framework="torch",
        version=Version(release["version"]),
        tag=build["suffix"],
        platform="linux/amd64",
        index="pypi" if default else f"pytorch/{build['suffix']}",
        also=also,
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
        source=(*facts.sources("pytorch", ids), *reasons),
        verified=level(build["verified"]),
    )


def _also(facts: Facts, number: str, tag: str, platform: Platform) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The further index that a default build was seen on, and who says so."""
    for row in facts["pytorch_indexes"]["builds"]:
        if (row["version"], row["tag"], row["platform"]) == (number, tag, platform):
            return (f"pytorch/{tag}",), facts.sources("pytorch_indexes", row["source"])
    return (), ()


def _arm64(facts: Facts, release: Row) -> Iterable[Variant]:
    """The CUDA builds for arm64. Where their own list of Pythons was not read, the one of linux/amd64 stands for it."""
    here = release["linux_aarch64"]
    if here["cuda"] is not None:
        yield _arm64_default(facts, release)
    named = {build["suffix"]: build.get("published", "seen") for build in release["builds"]}
    for build in here.get("cuda_builds_on_pytorch_index", ()):
        tag = build["suffix"]
        untagged = _untagged(facts, release["version"], tag)
        yield Variant(
            framework="torch",
            version=Version(release["version"]),
            tag=tag,
            platform="linux/arm64",
            index=f"pytorch/{tag}",
            published=named.get(tag, "named"),
            cuda=_cuda_of(tag),
            pythons=tuple(release["pythons_linux_x86_64"]),
            sass=None if build["sm"] is None else capabilities(build["sm"]),
            glibc=glibc_of(here["pypi_tag"]),
            local=None if untagged is None else "",
            note="Pythons as of linux/amd64",
            source=(
                *facts.sources("pytorch", build["source"]),
                *(facts.sources("pytorch_indexes", untagged["source"]) if untagged else ()),
            ),
            verified=level(build["verified"], "derived"),
        )


def _untagged(facts: Facts, number: str, tag: str) -> Row | None:
    """The row that says that the wheels of an arm64 build have no local version; None where they have their tag."""
    rows: Iterable[Row] = facts["pytorch_indexes"]["untagged"]
    wanted = (number, tag, "linux/arm64")
    return next((row for row in rows if (row["version"], row["tag"], row["platform"]) == wanted), None)


def _arm64_default(facts: Facts, release: Row) -> Variant:
    here = release["linux_aarch64"]
    tag = here["suffix"]
    also, reasons = _also(facts, release["version"], tag, "linux/arm64")
    (listed,) = (row for row in facts["pytorch_indexes"]["default_arm64"] if row["version"] == release["version"])
    pinned: Row = next((row for row in facts["pytorch_arm64"]["default_arm64"] if row["version"] == release["version"]), {})
    libraries = facts.sources("pytorch_arm64", pinned["source"]) if pinned else ()
    return Variant(
        framework="torch",
        version=Version(release["version"]),
        tag=tag,
        platform="linux/arm64",
        index="pypi",
        also=also,
        default=True,
        published="seen",
        cuda=Version(here["cuda"]),
        cudnn=version(pinned.get("cudnn")),
        nccl=version(pinned.get("nccl")),
        pythons=tuple(listed["pythons"]),
        sass=capabilities(here["sm"]),
        glibc=glibc_of(here["pypi_tag"]),
        download=listed["wheel_bytes"],
        source=(
            *facts.sources("pytorch", here["source"]),
            *facts.sources("pytorch_indexes", listed["source"]),
            *libraries,
            *reasons,
        ),
        verified=level(here["verified"], pinned.get("verified", here["verified"])),
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
            note=row.get("note", "").replace(_UNSEEN, "some Pythons are taken from the default wheels of the release"),
            source=facts.sources("pytorch_cpu", row["source"]),
            verified=level(row["verified"]),
        )


def _old_cpu(facts: Facts) -> Iterable[Variant]:
    """The CPU builds before 1.13: those for arm64 of the default index, those for amd64 as a page of PyTorch names them."""
    default = {row["version"]: row for row in torch_releases(facts)}
    for row in facts["pytorch_old"]["builds"]:
        here = row["index"] == "default"
        release = default[row["version"]]
        yield Variant(
            framework="torch",
            version=Version(row["version"]),
            tag="cpu",
            platform=row["platform"],
            index="pypi" if here else "pytorch/cpu",
            default=here,
            published=row["published"] or "named",
            pythons=tuple(row["pythons"] if here else release["pythons_linux_x86_64"]),
            glibc=glibc_of(row["wheel_tag"]) if here else Version(str(release["linux_x86_64"]["glibc_floor"]).split()[0]),
            note=""
            if here
            else f"Pythons and C library as of the default wheels{'' if row['published'] else '; not named, inferred'}",
            source=facts.sources("pytorch_old", row["source"]),
            verified=level(row["verified"]),
        )


def _unlisted(facts: Facts, known: Iterable[Variant]) -> Iterable[Variant]:
    """Builds that pytorch.yaml lacks and a list of their index had: with the Pythons that were seen, targets unknown."""
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
    """`cu128` → 12.8."""
    return Version(f"{tag[2:-1]}.{tag[-1]}")


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
            under_minor_version=(
                (
                    "not excluded: torch.compile, for the triton wheel brings its own ptxas and makes machine code without the "
                    "driver"
                ),
                "excluded: extensions built with +PTX in TORCH_CUDA_ARCH_LIST on a GPU for which they hold no machine code",
            ),
            source=facts.sources("pytorch", "wheel"),
            verified="metadata",
        ),
    )
