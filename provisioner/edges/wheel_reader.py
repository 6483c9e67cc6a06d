"""Single files inside a wheel on an index, read by HTTP range requests: its directory, then the members that are asked for.

A wheel of 500 MB tells what it was built for in a few small files; none of the rest is fetched. What it costs is counted.
"""

from __future__ import annotations

import contextlib
import io
import struct
import zipfile
import zlib
from typing import TYPE_CHECKING

from provisioner.edges.index import Access, Unreachable, reason_of, session_with

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import requests

_TAIL = 1 << 16  # bytes; the end record of a zip file is within them, often the whole directory
_STEP = 1 << 21  # bytes of a large member that are fetched at once
_LOCAL_HEADER, _SLACK = 30, 4096  # bytes before a member's name, and room for its extra field
_MOST = 1 << 25  # bytes of a small member, unpacked: more is not what is looked for here
_MOST_DIRECTORY, _MOST_LIBRARY = 1 << 25, 1 << 30
_END = b"PK\x05\x06"
_PARTIAL, _NOT_FOUND = 206, 404
_ACCESS = Access()


class Cost:
    """What reading cost so far: requests, and bytes of their bodies."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.requests = 0
        self.bytes = 0

    def count(self, answer: requests.Response, *_: object, **__: object) -> None:
        """A hook of requests: one more answer."""
        self.requests += 1
        length = answer.headers.get("Content-Length", "")
        self.bytes += int(length) if length.isdigit() else 0


class Listing:
    """The files of projects on one index, with the day of their upload; wheels of it can be opened."""

    def __init__(self, session: requests.Session, address: str | None, timeout: float) -> None:
        """Over an open `session`; `address` None is the client's default index."""
        self.cost = Cost()
        session.hooks["response"].append(self.cost.count)
        self._session, self._address, self._timeout = session, address, timeout

    def files(self, project: str, *, every: bool = False) -> tuple[Listed, ...]:
        """The wheels of `project` that are not yanked, or `every` file; Unreachable when the index does not answer."""
        import pypi_simple
        import requests

        client = pypi_simple.PyPISimple(self._address or pypi_simple.PYPI_SIMPLE_ENDPOINT, session=self._session)
        try:
            page = client.get_project_page(project, timeout=self._timeout)
        except pypi_simple.NoSuchProjectError as failure:
            raise Unreachable(f"the package index has no project {project}") from failure
        except (
            requests.RequestException,
            pypi_simple.UnsupportedContentTypeError,
            pypi_simple.UnsupportedRepoVersionError,
        ) as failure:
            raise Unreachable(f"the package index does not answer: {reason_of(failure)}") from failure
        return tuple(
            Listed(
                name=entry.filename,
                address=entry.url,
                size=entry.size,
                day=entry.upload_time.date().isoformat() if entry.upload_time else None,
                yanked=entry.is_yanked,
            )
            for entry in page.packages
            if every or (entry.filename.endswith(".whl") and not entry.is_yanked)
        )

    def open(self, file: Listed) -> Wheel:
        """The directory of a wheel; Unreachable when it cannot be read by ranges."""
        return Wheel(self._session, file, self._timeout)


class Listed:
    """A file that an index lists: its size in bytes and the day of its upload where the index says so; `yanked`: taken back."""

    __slots__ = ("address", "day", "name", "size", "yanked")

    def __init__(self, *, name: str, address: str, size: int | None, day: str | None, yanked: bool = False) -> None:
        """As the index says."""
        self.name, self.address, self.size, self.day, self.yanked = name, address, size, day, yanked


class Wheel:
    """A wheel on an index, of which single members are read."""

    def __init__(self, session: requests.Session, file: Listed, timeout: float) -> None:
        """Read the directory: one request, or two where it is long."""
        self._session, self._file, self._timeout = session, file, timeout
        self._members = self._directory()

    def member(self, ending: str) -> str | None:
        """The name of the member that is `ending` or ends with `/ending`, None when there is none."""
        return next((name for name in self._members if name == ending or name.endswith(f"/{ending}")), None)

    def read(self, name: str) -> bytes:
        """A small member, whole; KeyError when there is none, Unreachable when it cannot be read."""
        content = b"".join(self.stream(name, at_once=True))
        if len(content) != self._members[name].file_size:
            raise Unreachable(f"{self._file.name}: {name} is cut short")
        return content

    def stream(self, name: str, *, at_once: bool = False) -> Iterator[bytes]:
        """A member piece by piece, each fetched when it is asked for; `at_once`: in one request, and only a small one."""
        info = self._members[name]
        most = _MOST if at_once else _MOST_LIBRARY
        if max(info.file_size, info.compress_size) > most:
            raise Unreachable(f"{self._file.name}: {name} is larger than such a file can be")
        if info.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
            raise Unreachable(f"{self._file.name}: {name} is packed in a way that is not known here")
        inflate = zlib.decompressobj(-zlib.MAX_WBITS) if info.compress_type == zipfile.ZIP_DEFLATED else None
        step = info.compress_size + _LOCAL_HEADER + len(name.encode()) + _SLACK if at_once else _STEP
        piece = self._range(info.header_offset, step)
        if piece[:4] != b"PK\x03\x04":
            raise Unreachable(f"{self._file.name}: no member begins where its directory says")
        names, extra = struct.unpack("<HH", piece[26:_LOCAL_HEADER])
        at, left, unpacked = info.header_offset + len(piece), info.compress_size, 0
        piece = piece[_LOCAL_HEADER + names + extra :]
        while True:
            taken = piece[:left]
            left -= len(taken)
            try:
                content = inflate.decompress(taken, info.file_size - unpacked + 1) if inflate else taken
            except zlib.error as failure:
                raise Unreachable(f"{self._file.name}: {name} cannot be unpacked") from failure
            unpacked += len(content)
            if unpacked > info.file_size:
                raise Unreachable(f"{self._file.name}: {name} is longer than its directory says")
            yield content
            if left <= 0:
                return
            piece = self._range(at, min(_STEP, left))
            at += len(piece)

    def _directory(self) -> Mapping[str, zipfile.ZipInfo]:
        tail = self._range(None, _TAIL)
        found = tail.rfind(_END)
        if found < 0 or len(tail) < found + 22:
            raise Unreachable(f"{self._file.name}: what the index serves is no wheel")
        length, offset = struct.unpack("<LL", tail[found + 12 : found + 20])
        if length > _MOST_DIRECTORY or offset == 0xFFFFFFFF:  # noqa: PLR2004 - the mark of zip64
            raise Unreachable(f"{self._file.name}: its directory is larger than a wheel's can be")
        directory = tail[found - length : found] if length <= found else self._range(offset, length)
        try:
            with zipfile.ZipFile(io.BytesIO(directory + tail[found:])) as archive:
                members = {info.filename: info for info in archive.infolist()}
        except (zipfile.BadZipFile, ValueError, struct.error) as failure:
            raise Unreachable(f"{self._file.name}: its directory cannot be read") from failure
        for info in members.values():
            info.header_offset += offset  # zipfile saw a file that begins with the directory
        return members

    def _range(self, start: int | None, length: int) -> bytes:
        """`length` bytes from `start` on, or the last ones. A server that would send the whole wheel instead is refused."""
        import requests

        asked = f"bytes=-{length}" if start is None else f"bytes={start}-{start + length - 1}"
        try:
            with self._session.get(
                self._file.address,
                headers={"Range": asked, "Accept-Encoding": "identity"},
                timeout=self._timeout,
                stream=True,
            ) as answer:
                answer.raise_for_status()
                if answer.status_code != _PARTIAL:
                    raise Unreachable(f"{self._file.name}: the index does not serve parts of files (no range requests)")
                content = answer.raw.read(length + 1, decode_content=False)
        except (requests.RequestException, OSError) as failure:
            raise Unreachable(f"{self._file.name}: {reason_of(failure)}") from failure
        if not content:
            raise Unreachable(f"{self._file.name}: the index sent nothing")
        return bytes(content[:length])


@contextlib.contextmanager
def listing(address: str | None = None, access: Access = _ACCESS) -> Iterator[Listing]:
    """The index at `address` (None: the client's default), for as long as it is read."""
    with session_with(access) as session:
        yield Listing(session, address, access.timeout)
