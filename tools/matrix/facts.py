"""The fact files: reading them, and what every kind of row asks of them (sources, levels, versions)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from provisioner.stack.gpus import Capability
from provisioner.stack.rows import Platform, Source, Verified
from provisioner.versions import Version

Row = Mapping[str, Any]

#: What this project collected by itself.
OWN = Path(__file__).resolve().parent.parent / "facts"
LEVELS: Sequence[Verified] = ("metadata", "source", "derived", "secondary", "recall")
PLATFORMS: Mapping[str, Platform] = {
    "amd64": "linux/amd64",
    "x86_64": "linux/amd64",
    "linux/amd64": "linux/amd64",
    "arm64": "linux/arm64",
    "aarch64": "linux/arm64",
    "linux/arm64": "linux/arm64",
}


class Facts:
    """The fact files, and the catalogue of sources merged from them: one id for one text."""

    def __init__(self, folder: Path) -> None:
        """Read the files of `folder`, and of tools/facts."""
        self._files: dict[str, Any] = {}
        for path in (*sorted(folder.glob("*.yaml")), *sorted(OWN.glob("*.yaml"))):
            self._files[path.stem] = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
        self._documents: dict[str, str] = {}
        self._dates: dict[str, str] = {}

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - whatever the file holds
        return self._files[name]

    def sources(self, file: str, named: object) -> tuple[str, ...]:
        """The sources that a row of `file` names: an id, a list of ids, or what → id. They are entered in the catalogue."""
        ids: Iterable[Any] = named if isinstance(named, list) else (named,)
        if isinstance(named, Mapping):
            ids = named.values()
        return tuple(dict.fromkeys(self._enter(file, str(entry)) for entry in ids))

    def _enter(self, file: str, source: str) -> str:
        content = self._files[file]
        catalogue: Mapping[str, Any] = content.get("sources") or content["meta"]["sources"]
        known = source if source in catalogue else source.split(" ", 1)[0]  # "wheel (CUDA, sm …)"
        if known not in catalogue:
            raise SystemExit(f"{file}.yaml: source {source!r} is not in its catalogue")
        document = _document(catalogue[known])
        for name in (known, f"{known}-{file.replace('_', '-')}"):  # two files, one id, two texts: both are kept
            if self._documents.setdefault(name, document) == document:
                self._dates[name] = str(content["meta"]["collected"])
                return name
        raise SystemExit(f"{file}.yaml: source {source!r} has two texts in one file")

    def catalogue(self) -> tuple[Source, ...]:
        """The sources that rows name."""
        return tuple(
            Source(id=name, document=document, retrieved=self._dates[name]) for name, document in self._documents.items()
        )


def _document(entry: object) -> str:
    if isinstance(entry, Mapping):
        return str(entry.get("document") or entry.get("url") or entry.get("what"))
    return " ".join(str(entry).split())


def level(*texts: object) -> Verified:
    """The weakest of the levels; a text such as "metadata (fat-binary scan)" counts by its first word."""
    return max((_level(text) for text in texts), key=LEVELS.index)


def _level(text: object) -> Verified:
    word = re.split(r"[ (,;]", str(text))[0]
    for known in LEVELS:
        if known == word:
            return known
    raise SystemExit(f"{text!r} is no level of verification")


def version(text: object) -> Version | None:
    """A version, or None for null."""
    return None if text is None else Version(str(text))


def capabilities(numbers: Iterable[object]) -> tuple[Capability, ...]:
    """Cubin targets of 90, "90", 90a."""
    return tuple(sorted(Capability.parse(f"sm_{number}") for number in numbers))


#: The C library that the older names of a wheel's platform promise (PEP 513, 571, 599).
_MANYLINUX = {"manylinux1": "2.5", "manylinux2010": "2.12", "manylinux2014": "2.17"}


def glibc_of(tag: str) -> Version:
    """The floor that a wheel's tag promises: manylinux_2_28_aarch64 → 2.28, manylinux2014_aarch64 → 2.17 (PEP 599, PEP 600)."""
    found = re.match(r"manylinux_(\d+)_(\d+)_", tag)
    if found:
        return Version(f"{found[1]}.{found[2]}")
    old = tag.split("_", maxsplit=1)[0]
    if old in _MANYLINUX:
        return Version(_MANYLINUX[old])
    raise SystemExit(f"{tag!r} is no platform tag that is known here")


def python_of(tag: str) -> str:
    """`cp312` → 3.12, `cp314t` → 3.14t."""
    found = re.fullmatch(r"cp(\d)(\d+)(t?)", tag)
    if found is None:
        raise SystemExit(f"{tag!r} is no Python tag that is known here")
    return f"{found[1]}.{found[2]}{found[3]}"


def bound_of(requirements: Iterable[str]) -> str:
    """`numpy (<2.0.0,>=1.23.5)` → <2.0.0,>=1.23.5. Of several the first: the others have a marker and are narrower."""
    text = next(iter(requirements), "")
    found = re.match(r"[A-Za-z0-9._-]*\s*\(?([^;)]*)\)?", text)
    return found[1].strip() if found else ""
