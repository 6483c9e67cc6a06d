"""Digests from a registry, asked over HTTP on loopback. The real registry is asked in tests/integration/test_mirror.py."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, ClassVar

import pytest

from provisioner.edges.index import Access
from provisioner.edges.registry import is_loopback, resolve_digest, split
from provisioner.findings import Seen

if TYPE_CHECKING:
    from collections.abc import Iterator

MANIFEST = b'{"schemaVersion": 2, "manifests": []}'
DIGEST = f"sha256:{hashlib.sha256(MANIFEST).hexdigest()}"


class Answers(BaseHTTPRequestHandler):
    """One repository `a` with the tag `1`; what it says of it is set by each test."""

    says_digest: ClassVar[bool] = True
    wants: ClassVar[str] = ""  # a token
    realm: ClassVar[str] = ""
    status: ClassVar[int] = 200

    def do_HEAD(self) -> None:  # http.server's name
        self._answer(body=False)

    def do_GET(self) -> None:  # http.server's name
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        content, status = MANIFEST, self.status
        if self.path.startswith("/token"):
            content, status = json.dumps({"token": self.wants}).encode(), 200
            assert "service=r" in self.path
            assert "scope=repository%3Aa%3Apull" in self.path
        elif self.wants and self.headers.get("Authorization") != f"Bearer {self.wants}":
            status = 401
        elif self.path != "/v2/a/manifests/1":
            status = 404
        self.send_response(status)
        if status == 401:
            self.send_header("WWW-Authenticate", f'Bearer realm="{self.realm}",service="r",scope="repository:a:pull"')
        if self.says_digest and status == 200:
            self.send_header("Docker-Content-Digest", DIGEST)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def serving(**settings: object) -> Iterator[str]:
    kind = type("Set", (Answers,), settings)
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    if not settings.get("realm"):
        type.__setattr__(kind, "realm", f"http://127.0.0.1:{server.server_port}/token")
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize("says_digest", [True, False])
def test_the_digest_of_a_tag_with_or_without_the_header(says_digest: bool) -> None:
    with serving(says_digest=says_digest) as name:
        assert resolve_digest(f"{name}/a:1") == Seen(DIGEST)


def test_a_tag_that_is_not_there_is_absent_and_not_unseen() -> None:
    with serving() as name:
        assert resolve_digest(f"{name}/a:2") == Seen(None)


def test_a_digest_is_its_own_answer() -> None:
    assert resolve_digest(f"nowhere.example/a@{DIGEST}") == Seen(DIGEST)


def test_a_token_is_asked_for_where_the_registry_wants_one() -> None:
    with serving(wants="abc") as name:
        assert resolve_digest(f"{name}/a:1") == Seen(DIGEST)


def test_a_token_is_never_fetched_over_the_open_net() -> None:
    with serving(wants="abc", realm="http://auth.example/token") as name:
        found = resolve_digest(f"{name}/a:1")
    assert not found.known
    assert "login" in str(found.why_not)


def test_what_does_not_answer_is_unseen_with_the_reason() -> None:
    with serving(status=503) as name:
        broken = resolve_digest(f"{name}/a:1")
    gone = resolve_digest(f"{name}/a:1", Access(timeout=5))
    for found, reason in ((broken, "503"), (gone, "refused")):
        assert not found.known
        assert reason in str(found.why_not)


@pytest.mark.parametrize(
    ("reference", "parts"),
    [
        ("python:3.12-slim", ("docker.io", "library/python", "3.12-slim")),
        ("python", ("docker.io", "library/python", "latest")),
        ("nvidia/cuda:12.8.1-base-ubuntu24.04", ("docker.io", "nvidia/cuda", "12.8.1-base-ubuntu24.04")),
        ("nvcr.io/nvidia/pytorch:25.06-py3", ("nvcr.io", "nvidia/pytorch", "25.06-py3")),
        ("127.0.0.1:5000/a/b:1", ("127.0.0.1:5000", "a/b", "1")),
        ("localhost/a", ("localhost", "a", "latest")),
        (f"r.example/a:1@{DIGEST}", ("r.example", "a", DIGEST)),
    ],
)
def test_a_reference_is_read_as_docker_reads_it(reference: str, parts: tuple[str, str, str]) -> None:
    assert split(reference) == parts


@pytest.mark.parametrize(
    ("host", "answer"),
    [
        ("127.0.0.1:5000", True),
        ("127.1.2.3", True),
        ("localhost:5000", True),
        ("[::1]:5000", True),
        ("10.0.0.1:5000", False),
        ("nvcr.io", False),
        ("localhost.example", False),
    ],
)
def test_plain_http_is_for_this_machine_only(host: str, answer: bool) -> None:
    assert is_loopback(host) is answer
