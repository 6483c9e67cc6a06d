"""What a build needs and does not have is said before the context travels."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from provisioner.edges import engine as edge
from provisioner.engines import BuildOptions
from provisioner.errors import EngineError, UsageError
from provisioner.files.render import render
from provisioner.files.site import IndexAddress, RegistryPrefix, Site, WheelPlace
from provisioner.files.tree import write_tree
from provisioner.flows.prove import Proof, build_on
from provisioner.values import replace
from tests.unit.files.sample import CPU, DEVEL, ROWS
from tests.unit.proof.fakes import FakeEngine

if TYPE_CHECKING:
    from pathlib import Path

    from provisioner.commands import Runner
    from provisioner.stack.lock import Lock

NOBODY = cast("Runner", object())  # the fake engine asks no runner


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    made = FakeEngine()
    monkeypatch.setattr(edge, "engine_on", lambda *_: made)
    return made


def carried(tmp_path: Path) -> Site:
    """The site of a mirror folder."""
    wheels = tmp_path / "mirror" / "wheels"
    wheels.mkdir(parents=True)
    return Site(
        indexes={"pypi": IndexAddress("none")},
        wheels=(WheelPlace(str(wheels)),),
        registries={"docker.io": RegistryPrefix("none")},
    )


def written(lock: Lock, site: Site, tmp_path: Path) -> Path:
    write_tree(render(lock, site, ROWS), tmp_path / "image")
    return tmp_path / "image"


def test_a_tree_that_mounts_wheels_needs_the_site_that_names_them(tmp_path: Path, fake: FakeEngine) -> None:
    site = carried(tmp_path)
    folder = written(CPU, site, tmp_path)
    with pytest.raises(UsageError, match="image was rendered with a folder of wheels") as caught:
        build_on(NOBODY, folder, CPU, Site(), Proof())
    assert "--site FILE" in str(caught.value.hint)
    assert fake.asked == []
    fake.images = {CPU.stack.image.reference}
    assert build_on(NOBODY, folder, CPU, site, Proof()).id == "sha256:1"


def test_wheels_that_somebody_put_beside_the_tree_are_enough(tmp_path: Path, fake: FakeEngine) -> None:
    folder = written(CPU, carried(tmp_path), tmp_path)
    (folder / "wheels").mkdir()
    assert build_on(NOBODY, folder, CPU, Site(), Proof()).id == "sha256:1"
    assert fake.asked


@pytest.mark.parametrize("lock", [CPU, DEVEL])
def test_an_image_that_no_registry_serves_must_be_there(lock: Lock, tmp_path: Path, fake: FakeEngine) -> None:
    site = carried(tmp_path)
    tree = render(lock, site, ROWS)
    needed = [image.reference for image in (lock.stack.image, lock.stack.build_image) if image is not None]
    fake.images = set(needed[:-1])
    with pytest.raises(EngineError) as caught:
        build_on(NOBODY, tree, lock, site, Proof())
    assert caught.value.message == f"gpu01 has no {needed[-1]}, and the site names no registry"
    assert "docker load --input images/" in str(caught.value.hint)
    assert [entry[0] for entry in fake.asked] == ["close"]
    fake.images = set(needed)
    assert build_on(NOBODY, tree, lock, site, Proof()).id == "sha256:1"


def test_the_engine_builds_for_the_platform_of_the_lock(fake: FakeEngine) -> None:
    arm = replace(CPU, stack=replace(CPU.stack, platform="linux/arm64"))
    build_on(NOBODY, render(arm, Site(), ROWS), arm, Site(), Proof())
    options = fake.asked[0][3]
    assert isinstance(options, BuildOptions)
    assert options.platform == "linux/arm64"
