"""Files that projects have → a request: one reader a format. What is not understood is said with its place, not guessed.

A file is known by its name: requirements*.txt, pyproject.toml, uv.lock, pixi.toml, environment.yml, Dockerfile.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath

from provisioner.errors import UsageError
from provisioner.files.importing import conda, dockerfile, pyproject, requirements, uv_lock
from provisioner.files.importing.found import Found, Said
from provisioner.files.importing.joined import Imported, joined

__all__ = ["FORMATS", "Imported", "Said", "imported", "reader_of"]

Reader = Callable[[str, str], Found]

#: The form of a file's name, what people call the format, and its reader.
FORMATS: Mapping[str, tuple[str, Reader]] = {
    r"pyproject\.toml": ("pyproject.toml", pyproject.read),
    r"uv\.lock": ("uv.lock", uv_lock.read),
    r"pixi\.toml": ("pixi.toml", conda.read_pixi),
    r"(?:.*[-_.])?(?:environment|conda|env).*\.ya?ml": ("environment.yml", conda.read_environment),
    r"(?:.*\.)?(?:Dockerfile|Containerfile)(?:\..*)?": ("Dockerfile", dockerfile.read),
    r".*(?:requirements|constraints).*\.(?:txt|in)|.*\.txt": ("requirements.txt", requirements.read),
}


def reader_of(name: str) -> Reader:
    """The reader for a file of this name; UsageError when there is none."""
    base = PurePath(name).name
    for form, (_, reader) in FORMATS.items():
        if re.fullmatch(form, base, re.IGNORECASE):
            return reader
    known = ", ".join(what for what, _ in FORMATS.values())
    raise UsageError(f"{name}: nothing here reads a file of this name", hint=f"these are read: {known}")


def imported(files: Sequence[tuple[str, str]]) -> Imported:
    """The request that `files` (name, text) make together, and what could not be taken over.

    UsageError for a file that no reader knows; RequestError with every place where one cannot be read at all.
    """
    return joined([reader_of(name)(name, text) for name, text in files])
