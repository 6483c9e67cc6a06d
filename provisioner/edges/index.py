"""Package indexes: which files an index or a page of wheels has, whether a build is among them, and fetching one.

The default index is the one that pypi-simple asks by itself; nothing here names it. Passwords come from netrc, proxies from the
environment or from what the site says.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urljoin, urlsplit

from provisioner.commands import TIMEOUTS
from provisioner.edges.uv import usual_certificates
from provisioner.errors import ProvisionerError
from provisioner.values import value

if TYPE_CHECKING:
    from collections.abc import Callable

    import requests

_CHUNK = 1 << 20
_MACHINES: Mapping[str, str] = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}


@value
class Access:
    """How an index is reached: further trusted certificates (PEM), proxies by scheme (http, https, no), seconds for a request."""

    ca: str | None = None
    proxies: Mapping[str, str] = field(default_factory=dict)
    timeout: float = TIMEOUTS["index"]


@value
class IndexFile:
    """A file that an index offers. `hash` is `sha256:…`, empty where the index does not say; `size` in bytes, where it does."""

    name: str
    address: str
    hash: str = ""
    size: int | None = None


class Unreachable(ProvisionerError):  # noqa: N818 - as the other errors of a place that does not answer
    """The index does not answer, or not with a page of an index."""


_ACCESS = Access()
_REACH = "reach it from here (proxies and ca_bundle in site.yaml), or name a mirror of it there (indexes, wheels)"


def files_of(project: str, address: str | None, access: Access = _ACCESS) -> tuple[IndexFile, ...]:
    """The files of `project` at the index `address` (None: the client's default); empty when it does not have the project.

    Unreachable when it does not answer.
    """
    import pypi_simple
    import requests

    with session_with(access) as session:
        client = pypi_simple.PyPISimple(address or pypi_simple.PYPI_SIMPLE_ENDPOINT, session=session)
        try:
            page = client.get_project_page(project, timeout=access.timeout)
        except pypi_simple.NoSuchProjectError:
            return ()
        except (
            requests.RequestException,
            pypi_simple.UnsupportedContentTypeError,
            pypi_simple.UnsupportedRepoVersionError,
        ) as failure:
            raise Unreachable(f"the package index does not answer: {reason_of(failure)}", hint=_REACH) from failure
    return tuple(
        IndexFile(name=entry.filename, address=entry.url, hash=_hash(entry.digests.get("sha256")), size=entry.size)
        for entry in page.packages
    )


def files_at(place: str, access: Access = _ACCESS) -> tuple[IndexFile, ...]:
    """The files of a folder, or of one page that links to them. Unreachable when it cannot be read."""
    import pypi_simple
    import requests

    if "://" not in place:
        try:
            return tuple(
                IndexFile(name=path.name, address=str(path), size=path.stat().st_size)
                for path in sorted(Path(place).iterdir())
                if path.is_file()
            )
        except OSError as failure:
            raise Unreachable(f"{place} cannot be read: {(failure.strerror or str(failure)).lower()}") from failure
    with session_with(access) as session:
        try:
            answer = session.get(place, timeout=access.timeout)
            answer.raise_for_status()
            links = pypi_simple.RepositoryPage.from_html(answer.content, base_url=answer.url).links
        except (requests.RequestException, ValueError) as failure:
            raise Unreachable(f"the page of wheels does not answer: {reason_of(failure)}", hint=_REACH) from failure
    found = []
    for link in links:
        address, _, fragment = urljoin(place, link.url).partition("#")
        digest = fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else None
        found.append(IndexFile(name=unquote(urlsplit(address).path.rpartition("/")[2]), address=address, hash=_hash(digest)))
    return tuple(found)


def has_build(
    project: str, version: str, tag: str, platform: str, *, address: str | None, access: Access = _ACCESS
) -> bool | None:
    """Whether an index has a wheel of this build: one request. None when the index does not answer.

    A file without a local version counts: the default index serves such ones, and so did the indexes of a variant for arm64.
    """
    try:
        found = files_of(project, address, access)
    except Unreachable:
        return None
    return any(is_build(entry.name, version, tag, platform) for entry in found)


def is_build(filename: str, version: str, tag: str, platform: str) -> bool:
    """Whether a wheel's file name is that of a build variant for a platform."""
    parts = filename.removesuffix(".whl").split("-")
    if not filename.endswith(".whl") or len(parts) < 5:  # noqa: PLR2004 - name, version, python, abi, platform (PEP 427)
        return False
    public, _, local = unquote(parts[1]).partition("+")
    return public == version.partition("+")[0] and local in {"", tag} and parts[-1].endswith(_MACHINES[platform])


def download(
    source: IndexFile,
    target: Path,
    *,
    accept: tuple[str, ...],
    access: Access = _ACCESS,
    tell: Callable[[int], None] | None = None,
) -> None:
    """Fetch a file to `target`, whole or not at all. `accept` are the hashes (`sha256:…`) that it may have.

    `tell` gets the bytes of each piece. ProvisionerError when it cannot be fetched or is another file than the lock names.
    """
    import requests

    handle, name = tempfile.mkstemp(prefix=f".{target.name}-", suffix=".part", dir=target.parent)
    part = Path(name)
    try:
        digest = hashlib.sha256()
        with os.fdopen(handle, "wb") as stream:
            for piece in _pieces(source, access):
                stream.write(piece)
                digest.update(piece)
                if tell:
                    tell(len(piece))
        if f"sha256:{digest.hexdigest()}" not in accept:
            raise ProvisionerError(
                f"{source.name}: what was served is not the file that the lock names",
                hint="a mirror may be stale or tampered with: compare it",
            )
        part.chmod(0o644)
        part.replace(target)
    except requests.RequestException as failure:
        raise ProvisionerError(f"{source.name}: {reason_of(failure)}") from failure
    except OSError as failure:
        raise ProvisionerError(f"{source.name}: {(failure.strerror or str(failure)).lower()}") from failure
    finally:
        part.unlink(missing_ok=True)


def _pieces(source: IndexFile, access: Access) -> Iterator[bytes]:
    if "://" not in source.address:
        with Path(source.address).open("rb") as stream:
            while piece := stream.read(_CHUNK):
                yield piece
        return
    with session_with(access) as session, session.get(source.address, stream=True, timeout=access.timeout) as answer:
        answer.raise_for_status()
        yield from answer.iter_content(_CHUNK)


@contextlib.contextmanager
def session_with(access: Access) -> Iterator[requests.Session]:
    """A session of requests that trusts and goes through what `access` says."""
    import requests

    with contextlib.ExitStack() as stack:
        session = stack.enter_context(requests.Session())
        session.proxies.update({scheme: address for scheme, address in access.proxies.items() if scheme != "no"})
        if "no" in access.proxies:
            session.proxies["no_proxy"] = access.proxies["no"]
        if access.ca:
            bundle = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="provisioner-ca-")), "ca.pem")
            bundle.write_text(usual_certificates() + access.ca, encoding="utf-8")
            session.verify = str(bundle)
        yield session


def _hash(digest: str | None) -> str:
    return f"sha256:{digest}" if digest else ""


def reason_of(failure: Exception) -> str:
    """The innermost reason of a failed request, without its address: a site's addresses may be secret."""
    answer = getattr(failure, "response", None)
    if answer is not None:
        return f"HTTP {answer.status_code} {answer.reason}"
    inner: BaseException = failure
    while inner.__context__ is not None or inner.__cause__ is not None:
        inner = inner.__cause__ or inner.__context__ or inner
    text = getattr(inner, "strerror", None) or str(getattr(inner, "reason", None) or inner)
    return str(text)[:200] or type(failure).__name__
