"""What a lock will ask for, as a list; and a folder that holds it, so that a build works where there is no internet.

The list is pure. Fetching takes what it needs from the edges as arguments: how an index is asked, how a file is downloaded, and
an engine for the images. A file that is there and has a hash of the lock is not fetched again; nothing is ever half there.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Literal, Protocol

from provisioner.errors import ProvisionerError
from provisioner.files.pins import normal
from provisioner.files.site import (
    DEFAULT_INDEX,
    NO_INDEX,
    index_address,
    mirrored,
    split_reference,
)
from provisioner.files.wheels import best
from provisioner.values import value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from provisioner.engines import Engine
    from provisioner.files.site import Site
    from provisioner.stack.lock import Lock

_AT_ONCE = 4
_SITE_FILE = "site.yaml"
Tell = Callable[[str], None]


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


@value
class Got:
    """What became of one item: fetched, already there, or failed with the reason."""

    item: Item
    status: Literal["fetched", "there", "failed"]
    file: str = ""
    reason: str = ""
    hint: str | None = None


class Offered(Protocol):
    """A file that an index offers (`edges.index.IndexFile`)."""

    @property
    def name(self) -> str:
        """Its file name."""
        ...

    @property
    def hash(self) -> str:
        """`sha256:…`, empty where the index does not say."""
        ...

    @property
    def size(self) -> int | None:
        """Bytes, where the index says."""
        ...


class Source(Protocol):
    """How the files of a site are found and downloaded; flows makes one from `edges.index`."""

    def files(self, project: str, address: str | None) -> Sequence[Offered]:
        """What an index has of a project."""
        ...

    def links(self, place: str) -> Sequence[Offered]:
        """What a folder or a page of wheels has."""
        ...

    def download(self, offered: Offered, target: Path, accept: tuple[str, ...]) -> None:
        """Fetch one file whole or not at all; ProvisionerError otherwise."""
        ...


def mirror_list(lock: Lock, site: Site, indexes: Mapping[str, str | None]) -> tuple[Item, ...]:
    """Everything that building and running `lock` asks for at `site`: packages, the base image, indexes, distribution packages.

    A lock without pins names what it knows, the requirements, without hashes.
    """
    stack = lock.stack
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
    reference = mirrored(site, stack.image.reference)
    repository, _, tag = stack.image.reference.rpartition(":")
    image = Item(
        kind="image",
        name=repository,
        version=tag,
        hashes=(stack.image.digest,) if stack.image.digest else (),
        origin=reference.partition("/")[0] if reference != stack.image.reference else "registry",
        address=reference,
    )
    named = dict.fromkeys((DEFAULT_INDEX, stack.index, *(pin.index for pin in lock.pins.packages)))
    asked = [Item(kind="index", name=index, origin=index, address=_address(site, index, indexes)) for index in named]
    apt = [Item(kind="apt", name=package, origin=stack.image.os) for package in lock.apt]
    return (*wheels, image, *(entry for entry in asked if entry.address != NO_INDEX), *apt)


def _address(site: Site, index: str, indexes: Mapping[str, str | None]) -> str | None:
    return index_address(site, index, indexes.get(index))


def fetch(
    lock: Lock, site: Site, items: Sequence[Item], folder: Path, source: Source, engine: Engine | None, tell: Tell | None = None
) -> tuple[Got, ...]:
    """Bring the wheels and the image of `items` into `folder`, and write the site.yaml that points at them.

    One result for each wheel and image. `engine` None: the image is left out, and that is a failure. site.yaml is written only
    when nothing failed, so its presence says that the folder is whole.
    """
    say = tell or (lambda _: None)
    if not lock.pins.hashed:
        raise ProvisionerError(
            f"the lock has no hashes ({lock.pins.why_not or 'made without them'}), so nobody could say whether a copy is right",
            hint="lock again with --hashes, where the indexes can be reached",
        )
    wheels, images = folder / "wheels", folder / "images"
    for part in (wheels, images):
        _make(part)
    wanted = [item for item in items if item.kind == "wheel"]
    lines = _Lines(say, len(wanted))
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="mirror") as pool:
        got = list(pool.map(lambda item: lines.count(_fetch_wheel(item, lock, site, wheels, source)), wanted))
    got += [_fetch_image(item, images, engine, say) for item in items if item.kind == "image"]
    if all(entry.status != "failed" for entry in got):
        _write(folder / _SITE_FILE, site_text([entry for entry in got if entry.item.kind == "image"]))
    return tuple(got)


def site_text(images: Sequence[Got]) -> str:
    """The site.yaml of a mirror folder: no index and no registry is asked, the wheels lie beside it."""
    registries = sorted({split_reference(entry.item.name)[0] for entry in images})
    loads = "".join(f"#   docker load --input {entry.file}\n" for entry in images)
    return (
        f"# Written by provisioner mirror. The base image, once on each host that builds:\n{loads}"
        f"format: 1\nindexes: {{{DEFAULT_INDEX}: {NO_INDEX}}}\nwheels: [wheels]\n"
        f"registries: {{{', '.join(f'{registry}: {NO_INDEX}' for registry in registries)}}}\n"
    )


def _fetch_wheel(item: Item, lock: Lock, site: Site, folder: Path, source: Source) -> Got:
    try:
        present = _present(item, folder)
        if present is not None:
            return Got(item=item, status="there", file=f"wheels/{present.name}")
        chosen = _choose(item, lock, site, source)
        source.download(chosen, folder / chosen.name, item.hashes)
    except ProvisionerError as failure:
        return Got(item=item, status="failed", reason=failure.message, hint=failure.hint)
    return Got(item=item, status="fetched", file=f"wheels/{chosen.name}")


def _present(item: Item, folder: Path) -> Path | None:
    """A file of an earlier run that is this item's, by its hash."""
    stem = f"{normal(item.name)}-{item.version}-"
    for path in sorted(folder.iterdir()):
        name = path.name.partition("-")
        if f"{normal(name[0])}-{name[2]}".startswith(stem) or path.name.startswith(f"{item.name}-{item.version}.tar"):
            with path.open("rb") as stream:
                if f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}" in item.hashes:
                    return path
    return None


def _choose(item: Item, lock: Lock, site: Site, source: Source) -> Offered:
    """The file of an item that the image's Python takes best, from the index or from the site's wheels."""
    offered = [entry for place in site.wheels for entry in source.links(place)]
    if item.address != NO_INDEX:
        offered += source.files(item.name, item.address)
    mine = [
        entry
        for entry in offered
        if (entry.hash in item.hashes if entry.hash else normal(entry.name.partition("-")[0]) == normal(item.name))
    ]
    name = best([entry.name for entry in mine], item.version, lock.stack.python, lock.stack.platform)
    if name is None:
        where = f"for Python {lock.stack.python} on {lock.stack.platform}"
        raise ProvisionerError(f"{item.name} {item.version}: {item.origin} has no file {where} that the lock names")
    return next(entry for entry in mine if entry.name == name)


def _fetch_image(item: Item, folder: Path, engine: Engine | None, say: Tell) -> Got:
    """The base image as an archive, under the name that a Dockerfile of a site without mirrors gives it."""
    name = f"{item.name}:{item.version}"
    target = folder / (re.sub(r"[^A-Za-z0-9.-]+", "-", name) + ".tar")
    named = f"images/{target.name}"
    if target.is_file():
        return Got(item=item, status="there", file=named)
    if engine is None:
        return Got(item=item, status="failed", reason="no container engine was given to fetch the image with")
    part = target.with_suffix(".tar.part")
    served = f"{str(item.address).rpartition(':')[0]}@{item.hashes[0]}" if item.hashes else str(item.address)
    try:
        if item.hashes or engine.inspect(served) is None:  # what a digest names is the same wherever it comes from
            say(f"pulling {served}")
            engine.pull(served, tell=say)
        if served != name:
            engine.tag(served, name)
        say(f"saving {name}")
        engine.save(name, str(part))
        part.replace(target)
    except ProvisionerError as failure:
        return Got(item=item, status="failed", reason=failure.message, hint=failure.hint)
    except OSError as failure:
        return Got(item=item, status="failed", reason=(failure.strerror or str(failure)).lower())
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
    return Got(item=item, status="fetched", file=named)


class _Lines:
    """Progress lines from several threads, one at a time, each with its place in the whole."""

    def __init__(self, say: Tell, total: int) -> None:
        self._say, self._total, self._done, self._lock = say, total, 0, threading.Lock()

    def count(self, got: Got) -> Got:
        with self._lock:
            self._done += 1
            what = {"fetched": "fetched", "there": "already there", "failed": f"failed: {got.reason}"}[got.status]
            self._say(f"[{self._done}/{self._total}] {got.item.name} {got.item.version}: {what}")
        return got


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as failure:
        raise ProvisionerError(f"{folder} cannot be made: {(failure.strerror or str(failure)).lower()}") from failure


def _write(path: Path, text: str) -> None:
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as failure:
        part.unlink(missing_ok=True)
        raise ProvisionerError(f"{path} cannot be written: {(failure.strerror or str(failure)).lower()}") from failure
