"""A site without internet, from beginning to end: uv pins from a real index, a mirror is fetched, and a build has nothing else.

The base image is a stand-in (tests/testbed/images.py); index, registry, engine and PyTorch's CPU build are real.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provisioner.edges.engine_sdk import SdkEngine
from provisioner.edges.index import Access
from provisioner.edges.local import LocalRunner
from provisioner.edges.registry import resolve_digest
from provisioner.edges.uv import Uv
from provisioner.engines import BuildOptions, RunOptions
from provisioner.errors import NoStackError
from provisioner.files.packages import context_folders
from provisioner.files.pins import Around, pin
from provisioner.files.render import render
from provisioner.files.site import IndexAddress, RegistryPrefix, Site, WheelPlace, load_site
from provisioner.findings import Seen
from provisioner.flows.mirror import fetch_answer
from provisioner.proof.build import build
from provisioner.proof.smoke import smoke
from provisioner.stack.compiled import shipped_matrix
from provisioner.values import replace
from provisioner.versions import Version
from tests.unit.files.sample import CPU, ROWS

if TYPE_CHECKING:
    from provisioner.stack.lock import Lock
    from tests.testbed.engine import Engine
    from tests.testbed.registry import Registry
    from tests.testbed.wheels import Index

TAG = "testbed:mirrored"


def site_of(wheels: Index, **changes: object) -> Site:
    """A site whose one index has everything."""
    address = IndexAddress(wheels.simple)
    return Site(**{"indexes": {"pypi": address, "pytorch/*": address}, **changes})  # type: ignore[arg-type]  # fields by name


def locked(wheels: Index, site: Site, digest: str | None = None) -> Lock:
    """The CPU lock of the build that the index has, pinned by the real uv."""
    [torch] = wheels.folder.glob("torch-*.whl")
    version = torch.name.split("-")[1].partition("+")[0]
    stack = replace(
        CPU.stack,
        version=Version(version),
        packages=(f"torch=={version}", "numpy"),
        image=replace(CPU.stack.image, digest=digest),
    )
    pins = pin(stack, ROWS.framework.companions, Around(site=site, indexes=ROWS.indexes), Uv(LocalRunner()))
    assert pins.hashed, pins.why_not
    return replace(CPU, stack=stack, pins=pins)


def test_uv_pins_the_whole_set_from_the_site_s_index(wheels: Index) -> None:
    lock = locked(wheels, site_of(wheels))
    found = {entry.name: entry for entry in lock.pins.packages}
    assert found["torch"].version.endswith("+cpu")
    assert (found["torch"].index, found["numpy"].index) == ("pytorch/cpu", "pypi")
    assert {"sympy", "filelock", "numpy"} <= set(found)
    assert all(entry.hashes for entry in lock.pins.packages)


def test_a_folder_of_wheels_alone_is_enough_to_pin(wheels: Index) -> None:
    site = Site(indexes={"pypi": IndexAddress("none")}, wheels=(WheelPlace(str(wheels.folder)),))
    assert locked(wheels, site).pins == locked(wheels, site_of(wheels)).pins
    other = replace(CPU.stack, variant="cu130", index="pytorch/cu130", packages=("torch",))
    with pytest.raises(NoStackError, match="needs the build cu130"):
        pin(other, (), Around(site=site, indexes=ROWS.indexes), Uv(LocalRunner()))


def test_what_the_site_lacks_is_a_refusal_and_what_does_not_answer_a_reason(wheels: Index) -> None:
    stack = replace(CPU.stack, packages=("torch", "nosuchpackage"))
    with pytest.raises(NoStackError, match="nosuchpackage was not found"):
        pin(stack, (), Around(site=site_of(wheels), indexes=ROWS.indexes), Uv(LocalRunner()))
    dead = Site(indexes={"pypi": IndexAddress("http://127.0.0.1:9/simple")})
    pins = pin(replace(CPU.stack, index="pypi"), (), Around(site=dead, indexes=ROWS.indexes), Uv(LocalRunner()))
    assert pins.why_not is not None
    assert pins.why_not.startswith("the package index pypi does not answer: ")


def test_a_digest_comes_from_the_registry_without_an_engine(registry: Registry, engine: Engine, base_image: str) -> None:
    digest = registry.push(engine, base_image)
    assert resolve_digest(registry.mirrored(base_image)) == Seen(digest)
    assert resolve_digest(registry.mirrored("python:9.99-slim")) == Seen(None)
    assert not resolve_digest("127.0.0.1:9/library/python:3", Access(timeout=5)).known


def test_a_mirror_is_all_that_a_build_needs(
    local_engine: Engine, base_image: str, registry: Registry, wheels: Index, tmp_path: Path
) -> None:
    digest = registry.push(local_engine, base_image)
    connected = site_of(wheels, registries={"docker.io": RegistryPrefix(registry.name)})
    lock = locked(wheels, connected, digest)
    folder = tmp_path / "mirror"
    matrix = shipped_matrix()
    told: list[str] = []
    first = fetch_answer(lock, connected, matrix, folder, tell=told.append)
    assert (first.code, first.fields["site"]) == (0, str(folder / "site.yaml")), first.findings
    assert len(list((folder / "wheels").iterdir())) == len(lock.pins.packages)
    again = fetch_answer(lock, connected, matrix, folder)
    assert {entry.status for entry in again.fields["items"]} == {"there"}

    # Carried over to a host that has nothing: the image is loaded, the registry and the indexes are out of reach.
    [archive] = (folder / "images").iterdir()
    local_engine.run("image", "rm", "--force", base_image, f"{registry.name}/library/python@{digest}")
    local_engine.run("load", "--input", str(archive))
    site = load_site(folder / "site.yaml")
    tree = render(lock, site, ROWS)
    subject = SdkEngine(LocalRunner())
    folders = {name: Path(place) for name, place in context_folders(lock, site)}
    build(tree, subject, TAG, BuildOptions(network="none"), folders=folders)
    results = smoke(TAG, subject, RunOptions(user="54321:0"), lock)
    subject.remove(TAG)
    subject.close()
    assert {result.name: result.status for result in results}["matmul"] == "pass"
    assert {result.status for result in results} <= {"pass", "skip"}


def test_a_mirror_that_lacks_something_says_what_and_writes_no_site(local_engine: Engine, wheels: Index, tmp_path: Path) -> None:
    assert local_engine.host
    lock = locked(wheels, site_of(wheels))
    wrong = tuple(
        replace(entry, hashes=("sha256:" + "0" * 64,)) if entry.name == "numpy" else entry for entry in lock.pins.packages
    )
    tampered = replace(lock, pins=replace(lock.pins, packages=wrong))
    answer = fetch_answer(tampered, site_of(wheels), shipped_matrix(), tmp_path)
    assert answer.code == 7
    assert [finding.id for finding in answer.findings] == ["mirror-incomplete"]
    assert "numpy" in answer.findings[0].message
    assert not (tmp_path / "site.yaml").exists()
    assert not [path for path in tmp_path.rglob("*") if path.name.endswith(".part")]
