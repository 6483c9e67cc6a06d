"""The [tool.uv] block for a project that exists: the variant's index, explicit, and the packages that come from it and no other.

Explicit means that uv takes nothing else from it: a stranger's package of another name cannot slip in, and a build of the same
version from the default index cannot take the framework's place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from provisioner.errors import ProvisionerError
from provisioner.files.pins import normal
from provisioner.files.site import DEFAULT_INDEX, NO_INDEX, index_address, variable_of
from provisioner.values import value

if TYPE_CHECKING:
    from provisioner.files.image_view import Catalogue
    from provisioner.files.site import Site
    from provisioner.stack.lock import Lock

_MACHINES = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}


@value
class UvIndex:
    """A [[tool.uv.index]] table."""

    name: str
    url: str
    explicit: bool = False
    default: bool = False


@value
class UvSource:
    """A line of [tool.uv.sources]; `marker` keeps other platforms on the default index."""

    package: str
    index: str
    marker: str


@value
class UvView:
    """What the template prints."""

    header: str
    notes: tuple[str, ...]
    requirements: tuple[str, ...]
    indexes: tuple[UvIndex, ...] = ()
    sources: tuple[UvSource, ...] = ()


def uv_view(lock: Lock, site: Site, rows: Catalogue, header: str) -> UvView:
    """The block of a lock at a site; ProvisionerError where an address is a secret, or nobody says where the index is."""
    stack = lock.stack
    indexes: list[UvIndex] = []
    sources: tuple[UvSource, ...] = ()
    if stack.index != DEFAULT_INDEX:
        name = stack.index.replace("/", "-")
        address = _address(site, stack.index, rows.indexes.get(stack.index))
        if address is None:
            raise ProvisionerError(
                f"nobody says where the index {stack.index} is, so there is none to write into pyproject.toml",
                hint=f"name its address in the site file: indexes: {{{stack.index}: https://…}}",
            )
        indexes.append(UvIndex(name=name, url=address, explicit=True))
        marker = f"sys_platform == 'linux' and platform_machine == '{_MACHINES[stack.platform]}'"
        own = dict.fromkeys(map(normal, (stack.framework, *rows.framework.companions)))
        sources = tuple(UvSource(package=package, index=name, marker=marker) for package in own)
    default = _address(site, DEFAULT_INDEX, rows.indexes.get(DEFAULT_INDEX))
    if default is not None:
        indexes.append(UvIndex(name="site", url=default, default=True))
    return UvView(
        header=header,
        notes=_notes(lock, site, sources),
        # without the build: elsewhere than here the same release comes from the default index, which knows no such build
        requirements=tuple(text.removesuffix(f"+{stack.variant}") for text in stack.packages),
        indexes=tuple(indexes),
        sources=sources,
    )


def _address(site: Site, index: str, known: str | None) -> str | None:
    """Where an index is, None: where uv looks by itself. A secret address is refused: the file is committed with the project."""
    address = index_address(site, index, known)
    if address == NO_INDEX:
        raise ProvisionerError(
            f"the site says that the index {index} may not be asked, so uv could not lock there",
            hint="install from the lock's requirements.txt: provisioner render --only dockerfile",
        )
    if address is not None and (variable := variable_of(address)) is not None:
        raise ProvisionerError(
            f"the site keeps the address of {index} in the variable {variable}, and pyproject.toml would show it to everyone",
            hint="give the address without a password in the site file, and the password in netrc or UV_INDEX_…_PASSWORD",
        )
    return address


def _notes(lock: Lock, site: Site, sources: tuple[UvSource, ...]) -> tuple[str, ...]:
    stack = lock.stack
    unneeded = f"the index that uv asks by itself serves {stack.variant}, so no source is needed"
    notes = [
        f"{stack.framework} {stack.version} {stack.variant}, Python {stack.python}, {stack.platform}",
        "Put this into pyproject.toml." if sources else f"Here {unneeded}.",
    ]
    if site.wheels:
        notes.append("The site's places of wheels are not in it: name them there too (find-links of [tool.uv]).")
    return (*notes, f"In [project] there: requires-python with {stack.python} in it, and among the dependencies")
