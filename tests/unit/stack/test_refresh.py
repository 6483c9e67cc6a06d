"""What wheels say → rows → the difference, and what trips. The texts are those of torch 2.15.0 on the index of 2026-12-01."""

from __future__ import annotations

import pytest

from provisioner.decode import decode
from provisioner.errors import MatrixError
from provisioner.resources import resource
from provisioner.stack.compiled import shipped_matrix
from provisioner.stack.gpus import Capability
from provisioner.stack.matrix import overlay
from provisioner.stack.matrix_text import format_matrix, format_overlay
from provisioner.stack.refresh import compared, empty_file, gone, to_read, with_rows
from provisioner.stack.rows import MatrixFile, Release, Variant
from provisioner.stack.upstream import pytorch, wheels
from provisioner.stack.upstream.pytorch import Library, WheelText
from provisioner.stack.upstream.wheels import Offer, UnreadableWheel
from provisioner.values import replace
from provisioner.versions import Version

MATRIX = shipped_matrix()
DAY, SOURCE = "2026-12-02", pytorch.source_of("2026-12-02")

VERSION_PY = """\
from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip', 'rocm', 'xpu']
__version__ = '2.15.0+cu132'
debug = False
cuda: Optional[str] = '13.2'
git_version = 'd0f2af8b66b20da4baa50644c0cd3f887a2eae2e'
hip: Optional[str] = None
"""
METADATA = """\
Metadata-Version: 2.4
Name: torch
Version: 2.15.0
Requires-Dist: filelock
Requires-Dist: cuda-toolkit[cublas,cudart,cufft,cufile,cupti,cusolver]==13.2.2; platform_system == "Linux"
Requires-Dist: cuda-bindings<14,>=13.0.3; platform_system == "Linux" and python_version < "3.15"
Requires-Dist: nvidia-cudnn-cu13==9.26.0.51; platform_system == "Linux"
Requires-Dist: nvidia-nccl-cu13==2.30.7; platform_system == "Linux"
Requires-Dist: triton~=3.9.0; platform_system == "Linux" and python_version < "3.16"
Requires-Dist: pyyaml; extra == "pyyaml"

Requires-Dist: not-a-header==1
"""
TABLE = """\
PYTORCH_RELEASES_CODE_CC: dict[str, dict[str, set[int]]] = {
    "13.0": {
        "x86_64": {75, 80, 86, 90, 100, 120},
        "aarch64": {80, 90, 100, 110, 120},
    },
    "13.2": {
        "x86_64": {75, 80, 86, 90, 100, 120},
        "aarch64": {80, 90, 100, 110, 120},
    },
}
"""
LISTED = b"cpp_gxx_abi_1xxx_use_cxx11_abi_1\x00\x00\x00\x00sm_75 sm_80 sm_86 sm_90 sm_100 sm_120\x00\x00\x00at::cuda"
PYTHONS = ("311-cp311", "312-cp312", "313-cp313", "314-cp314", "314-cp314t", "315-cp315", "315-cp315t")
OFFERS = tuple(
    Offer(name=f"torch-2.15.0-cp{python}-manylinux_2_28_x86_64.whl", size=size, day="2026-10-28")
    for python, size in zip(PYTHONS, (539136850, 539172785, 539167086, 539172352, 539145346, 539172220, 538397035), strict=True)
)
TEXT = WheelText(
    name=OFFERS[1].name,
    version=VERSION_PY,
    metadata=METADATA,
    table=TABLE,
    library=pytorch.scan([LISTED, b"numpy._core.multiarray"]),
)
ROW = pytorch.variant_of(TEXT, OFFERS, SOURCE.id)
RELEASE = pytorch.release_of(TEXT, "2026-10-28", {"torchvision": "0.29.2", "torchaudio": ">=2.11.0,<2.12"}, SOURCE.id)


def without(version: str) -> object:
    """The shipped matrix without one release."""
    file = decode(resource("compat_matrix.yaml").read_text(encoding="utf-8"), "m", MatrixFile, MatrixError, strict=True)
    kept = {
        name: tuple(row for row in getattr(file, name) if str(row.version) != version or row.framework != "torch")
        for name in ("releases", "variants")
    }
    from provisioner.stack.matrix import load_matrix

    return load_matrix(format_matrix(replace(file, **kept)), "m")


def test_the_texts_of_a_wheel_give_the_shipped_row() -> None:
    shipped = MATRIX.row("variants", "torch 2.15.0 cu132 linux/amd64")
    assert replace(ROW, source=shipped.source) == replace(shipped, note="", also=())
    refreshed = compared(MATRIX, RELEASE, [ROW])
    assert (refreshed.state, refreshed.changes, refreshed.rows, refreshed.fails, refreshed.moves) == ("same", (), (), (), ())


def test_the_wheel_that_is_read_is_the_usual_one() -> None:
    assert wheels.offers_of(reversed(OFFERS), Version("2.15.0"), "linux/amd64")[0].name == TEXT.name
    assert wheels.offers_of(OFFERS, Version("2.15.0"), "linux/arm64") == ()


@pytest.mark.parametrize(
    ("name", "glibc"),
    [
        ("torch-2.0.1-cp310-cp310-manylinux1_x86_64.whl", "2.17"),
        ("torch-2.4.0-cp310-cp310-manylinux2014_aarch64.whl", "2.17"),
        ("torchvision-0.29.2-py3-none-manylinux_2_28_aarch64.whl", "2.28"),
        ("torch-9.0-cp310-cp310-manylinux_2_34_x86_64.manylinux_2_28_x86_64.whl", "2.28"),
        ("torch-2.15.0-cp312-cp312-win_amd64.whl", None),
        ("torch-2.15.0rc1-cp312-cp312-manylinux_2_28_x86_64.whl", None),
        ("torch-2.15.0.tar.gz", None),
        ("..whl", None),
    ],
)
def test_file_names(name: str, glibc: str | None) -> None:
    tags = wheels.tags_of(name)
    assert (str(tags.glibc) if tags else None) == glibc


def test_the_library_is_read_no_further_than_needed_and_across_pieces() -> None:
    def pieces() -> object:
        yield b"x" * 5000 + LISTED[:45]
        yield LISTED[45:] + b"numpy._co"
        yield b"re.multiarray"
        pytest.fail("read on")

    assert pytorch.scan(pieces()) == Library(architectures="sm_75 sm_80 sm_86 sm_90 sm_100 sm_120", numpy2=True)  # type: ignore[arg-type]
    assert pytorch.scan([b"nothing"]) == Library(architectures=None, numpy2=False)


def test_a_wheel_that_says_too_little_makes_no_row() -> None:
    silent = replace(TEXT, library=Library(architectures=None, numpy2=True))
    for wrong in (silent, replace(TEXT, version="x = 1"), replace(TEXT, version=VERSION_PY.replace("2.15.0", "2.14.0"))):
        with pytest.raises(UnreadableWheel, match=TEXT.name):
            pytorch.variant_of(wrong, OFFERS, SOURCE.id)
    stable = Offer(name="torch-2.15.0-cp312-abi3-manylinux_2_28_x86_64.whl")
    with pytest.raises(UnreadableWheel, match="Pythons"):
        pytorch.variant_of(replace(TEXT, name=stable.name), [stable], SOURCE.id)


def test_requirements_for_other_machines_and_extras_stay_out() -> None:
    old = (
        'Requires-Dist: nvidia-nccl-cu12 (==2.18.1) ; platform_system == "Linux" and platform_machine == "x86_64"\n'
        "Requires-Dist: opt-einsum (>=3.3) ; extra == 'opt-einsum'\n"
    )
    assert wheels.requirements_of(old, "linux/amd64") == {"nvidia-nccl-cu12": "==2.18.1"}
    assert wheels.requirements_of(old, "linux/arm64") == {}


def test_the_table_is_held_against_the_library() -> None:
    assert pytorch.disagreements(TEXT, ROW) == ()
    (said,) = pytorch.disagreements(replace(TEXT, table=TABLE.replace("75, 80", "80")), ROW)
    assert "sm_75" in said
    flat = 'PYTORCH_RELEASES_CODE_CC: dict[str, set[int]] = {\n    "13.2": {75, 80, 86, 90, 100, 110, 120},\n}\n'
    assert pytorch.disagreements(replace(TEXT, table=flat), ROW) == ()
    assert pytorch.disagreements(replace(TEXT, table=flat.replace("75, ", "")), ROW) != ()


def test_companions() -> None:
    pinned, loose, free = "Requires-Dist: torch==2.10.0\n", "Requires-Dist: torch>=2.14.0\n", "Name: torchaudio\n"
    version = Version("2.15.0")
    assert pytorch.companion_bound({Version("0.29.2"): loose}, version, line=False) == "0.29.2"
    assert pytorch.companion_bound({Version("0.25.0"): pinned}, version, line=False) is None
    assert pytorch.companion_bound({Version("2.10.0"): pinned}, Version("2.10.0"), line=True) == "2.10.0"
    assert pytorch.companion_bound({Version("2.11.0"): free, Version("2.11.1"): free}, version, line=True) == ">=2.11.0,<2.12"
    offers = [
        Offer(name=f"torchaudio-{number}-cp312-cp312-manylinux_2_28_x86_64.whl") for number in ("2.9.1", "2.11.0", "2.11.1")
    ]
    assert pytorch.line_of(offers, version) == (Version("2.11.0"), Version("2.11.1"))
    assert pytorch.line_of(offers, Version("2.9.1")) == (Version("2.9.1"),)
    assert pytorch.line_of(offers, Version("2.0.0")) == ()
    dated = [
        Offer(name=f"torchvision-0.{number}.0-py3-none-manylinux_2_28_x86_64.whl", day=f"2026-0{number}-01") for number in (1, 5)
    ]
    assert pytorch.near_in_time(dated, "2026-04-20")[0] == Version("0.5.0")
    assert pytorch.near_in_time(dated, None) == ()


def test_what_is_read() -> None:
    listed = [Version(number) for number in ("1.12.0", "2.14.0", "2.14.1", "2.15.0", "2.16.0")]
    assert list(map(str, to_read(MATRIX, "torch", listed, 0))) == ["2.16.0"]
    assert list(map(str, to_read(MATRIX, "torch", listed, 2))) == ["2.14.1", "2.15.0", "2.16.0"]
    assert any("torch 2.13.0" in text for text in gone(MATRIX, "torch", listed))


def test_a_list_that_shrinks_fails() -> None:
    fewer = replace(ROW, pythons=ROW.pythons[1:], sass=(ROW.sass or ())[1:])
    refreshed = compared(MATRIX, RELEASE, [fewer])
    assert [text.rpartition(" ")[2] for text in refreshed.fails] == ["3.11", "7.5"]
    assert any("the oldest GPU moves from 7.5 to 8.0" in text for text in refreshed.moves)
    (other,) = compared(MATRIX, RELEASE, [replace(ROW, tag="cu134")]).fails
    assert "was cu132 and is cu134" in other


def test_what_the_index_does_not_say_is_not_erased() -> None:
    silent = replace(ROW, cudnn=None, download=None)
    assert compared(MATRIX, replace(RELEASE, companions={}), [silent]).state == "same"
    grown = compared(MATRIX, RELEASE, [replace(ROW, cudnn=Version("9.27.0.1"))])
    ((section, row),) = grown.rows
    assert (section, str(row.cudnn), row.source[-1]) == ("variants", "9.27.0.1", SOURCE.id)


def test_a_new_release_becomes_rows_that_the_resolver_takes() -> None:
    before = without("2.15.0")
    refreshed = compared(before, RELEASE, [ROW], beside=pytorch.unread_builds([ROW]))  # type: ignore[arg-type]  # a Matrix
    assert refreshed.state == "new"
    assert refreshed.fails == ()
    assert "torch 2.15.0 cu132 linux/amd64: the oldest Python moves from 3.10 to 3.11 (that of 2.14.1)" in refreshed.moves
    text = format_overlay(with_rows(empty_file(DAY), refreshed.rows, SOURCE, DAY))
    merged = overlay(before, text, "matrix.yaml")  # type: ignore[arg-type]  # a Matrix
    assert merged.row("variants", "torch 2.15.0 cu132 linux/amd64") == ROW
    assert merged.row("variants", "torch 2.15.0 cpu linux/amd64").published == "named"
    assert merged.collected == DAY
    again = with_rows(decode(text, "m", MatrixFile, MatrixError, strict=True), refreshed.rows, SOURCE, DAY)
    assert format_overlay(again) == text


def test_a_checkout_keeps_every_other_row_byte_for_byte() -> None:
    text = resource("compat_matrix.yaml").read_text(encoding="utf-8")
    file = decode(text, "m", MatrixFile, MatrixError, strict=True)
    row = replace(ROW, version=Version("2.16.0"))
    after = format_matrix(with_rows(file, [("variants", row)], SOURCE, DAY)).splitlines()
    assert set(text.splitlines()) - set(after) == {f"collected: '{MATRIX.collected}'"}
    assert len(after) == len(text.splitlines()) + 2


def test_an_unknown_capability_or_cuda_is_a_fault_of_the_rows() -> None:
    strange: Variant = replace(ROW, cuda=Version("99.0"), sass=(Capability(42, 0),))
    release: Release = RELEASE
    rows = compared(MATRIX, release, [strange]).rows
    with pytest.raises(MatrixError, match=r"99\.0"):
        overlay(MATRIX, format_overlay(with_rows(empty_file(DAY), rows, SOURCE, DAY)), "m")
