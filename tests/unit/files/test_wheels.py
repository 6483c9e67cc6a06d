"""Which file an interpreter takes; the names are of files on package indexes."""

from __future__ import annotations

import pytest

from provisioner.files.wheels import best

MARKUPSAFE = (
    "markupsafe-3.0.4-cp312-cp312-macosx_11_0_arm64.whl",
    "markupsafe-3.0.4-cp312-cp312-manylinux2014_x86_64.manylinux_2_17_x86_64.manylinux_2_28_x86_64.whl",
    "markupsafe-3.0.4-cp312-cp312-manylinux2014_aarch64.manylinux_2_17_aarch64.manylinux_2_28_aarch64.whl",
    "markupsafe-3.0.4-cp312-cp312-musllinux_1_2_x86_64.whl",
    "markupsafe-3.0.4-cp312-cp312-win_amd64.whl",
    "markupsafe-3.0.4-cp313-cp313t-manylinux2014_x86_64.manylinux_2_17_x86_64.manylinux_2_28_x86_64.whl",
    "markupsafe-3.0.4.tar.gz",
)


@pytest.mark.parametrize(
    ("names", "version", "python", "platform", "chosen"),
    [
        (MARKUPSAFE, "3.0.4", "3.12", "linux/amd64", 1),
        (MARKUPSAFE, "3.0.4", "3.12", "linux/arm64", 2),
        (MARKUPSAFE, "3.0.4", "3.13t", "linux/amd64", 5),
        (MARKUPSAFE, "3.0.4", "3.9", "linux/amd64", 6),
        (MARKUPSAFE, "3.0.5", "3.12", "linux/amd64", None),
        (("six-1.17.0-py2.py3-none-any.whl", "six-1.17.0.tar.gz"), "1.17.0", "3.12", "linux/arm64", 0),
        (("a-1-py2-none-any.whl",), "1", "3.12", "linux/amd64", None),
        (("torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl",), "2.13.0+cpu", "3.11", "linux/amd64", 0),
        (("torch-2.13.0%2Bcpu-cp311-cp311-manylinux_2_28_x86_64.whl",), "2.13.0+cpu", "3.11", "linux/amd64", 0),
        (("torch-2.5.1+cu121-cp312-cp312-linux_x86_64.whl",), "2.5.1+cu121", "3.12", "linux/amd64", 0),
        (("cryptography-45.0.0-cp37-abi3-manylinux_2_28_x86_64.whl",), "45.0.0", "3.12", "linux/amd64", 0),
        (("cryptography-45.0.0-cp313-abi3-manylinux_2_28_x86_64.whl",), "45.0.0", "3.12", "linux/amd64", None),
        (("nvidia_cublas-13.0.0.19-py3-none-manylinux_2_27_x86_64.whl",), "13.0.0.19", "3.12", "linux/amd64", 0),
        (("a-1-1build-cp312-cp312-manylinux1_x86_64.whl", "a-1-py3-none-any.whl"), "1", "3.12", "linux/amd64", 0),
        (("nonsense", "a.whl", ""), "1", "3.12", "linux/amd64", None),
    ],
)
def test_the_best_file(names: tuple[str, ...], version: str, python: str, platform: str, chosen: int | None) -> None:
    found = best(names, version, python, platform)  # type: ignore[arg-type]
    assert found == (None if chosen is None else names[chosen])


def test_an_old_c_library_takes_no_new_wheel() -> None:
    names = ("a-1-cp312-cp312-manylinux_2_34_x86_64.whl", "a-1-cp312-cp312-manylinux_2_17_x86_64.whl")
    assert best(names, "1", "3.12", "linux/amd64") == names[1]
    assert best(names[:1], "1", "3.12", "linux/amd64", (2, 28)) is None
