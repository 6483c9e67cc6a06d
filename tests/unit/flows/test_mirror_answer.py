"""What `mirror fetch` says when it has ended: what to type next, or why there is no site.yaml."""

from __future__ import annotations

from pathlib import Path

import pytest

from provisioner.cli import run
from provisioner.errors import LockError
from provisioner.files.mirror import Got
from provisioner.files.mirror_items import Item
from provisioner.files.site import Site
from provisioner.flows.mirror import fetch_answer, fetch_text
from provisioner.knowledge.registry import finding
from provisioner.report.answer import Answer
from provisioner.stack.compiled import shipped_matrix
from tests.unit.proof.fakes import lock

IMAGE = Item(kind="image", name="python", version="3.12-slim-bookworm", origin="registry")
LOCK, FOLDER = Path("my locks/h100.yaml"), Path("carried")


def test_the_next_commands_name_the_real_files() -> None:
    got = (Got(item=IMAGE, status="fetched", file="images/python-3.12-slim-bookworm.tar"),)
    said = fetch_text(Answer(verdict="ok", fields={"items": got, "site": "carried/site.yaml"}), LOCK, FOLDER)
    assert said.splitlines() == [
        "1 fetched, 0 already there, 0 failed",
        "next, where the image is built:",
        "  docker load --input carried/images/python-3.12-slim-bookworm.tar",
        "  provisioner render 'my locks/h100.yaml' --site carried/site.yaml --to image",
        "  provisioner build image --site carried/site.yaml",
        "  on another host: docker load there first, then add --on HOST to the last command",
    ]


def test_a_failure_says_that_no_site_was_written_and_names_no_next_command() -> None:
    got = (Got(item=IMAGE, status="failed", reason="no route", hint="check the network"),)
    said = fetch_text(Answer(verdict="fault", fields={"items": got, "site": None}), LOCK, FOLDER)
    assert "failed: python: no route" in said
    assert "carried/site.yaml was not written, because something is missing" in said
    assert "provisioner render" not in said


def test_packages_of_the_distribution_are_said_to_be_left_out() -> None:
    left_out = finding("mirror-without-apt", "not brought: the packages g++ of debian12")
    answer = Answer(verdict="ok", findings=(left_out,), fields={"items": (), "site": "carried/site.yaml"})
    assert "warning: not brought: the packages g++ of debian12" in fetch_text(answer, LOCK, FOLDER)


def test_a_lock_without_hashes_is_a_mistake_of_that_file_and_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(LockError, match=r"^my\.yaml: the lock has no hashes") as caught:
        fetch_answer(lock(), Site(), shipped_matrix(), tmp_path / "mirror", named="my.yaml")
    assert caught.value.hint
    assert caught.value.exit == 3
    assert not (tmp_path / "mirror").exists()


def test_the_list_of_a_real_lock_names_what_torch_compile_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    request = tmp_path / "request.yaml"
    request.write_text("format: 1\ngpus: [h100]\npackages: [torch==2.9.1]\noptions: {torch_compile: true}\n", encoding="utf-8")
    made = tmp_path / "stack.lock.yaml"
    assert run(["lock", "--offline", "--request", str(request), "-o", str(made)]) == 0
    capsys.readouterr()
    assert run(["mirror", "list", str(made)]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("apt")]
    assert [row[1] for row in rows] == ["g++", "gcc", "libc6-dev"]
    assert {row[-1] for row in rows} == {"debian13"}
