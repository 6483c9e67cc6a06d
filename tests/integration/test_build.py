"""Build and smoke test on a host over SSH: the context travels there, PyTorch's CPU build is installed, results come back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provisioner.edges.engine import CommandEngine
from provisioner.edges.engine_sdk import SdkEngine
from provisioner.edges.local import LocalRunner
from provisioner.engines import BuildOptions, RunOptions
from provisioner.errors import BuildFailed
from provisioner.files.packages import context_folders
from provisioner.files.render import expected_text, render
from provisioner.files.site import IndexAddress, Site, WheelPlace
from provisioner.files.tree import write_tree
from provisioner.proof.build import build
from provisioner.proof.smoke import Foreign, smoke, smoke_script
from provisioner.values import replace
from tests.integration.test_engine import over_ssh
from tests.integration.test_mirror import locked, site_of
from tests.unit.files.sample import ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provisioner.engines import Engine
    from provisioner.findings import CheckResult
    from provisioner.stack.lock import Lock
    from tests.testbed import engine as engines
    from tests.testbed.sshd import Sshd
    from tests.testbed.wheels import Index

TAG = "testbed:built"


@pytest.fixture(scope="module")
def lock(wheels: Index) -> Lock:
    return locked(wheels, site_of(wheels))


@pytest.fixture
def remote(docker_host: Sshd, base_image: str) -> Iterator[Engine]:
    assert base_image
    found = CommandEngine(over_ssh(docker_host))
    yield found
    found.close()


@pytest.fixture
def image(remote: Engine, lock: Lock, wheels: Index) -> str:
    """The image of the lock, built over SSH from the rendered tree; later tests find it in the engine's cache."""
    build(render(lock, site_of(wheels), ROWS), remote, TAG, BuildOptions(network="host"))
    return TAG


def statuses(results: tuple[CheckResult, ...]) -> dict[str, str]:
    return {result.name: result.status for result in results}


def test_the_image_multiplies_matrices_as_its_own_user_and_as_any_other(remote: Engine, image: str, lock: Lock) -> None:
    facts = remote.inspect(image)
    assert facts is not None
    assert facts.user not in {"", "0", "root"}
    for user in (None, "54321:0"):
        found = statuses(smoke(image, remote, RunOptions(user=user), lock, foreign=Foreign(script=b"raise SystemExit(3)")))
        assert (found["import"], found["matmul"], found["kernel"]) == ("pass", "pass", "skip")
        assert set(found.values()) == {"pass", "skip"}
    assert set(statuses(smoke(image, remote, RunOptions(), lock, level=1))) == {"interpreter", "import"}


def test_the_folder_that_was_written_builds_from_the_cache_of_the_tree(
    remote: Engine, image: str, lock: Lock, wheels: Index, tmp_path: Path
) -> None:
    before = remote.inspect(image)
    write_tree(render(lock, site_of(wheels), ROWS), tmp_path / "out")
    told: list[str] = []
    again = build(tmp_path / "out", remote, image, BuildOptions(network="host"), tell=told.append)
    assert before is not None
    assert again.id == before.id
    assert [line for line in told if line.endswith("CACHED")]
    assert not [line for line in told if "Successfully installed" in line]


def test_wheels_and_a_project_travel_with_the_context(
    local_engine: engines.Engine,
    base_image: str,
    lock: Lock,
    wheels: Index,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert local_engine.host
    assert base_image
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print('trained')\n", encoding="utf-8")
    (tmp_path / ".env").write_text("TOKEN=hunter2\n", encoding="utf-8")
    small = replace(lock.pins, packages=tuple(entry for entry in lock.pins.packages if entry.name == "filelock"))
    held = replace(lock, project=".", pins=small)
    site = Site(indexes={"pypi": IndexAddress("none")}, wheels=(WheelPlace(str(wheels.folder)),))
    folders = {name: Path(place) for name, place in context_folders(held, site)}
    subject = SdkEngine(LocalRunner())
    # Only a part of the set is installed here, so the check of the image while it is built says what is missing.
    with pytest.raises(BuildFailed) as caught:
        build(render(held, site, ROWS), subject, "testbed:project", BuildOptions(network="none"), folders=folders)
    assert "smoke.py --build-check" in caught.value.message
    assert "No module named 'torch'" in caught.value.tail
    subject.close()


def test_an_image_that_is_not_ours_is_fed_the_script(remote: Engine, base_image: str, image: str, lock: Lock) -> None:
    foreign = Foreign(script=smoke_script("torch.py"), expected=expected_text(lock))
    found = smoke(base_image, remote, RunOptions(), lock, foreign=foreign)
    assert statuses(found)["interpreter"] == "pass"
    assert statuses(found)["import"] == "fail"
    assert image


def test_what_keeps_the_script_from_answering_has_a_name(remote: Engine, image: str, lock: Lock) -> None:
    [hook] = smoke(image, remote, RunOptions(gpus="gpus"), lock)
    assert hook.finding is not None
    assert (hook.status, hook.finding.id) == ("fail", "container-toolkit-missing")
    [killed] = smoke(image, remote, RunOptions(memory=24 << 20), lock)
    assert killed.finding is not None
    assert (killed.status, killed.finding.id) == ("fail", "smoke-killed")
    [late] = smoke(image, remote, RunOptions(timeout=0.5), lock)
    assert late.finding is not None
    assert (late.status, late.finding.id) == ("unknown", "smoke-timed-out")
