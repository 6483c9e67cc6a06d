"""`provisioner up` with nothing named: the shipped example on the shipped recording, and nothing pretended."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from provisioner.cli import run
from provisioner.resources import resource

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLE = resource("examples", "request.yaml").read_text()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site whose index nobody answers at, so that no test asks the network; uv is told not to try again for seconds."""
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    path = tmp_path / "site.yaml"
    path.write_text('format: 1\nindexes: {pypi: "http://127.0.0.1:9/simple/", "pytorch/*": "http://127.0.0.1:9/*/"}\n')
    return path


def _up(tmp_path: Path, site: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    code = run(["up", *arguments, "--site", str(site), "--to", str(tmp_path / "out")])
    answer: dict[str, Any] = json.loads((tmp_path / "out" / "report.json").read_text())
    return code, answer


def test_the_example_says_that_its_host_is_a_recording(tmp_path: Path, site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = _up(tmp_path, site)
    assert code == 0
    statuses = {stage["name"]: stage["status"] for stage in answer["stages"]}
    assert statuses == {
        "probe": "replayed",
        "resolve": "passed",
        "lock": "passed",
        "render": "passed",
        "plan": "replayed",
        "build": "skipped",
        "test": "skipped",
    }
    assert "recording" in capsys.readouterr().err.splitlines()[0]
    assert "recording" in (tmp_path / "out" / "report.md").read_text().splitlines()[4]
    names = {path.name for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert {
        "Dockerfile",
        "requirements.txt",
        "job.sbatch",
        "host-setup.sh",
        "stack.lock.yaml",
        "report.md",
        "report.json",
    } <= names
    assert answer["hosts"][0]["plan"].startswith("Plan for")


def test_an_index_that_does_not_answer_is_said_and_pins_nothing(tmp_path: Path, site: Path) -> None:
    _, answer = _up(tmp_path, site)
    (lock,) = [stage for stage in answer["stages"] if stage["name"] == "lock"]
    assert "not pinned" in lock["says"][0]
    assert "--require-hashes" not in (tmp_path / "out" / "Dockerfile").read_text()


def test_another_gpu_changes_the_build_in_the_dockerfile(tmp_path: Path, site: Path) -> None:
    request = tmp_path / "request.yaml"
    request.write_text(EXAMPLE.replace("NVIDIA GeForce RTX 5090", "Tesla V100-SXM2-32GB"))
    _, first = _up(tmp_path / "a", site)
    code, second = _up(tmp_path / "b", site, str(request))
    assert code == 0
    assert first["stack"]["variant"] != second["stack"]["variant"]
    one, other = ((tmp_path / name / "out" / "Dockerfile").read_text() for name in "ab")
    assert f'variant="{first["stack"]["variant"]}"' in one
    assert f'variant="{second["stack"]["variant"]}"' in other
    assert second["stages"][0]["status"] == "skipped", "a recording never stands in for a host that was meant"


def test_facts_of_a_host_fill_what_the_request_leaves_free(tmp_path: Path, site: Path) -> None:
    from provisioner.flows.up import RECORDING

    request = tmp_path / "request.yaml"
    request.write_text("format: 1\npackages: [torch==2.14.1]\npython: '3.12'\n")
    code, answer = _up(tmp_path, site, str(request), "--on", f"replay:{RECORDING}")
    assert code == 0
    assert answer["stack"]["gpus"] == ["NVIDIA GeForce RTX 5090"]
    assert answer["stack"]["driver"] == "580.95.05"


def test_a_host_with_another_gpu_is_said(tmp_path: Path, site: Path) -> None:
    from provisioner.flows.up import RECORDING

    request = tmp_path / "request.yaml"
    request.write_text(EXAMPLE.replace("NVIDIA GeForce RTX 5090", "NVIDIA H100 80GB HBM3"))
    _, answer = _up(tmp_path, site, str(request), "--on", f"replay:{RECORDING}")
    assert any(finding["id"] == "host-differs-from-request" for finding in answer["findings"])


def test_a_request_that_nothing_satisfies_ends_the_line_with_its_reason(tmp_path: Path, site: Path) -> None:
    request = tmp_path / "request.yaml"
    request.write_text("format: 1\ngpus: [v100]\ndriver: 580.95.05\npackages: [torch==2.9.1]\nvariant: cu130\n")
    code, answer = _up(tmp_path, site, str(request))
    assert code == 4
    statuses = {stage["name"]: stage["status"] for stage in answer["stages"]}
    assert (statuses["resolve"], statuses["render"]) == ("failed", "not-run")
    assert answer["findings"][0]["id"] == "arch-dropped-by-cuda-major"
    assert not (tmp_path / "out" / "Dockerfile").exists()


def test_the_report_is_kept_and_shown_again(tmp_path: Path, site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, answer = _up(tmp_path, site)
    capsys.readouterr()
    assert run(["report"]) == 0
    assert answer["run"] in capsys.readouterr().out
    assert run(["report", answer["run"], "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == answer
    assert run(["report", "nope"]) == 2
