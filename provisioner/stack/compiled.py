"""The compiled form of the matrix: the same rows as JSON, found by the SHA-256 of the YAML text they were made from.

Parsing 900 kB of YAML costs half a second, this JSON a few milliseconds. Nothing here imports yaml until a text has to be
compiled. A wheel carries the JSON beside the text (`hatch_build.py` writes it); a checkout keeps it in the user's cache folder.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provisioner import resources
from provisioner.stack.gpus import Capability
from provisioner.stack.matrix import Matrix
from provisioner.stack.rows import SECTIONS
from provisioner.versions import Version

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

NAME = "compat_matrix.yaml"
_version = functools.cache(Version)  # few texts, many rows; versions never change
_capability = functools.cache(Capability.parse)

#: What makes a field's value of its JSON form, by the field's annotation. A field that is not named here is taken as it is.
_REVIVE: dict[str, Callable[[Any], object]] = {
    "Version": _version,
    "Version | None": lambda text: None if text is None else _version(text),
    "Capability": _capability,
    "Capability | None": lambda text: None if text is None else _capability(text),
    "tuple[Capability, ...]": lambda texts: tuple(map(_capability, texts)),
    "tuple[Capability, ...] | None": lambda texts: None if texts is None else tuple(map(_capability, texts)),
    "tuple[Version, ...]": lambda texts: tuple(map(_version, texts)),
    "tuple[str, ...]": tuple,
    "tuple[str, ...] | None": lambda texts: None if texts is None else tuple(texts),
    "tuple[Platform, ...]": tuple,
}


@functools.cache
def shipped_matrix() -> Matrix:
    """The matrix that came with the tool; MatrixError when its text cannot be read or decoded."""
    path = resources.resource(NAME)
    try:
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        sha256 = ""  # what is wrong with the file is said below
    for folder in (path.parent, resources.cache_folder()) if sha256 else ():
        found = _read(folder / compiled_name(sha256), sha256)
        if found is not None:
            return found
    from provisioner.decode import read_text
    from provisioner.errors import MatrixError

    compiled = compile_json(read_text(path, MatrixError), str(path))
    _keep(resources.cache_folder() / compiled_name(sha256), compiled)
    return matrix_of(json.loads(compiled), sha256)


def compiled_name(sha256: str) -> str:
    """The name of the compiled form of the text with this SHA-256."""
    return f"compat_matrix.{sha256}.json"


def compile_json(text: str, source: str = NAME) -> str:
    """The compiled form of the YAML text; MatrixError with every mistake and its place."""
    from provisioner.decode import decode, encode
    from provisioner.errors import MatrixError
    from provisioner.stack.rows import MatrixFile

    file = decode(text, source, MatrixFile, MatrixError, strict=True)
    sections = {
        name: {
            "form": form(section.row),
            "rows": [[encode(getattr(row, field.name)) for field in dataclasses.fields(row)] for row in getattr(file, name)],
        }
        for name, section in SECTIONS.items()
    }
    return json.dumps({"collected": file.collected, "sections": sections}, ensure_ascii=False, separators=(",", ":"))


def form(row: type[Any]) -> str:
    """The fields of a row's class with their types. A compiled form of other classes than ours is not ours."""
    return "; ".join(f"{field.name}: {field.type}" for field in dataclasses.fields(row))


def matrix_of(compiled: dict[str, Any], sha256: str) -> Matrix:
    """The matrix in a compiled form; ValueError when it was made for other row classes."""
    sections = compiled["sections"]
    if sections.keys() != SECTIONS.keys() or any(sections[name]["form"] != form(SECTIONS[name].row) for name in SECTIONS):
        raise ValueError("compiled by another version of the tool")
    makers = {name: functools.partial(_revive, section.row, sections[name]["rows"]) for name, section in SECTIONS.items()}
    return Matrix(collected=compiled["collected"], sha256=sha256, sections=makers)


def _revive(row: type[Any], plain: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    fields = dataclasses.fields(row)
    # Only the fields that need work are touched, by their place.
    columns = [(at, make) for at, field in enumerate(fields) if (make := _REVIVE.get(str(field.type))) is not None]
    # The rows were checked when the text was compiled, so their slots are filled without the way through `__init__`.
    fill = [getattr(row, field.name).__set__ for field in fields]
    values = []
    for line in plain:
        entries = list(line)
        for at, make in columns:
            entries[at] = make(entries[at])
        made = object.__new__(row)
        for put, entry in zip(fill, entries, strict=True):
            put(made, entry)
        values.append(made)
    return tuple(values)


def _read(path: Path, sha256: str) -> Matrix | None:
    try:
        return matrix_of(json.loads(path.read_bytes()), sha256)
    except (OSError, ValueError, KeyError, TypeError):  # not there, cut short, or of another version: it is made again
        return None


def _keep(path: Path, compiled: str) -> None:
    """Write the whole file or none of it; a cache that cannot be written costs time, nothing else."""
    import tempfile

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".compat_matrix.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(compiled)
            Path(temporary).replace(path)
        except OSError:
            Path(temporary).unlink()
    except OSError:
        return
