"""Single files that a verb writes where the user said: whole or not at all, and never over what the tool did not write."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from provisioner.errors import ProvisionerError, UsageError

#: What the tool's own single files begin with, and what its scripts say in their first lines; anything else is the user's.
_BEGINNINGS = ("format: 1\ngenerator: provisioner ", '{"format": 1', '{\n  "format": 1', "# GPU environment report")
_SCRIPT = "Made by provisioner "
_HEAD = 400  # characters


def write_file(path: Path, text: str, *, force: bool = False, mode: int = 0o644) -> None:
    """Write `text` to `path` by a temporary file beside it and a rename.

    UsageError when a file that the tool did not write stands there and `force` is not given; ProvisionerError when it cannot be
    written, and then nothing has changed.
    """
    there = os.path.exists(path)  # noqa: PTH110 - a name that is too long is told below, where Path.exists raises
    if there and not path.is_file():
        raise UsageError(f"{path} is not a file", hint="name another one; standard output is where it goes without this option")
    if not force and there and not _ours(path):
        raise UsageError(f"{path} exists and was not written by provisioner", hint="name another file, or give --force")
    folder = path.parent
    temporary: Path | None = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=folder, prefix=f".{path.name}.", delete=False) as stream:
            temporary = Path(stream.name)
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(mode)
        temporary.replace(path)
    except OSError as failure:
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink()
        raise ProvisionerError(f"cannot write {path}: {(failure.strerror or str(failure)).lower()}") from failure


def _ours(path: Path) -> bool:
    try:
        with path.open(encoding="utf-8") as stream:
            head = stream.read(_HEAD)
            return head.startswith(_BEGINNINGS) or _SCRIPT in head
    except (OSError, UnicodeDecodeError):
        return False
