"""The text form of the matrix: one section a kind, one row one line, sorted; the same rows give the same bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from provisioner.decode import encode
from provisioner.stack.gpus import Capability
from provisioner.stack.rows import SECTIONS, MatrixFile, key_of, order_of
from provisioner.versions import Range, Version

HEAD = """\
# The compatibility matrix: what fits together, and who says so. One row one line, with its sources and how far it is verified.
# tools/build_matrix.py writes this file from collected facts. To change single rows without it, use an overlay (--matrix).
"""

#: A text that YAML reads as this very text without quotes. What looks like a number, a date or true stays out.
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./+()-]*(?: [A-Za-z0-9_./+()-]+)*")
_WORDS = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}


OVERLAY_HEAD = """\
# Rows on top of the compatibility matrix that came with the tool: provisioner matrix refresh wrote them.
# Every verb reads them. Remove this file to be back at the shipped rows.
"""


def format_overlay(file: MatrixFile) -> str:
    """`file` as the text of an overlay: only the sections that have rows."""
    return _format(file, OVERLAY_HEAD, [name for name in SECTIONS if getattr(file, name)])


def format_matrix(file: MatrixFile) -> str:
    """`file` as text, its rows in order."""
    return _format(file, HEAD, SECTIONS)


def _format(file: MatrixFile, head: str, sections: Iterable[str]) -> str:
    lines = [head + "schema: 1", f"collected: {_quoted(file.collected)}"]
    for name in sections:
        rows = {key_of(name, row): row for row in getattr(file, name)}
        lines.append(f"\n{name}:" if rows else f"\n{name}: []")
        lines += [f"- {_flow_row(rows[key])}" for key in sorted(rows, key=order_of)]
    return "\n".join(lines) + "\n"


def _flow_row(row: object) -> str:
    plain: Mapping[str, object] = encode(row)
    return "{" + ", ".join(f"{name}: {_flow(getattr(row, name), entry)}" for name, entry in plain.items()) + "}"


def _flow(typed: object, plain: object) -> str:
    """One value; `typed` decides about quotes: versions and capabilities always have them."""
    if isinstance(typed, Version | Capability | Range):
        return _quoted(str(typed))
    if isinstance(typed, Mapping):
        return "{" + ", ".join(f"{_flow(key, key)}: {_flow(entry, entry)}" for key, entry in typed.items()) + "}"
    if isinstance(typed, tuple):
        return "[" + ", ".join(_flow(entry, entry) for entry in typed) + "]"
    if isinstance(plain, str):
        return plain if _PLAIN.fullmatch(plain) and plain.lower() not in _WORDS else _quoted(plain)
    return "null" if plain is None else str(plain).lower()  # true, false, or a number


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
