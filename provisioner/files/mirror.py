"""A folder that holds what a lock asks for (`mirror_items`), so that a build works where there is no internet.

Fetching takes what it needs from the edges as arguments: how an index is asked, how a file is downloaded, and an engine for the
images. A file that is there and has a hash of the lock is not fetched again; nothing is ever half there.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Literal, Protocol

from provisioner.errors import LockError, ProvisionerError, UsageError
from provisioner.files.mirror_items import Item, archive_name, not_brought
from provisioner.files.pins import normal
from provisioner.files.site import DEFAULT_INDEX, NO_INDEX, split_reference
from provisioner.files.wheels import best
from provisioner.values import Problem, value

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from provisioner.engines import Engine
    from provisioner.files.site import Site
    from provisioner.stack.lock import Lock

_AT_ONCE = 4
_SITE_FILE = "site.yaml"
_MARK = "# Written by provisioner mirror."
Tell = Callable[[str], None]


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


def fetch(
    lock: Lock,
    site: Site,
    items: Sequence[Item],
    folder: Path,
    source: Source,
    engine: Engine | None,
    tell: Tell | None = None,
) -> tuple[Got, ...]:
    """Bring the wheels and the images of `items` into `folder`, and write the site.yaml that points at them.

    One result for each wheel and image. `engine` None: the images are left out, and that is a failure. site.yaml is written only
    when nothing failed, so its presence says that the folder has all that a mirror can hold: packages of the distribution are
    not brought. LockError for a lock without hashes, UsageError for a folder that cannot be made.
    """
    say = tell or (lambda _: None)
    refuse_without_hashes(lock)
    wheels, images = folder / "wheels", folder / "images"
    for part in (wheels, images):
        _make(part)
    _remove(folder / _SITE_FILE)  # until this has ended, the folder is not whole
    wanted = [item for item in items if item.kind == "wheel"]
    lines = _Lines(say, len(wanted))
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="mirror") as pool:
        got = list(pool.map(lambda item: lines.count(_fetch_wheel(item, lock, site, wheels, source)), wanted))
    got += [_fetch_image(item, images, engine, say) for item in items if item.kind == "image"]
    if all(entry.status != "failed" for entry in got):
        brought = [entry for entry in got if entry.item.kind == "image"]
        _write(folder / _SITE_FILE, site_text(brought, not_brought(items)))
    return tuple(got)


def refuse_without_hashes(lock: Lock, name: str = "stack.lock.yaml") -> None:
    """LockError for a lock without hashes; `name` is its file."""
    if not lock.pins.hashed:
        why = lock.pins.why_not or "made without them"
        message = f"the lock has no hashes ({why}), so nobody could say whether a copy is right"
        raise LockError(
            [Problem(file=name, message=message)], hint="lock again with --hashes, where the package index can be reached"
        )


def refuse_foreign_site(folder: Path) -> None:
    """UsageError where `folder` has a site.yaml that no mirror wrote."""
    path = folder / _SITE_FILE
    try:
        mine = path.read_text(encoding="utf-8", errors="replace").startswith(_MARK)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as failure:
        raise UsageError(f"{path} cannot be read: {(failure.strerror or str(failure)).lower()}") from failure
    if not mine:
        raise UsageError(f"{path} exists and was not written by provisioner mirror", hint="name another folder, or give --force")


def site_text(images: Sequence[Got], missing: str | None = None) -> str:
    """The site.yaml of a mirror folder: no index and no registry is asked, the wheels lie beside it. `missing`: what is not."""
    registries = sorted({split_reference(entry.item.name)[0] for entry in images})
    loads = "".join(f"#   docker load --input {entry.file}\n" for entry in images)
    return (
        f"{_MARK} The images, once on each host that builds:\n{loads}"
        f"{f'# {missing}' + chr(10) if missing else ''}"
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
    named = archive_name(name)
    target = folder / named.rpartition("/")[2]
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
        reason = (failure.strerror or str(failure)).lower()
        raise UsageError(f"{folder} cannot be made: {reason}", hint="name a folder that can: --to DIR") from failure


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as failure:
        raise UsageError(f"{path} cannot be replaced: {(failure.strerror or str(failure)).lower()}") from failure


def _write(path: Path, text: str) -> None:
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as failure:
        part.unlink(missing_ok=True)
        raise ProvisionerError(f"{path} cannot be written: {(failure.strerror or str(failure)).lower()}") from failure
