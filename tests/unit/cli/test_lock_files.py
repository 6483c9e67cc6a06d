"""lock, render and mirror on the command line: what is not done is said, with its exit code, and nothing half is left behind."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from provisioner.cli import run
from provisioner.files.pins import silent
from provisioner.flows import files
from provisioner.stack.lock import Pins

if TYPE_CHECKING:
    from pathlib import Path

V100 = ("torch==2.6.0", "--gpu", "v100", "--driver", "550.54.15")


@pytest.fixture
def no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index of the variant that does not answer."""
    monkeypatch.setattr(files, "_pins", lambda stack, *_: Pins(why_not=f"{silent(stack.index)}: Connection refused"))


@pytest.mark.usefixtures("no_index")
def test_hashes_that_cannot_be_had_are_no_success_and_no_lock(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "stack.lock.yaml"
    assert run(["lock", *V100, "--variant", "cu118", "--hashes", "-o", str(target)]) == 8
    said = capsys.readouterr().out
    assert not target.exists()
    assert "the packages are not pinned: the package index pytorch/cu118 does not answer: Connection refused" in said
    assert "reach the index pytorch/cu118, or give --site FILE with a mirror for it (indexes: {pytorch/cu118: https://" in said
    assert "take the build that the default index serves: --variant cu124 (torch 2.6.0)" in said
    assert "was not written" in said


@pytest.mark.usefixtures("no_index")
def test_the_answer_holds_the_finding_and_a_change_that_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lock = ("lock", *V100, "-o", str(tmp_path / "l.yaml"), "--json")
    assert run([*lock, "--variant", "cu118", "--hashes"]) == 8
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (answer["verdict"], answer["exit"], answer["file"]) == ("unknown", 8, None)
    [bare] = [entry for entry in answer["findings"] if entry["id"] == "packages-not-pinned"]
    [change] = [remedy["changes"] for remedy in bare["remedies"] if remedy["changes"]]
    assert run([*lock, "--variant", change["variant"]]) == 0
    assert json.loads(capsys.readouterr().out)["stack"]["index"] == "pypi"


@pytest.mark.usefixtures("no_index")
def test_a_default_index_that_does_not_answer_is_not_helped_by_another_build(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["lock", *V100, "--variant", "cu124", "--hashes", "-o", str(tmp_path / "l.yaml")]) == 8
    assert "--variant" not in capsys.readouterr().out


def test_hashes_and_offline_exclude_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lock", *V100, "--hashes", "--offline", "-o", str(tmp_path / "l.yaml")]) == 2
    assert "--hashes asks the package index, --offline forbids it" in capsys.readouterr().err


def test_only_sbatch_of_a_lock_without_jobs_says_why_there_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lock = tmp_path / "stack.lock.yaml"
    assert run(["lock", *V100, "--offline", "-o", str(lock)]) == 0
    capsys.readouterr()
    assert run(["render", str(lock), "--only", "sbatch", "--to", str(tmp_path / "out")]) == 0
    assert "no sbatch: the lock has no jobs; they stand in request.yaml" in capsys.readouterr().err
    assert run(["render", str(lock), "--to", str(tmp_path / "out")]) == 0
    assert "no sbatch" not in capsys.readouterr().err


def test_a_site_of_the_user_is_not_overwritten_by_a_mirror(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lock = tmp_path / "stack.lock.yaml"
    assert run(["lock", *V100, "--offline", "-o", str(lock)]) == 0
    (tmp_path / "site.yaml").write_text("format: 1\n", encoding="utf-8")
    assert run(["mirror", "fetch", str(lock), "--to", str(tmp_path)]) == 2
    assert "was not written by provisioner mirror" in capsys.readouterr().err
    assert run(["mirror", "fetch", str(lock), "--to", str(tmp_path), "--force"]) == 3
    assert f"{lock}: the lock has no hashes" in capsys.readouterr().err
    assert (tmp_path / "site.yaml").read_text(encoding="utf-8") == "format: 1\n"
