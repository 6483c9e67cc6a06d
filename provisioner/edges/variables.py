"""Environment variables for a command on a host, given over its standard input: no process list shows them, as it shows argv."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def with_variables(argv: tuple[str, ...], stdin: bytes, variables: Mapping[str, str]) -> tuple[tuple[str, ...], bytes]:
    """`argv` and its input, changed so that it runs with `variables` (names of ours, any text without NUL) in its environment."""
    if not variables:
        return argv, stdin
    contents = {name: text.encode() for name, text in variables.items()}
    # dd with bs=1 takes exactly its bytes from the pipe and leaves the rest, the real input, to the program
    reads = [f"{name}=$(dd bs=1 count={len(content)} 2>/dev/null); export {name}" for name, content in contents.items()]
    return ("sh", "-c", "; ".join([*reads, 'exec "$@"']), "sh", *argv), b"".join([*contents.values(), stdin])
