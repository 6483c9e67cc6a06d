"""Builds that take CUDA from the system: which image serves them."""

from __future__ import annotations

from typing import Any

import pytest

from provisioner.stack.compiled import shipped_matrix
from provisioner.stack.request import Request
from provisioner.stack.resolve import decide, resolve

MATRIX = shipped_matrix()
A100 = {"gpus": ("NVIDIA A100-SXM4-80GB",), "driver": "550.54.15"}


def test_the_image_has_the_cudnn_of_the_build() -> None:
    stack = resolve(Request(packages=("tensorflow==2.12.0",), **A100), MATRIX)  # type: ignore[arg-type]  # fields of a request
    assert stack.variant == "cu118"
    assert stack.image.reference == "nvidia/cuda:11.8.0-cudnn8-runtime-ubuntu22.04"


@pytest.mark.parametrize(
    ("release", "variant", "said"),
    [
        ("2.17.0", "cu123", "CUDA 12.3 and cuDNN 8.9"),  # the images of 12.3 have cuDNN 9
        ("2.21.0", "cu125", "CUDA 12.5 and cuDNN 9.3"),  # those of 12.5 have 9.2
    ],
)
def test_an_image_with_another_cudnn_is_not_taken(release: str, variant: str, said: str) -> None:
    decision = decide(Request(packages=(f"tensorflow=={release}",), variant=variant, **A100), MATRIX)  # type: ignore[arg-type]  # see above
    assert decision.verdict != "ok"
    assert decision.refusals[0].rule == "has-image"
    assert decision.refusals[0].fact.endswith(f"it would have to have {said}")
    assert decision.remedies[0].changes == {"variant": "and-cuda"}


def test_a_kepler_gets_no_image_whose_cudnn_has_dropped_it() -> None:
    request = Request(packages=("tensorflow==2.12.0",), gpus=("Tesla K80",), driver="470.57.02")
    assert decide(request, MATRIX).refusals[0].rule == "has-image"
    old = resolve(Request(packages=("tensorflow==2.11.0",), gpus=("Tesla K80",), driver="470.57.02"), MATRIX)
    assert old.image.reference.startswith("nvidia/cuda:11.2.2-cudnn8-runtime")  # cuDNN 8.1 knows it


@pytest.mark.parametrize(
    ("image", "finding", "said"),
    [
        ("nvidia/cuda:11.8.0-runtime-ubuntu22.04", "image-without-libraries", "has no cuDNN"),
        ("nvidia/cuda:11.8.0-base-ubuntu22.04", "image-without-libraries", "has no CUDA libraries"),
        ("python:3.10-slim-bookworm", "image-without-libraries", "has no CUDA libraries"),
        ("nvidia/cuda:12.2.2-cudnn8-runtime-ubuntu22.04", "image-cuda-mismatch", "has CUDA 12.2.2"),
        ("nvidia/cuda:11.2.2-cudnn8-runtime-ubuntu20.04", "image-cuda-mismatch", "has CUDA 11.2.2"),
    ],
)
def test_an_image_that_was_asked_must_have_the_libraries(image: str, finding: str, said: str) -> None:
    fields: dict[str, Any] = {**A100, "image": image, "variant": "cu118", "python": "3.10"}
    decision = decide(Request(packages=("tensorflow==2.12.0",), **fields), MATRIX)
    assert decision.verdict == "conflict"
    refusal = next(refusal for refusal in decision.refusals if refusal.finding == finding)
    assert refusal.fact.endswith(f"and {image} {said}")


def test_an_asked_image_with_the_libraries_is_taken() -> None:
    fields: dict[str, Any] = {**A100, "image": "nvidia/cuda:11.8.0-cudnn8-devel-ubuntu22.04"}
    stack = resolve(Request(packages=("tensorflow==2.12.0",), **fields), MATRIX)
    assert stack.image.reference == "nvidia/cuda:11.8.0-cudnn8-devel-ubuntu22.04"
    assert any("takes CUDA 11.8 and cuDNN 8.6" in because.fact for because in stack.because)


def test_a_build_that_brings_cuda_does_not_care() -> None:
    fields: dict[str, Any] = {**A100, "image": "python:3.12-slim-bookworm"}
    assert resolve(Request(packages=("tensorflow[and-cuda]==2.17.0",), **fields), MATRIX).variant == "and-cuda"
