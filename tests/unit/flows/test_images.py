"""Images that no catalogue has, judged by what an engine says of them: our lock, or NVIDIA_REQUIRE_CUDA, else unknown."""

from __future__ import annotations

import json

import pytest

from provisioner.decode import encode
from provisioner.engines import ImageFacts
from provisioner.errors import EngineMissing
from provisioner.flows import images
from provisioner.flows.answers import decide
from provisioner.flows.inputs import Gathered
from provisioner.stack.compiled import shipped_matrix
from provisioner.stack.lock import Pins, lock
from provisioner.stack.request import Request
from provisioner.stack.resolve import resolve

MATRIX = shipped_matrix()
OWN = "registry.example/team/train:1"
#: From `docker image inspect` of nvidia/cuda:12.9.1-base-ubuntu22.04, shortened to two of its brands.
REQUIRE = "cuda>=12.9 brand=unknown,driver>=535,driver<536 brand=tesla,driver>=535,driver<536"


def _ours() -> ImageFacts:
    request = Request(packages=("torch==2.9.1",), gpus=("h100",), driver="580", variant="cu130")
    made = lock(resolve(request, MATRIX), request, Pins(why_not="not asked"), MATRIX)
    return ImageFacts(id="sha256:1", labels={images.LOCK_LABEL: json.dumps(encode(made), separators=(",", ":"))})


def _asks(monkeypatch: pytest.MonkeyPatch, facts: ImageFacts | None, gpu: str, driver: str) -> tuple[str, str, str]:
    monkeypatch.setattr(images, "_inspect", lambda image: facts if image == OWN else None)
    decision = decide(Gathered(request=Request(image=OWN, gpus=(gpu,), driver=driver)), MATRIX, offline=True)
    return decision.verdict, decision.refusals[0].finding if decision.refusals else "", decision.notes[0].fact


def test_our_own_image_is_asked_by_its_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict, _, said = _asks(monkeypatch, _ours(), "b200", "580.95.05")
    assert verdict == "ok"
    assert "its lock is asked" in said
    assert _asks(monkeypatch, _ours(), "v100", "580.95.05")[:2] == ("conflict", "arch-dropped-by-cuda-major")
    assert _asks(monkeypatch, _ours(), "h100", "535.261.03")[:2] == ("conflict", "driver-too-old-for-cuda-major")


@pytest.mark.parametrize(
    ("gpu", "driver", "says"),
    [
        ("h100", "580.95.05", ("ok", "")),
        ("h100", "535.261.03", ("ok", "")),
        ("rtx3090", "550.163.01", ("conflict", "image-requires-newer-driver")),
    ],
)
def test_an_image_on_top_of_a_cuda_image_says_what_it_needs(
    monkeypatch: pytest.MonkeyPatch, gpu: str, driver: str, says: tuple[str, str]
) -> None:
    facts = ImageFacts(id="sha256:1", platform="linux/amd64", env={"NVIDIA_REQUIRE_CUDA": REQUIRE})
    verdict, finding, said = _asks(monkeypatch, facts, gpu, driver)
    assert (verdict, finding) == says
    assert "needs CUDA 12.9" in said


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        (None, "has no image"),
        (ImageFacts(id="sha256:1"), "does not say which CUDA it needs"),
        (ImageFacts(id="sha256:1", env={"NVIDIA_REQUIRE_CUDA": "brand=tesla"}), "does not say which CUDA it needs"),
        (
            ImageFacts(id="sha256:1", env={"NVIDIA_REQUIRE_CUDA": REQUIRE, "NVIDIA_DISABLE_REQUIRE": "1"}),
            "does not say which CUDA it needs",
        ),
        (ImageFacts(id="sha256:1", labels={images.LOCK_LABEL: "{nothing"}), "a lock that cannot be read"),
    ],
)
def test_what_says_nothing_is_never_a_yes(monkeypatch: pytest.MonkeyPatch, facts: ImageFacts | None, says: str) -> None:
    verdict, finding, said = _asks(monkeypatch, facts, "h100", "580.95.05")
    assert (verdict, finding) == ("unknown", "image-not-in-data")
    assert says in said


def test_without_an_engine_the_question_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_here(_: str) -> None:
        raise EngineMissing("local: no docker here")

    monkeypatch.setattr(images, "_inspect", none_here)
    decision = decide(Gathered(request=Request(image=OWN, gpus=("h100",))), MATRIX, offline=True)
    assert decision.verdict == "unknown"
    assert "no docker here" in decision.notes[0].fact


def test_an_image_of_the_catalogue_asks_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_: str) -> None:
        raise AssertionError

    monkeypatch.setattr(images, "_inspect", never)
    request = Request(image="nvidia/cuda:12.9.1-base-ubuntu22.04", gpus=("h100",), driver="580")
    assert decide(Gathered(request=request), MATRIX, offline=True).verdict == "ok"
    assert decide(Gathered(request=Request(packages=("torch",), gpus=("h100",))), MATRIX, offline=True).verdict == "ok"
