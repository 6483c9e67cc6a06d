"""What people write for a GPU, against the names that drivers report."""

from __future__ import annotations

import pytest

from provisioner.stack.compiled import shipped_matrix
from provisioner.stack.gpu_names import match_gpus


def names(asked: str) -> list[str]:
    return [gpu.name for gpu in match_gpus(asked, shipped_matrix())]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("t4", ["Tesla T4"]),
        ("Tesla T4", ["Tesla T4"]),
        ("k80", ["Tesla K80"]),
        ("NVIDIA B200", ["NVIDIA B200"]),
        ("b200", ["NVIDIA B200"]),
        ("h100", ["NVIDIA H100", "NVIDIA H100 80GB HBM2e", "NVIDIA H100 80GB HBM3", "NVIDIA H100 NVL", "NVIDIA H100 PCIe"]),
        ("NVIDIA H100", ["NVIDIA H100"]),  # a full name stands alone
        ("nvidia h100", ["NVIDIA H100"]),
        ("H100-PCIe", ["NVIDIA H100 PCIe"]),
        ("h100-sxm", ["NVIDIA H100 80GB HBM3"]),  # by alias
        ("A100-SXM4-40GB", ["NVIDIA A100-SXM4-40GB"]),  # as older drivers print it, without NVIDIA
        ("rtx-pro-6000-blackwell-server", ["NVIDIA RTX PRO 6000 Blackwell Server Edition"]),
        ("DGX Spark", ["NVIDIA GB10"]),
        ("gh200", ["NVIDIA GH200 120GB", "NVIDIA GH200 144G HBM3e", "NVIDIA GH200 480GB"]),
        ("GH200 480GB", ["NVIDIA GH200 480GB"]),
        ("a6000", ["NVIDIA RTX A6000"]),
        ("2080ti", ["NVIDIA GeForce RTX 2080 Ti"]),
        ("GeForce RTX 3090", ["NVIDIA GeForce RTX 3090"]),  # as drivers before 455 print it
        ("3090", ["NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 3090 Ti"]),
        ("jetson thor", ["Jetson T4000", "Jetson T5000 / AGX Thor Developer Kit"]),
        ("NVIDIA GeForce RTX 2070 SUPER", ["NVIDIA GeForce RTX 2070 SUPER"]),  # the laptop part is spelt Super
        ("NVIDIA GeForce RTX 2070 super", ["NVIDIA GeForce RTX 2070 SUPER", "NVIDIA GeForce RTX 2070 Super"]),
    ],
)
def test_a_name_finds_its_products(asked: str, found: list[str]) -> None:
    assert names(asked) == found


@pytest.mark.parametrize(
    ("asked", "count", "capabilities"),
    [
        ("a100", 6, {"8.0"}),
        ("v100", 12, {"7.0"}),
        ("rtx6000", 8, {"7.5", "8.9", "12.0"}),
        ("RTX PRO 6000", 5, {"12.0"}),
        ("rtx4090", 3, {"8.9"}),
        ("rtx5090", 4, {"12.0"}),
        ("RTX 5090", 4, {"12.0"}),
        ("NVIDIA GeForce RTX 5090", 1, {"12.0"}),
        ("l40", 2, {"8.9"}),
        ("orin", 4, {"8.7"}),
        ("v100-32gb", 4, {"7.0"}),
    ],
)
def test_a_short_name_finds_all_that_it_may_mean(asked: str, count: int, capabilities: set[str]) -> None:
    found = match_gpus(asked, shipped_matrix())
    assert (len(found), {str(gpu.capability) for gpu in found}) == (count, capabilities)


@pytest.mark.parametrize("asked", ["", " ", "nvidia", "GeForce PRO", "mi300x", "rtx 1234", "a1000000", "--", "t4 t4", "sm_90x"])
def test_what_names_no_product_finds_none(asked: str) -> None:
    assert names(asked) == []


def test_every_name_and_alias_finds_its_product() -> None:
    matrix = shipped_matrix()
    for gpu in matrix.gpus:
        for name in (gpu.name, gpu.name.upper(), gpu.name.lower(), *gpu.aliases):
            assert gpu in match_gpus(name, matrix), f"{name!r} does not find {gpu.name}"


def test_no_alias_is_the_name_in_another_spelling() -> None:
    for gpu in shipped_matrix().gpus:
        for alias in gpu.aliases:
            assert alias.lower().removeprefix("nvidia ") != gpu.name.lower().removeprefix("nvidia ")
