"""tests/golden/<name>/ is the rendered tree; REGOLD=1 writes it anew. The real linters read those files."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provisioner.files.render import render
from provisioner.files.site import Site
from provisioner.stack.lock import Lock, lock_hash
from tests.unit.files.sample import BLACKWELL, CPU, DEVEL, FORWARD, ROWS, SITE, UBUNTU_ROWS, VOLTA

if TYPE_CHECKING:
    from provisioner.files.image_view import Catalogue
    from provisioner.files.tree import Tree

GOLDEN = Path(__file__).parents[2] / "golden"
CASES: dict[str, tuple[Lock, Site, Catalogue]] = {
    "cpu": (CPU, Site(), ROWS),
    "rtx5090": (BLACKWELL, Site(), ROWS),
    "v100-site": (VOLTA, SITE, ROWS),
    "v100-devel": (DEVEL, Site(), ROWS),
    "v100-forward": (FORWARD, Site(), UBUNTU_ROWS),
}


def _tree(name: str) -> Tree:
    lock, site, rows = CASES[name]
    return render(lock, site, rows)


def _files(name: str) -> dict[str, Path]:
    return {str(path.relative_to(GOLDEN / name)): path for path in sorted((GOLDEN / name).rglob("*")) if path.is_file()}


def _lint(tool: str, *arguments: str) -> None:
    program = Path(sys.executable).with_name(tool)
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", CASES)
def test_the_tree_is_the_golden_one(name: str) -> None:
    tree = _tree(name)
    if os.environ.get("REGOLD"):
        shutil.rmtree(GOLDEN / name, ignore_errors=True)
        for path, file in tree.files.items():
            target = GOLDEN / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(file.text, encoding="utf-8")
            target.chmod(file.mode)
    golden = _files(name)
    assert list(golden) == sorted(tree.files)
    for path, file in tree.files.items():
        assert file.text == golden[path].read_text(encoding="utf-8"), f"{name}/{path}: REGOLD=1 writes it anew"
        assert bool(golden[path].stat().st_mode & stat.S_IXUSR) == bool(file.mode & stat.S_IXUSR), path


def test_every_golden_folder_has_its_case() -> None:
    # host-setup holds the scripts of the hosts wing: tests/unit/hosts/test_export.py; uv those of test_uv.py
    assert sorted(path.name for path in GOLDEN.iterdir() if path.is_dir()) == sorted((*CASES, "host-setup", "uv"))


@pytest.mark.parametrize("name", CASES)
def test_rendering_twice_gives_the_same_bytes(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    once = _tree(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert _tree(name) == once


@pytest.mark.parametrize("name", CASES)
def test_hadolint_finds_nothing(name: str) -> None:
    path = _files(name)["Dockerfile"]
    # without a configuration of the person who runs this
    _lint("hadolint", "--no-color", "--config", os.devnull, str(path))
    ignores = re.findall(r"hadolint\b.*ignore=(.*)", path.read_text(encoding="utf-8"))
    assert ignores in ([], ["DL3008"])


@pytest.mark.parametrize("name", CASES)
def test_shellcheck_finds_nothing(name: str) -> None:
    scripts = [str(path) for path in _files(name).values() if path.suffix in {".sbatch", ".sh"}]
    if scripts:
        _lint("shellcheck", "--norc", *scripts)


@pytest.mark.parametrize("name", CASES)
def test_every_generated_file_says_where_it_comes_from_and_nothing_of_the_machine(name: str) -> None:
    lock = CASES[name][0]
    for path, file in _tree(name).files.items():
        head = "".join(file.text.splitlines(keepends=True)[:2])
        if path not in {"stack.lock.yaml", "site-ca.crt", "provisioner/smoke.py", "provisioner/expect.json"}:
            assert head.count("provisioner 0.1.0, ") == 1, path
            assert f".j2, lock sha256:{lock_hash(lock)}\n" in head, path
        assert str(GOLDEN.parents[1]) not in file.text, path


@pytest.mark.parametrize("name", CASES)
def test_a_dockerfile_needs_no_frontend_from_a_registry_and_asserts_no_gpu(name: str) -> None:
    text = _tree(name).files["Dockerfile"].text
    assert "syntax=" not in text
    assert "is_available" not in text
    assert "nvidia-smi" not in text
    assert "curl" not in text
    assert max(len(line) for line in text.splitlines()) < 60_000  # BuildKit reads lines of up to 65535 bytes


def test_a_v100_instead_of_a_5090_changes_build_variant_and_base() -> None:
    volta, blackwell = (_tree(name).files["Dockerfile"].text for name in ("v100-site", "rtx5090"))
    assert 'io.gpu-provisioner.variant="cu126"' in volta
    assert 'io.gpu-provisioner.variant="cu130"' in blackwell
