"""A package index on loopback: one folder of wheels, as the "simple" pages that indexes serve and as a plain listing.

It is the only index of an air-gapped build, so a wheelhouse holds all that the wanted packages need. The PyTorch CPU
build is no download: it comes from a wheel folder that pip is configured with, or the test says that there is none.
"""

from __future__ import annotations

import contextlib
import hashlib
import html
import re
import sys
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

from tests.testbed.folders import cached, cached_path
from tests.testbed.processes import run
from tests.testbed.require import MissingPartError, may_fetch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ADDRESS: Final = "127.0.0.1"
_CHUNK: Final = 1 << 20
# What the stand-in base image runs: CPython 3.11 with a glibc of 2.36.
_TARGET: Final = ("--python-version", "3.11", "--implementation", "cp", "--abi", "cp311", "--abi", "abi3", "--abi", "none")
_PLATFORMS: Final = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64", "any")
_DOWNLOAD_SECONDS: Final = 900.0


def torch() -> tuple[str, Path]:
    """The version and the file of the PyTorch CPU build for Python 3.11 that pip is configured with."""
    folders = run([sys.executable, "-m", "pip", "config", "list"]).stdout
    found = [
        wheel
        for text in re.findall(r"find-links='([^']*)'", folders)
        for folder in text.split()
        for wheel in Path(folder).glob("torch-*+cpu-cp311-*x86_64.whl")
    ]
    if not found:
        raise MissingPartError("no torch-*+cpu wheel for Python 3.11 in the folders that pip's find-links names")
    newest = max(found, key=lambda wheel: [int(word) for word in re.findall(r"\d+", wheel.name.split("-")[1])])
    return newest.name.split("-")[1], newest


def wheelhouse(part: str, requirements: Sequence[str]) -> Path:
    """A folder with the wheels of these requirements and of all that they need, for the stand-in base image."""
    recipe = {"requirements": sorted(requirements), "target": _TARGET, "platforms": _PLATFORMS}
    if not may_fetch(part) and not cached_path("wheels", recipe).is_dir():
        raise MissingPartError(f"no wheels of {', '.join(requirements)} fetched yet: .venv/bin/python -m tests.testbed {part}")
    return cached("wheels", recipe, lambda folder: _download(folder, requirements))


def _download(folder: Path, requirements: Sequence[str]) -> None:
    platforms = [word for platform in _PLATFORMS for word in ("--platform", platform)]
    argv = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", *_TARGET, *platforms]
    run([*argv, "--dest", str(folder), *requirements], timeout=_DOWNLOAD_SECONDS)


def torch_wheelhouse() -> Path:
    """The wheels of the PyTorch CPU build and of all that it needs."""
    version, _ = torch()
    return wheelhouse("torch", [f"torch=={version}", "numpy"])


@dataclass
class Index:
    """A running index. `asked` are the paths that were requested, in order."""

    url: str
    folder: Path
    asked: list[str] = field(default_factory=list)

    @property
    def simple(self) -> str:
        """For `--index-url`."""
        return f"{self.url}/simple/"

    @property
    def links(self) -> str:
        """For `--find-links`."""
        return f"{self.url}/wheels/"


class _Pages(BaseHTTPRequestHandler):
    """Set on a subclass: the index it answers for."""

    index: Index
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:  # http.server's name
        """Answer as GET does, without the body."""
        self._answer(body=False)

    def do_GET(self) -> None:  # http.server's name
        """Answer a page or a wheel."""
        self.index.asked.append(self.path)
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        words = [unquote(word) for word in self.path.partition("?")[0].split("/") if word]
        wheels = sorted(self.index.folder.glob("*.whl"))
        match words:
            case ["simple"]:
                names = sorted({_project(wheel) for wheel in wheels})
                self._page([(f"/simple/{name}/", name) for name in names], body=body)
            case ["simple", name] if chosen := [wheel for wheel in wheels if _project(wheel) == name]:
                self._page([_link(wheel) for wheel in chosen], body=body)
            case ["wheels"]:
                self._page([_link(wheel) for wheel in wheels], body=body)
            case ["wheels", name] if (file := self.index.folder / name) in wheels:
                self._file(file, body=body)
            case _:
                self.send_error(404)

    def _page(self, links: Sequence[tuple[str, str]], *, body: bool) -> None:
        anchors = "".join(f'<a href="{html.escape(target)}">{html.escape(text)}</a><br>\n' for target, text in links)
        page = f"<!DOCTYPE html>\n<title>wheels</title>\n{anchors}".encode()
        self._headers("text/html; charset=utf-8", len(page))
        if body:
            self.wfile.write(page)

    def _file(self, file: Path, *, body: bool) -> None:
        self._headers("application/octet-stream", file.stat().st_size)
        if body:
            with file.open("rb") as stream:
                while chunk := stream.read(_CHUNK):
                    self.wfile.write(chunk)

    def _headers(self, kind: str, size: int) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(size))
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing: `asked` is the log."""


def _project(wheel: Path) -> str:
    return re.sub(r"[-_.]+", "-", wheel.name.split("-")[0]).lower()


_hashes: Final[dict[Path, str]] = {}


def _link(wheel: Path) -> tuple[str, str]:
    if wheel not in _hashes:
        with wheel.open("rb") as stream:
            _hashes[wheel] = hashlib.file_digest(stream, "sha256").hexdigest()
    return f"/wheels/{quote(wheel.name)}#sha256={_hashes[wheel]}", wheel.name


@contextlib.contextmanager
def serve(folder: Path) -> Iterator[Index]:
    """Serve the wheels of a folder."""
    index = Index(url="", folder=folder)
    server = ThreadingHTTPServer((_ADDRESS, 0), type("Pages", (_Pages,), {"index": index}))
    index.url = f"http://{_ADDRESS}:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, name="wheels", daemon=True)
    thread.start()
    try:
        yield index
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
