"""The rows of signatures.yaml and of the tables of numbers: what programs print, what it means, what helps.

Nothing here is loaded by a verb that does not read program output: `diagnose` asks for it.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from provisioner.decode import load
from provisioner.findings import Layer, Remedy, Severity
from provisioner.values import value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: The shortest run of plain characters by which a pattern is looked for before its expression is tried.
SHORTEST_KEY = 3


@value
class SignatureRow:
    """One cause and the ways in which it shows. Of a way every pattern must be seen, and none of `unless` in the whole text."""

    id: str
    layer: Layer
    severity: Severity
    says: str
    seen: tuple[tuple[str, ...], ...]
    unless: tuple[str, ...] = ()
    explains: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()  # in order of cost; commands stand between backticks
    wrong_answers: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    benign: bool = False
    source: str

    def patterns(self) -> Iterator[str]:
        """Every pattern of the row."""
        for way in self.seen:
            yield from way
        yield from self.unless

    def help(self) -> tuple[Remedy, ...]:
        """The remedies, with the commands taken out of their texts."""
        return tuple(remedy(text) for text in self.remedies)

    def accounts_for(self, id_: str) -> bool:
        """Whether the finding `id_` is a consequence of this cause."""
        return any(id_ == name or (name.endswith("*") and id_.startswith(name[:-1])) for name in self.explains)


@value
class SignaturesFile:
    """signatures.yaml."""

    format: Literal[1]
    signatures: tuple[SignatureRow, ...]


@value
class NumberRow:
    """One number that a driver or a library can print. `kind` says whose fault it is, `then` what to do when it comes again."""

    code: int
    name: str
    kind: str = ""
    says: str = ""
    action: str = ""
    then: str = ""


@value
class NumbersFile:
    """xids.yaml, sxids.yaml, cuda_errors.yaml, nvml_errors.yaml."""

    format: Literal[1]
    source: str
    rows: tuple[NumberRow, ...]


@functools.cache
def signatures() -> Mapping[str, SignatureRow]:
    """Every row by its id, in the order of the file. DataError when the shipped file is wrong, which a test excludes."""
    return {row.id: row for row in load(_file("signatures"), SignaturesFile).signatures}


@functools.cache
def numbers(table: Literal["xids", "sxids", "cuda_errors", "nvml_errors"]) -> tuple[Mapping[int, NumberRow], str]:
    """The rows of one table by their number, and the document that they come from."""
    file = load(_file(table), NumbersFile)
    return {row.code: row for row in file.rows}, file.source


def _file(name: str) -> Path:
    return Path(__file__).with_name(f"{name}.yaml")


def remedy(text: str) -> Remedy:
    """A remedy whose text holds its commands between backticks."""
    commands = tuple(re.findall(r"`([^`]+)`", text))
    return Remedy(text=text.replace("`", ""), commands=commands)


def keys(pattern: str) -> tuple[str, ...]:
    """For each alternative of `pattern` the longest run of plain characters that every match holds; "" where there is none."""
    return tuple(max(_runs(alternative), key=len, default="") for alternative in _alternatives(pattern))


def _tokens(pattern: str) -> Iterator[tuple[str, int]]:
    """The pattern's pieces (a character, an escape, a class) with the depth of groups they stand at."""
    depth = 0
    for piece in re.findall(r"\\.|\[\^?\]?(?:\\.|[^\]])*\]|\{\d*,?\d*\}|.", pattern):
        if piece == ")":
            depth -= 1
        yield piece, depth
        if piece == "(":
            depth += 1


def _alternatives(pattern: str) -> list[str]:
    parts = [""]
    for piece, depth in _tokens(pattern):
        if piece == "|" and depth == 0:
            parts.append("")
        else:
            parts[-1] += piece
    return parts


def _runs(pattern: str) -> Iterator[str]:
    run = ""
    for piece, depth in _tokens(pattern):
        plain = piece[1] if len(piece) == 2 and piece[0] == "\\" and not piece[1].isalnum() else piece  # noqa: PLR2004 - an escape
        if depth or piece in {"(", ")"}:
            yield run
            run = ""
        elif piece[0] in "*?{" and len(piece) != 2:  # noqa: PLR2004 - an escape is plain
            yield run[:-1]  # what may be missing is no part of the key
            run = ""
        elif (len(piece) > 1 and plain == piece) or piece in {".", "^", "$", "+"}:
            yield run
            run = ""
        else:
            run += plain
    yield run
