"""The shipped matrix: what it holds, that its rows agree with each other, and how it is overlaid."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

import pytest

from provisioner import resources
from provisioner.errors import MatrixError
from provisioner.stack.gpus import Capability, cubin_runs
from provisioner.stack.invariants import check
from provisioner.stack.matrix import SECTIONS, Matrix, key_of, load_matrix, overlay
from provisioner.stack.rows import order_of
from provisioner.values import replace
from provisioner.versions import Version

if TYPE_CHECKING:
    from collections.abc import Callable

    from provisioner.stack.rows import Variant

TEXT = resources.resource("compat_matrix.yaml").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix(TEXT, "compat_matrix.yaml")


def build(matrix: Matrix, release: str, tag: str, platform: str = "linux/amd64") -> Variant:
    found: Variant | None = matrix.row("variants", f"torch {release} {tag} {platform}")
    assert found is not None, f"no build {release} {tag} {platform}"
    return found


# What was collected, counted where it was collected. A shrinking section is a mistake until somebody says why.
@pytest.mark.parametrize(
    ("section", "rows"),
    [
        ("architectures", 14),
        ("capabilities", 26),
        ("gpus", 429),
        ("drivers", 31),
        ("cuda", 30),
        ("cuda_releases", 68),
        ("releases", 30),
        ("variants", 186),
        ("images", 281 + 25),
        ("closures", 23),
    ],
)
def test_nothing_that_was_collected_is_missing(matrix: Matrix, section: str, rows: int) -> None:
    assert len(matrix.rows(section)) == rows


def test_the_images_of_nvidia_have_all_tags_but_those_of_tensorrt(matrix: Matrix) -> None:
    tags = [tag for row in matrix.images if row.repository == "nvidia/cuda" for tag in row.tags.values()]
    assert len(tags) == 1208 - 2
    assert len(set(tags)) == len(tags)


def test_a_tag_names_its_cuda_and_its_system(matrix: Matrix) -> None:
    for row in matrix.images:
        for flavour, tag in row.tags.items():
            if row.repository == "nvidia/cuda":
                assert re.fullmatch(rf"{row.cuda}-(cudnn\d?-)?(base|runtime|devel)-{row.os}", tag), tag
                assert tag.split("-")[-2] == flavour.rpartition("-")[2]
            else:
                assert re.fullmatch(rf"{row.python}-slim-(buster|bullseye|bookworm|trixie)", tag), tag


def test_the_rows_agree_with_each_other(matrix: Matrix) -> None:
    assert [str(fault) for fault in check(matrix)] == []


def spoilt(matrix: Matrix, section: str, change: Callable[[tuple[object, ...]], tuple[object, ...]]) -> Matrix:
    sections = {name: functools.partial(matrix.rows, name) for name in SECTIONS}
    sections[section] = functools.partial(tuple, change(matrix.rows(section)))
    return Matrix(collected=matrix.collected, sha256="", sections=sections)


def first(**changes: object) -> Callable[[tuple[object, ...]], tuple[object, ...]]:
    return lambda rows: (replace(rows[0], **changes), *rows[1:])


@pytest.mark.parametrize(
    ("section", "change", "fault"),
    [
        ("gpus", first(source=("nowhere",)), r"gpus .*: source nowhere is not in sources"),
        ("gpus", first(source=()), r"gpus .*: names no source"),
        ("gpus", first(architecture="tesla"), r"gpus .*: architecture tesla is not in architectures"),
        ("gpus", first(last_driver="999"), r"gpus .*: last_driver 999 is not in drivers"),
        ("gpus", first(capability=Capability(4, 2)), r"gpus .*: capability 4.2 is not in capabilities"),
        ("gpus", lambda rows: (rows[0], *rows), r"gpus .*: stands here twice"),
        ("gpus", lambda rows: (rows[1], rows[0], *rows[2:]), r"gpus .*: belongs before "),
        (
            "variants",
            first(index="pytorch/cu000"),
            r"variants torch 1.13.0 cpu linux/amd64: index pytorch/cu000 is not in indexes",
        ),
        ("variants", first(also=("elsewhere",)), r"variants .*: also elsewhere is not in indexes"),
        ("variants", first(cuda=Version("12.7")), r"variants .*: cuda 12.7 is not in cuda"),
        ("variants", first(cuda=Version("13.0"), sass=(Capability(7, 0),)), r"variants .*: sm_70 is no target of CUDA 13.0"),
        ("variants", first(sass=(Capability(7, 0),)), r"variants .*: a CPU build has no GPU code"),
        ("variants", first(pythons=()), r"variants .*: names no Python"),
        ("variants", lambda rows: rows[2:], r"releases torch 1.13.0: no CPU build for linux/amd64"),
        ("cuda", first(native_branch="385"), r"cuda 9.0: native_branch 385 is not in drivers"),
        ("images", first(os="beos5"), r"images .*: os beos5 is not in systems"),
        ("images", first(cuda=Version("12.7.0")), r"images .*: CUDA 12.7 is not in cuda"),
        ("releases", lambda rows: rows[1:], r"variants torch 1.13.0 cpu linux/amd64: torch 1.13.0 is not in releases"),
    ],
)
def test_rows_that_disagree_are_found(
    matrix: Matrix, section: str, change: Callable[[tuple[object, ...]], tuple[object, ...]], fault: str
) -> None:
    found = [str(entry) for entry in check(spoilt(matrix, section, change))]
    assert any(re.match(fault, entry) for entry in found), found


def test_numbers_are_ordered_as_numbers() -> None:
    assert sorted(["12.10", "12.9", "9.0", "12.10.1", "13"], key=order_of) == ["9.0", "12.9", "12.10", "12.10.1", "13"]


def test_no_wheel_of_pytorch_holds_ptx(matrix: Matrix) -> None:
    assert all(row.ptx == () for row in matrix.variants_of("torch"))


@pytest.mark.parametrize("release", ["2.4.0", "2.4.1", "2.5.0", "2.5.1", "2.6.0", "2.7.0", "2.7.1"])
def test_kepler_is_not_counted_where_cudnn_does_not_know_it(matrix: Matrix, release: str) -> None:
    row = build(matrix, release, "cu118")
    assert min(row.sass or ()) == Capability(5, 0)
    assert "sm_37" in row.note


def test_volta_ends_with_cuda_12(matrix: Matrix) -> None:
    volta = Capability(7, 0)
    runs = {
        row.tag
        for row in matrix.variants_of("torch")
        if row.version == Version("2.9.1") and any(cubin_runs(s, volta) for s in row.sass or ())
    }
    assert runs == {"cu126", "cu128"}
    assert volta not in build(matrix, "2.11.0", "cu128").sass  # type: ignore[operator]  # known there


def test_each_release_has_one_default_build_on_each_platform_that_the_index_serves(matrix: Matrix) -> None:
    for release in matrix.releases_of("torch"):
        for platform in ("linux/amd64", "linux/arm64"):
            defaults = [
                row for row in matrix.variants if row.version == release.version and row.platform == platform and row.default
            ]
            assert [row.index for row in defaults] == ["pypi"], f"{release.version} {platform}"


def test_the_default_build_for_arm64_is_for_cpu_before_2_11(matrix: Matrix) -> None:
    assert build(matrix, "2.10.0", "cpu", "linux/arm64").default
    assert not build(matrix, "2.11.0", "cpu", "linux/arm64").default
    assert build(matrix, "2.11.0", "cu130", "linux/arm64").default


def test_what_nobody_has_seen_is_only_named(matrix: Matrix) -> None:
    named = {(str(row.version), row.tag, row.platform) for row in matrix.variants if row.published == "named"}
    assert ("2.15.0", "cu134", "linux/amd64") in named
    assert ("2.15.0", "cpu", "linux/amd64") in named
    assert ("2.15.0", "cu132", "linux/amd64") not in named


def test_a_bare_branch_means_a_driver_that_carries_its_cuda(matrix: Matrix) -> None:
    for row in matrix.cuda:
        branch = matrix.driver(row.native_branch or "")
        assert branch is not None
        assert branch.first is not None
        assert row.native_driver is not None
        assert branch.first >= row.native_driver
        assert row.min_driver is None or branch.first >= row.min_driver or str(row.version) == "11.0"


def test_companions_are_versions_or_bounds(matrix: Matrix) -> None:
    for release in matrix.releases:
        for name, bound in release.companions.items():
            assert re.fullmatch(r"(~=)?\d+(\.\d+)+|>=\d+(\.\d+)+,<\d+(\.\d+)+", bound), f"{release.version} {name} {bound}"
    assert matrix.row("releases", "torch 2.9.1").companions == {"torchvision": "0.24.1", "torchaudio": "2.9.1", "triton": "3.5.1"}


@pytest.mark.parametrize(
    ("said", "row"),
    [
        ("rockylinux9", "rockylinux9"),
        ("rocky9.4", "rockylinux9"),
        ("ubuntu22.04", "ubuntu22.04"),
        ("debian12", "debian12"),
        ("rhel8.10", "rhel8"),
        ("ol9.3", "oraclelinux9"),
        ("amzn2023", "amzn2023"),
        ("opensuse-leap15.6", "opensuse15.6"),
        ("opensuse-leap15.5", "opensuse15"),
        ("alpine3.22.1", "alpine"),
        ("ubuntu22.10", None),
        ("rhel80", None),
        ("plan9", None),
    ],
)
def test_a_system_is_found_by_what_its_os_release_says(matrix: Matrix, said: str, row: str | None) -> None:
    found = matrix.system(said)
    assert (found.id if found else None) == row


def test_rows_are_looked_up(matrix: Matrix) -> None:
    assert matrix.driver("R580") is matrix.driver("580") is not None
    assert matrix.cuda_minor(Version("12.8.1")) is matrix.cuda_minor(Version("12.8")) is not None
    assert matrix.cuda_minor(Version("12.7")) is None
    assert matrix.index("pypi").url is None  # type: ignore[union-attr]  # it is there
    assert matrix.capability(Capability.parse("sm_90")).architecture == "hopper"  # type: ignore[union-attr]  # it is there
    with pytest.raises(KeyError):
        matrix.rows("colours")


OVERLAY = """\
schema: 1
sources:
- {id: site, document: "Our own measurement"}
drivers:
- {branch: '580', type: LTS, max_cuda: '13.0', first: '580.95.05', architectures: [turing], open_modules: default,
   status: supported, source: [site], verified: source}
gpus:
- {name: NVIDIA H123, segment: datacenter, architecture: hopper, capability: '9.0', source: [site], verified: secondary}
"""


def test_an_overlay_replaces_whole_rows_and_adds_rows(matrix: Matrix) -> None:
    over = overlay(matrix, OVERLAY, "site-matrix.yaml")
    assert len(over.gpus) == 430
    assert len(over.drivers) == 31
    driver = over.driver("580")
    assert driver is not None
    assert str(driver.first) == "580.95.05"
    assert driver.latest is None  # the whole row was replaced
    assert over.sha256 != matrix.sha256
    assert over.images is matrix.images
    assert [key_of("gpus", row) for row in over.gpus] == sorted((row.name for row in over.gpus), key=order_of)
    assert str(matrix.driver("580").first) == "580.65.06"  # type: ignore[union-attr]  # and the matrix itself is as before


def test_every_mistake_of_an_overlay_is_told_with_its_place(matrix: Matrix) -> None:
    text = """\
schema: 1
gpus:
- {name: NVIDIA H123, segment: datacenter, architecture: hopper, capability: 9.0, source: [site], verified: secondary}
- {name: NVIDIA H124, segment: datacenter, architectur: hopper, capability: '9.0', source: [site], verified: hearsay}
"""
    with pytest.raises(MatrixError) as caught:
        overlay(matrix, text, "site.yaml")
    assert [str(problem) for problem in caught.value.problems] == [
        'site.yaml:3:78: write "9.0" in quotes: YAML reads it as a number, and 12.10 would become 12.1',
        "site.yaml:4:3: architecture is missing",
        "site.yaml:4:44: unknown key architectur; did you mean architecture?",
        "site.yaml:4:110: verified must be one of metadata, source, derived, secondary, recall",
    ]


def test_a_row_of_an_overlay_that_points_nowhere_is_told_with_its_place(matrix: Matrix) -> None:
    text = OVERLAY.replace("architecture: hopper", "architecture: grasshopper").replace(
        "source: [site], verified: source", "source: [sight], verified: source"
    )
    with pytest.raises(MatrixError) as caught:
        overlay(matrix, text, "site.yaml")
    assert [str(problem) for problem in caught.value.problems] == [
        "site.yaml:5:3: drivers 580: source sight is not in sources",
        "site.yaml:8:3: gpus NVIDIA H123: architecture grasshopper is not in architectures",
    ]
