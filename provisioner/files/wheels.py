"""Which of a release's files an interpreter takes: the tags in the names of wheels (PEP 425, 427, 600)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from provisioner.stack.matrix import Platform

_MACHINES: Mapping[str, str] = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}
_WHEEL = re.compile(r"(?P<name>[^-]+)-(?P<version>[^-]+)(?:-\d[^-]*)?-(?P<python>[^-]+)-(?P<abi>[^-]+)-(?P<platform>[^-]+)\.whl")
_OLD = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
_SOURCES = (".tar.gz", ".zip", ".tar.bz2")


def best(names: Sequence[str], version: str, python: str, platform: Platform, glibc: tuple[int, int] | None = None) -> str | None:
    """The file that `python` (3.12) on `platform` takes first, a source archive last; None when it takes none.

    `glibc` is the C library's version; None: any is taken, the oldest first, which runs everywhere.
    """
    ranked = [(rank, name) for name in names if (rank := _rank(name, version, python, platform, glibc)) is not None]
    return min(ranked)[1] if ranked else None


def _rank(name: str, version: str, python: str, platform: Platform, glibc: tuple[int, int] | None) -> tuple[int, ...] | None:
    if name.endswith(_SOURCES):
        return (9,) if f"-{version}." in name else None
    match = _WHEEL.fullmatch(name)
    if match is None or match["version"].replace("%2B", "+").lower() != version.lower():
        return None
    interpreter = _interpreter(match["python"].split("."), match["abi"].split("."), python)
    libraries = [found for tag in match["platform"].split(".") if (found := _library(tag, _MACHINES[platform])) is not None]
    fitting = [found for found in libraries if glibc is None or found <= glibc]
    return (interpreter, *min(fitting)) if interpreter is not None and fitting else None


def _interpreter(pythons: Sequence[str], abis: Sequence[str], python: str) -> int | None:
    """0 made for this Python, 1 for its stable interface, 2 for any; None: not for it."""
    major, minor = map(int, python.rstrip("t").split(".")[:2])
    own = f"cp{major}{minor}"
    threaded = "t" if python.endswith("t") else ""
    if own in pythons and {own + threaded, "none"} & set(abis):
        return 0
    older = {f"cp{major}{number}" for number in range(2, minor + 1)}
    if "abi3" in abis and not threaded and older & set(pythons):
        return 1
    pure = {f"py{major}", *(f"py{major}{number}" for number in range(minor + 1))}
    return 2 if "none" in abis and pure & set(pythons) else None


def _library(tag: str, machine: str) -> tuple[int, int] | None:
    """The C library that a platform tag needs at least; None: another system or machine."""
    if tag == "any":
        return (0, 0)
    if tag == f"linux_{machine}":
        return (2, 5)
    for old, needs in _OLD.items():
        if tag == f"{old}_{machine}":
            return needs
    match = re.fullmatch(rf"manylinux_(\d+)_(\d+)_{machine}", tag)
    return (int(match[1]), int(match[2])) if match else None
