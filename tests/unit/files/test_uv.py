"""The [tool.uv] block: golden in tests/golden/uv, and read by uv itself."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provisioner.errors import ProvisionerError
from provisioner.files.render import render
from provisioner.files.site import IndexAddress, Site
from provisioner.values import replace
from tests.testbed import wheels
from tests.unit.files.sample import BLACKWELL, CPU, ROWS, SITE, VOLTA

if TYPE_CHECKING:
    from provisioner.stack.lock import Lock

GOLDEN = Path(__file__).parents[2] / "golden" / "uv"
CASES: dict[str, tuple[Lock, Site]] = {"cpu": (CPU, Site()), "rtx5090": (BLACKWELL, Site()), "v100-site": (VOLTA, SITE)}


def block(lock: Lock, site: Site) -> str:
    return render(lock, site, ROWS, only=("uv",)).files["pyproject.uv.toml"].text


@pytest.mark.parametrize("name", CASES)
def test_the_block_is_the_golden_one(name: str) -> None:
    text, path = block(*CASES[name]), GOLDEN / f"{name}.toml"
    if os.environ.get("REGOLD"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), "REGOLD=1 writes it anew"


def test_every_golden_block_has_its_case() -> None:
    assert sorted(path.stem for path in GOLDEN.iterdir()) == sorted(CASES)


def test_only_the_framework_and_its_companions_come_from_the_variants_index() -> None:
    uv = tomllib.loads(block(CPU, Site()))["tool"]["uv"]
    assert uv["index"] == [{"name": "pytorch-cpu", "url": "https://download.pytorch.org/whl/cpu", "explicit": True}]
    assert set(uv["sources"]) == {"torch", "torchvision"}
    assert {source["index"] for source in uv["sources"].values()} == {"pytorch-cpu"}


def test_the_default_build_needs_no_source() -> None:
    text = block(BLACKWELL, Site())
    assert tomllib.loads(text) == {}
    assert "#     torch==2.13.0\n" in text


def test_uv_is_not_rendered_unasked() -> None:
    assert "pyproject.uv.toml" not in render(CPU, Site(), ROWS).files


def lock_with_uv(folder: Path, dependencies: str, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    """`uv lock` on a project that has the block, without what the user has configured."""
    project = f'[project]\nname = "trainer"\nversion = "0"\nrequires-python = ">=3.10"\ndependencies = {dependencies}\n'
    (folder / "pyproject.toml").write_text(project + text, encoding="utf-8")
    words = [str(Path(sys.executable).with_name("uv")), "lock", "--no-python-downloads", *options]
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "UV_CACHE_DIR": str(folder / "cache")}
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", CASES)
def test_uv_reads_it(name: str, tmp_path: Path) -> None:
    done = lock_with_uv(tmp_path, "[]", block(*CASES[name]), "--dry-run", "--offline")
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr


def test_uv_refuses_a_block_whose_source_names_no_index(tmp_path: Path) -> None:
    broken = block(CPU, Site()).replace('name = "pytorch-cpu"', 'name = "other"')
    done = lock_with_uv(tmp_path, '["torch"]', broken, "--dry-run", "--offline")
    assert done.returncode != 0
    assert "pytorch-cpu" in done.stderr


def test_uv_takes_the_framework_from_the_variants_index_and_nothing_else(tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in ("variant", "default")}
    wheel(folders["variant"], "torch", "2.13.0+cpu")
    wheel(folders["variant"], "six", "9.9")  # a stranger's package of a known name
    wheel(folders["default"], "torch", "2.13.0")
    wheel(folders["default"], "six", "1.17.0")
    with wheels.serve(folders["variant"]) as variant, wheels.serve(folders["default"]) as default:
        site = Site(indexes={"pytorch/cpu": IndexAddress(variant.simple), "pypi": IndexAddress(default.simple)})
        done = lock_with_uv(tmp_path, '["torch==2.13.0", "six"]', block(CPU, site))
        assert done.returncode == 0, done.stderr
        locked = tomllib.loads((tmp_path / "uv.lock").read_text(encoding="utf-8"))["package"]
        found = {(entry["name"], entry["version"]): entry["source"].get("registry") for entry in locked}
    assert found["torch", "2.13.0+cpu"].rstrip("/") == variant.simple.rstrip("/")
    assert found["torch", "2.13.0"].rstrip("/") == default.simple.rstrip("/")
    assert [version for name, version in found if name == "six"] == ["1.17.0"]


def wheel(folder: Path, name: str, version: str) -> None:
    folder.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")


def test_a_secret_address_is_not_written_into_a_project() -> None:
    site = Site(indexes={"pytorch/cpu": IndexAddress("${MIRROR}")})
    with pytest.raises(ProvisionerError, match="MIRROR"):
        block(CPU, site)
    with pytest.raises(ProvisionerError, match="may not be asked"):
        block(CPU, Site(indexes={"pytorch/cpu": IndexAddress("none")}))
    elsewhere = replace(CPU, stack=replace(CPU.stack, index="house/cpu"))
    with pytest.raises(ProvisionerError, match="nobody says where"):
        block(elsewhere, Site())
