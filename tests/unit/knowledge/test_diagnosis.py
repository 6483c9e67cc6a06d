"""Signatures, numbers, streams: what is recognised, what is not, and that hostile text costs little."""

from __future__ import annotations

import gzip
import json
import re
import time
import tracemalloc
from typing import TYPE_CHECKING, Literal

import pytest

from provisioner.cli import run
from provisioner.knowledge.diagnosis import findings_of
from provisioner.knowledge.matcher import Scan
from provisioner.knowledge.registry import registry
from provisioner.knowledge.signatures import SHORTEST_KEY, keys, numbers, signatures

if TYPE_CHECKING:
    from pathlib import Path

PATTERNS = sorted({pattern for row in signatures().values() for pattern in row.patterns()})


def _ids(text: str) -> list[str]:
    scan = Scan()
    scan.feed(text)
    return [entry.id for entry in findings_of(scan)]


@pytest.mark.parametrize(
    ("table", "kind", "line"),
    [
        ("xids", "xid", "[ 12.3] NVRM: Xid (PCI:0000:3b:00): {}, pid=1, name=python, x"),
        ("sxids", "sxid", "nvidia-nvswitch0: SXid (PCI:0000:c5:00.0): {}, Non-fatal, Link 32"),
        ("cuda_errors", "cuda-error", "RuntimeError: cuda runtime error ({}) : x"),
        ("nvml_errors", "nvml-error", "nvml error: {}"),
    ],
)
def test_every_number_of_the_facts_answers(
    table: Literal["xids", "sxids", "cuda_errors", "nvml_errors"], kind: str, line: str
) -> None:
    rows, source = numbers(table)
    assert source
    assert len(rows) == {"xids": 172, "sxids": 93, "cuda_errors": 138, "nvml_errors": 32}[table]
    for code in rows:
        found = _ids(line.format(code))
        causes = {row.id for row in signatures().values() if row.accounts_for(f"{kind}-{code}")}
        assert found, code
        assert found[0].startswith(f"{kind}-{code}") or found[0] in causes, (code, found)


@pytest.mark.parametrize("table", ["cuda_errors", "nvml_errors"])
def test_every_name_of_the_facts_answers(table: Literal["cuda_errors", "nvml_errors"]) -> None:
    for row in numbers(table)[0].values():
        assert _ids(f"failed with {row.name} at x.cu:1"), row.name


def test_a_number_that_is_not_in_the_data_is_never_ok() -> None:
    assert _ids("NVRM: Xid (PCI:0000:3b:00): 9999, pid=1") == ["xid-not-in-data"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_cannot_backtrack(pattern: str) -> None:
    assert min(map(len, keys(pattern))) >= SHORTEST_KEY, "nothing plain to look for"
    assert not re.search(r"[*+}]\)[*+{]", pattern), "a repetition inside a repetition"
    compiled = re.compile(pattern)
    for filler in ("a" * 2000, " " * 2000, "0" * 2000, "".join(keys(pattern)) * 60):
        began = time.process_time()
        compiled.search(filler[:2000])
        assert time.process_time() - began < 0.2


def test_rows_that_two_files_hold_agree() -> None:
    for id_, row in signatures().items():
        other = registry().get(id_)
        assert other is None or other.severity == row.severity, id_


def test_what_a_row_explains_exists() -> None:
    for row in signatures().values():
        for name in row.explains:
            assert name in signatures() or name.startswith(("xid-", "cuda-error-", "nvml-error-")), (row.id, name)
        assert row.benign or row.remedies, row.id


def test_the_cause_comes_first_and_what_follows_is_information() -> None:
    scan = Scan()
    scan.feed("Unable to determine the device handle for GPU0000:01:00.0: Unknown Error\nGPU has fallen off the bus\n")
    first, second = findings_of(scan)
    assert (first.id, first.severity, second.severity) == ("xid-79-off-bus", "error", "info")
    assert second.message.startswith("follows from xid-79-off-bus")


def test_escapes_and_carriage_returns_hide_nothing() -> None:
    assert _ids("\x1b[31mCUDA out of \x1b[0mmemory\r\n") == ["out-of-gpu-memory"]


def _json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, object]]:
    code = run(["diagnose", *arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "train.log"
    log.write_text("epoch 1\nRuntimeError: CUDA error: device-side assert triggered\n")
    code, answer = _json(capsys, str(log))
    assert (code, answer["verdict"]) == (7, "fault")
    assert answer["findings"][0]["id"] == "device-side-assert"  # type: ignore[index]
    assert answer["findings"][0]["evidence"][0]["line"] == 2  # type: ignore[index]
    assert run(["diagnose", str(log)]) == 7
    assert "does not help: reinstall the driver" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "hello\n", "a" * 3_000_000])
def test_nothing_recognised_is_unknown(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "x.log"
    log.write_text(text)
    assert _json(capsys, str(log))[0] == 8


def test_gzip_is_read_and_a_bomb_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("provisioner.flows.diagnosing._UNPACKED", 4 << 20)
    report = tmp_path / "nvidia-bug-report.log.gz"
    report.write_bytes(gzip.compress(b"x\n" * 1000 + b"NVRM: Xid (PCI:0000:3b:00): 48, pid=1\n"))
    assert _json(capsys, str(report))[1]["verdict"] == "fault"
    for raw in (gzip.compress(b"\0" * (8 << 20)), gzip.compress(gzip.compress(b"x")), b"\x1f\x8bjunk", b"PK\x03\x04"):
        report.write_bytes(raw)
        assert run(["diagnose", str(report)]) == 3
    assert "zip archive" in capsys.readouterr().err


def test_memory_is_flat_over_many_lines() -> None:
    block = "NVRM: Xid (PCI:0000:3b:00): 31, pid=1, name=python\n" * 2000
    scan = Scan()
    scan.feed(block)
    tracemalloc.start()
    for _ in range(10):
        scan.feed(block)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000
    assert scan.lines == 22_000


def test_a_healthy_nvidia_smi_is_ok(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "smi.txt"
    log.write_text("GPU 0: Tesla V100-SXM2-32GB (UUID: GPU-aaaa)\n")
    assert _json(capsys, str(log))[0] == 0


_BLACKWELL = """GPU 0: NVIDIA GeForce RTX 5090 (UUID: GPU-aaaa)
Driver Version: {driver}
torch                     {build}
"""


def test_facts_in_the_text_go_through_the_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "paste.txt"
    log.write_text(_BLACKWELL.format(driver="575.57.08", build="2.6.0+cu124"))
    code, answer = _json(capsys, str(log))
    assert code == 7
    assert answer["findings"][0]["id"] == "arch-not-in-build"  # type: ignore[index]
    log.write_text(_BLACKWELL.format(driver="575.57.08", build="2.7.1+cu128"))
    assert _json(capsys, str(log))[0] == 0
