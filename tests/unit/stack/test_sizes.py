"""The predicted size of a stack, and what of it a CUDA base image would hold a second time."""

from __future__ import annotations

from typing import Any

import pytest

from provisioner.report import text
from provisioner.report.stack import stack_json
from provisioner.stack.compiled import shipped_matrix
from provisioner.stack.request import Request
from provisioner.stack.resolve import decide, resolve

MATRIX = shipped_matrix()
TWICE = "cuda-libraries-twice"
RUNTIME = "nvidia/cuda:12.8.1-cudnn-runtime-ubuntu24.04"
DEVEL = "nvidia/cuda:12.8.1-cudnn-devel-ubuntu24.04"


def request(*packages: str, **fields: Any) -> Request:  # noqa: ANN401 - fields of a request
    return Request(packages=packages, **{"gpus": ("a100",), **fields})


def test_the_cuda_libraries_are_told_beside_the_size() -> None:
    stack = resolve(request("torch==2.10.0", variant="cu128", python="3.12"), MATRIX)
    assert stack.size is not None
    assert stack.size.cuda == 3_010_000_000  # the closure of torch 2.10.0
    line = "; 3.0 GB of the download are CUDA libraries: a CUDA base image would hold them twice"
    assert text.size(stack.size).endswith(line)
    assert stack_json(stack)["size"]["cuda"] == stack.size.cuda


def test_no_duplicate_is_told_of_wheels_that_bring_no_cuda() -> None:
    stack = resolve(request("tensorflow==2.21.0", variant="cpu", gpus=("none",)), MATRIX)
    assert stack.size is None or not stack.size.cuda
    for cuda in (None, 0):
        size = resolve(request("torch==2.10.0", variant="cu128"), MATRIX).size
        assert size is not None
        assert "twice" not in text.size(type(size)(download=size.download, cuda=cuda, basis=size.basis))


@pytest.mark.parametrize("image", [RUNTIME, DEVEL])
def test_an_image_that_holds_what_the_wheels_bring_is_told(image: str) -> None:
    decision = decide(request("torch==2.9.1", image=image), MATRIX)
    (note,) = [note for note in decision.notes if note.finding == TWICE]
    assert note.fact.startswith(
        f"{image} holds the CUDA libraries that the wheels of torch 2.9.1 bring as well (3.0 GB to download)"
    )
    assert note.because[0].source.startswith("images nvidia/cuda")


@pytest.mark.parametrize(
    "asked",
    [
        request("torch==2.9.1", image="python:3.12-slim-bookworm"),
        request("torch==2.9.1", image="nvidia/cuda:12.8.1-base-ubuntu24.04"),  # has none of the libraries
        request("torch==2.9.1", image=DEVEL, purpose="build"),  # its compiler and headers are what it is for
        request("torch==2.9.1", image=RUNTIME, gpus=("none",)),  # the CPU build brings none
        request("tensorflow==2.12.0", variant="cu118", image="nvidia/cuda:11.8.0-cudnn8-runtime-ubuntu22.04"),
    ],
)
def test_nothing_is_told_where_nothing_is_there_twice(asked: Request) -> None:
    decision = decide(asked, MATRIX)
    assert decision.verdict == "ok"
    assert TWICE not in {note.finding for note in decision.notes}
