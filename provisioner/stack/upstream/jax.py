"""What the wheels of JAX say of themselves → rows of the matrix. Pure: an edge reads their METADATA.

jax itself is one wheel for every machine; its extras `cuda12`, `cuda13`, … ask for a plugin, which asks for a runtime (pjrt)
and, with its own extra, for the CUDA libraries. Pythons, platforms and glibc floors are what the names of jaxlib, plugin and
runtime have in common. Nothing small says what CUDA and which targets a plugin was built for (its library is hundreds of MB):
the CUDA and the documented floor of the GPU are taken from the release before, with a note; its targets stay unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from provisioner.stack.rows import Platform, Release, Source, Variant
from provisioner.stack.upstream.wheels import (
    METADATA,
    Offer,
    UnreadableWheel,
    accepted,
    extras_of,
    glibc_of,
    offers_of,
    pythons_of,
    releases_in,
    requirements_of,
)
from provisioner.values import replace, value
from provisioner.versions import Range, Version

PROJECT, LIBRARY = "jax", "jaxlib"
#: The extra of a plugin that asks for the CUDA libraries.
_LIBRARIES = "with-cuda"
#: The first release that is read: from it on all CUDA builds are plugins.
FIRST = Version("0.4.31")
_OPEN = "its CUDA libraries have lower bounds only: the newest of that CUDA major are installed"
_UNREAD = "targets were not read: they stand in a library of hundreds of MB"

#: (tag, platform) → the row that the matrix has of this build, or of the release before.
Known = Callable[[str, Platform], Variant | None]


@value
class Plugin:
    """A plugin that an extra asks for: its tag (`cuda12`), its METADATA, its wheels and those of its runtime."""

    tag: str
    metadata: str
    offers: tuple[Offer, ...]
    runtime: tuple[Offer, ...]


@value
class ReleaseText:
    """A release: its version, the METADATA of jax, and the wheels of the jaxlib that is installed with it."""

    version: Version
    metadata: str
    library: tuple[Offer, ...]


def source_of(day: str) -> Source:
    """The document of rows that were read on `day` (ISO)."""
    what = f"{METADATA} of {PROJECT} and of its CUDA plugins, read by range requests; and the listings, with {LIBRARY} and pjrt"
    return Source(id=f"index_{PROJECT}_{day}", document=f"The wheels of {PROJECT} on the package index: {what}", retrieved=day)


def library_of(metadata: str) -> str:
    """The bounds on jaxlib that METADATA of jax has; UnreadableWheel when it has none."""
    bounds = requirements_of(metadata).get(LIBRARY, "")
    if not bounds:
        raise UnreadableWheel(f"{METADATA} of {PROJECT} does not say which {LIBRARY} it takes")
    return bounds


def plugins_of(metadata: str) -> Mapping[str, tuple[str, str]]:
    """Tag → project and bounds of the plugin that the extra of that name asks for; the tag is the name of the CUDA major."""
    found: dict[str, tuple[str, str]] = {}
    for tag in extras_of(metadata):
        project = f"jax-{tag}-plugin"
        wanted = requirements_of(metadata, extra=tag)
        if re.fullmatch(r"cuda\d+", tag) and project in wanted:
            found[tag] = project, wanted[project]
    return found


def runtime_of(metadata: str, tag: str) -> tuple[str, str]:
    """Project and bounds of the runtime that METADATA of a plugin asks for."""
    project = f"jax-{tag}-pjrt"
    return project, requirements_of(metadata).get(project, "")


def newest(offers: Iterable[Offer], bounds: str) -> tuple[Offer, ...]:
    """The wheels of the newest release within `bounds`, none where the index has no such release."""
    offers = tuple(offers)
    try:
        found = [version for version in releases_in(offers) if version in Range(bounds)]
    except ValueError as failure:
        raise UnreadableWheel(f"{bounds!r}: {failure}") from failure
    wanted = max(found, default=None)
    platforms: tuple[Platform, ...] = ("linux/amd64", "linux/arm64")
    return tuple(offer for each in platforms if wanted is not None for offer in offers_of(offers, wanted, each))


def variants_of(text: ReleaseText, plugins: Iterable[Plugin], known: Known, source: str) -> tuple[Variant, ...]:
    """The builds of a release: for each platform the CPU, and each plugin that is there for it."""
    plugins, rows = tuple(plugins), list[Variant]()
    platforms: tuple[Platform, ...] = ("linux/amd64", "linux/arm64")
    for platform in platforms:
        library = _for(text.library, platform)
        if not library:
            continue
        cpu = Variant(
            framework="jax",
            version=text.version,
            tag="cpu",
            platform=platform,
            index="pypi",
            default=True,
            published="seen",
            pythons=tuple(python for python in pythons_of(library) if accepted(python, text.metadata)),
            glibc=glibc_of(library),
            source=(source,),
            verified="metadata",
        )
        rows.append(cpu)
        for plugin in plugins:
            own, runtime = _for(plugin.offers, platform), _for(plugin.runtime, platform)
            if own and runtime:
                both = replace(cpu, glibc=glibc_of((*library, *own, *runtime)))
                pythons = tuple(python for python in cpu.pythons if python in pythons_of(own))
                rows.append(_with_cuda(replace(both, pythons=pythons), plugin, known(plugin.tag, platform)))
    if not rows:
        raise UnreadableWheel(f"jax {text.version}: the index has no {LIBRARY} for Linux that it takes")
    return tuple(rows)


def _for(offers: Iterable[Offer], platform: Platform) -> tuple[Offer, ...]:
    offers = tuple(offers)
    return tuple(offer for version in releases_in(offers) for offer in offers_of(offers, version, platform))


def _with_cuda(base: Variant, plugin: Plugin, known: Variant | None) -> Variant:
    wanted = requirements_of(plugin.metadata, base.platform, extra=_LIBRARIES)
    libraries = {name: bounds for name, bounds in wanted.items() if re.fullmatch(r"nvidia-(cudnn|nccl)-cu\d+", name)}
    if not libraries:
        raise UnreadableWheel(f"jax {base.version}: the plugin for {plugin.tag} does not say which cuDNN and NCCL it takes")
    same = known is not None and known.version == base.version
    cuda, said = (
        (known.cuda, f"CUDA as of {known.version}") if known is not None else (_least(wanted), "CUDA: the least it takes")
    )
    if cuda is None:
        raise UnreadableWheel(f"jax {base.version}: the plugin for {plugin.tag} does not say which CUDA it takes")
    return replace(
        base,
        tag=plugin.tag,
        cuda=cuda,
        requirement=f"jax[{plugin.tag}]=={base.version}",
        libraries=tuple(f"{name}{bounds}" for name, bounds in libraries.items()),
        min_capability=known.min_capability if known is not None else None,
        sass=known.sass if known is not None and same else None,
        ptx=known.ptx if known is not None and same else (),
        note=known.note if known is not None and same else f"{_OPEN}; {said}; {_UNREAD}",
        verified="derived",
    )


def _least(wanted: Mapping[str, str]) -> Version | None:
    """The CUDA of the oldest runtime that a plugin takes."""
    bounds = next((bounds for name, bounds in wanted.items() if name.startswith("nvidia-cuda-runtime")), "")
    return next((bound.minor for sign, bound in Range(bounds).bounds if sign in {"==", ">=", "~="}), None)


def release_of(text: ReleaseText, day: str | None, source: str) -> Release:
    """The row of the release: its day, the jaxlib that it takes and its bound on NumPy."""
    wanted = requirements_of(text.metadata)
    return Release(
        framework="jax",
        version=text.version,
        date=day,
        companions={LIBRARY: library_of(text.metadata)},
        numpy2=True,  # since 0.4.26, of which none older is read
        numpy=wanted.get("numpy", ""),
        source=(source,),
        verified="metadata",
    )
