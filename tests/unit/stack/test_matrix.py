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
from provisioner.versions import Range, Version

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
        ("frameworks", 3),
        ("releases", 40 + 52 + 48),
        ("variants", 232 + 141 + 241),
        ("images", 281 + 27),
        ("closures", 23),
        ("packages", 385),
        ("recipes", 5),
        ("libraries", 27),
        ("containers", 40),
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
            r"variants jax 0.4.13 cpu linux/amd64: index pytorch/cu000 is not in indexes",
        ),
        ("variants", first(also=("elsewhere",)), r"variants .*: also elsewhere is not in indexes"),
        ("variants", first(cuda=Version("12.7")), r"variants .*: cuda 12.7 is not in cuda"),
        ("variants", first(cuda=Version("13.0"), sass=(Capability(7, 0),)), r"variants .*: sm_70 is no target of CUDA 13.0"),
        ("variants", first(sass=(Capability(7, 0),)), r"variants .*: a CPU build has no GPU code"),
        ("variants", first(pythons=()), r"variants .*: names no Python"),
        ("variants", lambda rows: rows[2:], r"releases jax 0.4.13: no CPU build for linux/amd64"),
        ("variants", first(requirement="jax==0.4.14"), r"variants .*: requirement jax==0.4.14 is not of jax 0.4.13"),
        ("variants", first(libraries=("nvidia-cudnn-cu12>=9",)), r"variants .*: a CPU build has no GPU code, cuDNN or NCCL"),
        ("packages", first(recipe="prayer"), r"packages .*: recipe prayer is not in recipes"),
        ("packages", first(cuda=Version("12.7")), r"packages .*: cuda 12.7 is not in cuda"),
        ("packages", first(cuda=Version("12.8"), cuda_major=13), r"packages .*: cuda and cuda_major disagree"),
        ("packages", first(sdist_only=True, pythons=("3.12",)), r"packages .*: has no wheel, so no platform and no Pythons"),
        ("recipes", first(packages=("abracadabra",)), r"recipes deepspeed: package abracadabra is not in packages"),
        ("recipes", first(arch_format=None), r"recipes deepspeed: arch_variable and arch_format go together"),
        ("libraries", first(before=None), r"libraries cudnn 10 7.6: reaches beyond 8.0, where another begins"),
        ("libraries", first(before=Version("8.1")), r"libraries cudnn 10 7.6: reaches beyond 8.0, where another begins"),
        ("containers", first(cuda=Version("12.7.1")), r"containers .*: CUDA 12.7 is not in cuda"),
        ("cuda", first(native_branch="385"), r"cuda 9.0: native_branch 385 is not in drivers"),
        ("images", first(os="beos5"), r"images .*: os beos5 is not in systems"),
        ("images", first(cuda=Version("12.7.0")), r"images .*: CUDA 12.7 is not in cuda"),
        ("releases", lambda rows: rows[1:], r"variants jax 0.4.13 cpu linux/amd64: jax 0.4.13 is not in releases"),
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
                row
                for row in matrix.variants_of("torch")
                if row.version == release.version and row.platform == platform and row.default
            ]
            served = (str(release.version), platform) != ("1.9.1", "linux/arm64")  # of which the index has no wheel
            assert [row.index for row in defaults] == ["pypi"] * served, f"{release.version} {platform}"


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
            known = re.fullmatch(r"\d+(\.\d+)+", bound) or Range(bound).bounds
            assert known, f"{release.version} {name} {bound}"
    assert matrix.row("releases", "torch 2.9.1").companions == {"torchvision": "0.24.1", "torchaudio": "2.9.1", "triton": "3.5.1"}


def variant(matrix: Matrix, key: str) -> Variant:
    found: Variant | None = matrix.row("variants", key)
    assert found is not None, key
    return found


def test_tensorflow_takes_cuda_from_the_system_or_from_its_extra(matrix: Matrix) -> None:
    system = variant(matrix, "tensorflow 2.12.0 cu118 linux/amd64")
    assert (system.cuda_from, system.cuda, str(system.cudnn), system.requirement) == ("system", Version("11.8"), "8.6", None)
    extra = variant(matrix, "tensorflow 2.19.1 and-cuda linux/amd64")
    assert (extra.cuda_from, str(extra.cudnn), str(extra.nccl)) == ("wheels", "9.3.0.75", "2.23.4")
    assert extra.requirement == "tensorflow[and-cuda]==2.19.1"
    ranged = variant(matrix, "tensorflow 2.21.0 and-cuda linux/amd64")
    assert (ranged.cudnn, ranged.libraries[0]) == (None, "nvidia-cudnn-cu12<10.0,>=9.3.0.75")
    assert matrix.row("variants", "tensorflow 2.13.1 and-cuda linux/amd64") is None  # the extra begins with 2.14
    assert {row.tag for row in matrix.variants_of("tensorflow") if row.platform == "linux/arm64"} == {"cpu"}


def test_no_tensorflow_has_machine_code_for_blackwell(matrix: Matrix) -> None:
    for row in matrix.variants_of("tensorflow"):
        assert max(row.sass or (Capability(9, 0),)) <= Capability(9, 0)
        assert (row.ptx == ()) == (row.cuda is None)


def test_the_builds_of_jax_are_its_extras(matrix: Matrix) -> None:
    newest = variant(matrix, "jax 0.12.0.1 cuda13 linux/arm64")
    assert (newest.requirement, newest.min_capability) == ("jax[cuda13]==0.12.0.1", Capability(7, 5))
    assert Capability(12, 0) in newest.ptx
    assert "nvidia-cudnn-cu13<10.0,>=9.12.0.46" in newest.libraries
    assert variant(matrix, "jax 0.7.1 cuda13 linux/amd64").published == "no"  # the extra is named, its packages are not there
    assert variant(matrix, "jax 0.4.20 cuda12 linux/amd64").published == "no"  # on a page of links only
    assert matrix.row("releases", "jax 0.4.14") is None  # its jaxlib is not on the index any more
    assert variant(matrix, "jax 0.5.2 cuda12 linux/amd64").sass == variant(matrix, "jax 0.5.1 cuda12 linux/amd64").sass


def test_the_first_wheels_of_ampere_are_not_the_default_ones(matrix: Matrix) -> None:
    ampere = Capability(8, 0)
    runs = {
        row.tag
        for row in matrix.variants_of("torch")
        if str(row.version) == "1.12.1" and any(cubin_runs(s, ampere) for s in row.sass or ())
    }
    assert runs == {"cu113", "cu116"}
    assert build(matrix, "1.12.1", "cu102").default


def test_a_library_tells_its_floor_by_release_and_cuda(matrix: Matrix) -> None:
    def floor(library: str, cuda: int, number: str) -> list[str]:
        return [str(row.min_capability) for row in matrix.libraries_of(library, cuda, Version(number))]

    assert floor("cudnn", 12, "9.10.2.21") == ["5.0"]
    assert floor("cudnn", 12, "9.11.0.98") == ["7.5"]
    assert floor("nccl", 12, "2.27.5") == ["5.0"]
    assert floor("nccl", 12, "2.28.3") == ["6.0"]
    assert floor("nccl", 12, "2.27.7") == []  # between two wheels that were read
    assert floor("cudnn", 12, "8.8.1.3") == []  # where the facts only remember


def test_packages_say_what_decides(matrix: Matrix) -> None:
    (last,) = [row for row in matrix.package("vllm") if str(row.version) == "0.19.1" and row.platform == "linux/amd64"]
    assert (last.cuda_major, last.requires["torch"], str(last.min_driver)) == (12, "==2.10.0", "525.60.13")
    flash = matrix.package("flash-attn")[-1]
    assert (flash.sdist_only, flash.recipe, flash.min_capability, flash.platform) == (True, "flash-attn", Capability(8, 0), None)
    recipe = matrix.recipe("flash-attn")
    assert recipe is not None
    assert (recipe.arch_variable, recipe.arch_format, recipe.isolation) == ("FLASH_ATTN_CUDA_ARCHS", "plain", False)
    onnx = {str(row.version): row.cuda_major for row in matrix.package("onnxruntime-gpu")}
    assert (onnx["1.18.1"], onnx["1.26.0"], onnx["1.27.0"]) == (11, 12, 13)
    triton = {row.platform for row in matrix.package("triton") if str(row.version) == "3.4.0"}
    assert triton == {"linux/amd64"}  # for arm64 from 3.5.0 on
    abi3 = matrix.package("cudf-cu12")[-1]
    assert abi3.pythons == ("3.11", "3.12", "3.13", "3.14", "3.15")


def test_a_container_of_a_month_names_its_driver(matrix: Matrix) -> None:
    row = matrix.row("containers", "nvidia 26.07")
    assert (str(row.cuda.minor), str(row.driver)) == ("13.3", "610.43.02")


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
