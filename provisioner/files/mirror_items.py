"""What a lock will ask for, as a list: packages, images, indexes, and the packages of the distribution. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from provisioner.files.image_view import apt_asked
from provisioner.files.site import DEFAULT_INDEX, NO_INDEX, index_address, mirrored
from provisioner.values import value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from provisioner.files.image_view import Catalogue
    from provisioner.files.site import Site
    from provisioner.stack.lock import Image, Lock


@value
class Item:
    """One thing that a lock asks for. `origin` is symbolic (pypi, pytorch/cu128, docker.io, apt); `address` as the site has it.

    `address` None: the client's own default. `version` of an image is its tag, and `hashes` its digest where the lock has one.
    """

    kind: Literal["wheel", "image", "index", "apt"]
    name: str
    version: str = ""
    hashes: tuple[str, ...] = ()
    origin: str
    address: str | None = None


def mirror_list(lock: Lock, site: Site, rows: Catalogue) -> tuple[Item, ...]:
    """Everything that building and running `lock` asks for at `site`: packages, images, indexes, distribution packages.

    A lock without pins names what it knows, the requirements, without hashes. ProvisionerError where no image can be made of it.
    """
    stack, indexes = lock.stack, rows.indexes
    wheels = [
        Item(
            kind="wheel",
            name=pin.name,
            version=pin.version,
            hashes=pin.hashes,
            origin=pin.index,
            address=_address(site, pin.index, indexes),
        )
        for pin in lock.pins.packages
    ] or [
        Item(
            kind="wheel",
            name=one.partition("==")[0],
            version=one.partition("==")[2],
            origin=stack.index,
            address=_address(site, stack.index, indexes),
        )
        for one in stack.packages
    ]
    images = [_image(image, site) for image in (stack.image, stack.build_image) if image is not None]
    named = dict.fromkeys((DEFAULT_INDEX, stack.index, *(pin.index for pin in lock.pins.packages)))
    asked = [Item(kind="index", name=index, origin=index, address=_address(site, index, indexes)) for index in named]
    apt = [Item(kind="apt", name=package, origin=stack.image.os) for package in apt_asked(lock, rows.system)]
    return (*wheels, *images, *(entry for entry in asked if entry.address != NO_INDEX), *apt)


def _image(image: Image, site: Site) -> Item:
    reference = mirrored(site, image.reference)
    repository, _, tag = image.reference.rpartition(":")
    return Item(
        kind="image",
        name=repository,
        version=tag,
        hashes=(image.digest,) if image.digest else (),
        origin=reference.partition("/")[0] if reference != image.reference else "registry",
        address=reference,
    )


def _address(site: Site, index: str, indexes: Mapping[str, str | None]) -> str | None:
    return index_address(site, index, indexes.get(index))


def archive_name(reference: str) -> str:
    """The file of an image in a mirror folder."""
    return f"images/{re.sub(r'[^A-Za-z0-9.-]+', '-', reference)}.tar"


def not_brought(items: Sequence[Item]) -> str | None:
    """What the items name and a mirror folder does not hold, as a sentence; None where nothing is missing."""
    packages = [item for item in items if item.kind == "apt"]
    if not packages:
        return None
    names = ", ".join(item.name for item in packages)
    return f"not brought: the packages {names} of {packages[0].origin}; the build asks an archive of that distribution for them"
