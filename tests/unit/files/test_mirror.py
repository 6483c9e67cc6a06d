"""What a lock asks for, and the folder that has it all."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

import pytest

from provisioner.edges.index import IndexFile
from provisioner.errors import EngineError, LockError, ProvisionerError, UsageError
from provisioner.files.mirror import fetch, refuse_foreign_site
from provisioner.files.mirror_items import mirror_list
from provisioner.files.render import render
from provisioner.files.site import IndexAddress, RegistryPrefix, Site, WheelPlace, load_site
from provisioner.stack.lock import Image, Pin
from provisioner.values import replace
from tests.unit.files.sample import DEVEL, ROWS
from tests.unit.proof.fakes import FakeEngine, lock, stack

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from provisioner.files.mirror import Got, Offered
    from provisioner.stack.lock import Lock

INDEXES: Mapping[str, str | None] = {"pypi": None, "pytorch/cu130": "https://wheels.example/whl/cu130"}
CATALOGUE = replace(ROWS, indexes=INDEXES)
DIGEST = "sha256:" + "d" * 64


def sha256(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


FILES = {
    "torch": ("torch-2.9.1+cu130-cp312-cp312-manylinux_2_28_x86_64.whl", b"torch"),
    "typing-extensions": ("typing_extensions-4.16.0-py3-none-any.whl", b"typing"),
}
PINS = (
    Pin(name="torch", version="2.9.1+cu130", hashes=(sha256(b"torch"),), index="pytorch/cu130"),
    Pin(name="typing-extensions", version="4.16.0", hashes=(sha256(b"typing"), sha256(b"its source"))),
)


class Shelf:
    """A Source that has FILES, and notes what was downloaded."""

    def __init__(self, files: Mapping[str, tuple[str, bytes]] = FILES) -> None:
        self.content = files
        self.asked: list[tuple[str, str | None]] = []
        self.downloaded: list[str] = []

    def files(self, project: str, address: str | None) -> Sequence[Offered]:
        self.asked.append((project, address))
        return [
            IndexFile(name=name, address="a", hash=sha256(data))
            for name, data in [self.content[project]]
            if project in self.content
        ]

    def links(self, place: str) -> Sequence[Offered]:
        assert place == "/srv/wheels"
        return [IndexFile(name=name, address="a") for name, _ in self.content.values()]

    def download(self, offered: Offered, target: Path, accept: tuple[str, ...]) -> None:
        data = next(data for name, data in self.content.values() if name == offered.name)
        if sha256(data) not in accept:
            raise ProvisionerError(f"{offered.name}: what was served is not the file that the lock names")
        target.write_bytes(data)
        self.downloaded.append(offered.name)


def made(folder: Path, held: Lock, source: Shelf, engine: FakeEngine | None, site: Site | None = None) -> tuple[Got, ...]:
    site = site or Site()
    return fetch(held, site, mirror_list(held, site, CATALOGUE), folder, source, engine)


def test_the_list_names_packages_image_indexes_and_the_distribution_s_packages() -> None:
    items = mirror_list(lock(*PINS, apt=("git",)), Site(), CATALOGUE)
    assert [(item.kind, item.name, item.version, item.origin, item.address) for item in items] == [
        ("wheel", "torch", "2.9.1+cu130", "pytorch/cu130", "https://wheels.example/whl/cu130"),
        ("wheel", "typing-extensions", "4.16.0", "pypi", None),
        ("image", "python", "3.12-slim-bookworm", "registry", "python:3.12-slim-bookworm"),
        ("index", "pypi", "", "pypi", None),
        ("index", "pytorch/cu130", "", "pytorch/cu130", "https://wheels.example/whl/cu130"),
        ("apt", "git", "", "debian12", None),
    ]
    assert items[0].hashes == PINS[0].hashes


def test_the_list_says_where_the_site_has_things() -> None:
    site = Site(indexes={"pypi": IndexAddress("none")}, registries={"docker.io": RegistryPrefix("r.example:5000/hub")})
    held = lock(
        *PINS, stack=stack(image=Image(reference="python:3.12-slim-bookworm", flavour="slim", os="debian12", digest=DIGEST))
    )
    items = mirror_list(held, site, CATALOGUE)
    image = next(item for item in items if item.kind == "image")
    assert (image.address, image.hashes) == ("r.example:5000/hub/library/python:3.12-slim-bookworm", (DIGEST,))
    assert not [item for item in items if item.kind == "index"]
    assert {item.address for item in items if item.kind == "wheel"} == {"none"}


def test_a_lock_without_pins_lists_what_it_knows() -> None:
    [wheel] = [item for item in mirror_list(lock(), Site(), CATALOGUE) if item.kind == "wheel"]
    assert (wheel.name, wheel.version, wheel.hashes) == ("torch", "2.9.1", ())


def test_a_mirror_is_whole_and_its_site_points_at_it(tmp_path: Path) -> None:
    engine = FakeEngine(images=("python:3.12-slim-bookworm",))
    got = made(tmp_path, lock(*PINS), Shelf(), engine)
    assert {entry.status for entry in got} == {"fetched"}
    assert {path.name for path in (tmp_path / "wheels").iterdir()} == {name for name, _ in FILES.values()}
    assert [path.name for path in (tmp_path / "images").iterdir()] == ["python-3.12-slim-bookworm.tar"]
    site = load_site(tmp_path / "site.yaml")
    assert (site.indexes, site.wheels, site.registries) == ({"pypi": "none"}, (str(tmp_path / "wheels"),), {"docker.io": "none"})
    assert "docker load --input images/python-3.12-slim-bookworm.tar" in (tmp_path / "site.yaml").read_text(encoding="utf-8")


def test_what_is_there_and_right_is_not_fetched_again_and_what_is_wrong_is(tmp_path: Path) -> None:
    engine = FakeEngine(images=("python:3.12-slim-bookworm",))
    made(tmp_path, lock(*PINS), Shelf(), engine)
    (tmp_path / "wheels" / FILES["torch"][0]).write_bytes(b"cut of")
    again = Shelf()
    got = made(tmp_path, lock(*PINS), again, engine)
    assert again.downloaded == [FILES["torch"][0]]
    assert [entry.status for entry in got] == ["fetched", "there", "there"]
    assert (tmp_path / "wheels" / FILES["torch"][0]).read_bytes() == b"torch"


def test_a_failure_is_listed_and_the_rest_goes_on_and_no_site_says_that_all_is_there(tmp_path: Path) -> None:
    tampered = Shelf({**FILES, "torch": (FILES["torch"][0], b"evil")})
    got = made(tmp_path, lock(*PINS), tampered, FakeEngine(EngineError("local: cannot pull python", hint="log in")))
    assert [entry.status for entry in got] == ["failed", "fetched", "failed"]
    assert "has no file for Python 3.12 on linux/amd64 that the lock names" in got[0].reason
    assert (got[2].reason, got[2].hint) == ("local: cannot pull python", "log in")
    assert not (tmp_path / "site.yaml").exists()
    assert list((tmp_path / "images").iterdir()) == []


def test_the_site_s_wheels_are_looked_at_where_no_index_is_asked(tmp_path: Path) -> None:
    site = Site(indexes={"pypi": IndexAddress("none")}, wheels=(WheelPlace("/srv/wheels"),))
    source = Shelf()
    got = made(tmp_path, lock(*PINS), source, FakeEngine(images=("python:3.12-slim-bookworm",)), site)
    assert {entry.status for entry in got} == {"fetched"}
    assert source.asked == []


def test_an_image_with_a_digest_is_pulled_by_it_and_kept_under_its_plain_name(tmp_path: Path) -> None:
    held = lock(
        *PINS, stack=stack(image=Image(reference="python:3.12-slim-bookworm", flavour="slim", os="debian12", digest=DIGEST))
    )
    engine = FakeEngine()
    made(tmp_path, held, Shelf(), engine, Site(registries={"docker.io": RegistryPrefix("r.example:5000/hub")}))
    served = f"r.example:5000/hub/library/python@{DIGEST}"
    assert engine.asked == [
        ("pull", served, True),
        ("tag", served, "python:3.12-slim-bookworm"),
        ("save", "python:3.12-slim-bookworm"),
    ]


def test_a_mirror_without_an_engine_or_without_hashes_says_so(tmp_path: Path) -> None:
    got = made(tmp_path, lock(*PINS), Shelf(), None)
    assert "no container engine" in got[-1].reason
    with pytest.raises(LockError, match=r"stack\.lock\.yaml: the lock has no hashes"):
        made(tmp_path, lock(), Shelf(), None)
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UsageError, match="cannot be made"):
        made(tmp_path / "file", lock(*PINS), Shelf(), None)


def _apt(held: Lock) -> list[tuple[str, str]]:
    return [(item.name, item.origin) for item in mirror_list(held, Site(), CATALOGUE) if item.kind == "apt"]


@pytest.mark.parametrize(
    "held",
    [lock(*PINS, apt=("git",), options={"torch_compile": "true"}), replace(DEVEL, apt=("git",)), lock(*PINS, apt=("git",))],
)
def test_the_list_names_the_distribution_s_packages_that_the_dockerfile_installs(held: Lock) -> None:
    text = render(held, Site(), replace(ROWS, indexes={**ROWS.indexes, **INDEXES})).files["Dockerfile"].text.replace("\\\n", " ")
    steps = re.findall(r"--no-install-recommends(.*?)&&", text)
    assert sorted(name for name, _ in _apt(held)) == sorted({word for step in steps for word in step.split()})
    assert {system for _, system in _apt(held)} == {"debian12"}


def test_the_image_that_lends_its_compiler_is_asked_for_too() -> None:
    images = [item.address for item in mirror_list(DEVEL, Site(), CATALOGUE) if item.kind == "image"]
    assert images == ["python:3.11-slim-bookworm", "nvidia/cuda:12.6.3-cudnn-devel-ubuntu22.04"]


def test_a_site_says_which_packages_of_the_distribution_are_not_in_the_folder(tmp_path: Path) -> None:
    made(tmp_path, lock(*PINS, apt=("git",)), Shelf(), FakeEngine(images=("python:3.12-slim-bookworm",)))
    assert "# not brought: the packages git of debian12" in (tmp_path / "site.yaml").read_text(encoding="utf-8")
    assert load_site(tmp_path / "site.yaml").wheels


def test_a_site_of_an_earlier_run_does_not_outlive_a_failure_and_one_of_the_user_is_kept(tmp_path: Path) -> None:
    engine = FakeEngine(images=("python:3.12-slim-bookworm",))
    made(tmp_path, lock(*PINS), Shelf(), engine)
    (tmp_path / "wheels" / FILES["torch"][0]).unlink()
    made(tmp_path, lock(*PINS), Shelf({**FILES, "torch": (FILES["torch"][0], b"evil")}), engine)
    assert not (tmp_path / "site.yaml").exists()
    (tmp_path / "site.yaml").write_text("format: 1\n", encoding="utf-8")
    with pytest.raises(UsageError, match="was not written by provisioner mirror"):
        refuse_foreign_site(tmp_path)
    made(tmp_path, lock(*PINS), Shelf(), engine)
    refuse_foreign_site(tmp_path)
    refuse_foreign_site(tmp_path / "not there")
