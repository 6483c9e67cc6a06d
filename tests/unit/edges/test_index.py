"""Package indexes and pages of wheels, asked over HTTP on loopback; the pages are those of tests.testbed.wheels."""

from __future__ import annotations

import hashlib
import socket
from functools import partial
from typing import TYPE_CHECKING

import pytest

from provisioner.edges.index import Access, IndexFile, Unreachable, download, files_at, files_of, has_build, is_build
from provisioner.errors import ProvisionerError
from tests.testbed import wheels

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TORCH = "torch-2.9.1+cu130-cp312-cp312-manylinux_2_28_x86_64.whl"
PLAIN = "six-1.17.0-py2.py3-none-any.whl"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[wheels.Index]:
    folder = tmp_path_factory.mktemp("wheels")
    (folder / TORCH).write_bytes(b"torch")
    (folder / PLAIN).write_bytes(b"six")
    with wheels.serve(folder) as started:
        yield started


@pytest.fixture
def index(served: wheels.Index) -> wheels.Index:
    served.asked.clear()
    return served


def sha256(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@pytest.fixture
def dead() -> str:
    """An address where nothing listens: bound once, and closed."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{one.getsockname()[1]}/simple/"


def test_files_of_a_project_have_names_and_hashes(index: wheels.Index) -> None:
    [found] = files_of("torch", index.simple)
    assert (found.name, found.hash) == (TORCH, sha256(b"torch"))
    assert files_of("nope", index.simple) == ()


def test_files_of_a_page_and_of_a_folder(index: wheels.Index) -> None:
    by_name = {entry.name: entry for entry in files_at(index.links)}
    assert by_name[TORCH].hash == sha256(b"torch")
    assert {entry.name for entry in files_at(str(index.folder))} == {TORCH, PLAIN}
    assert {entry.size for entry in files_at(str(index.folder))} == {5, 3}


@pytest.mark.parametrize(
    ("version", "tag", "platform", "there"),
    [
        ("2.9.1", "cu130", "linux/amd64", True),
        ("2.9.1", "cu130", "linux/arm64", False),
        ("2.9.1", "cu128", "linux/amd64", False),
        ("2.9.0", "cu130", "linux/amd64", False),
    ],
)
def test_a_build_is_confirmed_by_one_request(index: wheels.Index, version: str, tag: str, platform: str, there: bool) -> None:
    assert has_build("torch", version, tag, platform, address=index.simple) is there
    assert index.asked == ["/simple/torch/"]


def test_an_index_that_does_not_answer_neither_confirms_nor_denies(dead: str) -> None:
    assert has_build("torch", "2.9.1", "cu130", "linux/amd64", address=dead, access=Access(timeout=5)) is None


def test_the_reason_names_no_address(dead: str, index: wheels.Index, tmp_path: Path) -> None:
    for act, address in ((files_at, dead), (files_at, f"{index.url}/other"), (partial(files_of, "torch"), dead)):
        with pytest.raises(Unreachable) as caught:
            act(address)
        assert "127.0.0.1" not in caught.value.message
        assert "site.yaml" in str(caught.value.hint)
    with pytest.raises(Unreachable, match="no such file"):
        files_at(str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("torch-2.9.1-cp312-cp312-manylinux_2_28_x86_64.whl", True),
        ("torch-2.9.1%2Bcu130-cp312-cp312-manylinux_2_28_x86_64.whl", True),
        ("torch-2.9.1-cp312-none-macosx_11_0_arm64.whl", False),
        ("torch-2.9.1-cp312-cp312-win_amd64.whl", False),
        ("torch-2.9.10-cp312-cp312-manylinux_2_28_x86_64.whl", False),
        ("torch-2.9.1.tar.gz", False),
        ("torch.whl", False),
    ],
)
def test_the_name_of_a_wheel_says_which_build_it_is(name: str, fits: bool) -> None:
    assert is_build(name, "2.9.1", "cu130", "linux/amd64") is fits


def test_a_download_is_whole_and_checked(index: wheels.Index, tmp_path: Path) -> None:
    [offered] = files_of("torch", index.simple)
    pieces: list[int] = []
    download(offered, tmp_path / TORCH, accept=(sha256(b"torch"),), tell=pieces.append)
    assert (tmp_path / TORCH).read_bytes() == b"torch"
    assert sum(pieces) == 5


def test_another_file_than_the_lock_names_leaves_nothing_behind(index: wheels.Index, tmp_path: Path, dead: str) -> None:
    target = tmp_path / "out"
    target.mkdir()
    [offered] = files_of("torch", index.simple)
    (target / TORCH).write_bytes(b"an older one")
    with pytest.raises(ProvisionerError, match="not the file that the lock names"):
        download(offered, target / TORCH, accept=(sha256(b"other"),))
    with pytest.raises(ProvisionerError, match="refused"):
        download(IndexFile(name="a.whl", address=f"{dead}a.whl"), target / "a.whl", accept=("sha256:0",))
    with pytest.raises(ProvisionerError, match="404"):
        download(IndexFile(name="a.whl", address=f"{index.url}/wheels/a.whl"), target / "a.whl", accept=("sha256:0",))
    assert [(path.name, path.read_bytes()) for path in target.iterdir()] == [(TORCH, b"an older one")]


def test_a_file_of_a_folder_is_copied_and_checked(index: wheels.Index, tmp_path: Path) -> None:
    found = next(entry for entry in files_at(str(index.folder)) if entry.name == PLAIN)
    download(found, tmp_path / PLAIN, accept=(sha256(b"six"),))
    assert (tmp_path / PLAIN).read_bytes() == b"six"


def test_a_proxy_is_used_where_the_site_names_one(index: wheels.Index) -> None:
    access = Access(proxies={"http": index.url}, timeout=5)
    assert files_of("six", "http://index.example/simple/", access) == ()
    assert index.asked == ["http://index.example/simple/six/"]
