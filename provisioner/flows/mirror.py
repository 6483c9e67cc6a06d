"""mirror list and mirror fetch: what a lock asks for, and a folder that has it all."""

from __future__ import annotations

import functools
import os
import shlex
from typing import TYPE_CHECKING, cast

from provisioner.files.site import NO_INDEX
from provisioner.findings import Remedy
from provisioner.flows.answers import proxies_of
from provisioner.knowledge.registry import finding
from provisioner.report.answer import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from provisioner.edges.index import Access, IndexFile
    from provisioner.files.mirror import Got, Offered
    from provisioner.files.mirror_items import Item
    from provisioner.files.site import Site
    from provisioner.stack.lock import Lock
    from provisioner.stack.matrix import Matrix

    Tell = Callable[[str], None]

_APT = (
    Remedy(text="let the host that builds reach an archive of the distribution, directly or through proxies: in site.yaml"),
    Remedy(text="or build where the archive can be reached, and carry the finished image: docker save, docker load"),
)


def list_answer(lock: Lock, site: Site, matrix: Matrix) -> Answer:
    """Everything that a lock will ask for, and where."""
    from provisioner.files.image_view import catalogue
    from provisioner.files.mirror_items import mirror_list

    return Answer(verdict="ok", fields={"items": mirror_list(lock, site, catalogue(lock, matrix))})


def fetch_answer(
    lock: Lock,
    site: Site,
    matrix: Matrix,
    folder: Path,
    *,
    program: str = "docker",
    named: str = "stack.lock.yaml",
    tell: Tell | None = None,
) -> Answer:
    """Bring it into `folder`; an incomplete mirror is a fault with one finding for each thing that is missing.

    Packages of the distribution are never brought. That is no fault of the folder, which has its site.yaml, and it is said: a
    build that needs them is not offline. `named` is the lock's file.
    """
    from provisioner.edges.engine import engine_on
    from provisioner.edges.local import LocalRunner
    from provisioner.files.image_view import catalogue
    from provisioner.files.mirror import fetch, refuse_without_hashes
    from provisioner.files.mirror_items import mirror_list, not_brought

    refuse_without_hashes(lock, named)
    items = mirror_list(lock, site, catalogue(lock, matrix))
    engine = engine_on(LocalRunner(), program)
    try:
        got = fetch(lock, site, items, folder, _Source(access_of(site)), engine, tell)
    finally:
        engine.close()
    missing = tuple(
        finding("mirror-incomplete", _missing(entry), remedies=[Remedy(text=entry.hint)] if entry.hint else [])
        for entry in got
        if entry.status == "failed"
    )
    site_file = None if missing else str(folder / "site.yaml")
    left_out = not_brought(items)
    said = (finding("mirror-without-apt", left_out, remedies=_APT),) if left_out else ()
    return Answer(verdict="fault" if missing else "ok", findings=(*missing, *said), fields={"items": got, "site": site_file})


def _missing(entry: Got) -> str:
    return entry.reason if entry.item.name in entry.reason else f"{entry.item.name}: {entry.reason}"


def access_of(site: Site) -> Access:
    """How this machine reaches what the site names: its certificates and its proxies."""
    from provisioner.edges.index import Access

    return Access(ca=site.ca_pem, proxies=proxies_of(site))


class _Source:
    """`files.mirror.Source` over the index edge; a page is read once."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self.links = functools.cache(self._links)

    def files(self, project: str, address: str | None) -> Sequence[IndexFile]:
        from provisioner.edges.index import files_of
        from provisioner.files.site import read_address

        return files_of(project, read_address(address, os.environ) if address else None, self._access)

    def _links(self, place: str) -> Sequence[IndexFile]:
        from provisioner.edges.index import files_at
        from provisioner.files.site import read_address

        return files_at(read_address(place, os.environ), self._access)

    def download(self, offered: Offered, target: Path, accept: tuple[str, ...]) -> None:
        from provisioner.edges.index import download

        download(cast("IndexFile", offered), target, accept=accept, access=self._access)


def list_text(items: Sequence[Item]) -> str:
    """A line for each thing: its kind, its name and version, and where it comes from."""
    rows = [(item.kind, f"{item.name} {item.version}".strip(), _where(item)) for item in items]
    width = max((len(name) for _, name, _ in rows), default=0)
    return "".join(f"{kind:6} {name:{width}}  {where}\n" for kind, name, where in rows)


def _where(item: Item) -> str:
    if item.kind == "apt":
        return f"the archive of {item.origin}"
    if item.kind == "image":
        return f"{item.address}, {item.hashes[0] if item.hashes else 'no digest in the lock'}"
    place = item.origin if item.address is None else f"{item.origin}: {item.address}"
    if item.address == NO_INDEX:
        place = f"{item.origin}, which is not asked here: the site's wheels"
    return place if item.kind == "index" or item.hashes else f"{place}, no hash"


def fetch_text(answer: Answer, lock_file: Path, folder: Path, program: str = "docker") -> str:
    """What became of it: counts, every failure, what is never brought, and the commands that come next."""
    got: Sequence[Got] = answer.fields["items"]
    fetched, there = (sum(entry.status == status for entry in got) for status in ("fetched", "there"))
    lines = [f"{fetched} fetched, {there} already there, {len(got) - fetched - there} failed"]
    for entry in got:
        if entry.status == "failed":
            lines += [f"  failed: {_missing(entry)}", *([f"    what to do: {entry.hint}"] if entry.hint else [])]
    for said in answer.findings:
        if said.id == "mirror-without-apt":
            lines += [f"warning: {said.message}", *(f"  what to do: {remedy.text}" for remedy in said.remedies)]
    site_file = answer.fields["site"]
    if site_file is None:
        lines.append(f"{folder / 'site.yaml'} was not written, because something is missing. Run it again: what is there stays.")
        return "\n".join(lines) + "\n"
    loads = [[program, "load", "--input", str(folder / entry.file)] for entry in got if entry.item.kind == "image"]
    render = ["provisioner", "render", str(lock_file), "--site", site_file, "--to", "image"]
    build = ["provisioner", "build", "image", "--site", site_file, *(["--engine", program] if program != "docker" else [])]
    lines += ["next, where the image is built:", *(f"  {shlex.join(words)}" for words in (*loads, render, build))]
    lines.append(f"  on another host: {program} load there first, then add --on HOST to the last command")
    return "\n".join(lines) + "\n"
