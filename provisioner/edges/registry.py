"""Container registries, over HTTP: the digest that a tag has now. No engine is needed for it.

Plain HTTP is spoken with loopback addresses only, as Docker does. A registry that wants a token for anonymous reading is asked
for one; passwords are Docker's matter.
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from provisioner.edges.index import Access, reason_of, session_with
from provisioner.findings import Seen

if TYPE_CHECKING:
    import requests

#: What a tag may point to: an index over platforms, or one image; the digest of the first is what is pinned.
_ACCEPT = ", ".join(
    f"application/vnd.{kind}+json"
    for kind in (
        "oci.image.index.v1",
        "docker.distribution.manifest.list.v2",
        "oci.image.manifest.v1",
        "docker.distribution.manifest.v2",
    )
)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_HUB = "docker.io"
_HUB_HOST = "registry-1.docker.io"
_UNAUTHORISED, _NOT_FOUND = 401, 404
_MAX_MANIFEST = 4_000_000
_ACCESS = Access(timeout=15)


def resolve_digest(reference: str, access: Access = _ACCESS) -> Seen[str | None]:
    """The digest (`sha256:…`) of a reference in its registry, None when the registry does not have it; unseen with the reason.

    `reference` is complete but for what Docker adds: `python:3.12` means the library of Docker Hub.
    """
    import requests

    host, repository, tag = split(reference)
    if _DIGEST.fullmatch(tag):
        return Seen(tag)
    address = _HUB_HOST if host == _HUB else host
    schemes = ("https", "http") if is_loopback(host) else ("https",)
    why = ""
    with session_with(access) as session:
        for scheme in schemes:
            try:
                return _ask(session, f"{scheme}://{address}/v2/{repository}", tag, access.timeout)
            except requests.RequestException as failure:
                why = f"the registry {host} does not answer: {reason_of(failure)}"
    return Seen.unseen(why)


def _ask(session: requests.Session, base: str, tag: str, timeout: float) -> Seen[str | None]:
    headers = {"Accept": _ACCEPT}
    answer = session.head(f"{base}/manifests/{tag}", headers=headers, timeout=timeout, allow_redirects=True)
    if answer.status_code == _UNAUTHORISED:
        token = _token(session, answer.headers.get("WWW-Authenticate", ""), timeout)
        if token is None:
            return Seen.unseen("the registry wants a login; pin the digest by hand, or log in and pull")
        headers["Authorization"] = f"Bearer {token}"
        answer = session.head(f"{base}/manifests/{tag}", headers=headers, timeout=timeout, allow_redirects=True)
    if answer.status_code == _NOT_FOUND:
        return Seen(None)
    if answer.status_code == _UNAUTHORISED:
        return Seen.unseen("the registry wants a login; pin the digest by hand, or log in and pull")
    answer.raise_for_status()
    digest = answer.headers.get("Docker-Content-Digest", "")
    if _DIGEST.fullmatch(digest):
        return Seen(digest)
    # A proxy may drop the header. The digest is the hash of the manifest, byte by byte.
    whole = session.get(f"{base}/manifests/{tag}", headers=headers, timeout=timeout)
    whole.raise_for_status()
    if len(whole.content) > _MAX_MANIFEST:
        return Seen.unseen("the registry answers with something that is no manifest")
    return Seen(f"sha256:{hashlib.sha256(whole.content).hexdigest()}")


def _token(session: requests.Session, challenge: str, timeout: float) -> str | None:
    """An anonymous token for a `Bearer realm="…",service="…",scope="…"` challenge; None when there is none to be had."""
    scheme, _, rest = challenge.partition(" ")
    fields = dict(re.findall(r'(\w+)="([^"]*)"', rest))
    realm = fields.pop("realm", "")
    if scheme.lower() != "bearer" or not _is_safe(realm):
        return None
    answer = session.get(realm, params=fields, timeout=timeout)
    if not answer.ok:
        return None
    with contextlib.suppress(ValueError, AttributeError):
        body = answer.json()
        return str(body.get("token") or body.get("access_token") or "") or None
    return None


def _is_safe(realm: str) -> bool:
    """Whether a token may be asked for there: over TLS, or on this machine."""
    parts = urlsplit(realm)
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.netloc))


def split(reference: str) -> tuple[str, str, str]:
    """Registry, repository, and tag or digest of a reference, with what Docker adds to a short one."""
    name, at, digest = reference.partition("@")
    first, slash, rest = name.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        host, path = first, rest
    else:
        host, path = _HUB, name if slash else f"library/{name}"
    repository, colon, tag = path.rpartition(":")
    if not colon:
        repository, tag = path, "latest"
    return host, repository, digest if at else tag


def is_loopback(host: str) -> bool:
    """Whether a registry is on this machine: then Docker speaks plain HTTP with it, and so do we."""
    name = host.rsplit(":", 1)[0].strip("[]") if not host.endswith("]") else host.strip("[]")
    if name == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(name).is_loopback
    return False
