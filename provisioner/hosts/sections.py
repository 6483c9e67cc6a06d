"""How the answers of a probe are told apart: sections between marked lines, the same on standard output and standard error.

`MARK begin fact/gpus -`, what the command printed, `MARK end fact/gpus 0`. The last word is the exit code, or why there is none.
A replay writes what a host would have written, so that both are read by the same code.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from provisioner.values import value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from provisioner.commands import Command, Completed

#: `$0` of the probe's program, by which a replay knows it.
PROBE = "provisioner-probe"
#: Instead of an exit code: it did not answer in its time; the probe had none left; root is needed; a recording lacks it, or
#: holds the answer to another check.
LATE, SKIPPED, ROOTLESS, MISSING, OTHER = "late", "skipped", "rootless", "missing", "other"
#: Why a section of a recording is unseen.
NOT_RECORDED = "not in this recording"
OTHER_GOAL = "recorded for another goal"

_ENDS = frozenset({"-", LATE, SKIPPED, ROOTLESS, MISSING, OTHER})
_WHERE_MARKER = 4  # sh -c PROGRAM PROBE MARKER NAME…


@value
class Section:
    """What one command printed, and its end: an exit code in digits, or one of the words above."""

    name: str
    end: str
    stdout: str = ""
    stderr: str = ""


def join(marker: str, sections: Iterable[Section]) -> tuple[str, str]:
    """Sections as the two texts that the probe's program prints."""
    out: list[str] = []
    err: list[str] = []
    for section in sections:
        for stream, text in ((out, section.stdout), (err, section.stderr)):
            stream.append(f"\n{marker} begin {section.name} -\n{text}\n{marker} end {section.name} {section.end}\n")
    return "".join(out), "".join(err)


def split(marker: str, done: Completed) -> Mapping[str, Section]:
    """The sections by name. Of two with one name (as the user, then as root) the last counts; one without end is left out."""
    errors = {name: text for name, _, text in _framed(marker, done.stderr)}
    return {
        name: Section(name=name, end=end, stdout=text, stderr=errors.get(name, ""))
        for name, end, text in _framed(marker, done.stdout)
    }


def _framed(marker: str, text: str) -> Iterable[tuple[str, str, str]]:
    frame = re.compile(rf"\n?^{re.escape(marker)} (begin|end) (\S+) (-|[0-9]{{1,5}}|[a-z]+)$\n?", re.MULTILINE)
    name, start = "", 0
    for match in frame.finditer(text):
        if match[3] not in _ENDS and not match[3].isdecimal():
            continue
        if match[1] == "begin":
            name, start = match[2], match.end()
        else:
            yield match[2], match[3], text[start : match.start()] if match[2] == name else ""
            name = ""


def digest_of(argv: Sequence[str]) -> str:
    """What names the check of a step, so that a recording answers no other one: SHA-256 of its argv."""
    return hashlib.sha256("\0".join(argv).encode()).hexdigest()


def asked(command: Command) -> tuple[str, tuple[str, ...]] | None:
    """The marker and the names of the sections that a probe asks for, `step/ID=SHA256` for a check; None for another command."""
    argv = command.argv
    if argv[:2] != ("sh", "-c") or len(argv) <= _WHERE_MARKER or argv[3] != PROBE:
        return None
    return argv[_WHERE_MARKER], argv[_WHERE_MARKER + 1 :]
