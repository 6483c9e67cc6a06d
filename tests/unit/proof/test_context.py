"""The build context: the same bytes for the same content, and nothing in it that was to stay out."""

from __future__ import annotations

import io
import os
import socket
import tarfile
from typing import TYPE_CHECKING

import pytest

from provisioner.errors import ProvisionerError, UsageError
from provisioner.files.tree import Tree, TreeFile, write_tree
from provisioner.proof import context
from provisioner.proof.context import pack

if TYPE_CHECKING:
    from pathlib import Path

IGNORE = """\
# as the template has it
*
!requirements.txt
!provisioner
!project
project/.git
project/.venv
**/__pycache__
**/.env
**/*.pem
"""
TREE = Tree(
    files={
        "Dockerfile": TreeFile(text="FROM base\n"),
        ".dockerignore": TreeFile(text=IGNORE),
        "requirements.txt": TreeFile(text="torch\n"),
        "provisioner/smoke.py": TreeFile(text="pass\n", mode=0o755),
        "job.sbatch": TreeFile(text="#!/bin/sh\n", mode=0o755),
    }
)


def names(archive: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return tar.getnames()


def test_a_tree_and_the_folder_it_was_written_to_give_the_same_bytes(tmp_path: Path) -> None:
    write_tree(TREE, tmp_path / "tree")
    (tmp_path / "tree" / "validation.json").write_text("{}", encoding="utf-8")
    os.utime(tmp_path / "tree" / "Dockerfile", (1, 1))
    assert pack(TREE) == pack(tmp_path / "tree") == pack(TREE)


def test_the_archive_says_nothing_of_who_made_it_and_when() -> None:
    with tarfile.open(fileobj=io.BytesIO(pack(TREE))) as tar:
        members = tar.getmembers()
    assert [member.name for member in members] == [".dockerignore", "Dockerfile", "provisioner/smoke.py", "requirements.txt"]
    assert {(member.mtime, member.uid, member.gid, member.uname, member.gname) for member in members} == {(0, 0, 0, "", "")}
    assert {member.name: member.mode for member in members}["provisioner/smoke.py"] == 0o755


def test_a_project_goes_along_without_what_is_ignored(tmp_path: Path) -> None:
    for path in (
        "train.py",
        "pkg/model.py",
        "pkg/__pycache__/model.pyc",
        ".env",
        "pkg/.env",
        "keys/site.pem",
        ".git/config",
        ".venv/x",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("x", encoding="utf-8")
    (tmp_path / "link").symlink_to("train.py")
    found = names(pack(TREE, {"project": tmp_path}))
    assert [name for name in found if name.startswith("project")] == ["project/link", "project/pkg/model.py", "project/train.py"]


def test_a_project_s_own_dockerignore_counts_too(tmp_path: Path) -> None:
    (tmp_path / ".dockerignore").write_text("data\n!data/small.csv\n", encoding="utf-8")
    (tmp_path / "data").mkdir()
    for name in ("big.bin", "small.csv"):
        (tmp_path / "data" / name).write_text("x", encoding="utf-8")
    found = names(pack(TREE, {"project": tmp_path}))
    assert "project/data/small.csv" in found
    assert "project/data/big.bin" not in found


def test_links_stay_links_and_sockets_stay_out(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM base\n", encoding="utf-8")
    (tmp_path / "link").symlink_to("/etc/passwd")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(tmp_path / "socket"))
        archive = pack(tmp_path)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        assert [(member.name, member.type, member.linkname) for member in tar] == [
            ("Dockerfile", tarfile.REGTYPE, ""),
            ("link", tarfile.SYMTYPE, "/etc/passwd"),
        ]


@pytest.mark.parametrize(
    ("rule", "path", "out"),
    [
        ("*.pyc", "a.pyc", True),
        ("*.pyc", "b/a.pyc", False),
        ("**/*.pyc", "a.pyc", True),
        ("**/*.pyc", "b/c/a.pyc", True),
        ("/b/", "b/c", True),
        ("b/c", "b", False),
        ("b", "bc", False),
        ("b?", "bc", True),
        ("b?", "b/c", False),
        ("[ab]x", "ax", True),
        ("[^a]x", "ax", False),
        (r"a\*", "a*", True),
        (r"a\*", "ab", False),
        ("a+(b)", "a+(b)", True),
        ("a[", "a[", True),
        ("**", "a/b", True),
        ("# a", "# a", False),
        ("", "a", False),
    ],
)
def test_rules_mean_what_docker_means(rule: str, path: str, out: bool) -> None:
    assert context._rules(rule)(path) is out


def test_what_cannot_be_a_context_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="no Dockerfile"):
        pack(tmp_path)
    with pytest.raises(UsageError, match="not a folder"):
        pack(tmp_path / "none")
    with pytest.raises(UsageError, match="not a folder"):
        pack(TREE, {"project": tmp_path / "none"})
    monkeypatch.setattr(context, "MAX_CONTEXT", 10)
    with pytest.raises(UsageError, match=r"\.dockerignore"):
        pack(TREE)


def test_a_file_that_vanishes_while_it_is_packed_is_an_error_and_no_half_archive(tmp_path: Path) -> None:
    gone = tarfile.TarInfo("gone")
    gone.size = 3
    with tarfile.open(fileobj=io.BytesIO(), mode="w") as tar, pytest.raises(ProvisionerError, match="cannot be read"):
        context._add(tar, gone, tmp_path / "gone")
