"""~/.ssh/config for paramiko, which reads one file and knows no Include."""

from __future__ import annotations

import fnmatch
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from provisioner.decode import read_text
from provisioner.errors import InventoryError
from provisioner.values import Problem

if TYPE_CHECKING:
    from paramiko import SSHConfig

_DEPTH = 16  # as OpenSSH


def read_config(path: Path | None) -> SSHConfig:
    """The configuration in `path` alone, or the one that OpenSSH would find. InventoryError when it is wrong."""
    import paramiko

    files = _files(path)
    texts = [_expanded(file, 0) for file in files]
    try:
        return paramiko.SSHConfig.from_text("\n".join(texts))
    except (paramiko.SSHException, ValueError) as failure:
        hint = "name another file with --ssh-config FILE"
        raise InventoryError([Problem(file=str(file), message=str(failure)) for file in files], hint=hint) from failure


def names_host(path: Path | None, name: str) -> bool:
    """Whether a `Host` line of the configuration that counts names `name`; a bare `*`, which means every host, does not."""
    for file in _files(path):
        for line in _expanded(file, 0).splitlines():
            key, *patterns = _words(line.replace("=", " ", 1)) or [""]
            if key.lower() != "host" or any(fnmatch.fnmatchcase(name, each[1:]) for each in patterns if each.startswith("!")):
                continue
            if any(fnmatch.fnmatchcase(name, each) for each in patterns if each.strip("*")):
                return True
    return False


def _files(path: Path | None) -> tuple[Path, ...]:
    found = (Path.home() / ".ssh/config", Path("/etc/ssh/ssh_config"))
    return (path,) if path else tuple(file for file in found if file.is_file())


def _expanded(file: Path, depth: int) -> str:
    lines: list[str] = []
    for line in read_text(file, InventoryError).splitlines():
        words = line.replace("=", " ", 1).split(maxsplit=1)
        if len(words) > 1 and words[0].lower() == "include" and depth < _DEPTH:
            lines.extend(_expanded(found, depth + 1) for pattern in _words(words[1]) for found in _find(file, pattern))
        else:
            lines.append(line)
    return "\n".join(lines)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _find(file: Path, pattern: str) -> list[Path]:
    home = Path.home() / ".ssh"
    base = Path("/etc/ssh") if file.is_relative_to("/etc/ssh") else home
    path = Path(pattern).expanduser()
    if not path.is_absolute():
        path = base / path
    return sorted(found for found in Path(path.anchor).glob(str(path.relative_to(path.anchor))) if found.is_file())
