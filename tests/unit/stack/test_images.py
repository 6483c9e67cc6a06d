"""Whole images: does it start there, and can it have code for the GPU? On the small matrix, and vectors on the one that ships."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from provisioner.stack.changes import apply_changes
from provisioner.stack.compiled import shipped_matrix
from provisioner.stack.package_rows import Container
from provisioner.stack.request import PoolMember, Request
from provisioner.stack.resolve import decide
from provisioner.versions import Version
from tests.unit.stack.small import SAID, matrix

if TYPE_CHECKING:
    from provisioner.stack.answer import Decision

SHIPPED = shipped_matrix()
MONTHS = (
    Container(family="nvidia", release="26.01", cuda=Version("13.0.1.012"), driver=Version("600.20"), **SAID),
    Container(family="nvidia", release="24.01", cuda=Version("12.6.0.22"), **SAID),
    Container(family="solver", release="26.01", cuda=Version("12.1"), **SAID),
)
MATRIX = matrix(containers=MONTHS)
JANUARY = "nvcr.io/nvidia/frame:26.01-py3"


def ask(image: str, gpu: str, driver: str = "any", rows: Any = MATRIX, **fields: Any) -> Decision:  # noqa: ANN401 - of a request
    return decide(Request(image=image, gpus=(gpu,), driver=driver, **fields), rows)


def told(decision: Decision) -> str:
    return "\n".join((*(note.fact for note in decision.notes), *(refusal.fact for refusal in decision.refusals)))


def first(decision: Decision) -> tuple[str, str]:
    return decision.verdict, decision.refusals[0].finding if decision.refusals else ""


@pytest.mark.parametrize(
    ("image", "gpu", "driver", "says"),
    [
        (JANUARY, "Gamma C12", "600.20", ("ok", "")),
        (JANUARY, "Beta B9", "550.20", ("ok", "")),  # a data-centre GPU: the cuda-compat in it
        (JANUARY, "Gamma C12 Max", "500.20", ("conflict", "image-requires-newer-driver")),
        (JANUARY, "Alpha A7", "600.20", ("conflict", "arch-dropped-by-cuda-major")),
        ("nvcr.io/nvidia/frame:24.01-py3", "Gamma C12", "600.20", ("unknown", "image-older-than-gpu")),
        ("nvcr.io/nvidia/frame:24.01-py3", "Alpha A7", "550.20", ("ok", "")),
        ("nvcr.io/nvidia/solver:26.01", "Alpha A7", "500.20", ("ok", "")),  # its own notes before those of the month
        ("nvcr.io/nvidia/frame:25.13-py3", "Beta B9", "600.20", ("unknown", "image-not-in-data")),
        ("nvcr.io/nvidia/frame:26.01-py3-igpu", "Beta B9", "600.20", ("unknown", "image-not-in-data")),
        ("nvcr.io/nvidia/frame:26.011", "Beta B9", "600.20", ("unknown", "image-not-in-data")),
        ("registry.example/own:26.01-py3", "Beta B9", "600.20", ("unknown", "image-not-in-data")),
        ("13.0.1-base-ubuntu1", "Gamma C12", "600.20", ("ok", "")),
        ("nvidia/cuda:13.0.1-base-ubuntu1", "Alpha A7", "600.20", ("conflict", "arch-dropped-by-cuda-major")),
        ("python:3.12-slim-debian12", "Alpha A7", "500.20", ("ok", "")),
    ],
)
def test_an_image_and_a_machine(image: str, gpu: str, driver: str, says: tuple[str, str]) -> None:
    assert first(ask(image, gpu, driver)) == says


def test_a_geforce_is_refused_where_minor_version_compatibility_would_do() -> None:
    """The start check compares with the CUDA that the driver reports; only data-centre brands have alternatives."""
    decision = ask("nvidia/cuda:12.9.1-base-ubuntu22.04", "rtx3090", "550.163.01", rows=SHIPPED)
    assert first(decision) == ("conflict", "image-requires-newer-driver")
    assert "NVIDIA_DISABLE_REQUIRE=1" in decision.refusals[0].fact
    for remedy in decision.remedies:
        request = Request(image="nvidia/cuda:12.9.1-base-ubuntu22.04", gpus=("rtx3090",), driver="550.163.01")
        assert decide(apply_changes(request, remedy.changes), SHIPPED).verdict == "ok"
    assert decision.remedies
    assert ask("nvidia/cuda:12.9.1-base-ubuntu22.04", "a100", "550.163.01", rows=SHIPPED).verdict == "ok"


@pytest.mark.parametrize(
    ("image", "gpu", "driver", "helps"),
    [
        (JANUARY, "Alpha A7", "600.20", "nvcr.io/nvidia/frame:24.01-py3"),
        ("nvcr.io/nvidia/frame:24.01-py3", "Gamma C12", "600.20", JANUARY),
    ],
)
def test_another_release_of_the_container_helps_and_is_proved(image: str, gpu: str, driver: str, helps: str) -> None:
    decision = ask(image, gpu, driver)
    assert decision.verdict != "ok"
    assert decision.remedies[0].changes == {"image": helps}
    assert ask(helps, gpu, driver).verdict == "ok"


def test_an_image_of_the_catalogue_gets_one_of_its_own_kind() -> None:
    decision = ask("nvidia/cuda:13.0.0-cudnn-runtime-ubuntu22.04", "v100", "580", rows=SHIPPED)
    assert decision.remedies[0].changes["image"].startswith("nvidia/cuda:12.9")
    assert decision.remedies[0].changes["image"].endswith("-cudnn-runtime-ubuntu22.04")


def test_any_driver_states_the_lowest_that_starts_it() -> None:
    text = told(ask(JANUARY, "Beta B9"))
    assert "starts where the driver reports CUDA 13.0 or newer: branch 600 (600.10) is the first that does" in text
    assert "with the cuda-compat in it also on branch 550" in text
    assert "cuda-compat" not in told(ask(JANUARY, "Gamma C12"))  # no data-centre GPU


def test_upgrade_names_branch_flavour_and_why() -> None:
    text = told(ask(JANUARY, "Gamma C12", "upgrade"))
    assert "install driver branch 600 (LTS, supported) with the open kernel modules" in text
    assert "the smallest that does is 600" in text


def test_no_driver_of_the_gpu_starts_it() -> None:
    newer = matrix(containers=(Container(family="nvidia", release="26.01", cuda=Version("12.9.0"), **SAID),), cuda=_with_12_9())
    drivers = tuple(row for row in newer.drivers if row.branch in {"500", "550"})
    decision = ask(JANUARY, "Alpha A7", rows=matrix(containers=newer.containers, cuda=newer.cuda, drivers=drivers))
    assert first(decision) == ("conflict", "no-driver-for-gpu-and-cuda")
    assert "branch 550 is the last, and reports 12.6" in decision.refusals[0].fact


def _with_12_9() -> tuple[Any, ...]:
    from tests.unit.stack.small import cuda

    return (*MATRIX.cuda, cuda("12.9", "560.10", "500.10", "sm_70", "sm_90"))


def test_packages_in_a_container_of_which_nobody_knows_what_it_holds_are_no_yes() -> None:
    decision = ask(JANUARY, "Beta B9", "600.20", packages=("frame",))
    assert first(decision) == ("unknown", "image-not-in-data")
    assert "ask without packages" in decision.refusals[0].fact


def test_a_cuda_that_has_no_row_is_unknown() -> None:
    rows = matrix(containers=(Container(family="nvidia", release="26.01", cuda=Version("14.2"), **SAID),))
    decision = ask(JANUARY, "Beta B9", rows=rows)
    assert first(decision) == ("unknown", "cuda-not-in-data")


def test_an_image_on_a_pool_names_the_member_that_cannot() -> None:
    pool = (PoolMember(name="new", gpu="Gamma C12", driver="600.20"), PoolMember(name="old", gpu="Alpha A7", driver="600.20"))
    decision = decide(Request(image=JANUARY, pool=pool), MATRIX)
    assert first(decision) == ("conflict", "arch-dropped-by-cuda-major")
    assert decision.refusals[0].fact.startswith("old: ")
    assert decide(Request(image=JANUARY, pool=pool[:1]), MATRIX).verdict == "ok"


def test_the_containers_that_ship_are_known() -> None:
    assert SHIPPED.containers
    newest = max((row for row in SHIPPED.containers if row.family == "nvidia"), key=lambda row: Version(row.release))
    decision = ask(f"nvcr.io/nvidia/pytorch:{newest.release}-py3", "h100", "upgrade", rows=SHIPPED)
    assert decision.verdict == "ok"
    assert "install driver branch" in told(decision)
