"""Single members of a wheel, read by ranges from a server on loopback, and what happens when it serves something else."""

from __future__ import annotations

import re
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, ClassVar

import pytest

from provisioner.edges.index import Unreachable
from provisioner.edges.wheel_reader import Listed, Listing, listing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SMALL, LARGE, MANY = b"__version__ = '1'\n", bytes(range(256)) * 40_000, 3000


class _Ranges(BaseHTTPRequestHandler):
    content: ClassVar[bytes] = b""
    ranges: ClassVar[bool] = True
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.headers["Range"])
        start, end = re.fullmatch(r"bytes=(\d*)-(\d+)", self.headers["Range"] or "bytes=0-0").groups()  # type: ignore[union-attr]  # ours
        piece = self.content[int(start) : int(end) + 1] if start else self.content[-int(end) :]
        self.send_response(206 if self.ranges else 200)
        self.send_header("Content-Length", str(len(piece)))
        self.end_headers()
        self.wfile.write(piece)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def handler() -> Iterator[tuple[type[_Ranges], Listing, Listed]]:
    answers = type("Answers", (_Ranges,), {"asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), answers)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    file = Listed(name="a-1-py3-none-any.whl", address=f"http://127.0.0.1:{server.server_port}/a.whl", size=None, day=None)
    try:
        with listing() as index:
            yield answers, index, file
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def wheel(tmp_path: Path) -> bytes:
    path = tmp_path / "a.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/large.so", LARGE, zipfile.ZIP_STORED)
        archive.writestr("a/version.py", SMALL)
        for number in range(MANY):  # a directory that is longer than the first request
            archive.writestr(f"a/file{number}.py", b"")
        archive.writestr("a/packed.so", LARGE)
    return path.read_bytes()


def test_members_are_read_alone(handler: tuple[type[_Ranges], Listing, Listed], wheel: bytes) -> None:
    answers, index, file = handler
    answers.content = wheel
    opened = index.open(file)
    assert len(answers.asked) == 2
    assert opened.member("version.py") == "a/version.py"
    assert opened.member("METADATA") is None
    assert opened.read("a/version.py") == SMALL
    assert len(answers.asked) == 3
    assert b"".join(opened.stream("a/packed.so")) == LARGE
    assert b"".join(opened.stream("a/large.so")) == LARGE
    assert index.cost.requests == len(answers.asked)
    assert 0 < index.cost.bytes < 2 * len(wheel)


def test_a_large_member_is_fetched_no_further_than_it_is_read(
    handler: tuple[type[_Ranges], Listing, Listed], wheel: bytes
) -> None:
    answers, index, file = handler
    answers.content = wheel
    opened = index.open(file)
    before = len(answers.asked)
    next(opened.stream("a/large.so"))
    assert len(answers.asked) == before + 1


def test_a_server_without_ranges_is_refused_before_it_sends_the_wheel(
    handler: tuple[type[_Ranges], Listing, Listed], wheel: bytes
) -> None:
    answers, index, file = handler
    answers.content, answers.ranges = wheel, False
    with pytest.raises(Unreachable, match="no range requests"):
        index.open(file)


@pytest.mark.parametrize("content", [b"", b"no wheel at all", b"PK\x05\x06" + b"\xff" * 18, b"PK\x05\x06" + b"\x01" * 18])
def test_what_is_no_wheel_is_said(handler: tuple[type[_Ranges], Listing, Listed], content: bytes) -> None:
    answers, index, file = handler
    answers.content = content
    with pytest.raises(Unreachable, match=file.name):
        index.open(file)


def test_a_member_that_is_damaged_is_said(handler: tuple[type[_Ranges], Listing, Listed], wheel: bytes) -> None:
    answers, index, file = handler
    at = wheel.index(b"a/version.py") + len("a/version.py")
    answers.content = wheel[:at] + b"\xff" * 12 + wheel[at + 12 :]
    opened = index.open(file)
    with pytest.raises(Unreachable, match=r"version\.py"):
        opened.read("a/version.py")
    opened._members["a/version.py"].file_size = 1 << 40  # a directory that lies
    with pytest.raises(Unreachable, match="larger"):
        opened.read("a/version.py")
