"""The build context: a tree, or the folder that it was written to, packed always into the same bytes.

Order, owner, times and modes in the archive are fixed, so an unchanged tree meets the engine's cache whoever built it.
A builder that reads its context from standard input does not look at .dockerignore; it is applied here.
"""

from __future__ import annotations

import functools
import io
import re
import stat
import tarfile
from typing import TYPE_CHECKING

from provisioner.errors import ProvisionerError, UsageError
from provisioner.files.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

#: The largest context in bytes: it is held in memory. The wheels of a GPU build, 3 GB, fit; a data set does not belong there.
MAX_CONTEXT = 6_000_000_000
#: Never part of an image, whatever .dockerignore says: histories, caches, environments, and what may hold secrets.
UNWANTED = frozenset({".git", ".hg", ".venv", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".netrc", ".ssh"})
_IGNORE = ".dockerignore"
_ALWAYS = frozenset({"Dockerfile", _IGNORE})
_EXECUTABLE = 0o755
_PLAIN = 0o644

Entry = tuple[tarfile.TarInfo, "bytes | Path"]


def pack(context: Tree | Path, folders: Mapping[str, Path] | None = None) -> bytes:
    """The tar archive of a context, and of further `folders` by their name in it. Equal content gives equal bytes.

    UsageError for what cannot be a context: no folder, no Dockerfile, more than MAX_CONTEXT. ProvisionerError when a file cannot
    be read.
    """
    entries: dict[str, Entry] = {}
    if isinstance(context, Tree):
        rules = _rules(context.files[_IGNORE].text if _IGNORE in context.files else "")
        for path, file in context.files.items():
            if path in _ALWAYS or not rules(path):
                entries[path] = _file(path, file.text.encode(), executable=bool(file.mode & stat.S_IXUSR))
    else:
        rules = _rules(_text(context / _IGNORE))
        entries |= _walk(context, "", rules)
    for name, folder in (folders or {}).items():
        entries |= _walk(folder, f"{name}/", _either(rules, _rules(_text(folder / _IGNORE)), f"{name}/"))
    if "Dockerfile" not in entries:
        where = "the tree" if isinstance(context, Tree) else str(context)
        raise UsageError(f"{where} has no Dockerfile", hint="make one: provisioner render stack.lock.yaml --to DIR")
    _check_size(entries)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(entries):
            _add(archive, *entries[path])
    return buffer.getvalue()


def _add(archive: tarfile.TarFile, info: tarfile.TarInfo, content: bytes | Path) -> None:
    if isinstance(content, bytes):
        archive.addfile(info, io.BytesIO(content))
        return
    try:
        with content.open("rb") as stream:
            archive.addfile(info, stream)
    except OSError as failure:  # also when it became shorter meanwhile: tarfile says so
        raise _unreadable(failure, content) from failure


def _check_size(entries: Mapping[str, Entry]) -> None:
    size = sum(info.size for info, _ in entries.values())
    if size > MAX_CONTEXT:
        largest = max(entries, key=lambda path: entries[path][0].size)
        raise UsageError(
            f"the build context has {size / 1e6:.0f} MB, more than {MAX_CONTEXT / 1e6:.0f}; its largest file is {largest}",
            hint="keep data out of the project folder and mount them when the container runs; serve wheels from a page",
        )


def _walk(folder: Path, prefix: str, ignored: Callable[[str], bool]) -> Mapping[str, Entry]:
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder")
    try:
        return dict(_entries(folder, prefix, ignored))
    except OSError as failure:
        raise _unreadable(failure, folder) from failure


def _entries(folder: Path, prefix: str, ignored: Callable[[str], bool]) -> Iterator[tuple[str, Entry]]:
    for path in sorted(folder.iterdir()):
        name = f"{prefix}{path.name}"
        if path.name in UNWANTED:
            continue
        if path.is_dir() and not path.is_symlink():
            # also below an ignored folder: a later rule may take something in it back
            yield from _entries(path, f"{name}/", ignored)
        elif name not in _ALWAYS and ignored(name):
            continue
        elif path.is_symlink():
            info = _info(name, _EXECUTABLE)
            info.type, info.linkname = tarfile.SYMTYPE, str(path.readlink())
            yield name, (info, b"")
        elif path.is_file():
            found = path.stat()
            info = _info(name, _EXECUTABLE if found.st_mode & stat.S_IXUSR else _PLAIN)
            info.size = found.st_size
            yield name, (info, path)
        # sockets, pipes and devices have no place in an image


def _file(name: str, content: bytes, *, executable: bool) -> Entry:
    info = _info(name, _EXECUTABLE if executable else _PLAIN)
    info.size = len(content)
    return info, content


def _info(name: str, mode: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)  # time and owner are 0 in a new one
    info.mode = mode
    return info


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    except OSError as failure:
        raise _unreadable(failure, path) from failure


def _unreadable(failure: OSError, path: Path) -> ProvisionerError:
    return ProvisionerError(f"{failure.filename or path} cannot be read: {(failure.strerror or str(failure)).lower()}")


def _either(outer: Callable[[str], bool], own: Callable[[str], bool], prefix: str) -> Callable[[str], bool]:
    """The rules of the context, and those of a folder in it on the paths below `prefix`."""
    return lambda path: outer(path) or own(path.removeprefix(prefix))


def _rules(text: str) -> Callable[[str], bool]:
    """Whether a .dockerignore with this content leaves a path out: the last line that matches it, or a folder above, decides."""
    rules: list[tuple[bool, re.Pattern[str]]] = []
    for line in text.splitlines():
        rule = line.strip()
        if not rule or rule.startswith("#"):
            continue
        keeps = rule.startswith("!")
        rules.append((keeps, _pattern(rule.removeprefix("!").strip().strip("/"))))

    def ignored(path: str) -> bool:
        verdict = False
        for keeps, pattern in rules:
            if pattern.fullmatch(path):
                verdict = not keeps
        return verdict

    return ignored


@functools.cache
def _pattern(rule: str) -> re.Pattern[str]:
    """One pattern, as Go's filepath.Match reads it, with ** for any number of folders; it also matches what is below."""
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    pieces = re.findall(r"\*\*/|\*\*|\*|\?|\[[^\]]+\]|\\.|.", rule)
    translated = "".join(
        words.get(piece)
        or (
            f"[{piece[1:-1].replace(chr(92), chr(92) * 2)}]" if piece.startswith("[") and len(piece) > 1 else re.escape(piece[-1])
        )
        for piece in pieces
    )
    return re.compile(rf"{translated}(?:/.*)?", re.DOTALL)
