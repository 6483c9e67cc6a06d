"""Writing a tree: whole or not at all, and never over what the user made."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from provisioner.errors import ProvisionerError, UsageError
from provisioner.files.tree import MANIFEST, Tree, TreeFile, script, write_tree

TREE = Tree(files={"b/run.sh": script("#!/bin/sh\n"), "a": TreeFile(text="first\n")})
OTHER = Tree(files={"b/run.sh": script("#!/bin/sh\n"), "a": TreeFile(text="second\n")})


def _content(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.is_file()}


def test_a_tree_is_written_with_its_modes_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "out"
    write_tree(TREE, folder)
    assert sorted(_content(folder)) == [MANIFEST, "a", "b/run.sh"]
    assert stat.S_IMODE((folder / "a").stat().st_mode) == 0o644
    assert stat.S_IMODE((folder / "b" / "run.sh").stat().st_mode) == 0o755


def test_our_own_files_are_overwritten_and_those_of_an_earlier_tree_stay_ours(tmp_path: Path) -> None:
    write_tree(TREE, tmp_path)
    write_tree(Tree(files={"c": TreeFile(text="third\n")}), tmp_path)
    write_tree(OTHER, tmp_path)
    assert _content(tmp_path)["a"] == "second\n"
    assert _content(tmp_path)["c"] == "third\n"


@pytest.mark.parametrize("text", ["mine\n", "first\nand my change\n"])
def test_a_file_of_the_user_is_kept_and_named(tmp_path: Path, text: str) -> None:
    write_tree(TREE, tmp_path)
    (tmp_path / "a").write_text(text, encoding="utf-8")
    (tmp_path / "b" / "run.sh").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        write_tree(OTHER, tmp_path)
    assert [str(tmp_path / name) in caught.value.message for name in ("a", "b/run.sh")] == [True, True]
    assert "--force" in str(caught.value.hint)
    assert _content(tmp_path)["a"] == text
    write_tree(OTHER, tmp_path, force=True)
    assert _content(tmp_path)["a"] == "second\n"


@pytest.mark.parametrize("text", ["", "[]", '{"files": 3}', "{", '{"files": {"a": 1}}'])
def test_a_list_that_cannot_be_read_makes_every_file_the_users(tmp_path: Path, text: str) -> None:
    write_tree(TREE, tmp_path)
    (tmp_path / MANIFEST).write_text(text, encoding="utf-8")
    with pytest.raises(UsageError):
        write_tree(OTHER, tmp_path)
    write_tree(TREE, tmp_path)  # what is as it would be written is in nobody's way


@pytest.mark.parametrize("path", ["../a", "/a", "a/../../b", "", ".", "a//b", "a\\b"])
def test_no_file_leaves_the_folder(path: str) -> None:
    with pytest.raises(ProvisionerError, match="outside its folder"):
        Tree(files={path: TreeFile(text="")})


def test_a_link_is_neither_followed_nor_replaced(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a").write_text("precious\n", encoding="utf-8")
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "b").symlink_to(outside)
    with pytest.raises(UsageError, match="never written through a link"):
        write_tree(TREE, folder, force=True)
    (folder / "b").unlink()
    (folder / "a").symlink_to(outside / "a")
    with pytest.raises(UsageError, match="not overwritten"):
        write_tree(TREE, folder)
    write_tree(TREE, folder, force=True)
    assert (outside / "a").read_text(encoding="utf-8") == "precious\n"
    assert not (folder / "a").is_symlink()


@pytest.mark.parametrize("name", ["a", "out"])
def test_a_folder_and_a_file_do_not_replace_each_other(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "out"
    if name == "a":
        (folder / "a").mkdir(parents=True)
    else:
        folder.write_text("", encoding="utf-8")
    with pytest.raises(UsageError, match=r"is (not )?a folder"):
        write_tree(TREE, folder, force=True)


def test_nothing_is_left_when_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tree(TREE, tmp_path / "old")
    before = _content(tmp_path / "old")
    calls = 0

    def full(_handle: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for folder in (tmp_path / "new", tmp_path / "old"):
        calls = 0
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(ProvisionerError, match="no space left on device"):
            write_tree(OTHER, folder)
    assert not (tmp_path / "new").exists()
    assert _content(tmp_path / "old") == before


def test_a_run_that_was_cut_between_two_files_can_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tree(TREE, tmp_path)
    replace = Path.replace

    def cut(self: Path, target: Path) -> Path:
        if target.name == "run.sh":
            raise KeyboardInterrupt
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", cut)
    with pytest.raises(KeyboardInterrupt):
        write_tree(OTHER, tmp_path)
    monkeypatch.setattr(Path, "replace", replace)
    assert _content(tmp_path)["a"] == "second\n"
    assert [name for name in _content(tmp_path) if name.endswith(".tmp")] == []
    write_tree(OTHER, tmp_path)


def test_what_a_killed_run_left_is_swept_and_what_is_young_is_not(tmp_path: Path) -> None:
    old, young = tmp_path / ".provisioner-old.tmp", tmp_path / ".provisioner-young.tmp"
    for path in (old, young):
        path.write_text("half", encoding="utf-8")
    os.utime(old, (0, 0))
    write_tree(Tree(files={"a": TreeFile(text="a")}), tmp_path)
    assert not old.exists()
    assert young.exists()
