"""A tree: the rendered files as one value, and how it is written whole or not at all.

`.provisioner.json` in the folder lists the SHA-256 of each file as the tool wrote it. A file that is not listed there, or that
has changed since, is the user's and is not overwritten without force.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from provisioner.errors import ProvisionerError, UsageError
from provisioner.values import value

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

MANIFEST = ".provisioner.json"
#: The name of a file before it is renamed to its place, and after how many seconds nobody can be at work on it any more.
_PREFIX, _SUFFIX = ".provisioner-", ".tmp"
_STALE = 3600
_SCRIPT = 0o755
_TEXT = 0o644


@value
class TreeFile:
    """One file: its text, and its mode (0o755 for what is run, else 0o644)."""

    text: str
    mode: int = _TEXT


@value
class Tree:
    """The files of a tree by their path in it, sorted."""

    files: Mapping[str, TreeFile]

    def __post_init__(self) -> None:
        """Sort, and refuse a path that leaves the folder: ProvisionerError."""
        for path in self.files:
            parts = PurePosixPath(path).parts
            if not parts or path.startswith("/") or ".." in parts or "\\" in path or str(PurePosixPath(path)) != path:
                raise ProvisionerError(f"a file of the tree would be written outside its folder: {path!r}")
        object.__setattr__(self, "files", dict(sorted(self.files.items())))


def script(text: str) -> TreeFile:
    """A file that is run."""
    return TreeFile(text=text, mode=_SCRIPT)


def write_tree(tree: Tree, folder: Path, *, force: bool = False) -> None:
    """Write `tree` into `folder`: every file is staged beside its place before the first one is renamed.

    UsageError, naming each, when files that the tool did not write stand in the way; ProvisionerError when the folder cannot be
    written (nothing has changed then). Files of an earlier tree that this one does not have stay where they are.
    """
    known = _manifest(folder)
    _refuse_foreign(tree, folder, known, force=force)
    hashes = {path: _hash(file.text.encode()) for path, file in tree.files.items()}
    listed = json.dumps({"format": 1, "files": dict(sorted({**known, **hashes}.items()))}, indent=1) + "\n"
    # The manifest goes last: after a cut, what is already renamed is recognised by its content, the rest by the old list.
    files = [*tree.files.items(), (MANIFEST, TreeFile(text=listed))]
    try:
        with _staged(folder, files) as staged:
            for temporary, target in staged:
                temporary.replace(target)
            _sweep({target.parent for _, target in staged})
    except OSError as failure:
        reason = (failure.strerror or str(failure)).lower()
        raise ProvisionerError(
            f"{folder} cannot be written: {reason}", hint="make room or choose another folder with --to"
        ) from failure


def _refuse_foreign(tree: Tree, folder: Path, known: Mapping[str, str], *, force: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is not a folder")
    for path in tree.files:
        for parent in list(PurePosixPath(path).parents)[:-1]:
            step = folder / parent
            if step.is_symlink() or (step.exists() and not step.is_dir()):
                raise UsageError(f"{step} must be a folder: a tree is never written through a link")
        target = folder / path
        if target.exists() and not target.is_file() and not target.is_symlink():
            what = "a folder" if target.is_dir() else "a pipe, a socket or a device"
            raise UsageError(f"{target} is {what}, and a file of that name is to be written")
    foreign = [
        folder / path
        for path, file in tree.files.items()
        if not _is_ours(folder / path, {known.get(path), _hash(file.text.encode())})
    ]
    if foreign and not force:
        names = "\n".join(f"  {path}" for path in foreign)
        raise UsageError(
            f"not overwritten, because this tool did not write them or they were changed since:\n{names}",
            hint="move them away, choose another folder with --to, or say --force",
        )


def _is_ours(target: Path, hashes: Collection[str | None]) -> bool:
    """Whether nothing stands at `target`, or a file with one of these contents; a link is somebody's."""
    if target.is_symlink():
        return False
    try:
        return _hash(target.read_bytes()) in hashes
    except FileNotFoundError:
        return True
    except OSError:
        return False


@contextlib.contextmanager
def _staged(folder: Path, files: list[tuple[str, TreeFile]]) -> Iterator[list[tuple[Path, Path]]]:
    """Each file under a temporary name in its own folder; what was not renamed is removed again, new folders too."""
    staged: list[tuple[Path, Path]] = []
    made: list[Path] = []
    try:
        for path, file in files:
            target = folder / path
            _make_folder(target.parent, made)
            handle, name = tempfile.mkstemp(prefix=_PREFIX, suffix=_SUFFIX, dir=target.parent)
            staged.append((Path(name), target))
            with os.fdopen(handle, "wb") as stream:
                stream.write(file.text.encode())
                stream.flush()
                os.fsync(stream.fileno())
            Path(name).chmod(file.mode)
        yield staged
    finally:
        for temporary, _ in staged:
            temporary.unlink(missing_ok=True)
        for new in reversed(made):
            with contextlib.suppress(OSError):  # it is not empty: the tree was written
                new.rmdir()


def _sweep(folders: Collection[Path]) -> None:
    """Remove what a killed run left staged. What is younger than an hour may be that of a run beside this one."""
    for folder in folders:
        for path in folder.glob(f"{_PREFIX}*{_SUFFIX}"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _STALE:
                    path.unlink()


def _make_folder(folder: Path, made: list[Path]) -> None:
    missing = [folder]
    while not missing[-1].exists():
        missing.append(missing[-1].parent)
    for path in reversed(missing[:-1]):
        path.mkdir()
        made.append(path)


def _manifest(folder: Path) -> Mapping[str, str]:
    """What an earlier run wrote; nothing when there is no list that can be read: then every file counts as the user's."""
    path = folder / MANIFEST
    if not path.is_file():  # nor a pipe that nobody writes to
        return {}
    try:
        files = json.loads(path.read_bytes())["files"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
    if not isinstance(files, dict):
        return {}
    return {path: entry for path, entry in files.items() if isinstance(path, str) and isinstance(entry, str)}


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
