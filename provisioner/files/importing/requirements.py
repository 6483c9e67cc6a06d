"""requirements.txt, as pip reads it: requirements, hashes, continued lines, and the options that name indexes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from provisioner.files.importing.found import Notes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provisioner.files.importing.found import Found

_INDEX = {"-i", "--index-url", "--extra-index-url"}
#: Options that say how pip works, and nothing of what is wanted.
_QUIET = {"--pre", "--prefer-binary", "--require-hashes", "--no-index", "--trusted-host", "--use-feature", "--only-binary"}


def read(file: str, text: str) -> Found:
    """What the file asks for."""
    notes = Notes(file, text)
    for number, line in _lines(text):
        if line.startswith("-"):
            _option(line, number, notes)
        else:
            notes.requirement(re.sub(r"\s--(?:hash|config-settings?|global-option)[= ]\S+", "", line), number)
    return notes.found()


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines without comments, continued ones as one, each with the number of its first."""
    whole, first = "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = re.sub(r"(^|\s)#.*$", "", raw).rstrip()
        first = first or number
        if line.endswith("\\"):
            whole += line[:-1] + " "
            continue
        whole = (whole + line).strip()
        if whole:
            yield first, whole
        whole, first = "", 0
    if whole.strip():
        yield first, whole.strip()


def _option(line: str, number: int, notes: Notes) -> None:
    name, _, rest = line.replace("=", " ", 1).partition(" ") if line.startswith("--") else line.partition(" ")
    rest = rest.strip()
    if name in _INDEX:
        notes.index(rest, number)
    elif name in {"-r", "--requirement", "-c", "--constraint"}:
        notes.say(f"{rest} is not read from here: name it too", number)
    elif name in {"-f", "--find-links"}:
        notes.index(rest, number)
    elif name in {"-e", "--editable"}:
        notes.say(f"{rest} is a project of its own: set project: to its folder", number)
    elif name not in _QUIET:
        notes.say(f"the option {name} is not known here", number)
