"""What is installed beside a build: the range of a CUDA library is closed below the release that has dropped the GPU."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from provisioner.stack.compiled import shipped_matrix
from provisioner.stack.matrix import SECTIONS, Matrix
from provisioner.stack.request import Request
from provisioner.stack.resolve import decide, resolve
from provisioner.stack.rows import Library
from provisioner.stack.sizes import predict_size
from provisioner.values import replace
from provisioner.versions import Version

MATRIX = shipped_matrix()


def packages(*asked: str, **fields: Any) -> tuple[str, ...]:  # noqa: ANN401 - fields of a request
    return resolve(Request(packages=asked, **fields), MATRIX).packages


def test_a_volta_gets_the_last_cudnn_that_knows_it() -> None:
    stack = resolve(Request(packages=("jax==0.12.0.1",), gpus=("Tesla V100-SXM2-32GB",), driver="580.95.05"), MATRIX)
    assert stack.packages == ("jax[cuda12]==0.12.0.1", "nvidia-cudnn-cu12<9.11")
    assert stack.command == "pip install 'jax[cuda12]==0.12.0.1' 'nvidia-cudnn-cu12<9.11'"
    (said,) = [because.fact for because in stack.because if "cudnn" in because.fact]
    assert said.startswith("nvidia-cudnn-cu12 stays below 9.11: from 9.11 on nvidia-cudnn-cu12 runs on compute capability 7.5")
    assert said.endswith("and this is Tesla V100-SXM2-32GB (sm_70)")


def test_a_maxwell_keeps_its_nccl_too() -> None:
    pins = packages("jax==0.10.2", gpus=("NVIDIA GeForce GTX 980 Ti",), driver="580.95.05")
    assert pins[1:] == ("nvidia-cudnn-cu12<9.11", "nvidia-nccl-cu12<2.27.6")  # the next that was read has no sm_50


def test_the_oldest_gpu_of_several_decides() -> None:
    both = packages("tensorflow==2.21.0", gpus=("Tesla V100-SXM2-32GB", "NVIDIA H100 80GB HBM3"), driver="580.95.05")
    assert both == ("tensorflow[and-cuda]==2.21.0", "nvidia-cudnn-cu12<9.11")


@pytest.mark.parametrize("package", ["jax==0.12.0.1", "tensorflow==2.21.0", "tensorflow==2.19.1", "torch==2.9.1"])
def test_nothing_is_pinned_where_nothing_was_dropped(package: str) -> None:
    assert len(packages(package, gpus=("NVIDIA H100 80GB HBM3",), driver="580.95.05")) == 1


def test_an_exact_library_of_a_build_is_left_alone() -> None:
    assert packages("tensorflow==2.19.1", gpus=("Tesla V100-SXM2-32GB",), driver="580.95.05") == ("tensorflow[and-cuda]==2.19.1",)


def test_what_the_request_names_itself_is_not_pinned_a_second_time() -> None:
    asked = ("jax==0.12.0.1", "nvidia-cudnn-cu12==9.10.2.21")
    assert packages(*asked, gpus=("Tesla V100-SXM2-32GB",), driver="580.95.05") == ("jax[cuda12]==0.12.0.1", asked[1])


def test_a_build_for_numpy_1_and_cudnn_8_does_not_get_the_next_ones() -> None:
    old = packages("jax==0.4.25", gpus=("NVIDIA A100-SXM4-80GB",), driver="535.183.01")
    assert old == ("jax[cuda12]==0.4.25", "numpy<2", "nvidia-cudnn-cu12<9")
    assert packages("tensorflow==2.11.1", gpus=("none",)) == ("tensorflow==2.11.1", "numpy<2")
    assert packages("tensorflow==2.17.1", gpus=("none",)) == ("tensorflow==2.17.1",)  # its own bound is below 2


def test_a_build_that_asks_only_for_what_has_dropped_the_gpu_is_refused() -> None:
    moved = Library(
        library="cudnn",
        first=Version("9.7"),
        cuda_major=12,
        min_capability=MATRIX.libraries_of("cudnn", 12, Version("9.11"))[0].min_capability,
        source=("cudnn_rn",),
        verified="source",
    )
    kept = [row for row in MATRIX.libraries if (row.library, row.cuda_major) != ("cudnn", 12)]
    sections = {name: functools.partial(MATRIX.rows, name) for name in SECTIONS}
    sections["libraries"] = functools.partial(tuple, [*kept, moved])
    matrix = Matrix(collected=MATRIX.collected, sha256="", sections=sections)
    request = Request(packages=("jax==0.10.2",), gpus=("Tesla V100-SXM2-32GB",), driver="580.95.05", variant="cuda12")
    decision = decide(request, matrix)
    assert decision.verdict == "conflict"
    assert decision.refusals[0].finding == "library-min-arch"
    assert "asks for nvidia-cudnn-cu12<10.0,>=9.8; from 9.7 on" in decision.refusals[0].fact


def test_the_size_is_that_of_the_same_extra() -> None:
    bare = MATRIX.row("variants", "tensorflow 2.21.0 cu125 linux/amd64")
    extra = MATRIX.row("variants", "tensorflow 2.21.0 and-cuda linux/amd64")
    small, large = predict_size(MATRIX, bare, "3.12"), predict_size(MATRIX, extra, "3.12")
    assert small is not None
    assert large is not None
    assert small.download < 1_000_000_000
    assert large.download > 3_000_000_000
    assert "tensorflow[and-cuda]==2.21.0" in large.basis


def test_the_user_can_say_the_extra_or_the_tag() -> None:
    request = Request(packages=("tensorflow[and-cuda]==2.17.0",), gpus=("NVIDIA A100-SXM4-80GB",), driver="535.183.01")
    assert resolve(request, MATRIX).variant == "and-cuda"
    system = replace(request, packages=("tensorflow==2.15.1",), variant="cu122")
    stack = resolve(system, MATRIX)
    assert (stack.variant, stack.image.flavour) == ("cu122", "cudnn-runtime")
