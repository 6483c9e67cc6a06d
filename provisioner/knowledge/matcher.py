"""One pass over program output: which signatures and which numbers stand in it, with the first lines that show them.

Lines come in blocks of whole lines. A pattern is tried on a line only where its plain characters stand in the block, and no more
once it has been seen often enough, so a long log costs little more than a search for fixed words, and memory stays flat.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from provisioner.findings import Evidence
from provisioner.knowledge.signatures import keys, signatures

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from provisioner.knowledge.signatures import SignatureRow

#: Evidence that is kept of one pattern or one number.
KEPT = 3
_LONGEST = 2000  # characters of a line that are looked at; a longer one is a progress bar or a dump
_SHOWN = 300  # characters of a line that are shown
_GPUS = 64  # different GPUs that are counted for one number

#: Escape sequences, and control characters but tab and line feed: what a terminal was told is not what a program said.
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[\x00-\x08\x0b-\x1f\x7f]")

#: Kind of number → the words by which a line with one is found, and the forms in which it stands.
_NUMBERS: Mapping[str, tuple[tuple[str, ...], re.Pattern[str]]] = {
    "xid": (
        ("Xid", "XID"),
        re.compile(
            r"\bXid \((?:PCI:)?(?P<gpu>[0-9a-fA-F:.]{4,20})[^)]{0,20}\): (?P<code>\d{1,4})\b"
            r"|\bX[iI][dD](?:=|:| [Ee]rrors?:?| [Cc]ode:?| [Nn]umber:?)? ?(?P<number>\d{1,4})\b"
        ),
    ),
    "sxid": (
        ("SXid",),
        re.compile(
            r"\bSXid \((?:PCI:)?(?P<gpu>[0-9a-fA-F:.]{4,20})\): (?P<code>\d{1,6})\b"
            r"|\bSXid(?:=|:)? ?(?P<number>\d{1,6})\b"
        ),
    ),
    "cuda-error": (
        ("cuda", "CUDA", "Error "),
        re.compile(
            r"\b(?P<name>cuda(?:Error[A-Z]\w{2,60}|Success)|CUDA_ERROR_[A-Z_]{3,60})\b"
            r"|\b(?:CUDA|cuda)(?: runtime| driver)? [Ee]rror:? \(?(?P<code>\d{1,3})\b"
            r"|\bcuda[A-Z]\w{2,60} returned (?P<number>\d{1,3})\b"
            r"|\bError (?P<other>\d{3}): [a-z]"
        ),
    ),
    "nvml-error": (
        ("NVML", "nvml"),
        re.compile(
            r"\b(?P<name>NVML_(?:ERROR_[A-Z_]{3,60}|SUCCESS))\b"
            r"|\b(?:nvml|NVML)(?:[A-Z]\w{2,60})?:? (?:[Ee]rror|returned|return code)(?: code)?:? \(?(?P<code>\d{1,3})\b"
        ),
    ),
}


@dataclass
class Sighting:
    """How often something was seen, where first, and on which GPUs."""

    count: int = 0
    evidence: list[Evidence] = field(default_factory=list)
    gpus: set[str] = field(default_factory=set)

    def note(self, file: str, line: int, text: str, gpu: str | None = None) -> None:
        """Count one more; keep the first few lines that differ."""
        self.count += 1
        shown = text.strip()[:_SHOWN]
        if len(self.evidence) < KEPT and all(kept.text != shown for kept in self.evidence):
            self.evidence.append(Evidence(file=file, line=line, text=shown))
        if gpu and len(self.gpus) < _GPUS:
            self.gpus.add(gpu)


@dataclass
class Match:
    """A signature that stands in the text, with the way that was seen: the more patterns, the more certain."""

    row: SignatureRow
    certainty: int
    evidence: tuple[Evidence, ...]


class Scan:
    """What was seen so far. Feed it blocks of whole lines, then ask for `matches` and `numbers`."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[str, str], Sighting] = {}
        self.lines = 0
        self._seen: dict[str, Sighting] = {}
        self._open = {key: list(patterns) for key, patterns in _index().items()}

    def feed(self, block: str, file: str = "") -> None:
        """Look at one block of whole lines."""
        if "\x1b" in block or "\r" in block or "\x00" in block:
            block = _ESCAPES.sub("", block)
        for key in [key for key in self._open if key in block]:
            self._look(key, block, file)
        for kind, (words, pattern) in _NUMBERS.items():
            for word in words:
                for line, text in _lines_with(word, block):
                    self._count(kind, pattern, text, file, self.lines + line)
        self.lines += block.count("\n")

    def _look(self, key: str, block: str, file: str) -> None:
        waiting = self._open[key]
        for line, text in _lines_with(key, block):
            for pattern in [pattern for pattern in waiting if _compiled(pattern).search(text)]:
                sighting = self._seen.setdefault(pattern, Sighting())
                sighting.note(file, self.lines + line, text)
                if sighting.count >= KEPT:
                    waiting.remove(pattern)
            if not waiting:
                del self._open[key]
                return

    def _count(self, kind: str, pattern: re.Pattern[str], text: str, file: str, line: int) -> None:
        for found in pattern.finditer(text):
            groups = found.groupdict()
            said = next(groups[name] for name in ("code", "number", "other", "name") if groups.get(name))
            self.numbers.setdefault((kind, said), Sighting()).note(file, line, text, groups.get("gpu"))

    def matches(self) -> tuple[Match, ...]:
        """The signatures that stand in the text, each in the way with the most patterns."""
        found = []
        for row in signatures().values():
            if any(pattern in self._seen for pattern in row.unless):
                continue
            ways = [way for way in row.seen if all(pattern in self._seen for pattern in way)]
            if ways:
                best = max(ways, key=len)
                lines = [sight for way in ways for pattern in way for sight in self._seen[pattern].evidence]
                evidence = tuple(dict.fromkeys(sorted(lines, key=lambda seen: (seen.file, seen.line))))
                found.append(Match(row=row, certainty=len(best), evidence=evidence[: KEPT * 2]))
        return tuple(found)


def _lines_with(key: str, block: str) -> Iterator[tuple[int, str]]:
    """Each line of `block` that holds `key`, with its number in the block from 1."""
    at = block.find(key) if key else -1
    line, counted = 1, 0
    while at >= 0:
        start = block.rfind("\n", 0, at) + 1
        end = block.find("\n", at)
        end = len(block) if end < 0 else end
        first = max(start, at - _LONGEST // 2)
        line += block.count("\n", counted, start)
        counted = start
        yield line, block[first : min(end, first + _LONGEST)]
        at = block.find(key, end)


@functools.cache
def _index() -> Mapping[str, tuple[str, ...]]:
    """Plain characters → the patterns that they announce."""
    found: dict[str, dict[str, None]] = {}
    for row in signatures().values():
        for pattern in row.patterns():
            for key in keys(pattern):
                found.setdefault(key, {})[pattern] = None
    return {key: tuple(patterns) for key, patterns in found.items()}


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
