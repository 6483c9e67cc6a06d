"""diagnose: pasted text and logs, read in blocks, become findings with the likeliest cause first."""

from __future__ import annotations

import codecs
import gzip
import re
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from provisioner.errors import DataError
from provisioner.report.answer import Answer
from provisioner.values import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from provisioner.findings import Finding

_BLOCK = 1 << 20  # bytes that are read at once, and the longest line
_UNPACKED = 512 << 20  # bytes that an archive may unpack to; a bug report of a large machine has some 50 MB
_HEAD = 256 << 10  # characters in which GPUs and driver are looked for
_MAGIC = b"\x1f\x8b"
#: A GPU build of torch as pip list, pip freeze, collect_env and a prompt name it.
_TORCH = re.compile(r"\b(?:torch(?:==| +)|PyTorch version: *)(\d{1,2}\.\d{1,3}(?:\.\d{1,3})?)\+(cu\d{2,3})\b")


def diagnose(files: Sequence[Path]) -> Answer:
    """What the files say (`-` and none: standard input). DataError for a file that cannot be read or unpacked."""
    from provisioner.findings import verdict_of
    from provisioner.knowledge.diagnosis import findings_of, wrong_answers
    from provisioner.knowledge.matcher import Scan

    scan, head = Scan(), ""
    for path in files or (Path("-"),):
        scan.lines = 0
        name = "standard input" if str(path) == "-" else str(path)
        for block in _blocks(path, name):
            scan.feed(block, name)
            if len(head) < _HEAD:
                head += block[: _HEAD - len(head)]
    found = findings_of(scan)
    known = {entry.id for entry in found}
    found = (
        tuple(entry for entry in found if entry.severity != "info")
        + tuple(entry for entry in _refused(head) if entry.id not in known)
        + tuple(entry for entry in found if entry.severity == "info")
    )
    found = found or _healthy(head)
    causes = [entry for entry in found if entry.severity != "info"]
    ask = list(dict.fromkeys(command for entry in causes for command in entry.ask)) if len(causes) > 1 else []
    return Answer(
        verdict=verdict_of(found) if found else "unknown",
        findings=found,
        fields={"ask": ask, "wrong_answers": wrong_answers(found)},
    )


def diagnose_text(answer: Answer) -> str:
    """The answer for a terminal."""
    from provisioner.report.text import findings

    if not answer.findings:
        return (
            "unknown: nothing in this text is recognised, which does not mean that it is healthy.\n"
            "  * paste more: the whole output with its command, nvidia-smi, sudo dmesg | grep -iE 'nvrm|xid'\n"
        )
    shown = findings(answer.findings)
    wrong = answer.fields["wrong_answers"].get(answer.findings[0].id, [])
    if wrong:
        shown += f"does not help: {'; '.join(wrong)}\n"
    return shown


def _refused(head: str) -> tuple[Finding, ...]:
    """What the resolver's rules say where a GPU, its driver and a build of torch stand in the text; nothing where they fit."""
    from provisioner.facts import gpus_from_nvidia_smi

    gpus, driver, _ = gpus_from_nvidia_smi(head)
    builds = set(_TORCH.findall(head))
    names = tuple(dict.fromkeys(gpu.name for gpu in gpus))
    if not names or not driver or len(builds) != 1 or any(name.endswith("...") for name in names):
        return ()
    from provisioner.flows.answers import decision_findings
    from provisioner.stack.compiled import shipped_matrix
    from provisioner.stack.request import Request
    from provisioner.stack.resolve import decide

    ((version, variant),) = builds
    decision = decide(Request(gpus=names, driver=driver, packages=(f"torch=={version}",), variant=variant), shipped_matrix())
    if decision.verdict != "conflict":
        return ()
    return tuple(entry for entry in decision_findings(decision) if entry.severity == "error")


def _healthy(head: str) -> tuple[Finding, ...]:
    """An output of nvidia-smi in which nothing is wrong is recognised, and says so."""
    from provisioner.facts import gpus_from_nvidia_smi
    from provisioner.findings import Finding

    gpus, driver, _ = gpus_from_nvidia_smi(head)
    if not gpus:
        return ()
    names = ", ".join(dict.fromkeys(gpu.name for gpu in gpus))
    message = f"nvidia-smi reports {len(gpus)} GPU(s): {names}; driver {driver or 'not named'}; no fault shows"
    return (Finding(id="gpus-reported", severity="info", message=message),)


def _blocks(path: Path, name: str) -> Iterator[str]:
    """Blocks of whole lines. Text that is not UTF-8 is read with marks in place of what cannot be read."""
    try:
        if str(path) == "-":
            yield from _decoded(sys.stdin.buffer, name)
            return
        with path.open("rb") as stream:
            yield from _decoded(stream, name)
    except OSError as failure:
        raise DataError([Problem(file=name, message=(failure.strerror or str(failure)).lower())]) from failure


def _decoded(stream: BinaryIO, name: str) -> Iterator[str]:
    chunks = _bytes(stream, name)
    first = next(chunks, b"")
    encoding = "utf-16" if first[:2] in {b"\xff\xfe", b"\xfe\xff"} else "utf-8-sig"
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    rest = decoder.decode(first)
    for chunk in chunks:
        whole, feed, rest = rest.rpartition("\n")
        if whole or feed:
            yield whole + feed
        elif len(rest) > _BLOCK:  # a line without an end
            yield rest + "\n"
            rest = ""
        rest += decoder.decode(chunk)
    rest += decoder.decode(b"", final=True)
    if rest:
        yield rest if rest.endswith("\n") else rest + "\n"


def _bytes(stream: BinaryIO, name: str) -> Iterator[bytes]:
    """The bytes of a text, unpacked where it is gzip, and never without end."""
    first = stream.read(_BLOCK)
    if first[:4] == b"PK\x03\x04":
        raise DataError([Problem(file=name, message="a zip archive: unpack it and give the text files in it")])
    if first[:2] != _MAGIC:
        while first:
            yield first
            first = stream.read(_BLOCK)
        return
    with gzip.GzipFile(fileobj=cast("BinaryIO", _Joined(first, stream))) as packed:
        total = 0
        try:
            while chunk := packed.read(_BLOCK):
                if not total and chunk[:2] == _MAGIC:
                    raise DataError([Problem(file=name, message="gzip inside gzip: unpack it once, and give what is in it")])
                total += len(chunk)
                if total > _UNPACKED:
                    message = f"unpacks to more than {_UNPACKED >> 20} MB, which no bug report does: give the part that matters"
                    raise DataError([Problem(file=name, message=message)])
                yield chunk
        except (EOFError, zlib.error, gzip.BadGzipFile) as failure:
            raise DataError([Problem(file=name, message=f"not a whole gzip file: {failure}")]) from failure


class _Joined:
    """A stream whose first bytes have been read already."""

    def __init__(self, first: bytes, rest: BinaryIO) -> None:
        self._first, self._rest = first, rest

    def read(self, size: int = -1) -> bytes:
        """The next bytes, as of a file."""
        if self._first:
            size = len(self._first) if size < 0 else size
            taken, self._first = self._first[:size], self._first[size:]
            return taken
        return self._rest.read(size)
