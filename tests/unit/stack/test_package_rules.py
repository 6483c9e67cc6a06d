"""The rules on packages and libraries: each alone on the small matrix, with rows of packages beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from provisioner.stack.gpus import Capability
from provisioner.stack.packages import picks
from provisioner.stack.request import Request
from provisioner.stack.resolve import decide
from provisioner.stack.rows import Library, PackageRow, Recipe, Release
from provisioner.stack.wants import parse_requirement
from provisioner.values import replace
from provisioner.versions import Version
from tests.unit.stack import small

if TYPE_CHECKING:
    from provisioner.stack.answer import Decision
    from provisioner.stack.matrix import Matrix
    from provisioner.stack.rows import ComputeCapability


def package(name: str, version: str, **changes: Any) -> PackageRow:  # noqa: ANN401 - fields of a row
    return PackageRow(**{"package": name, "version": Version(version), **small.SAID, **changes})


def cap(text: str) -> Capability:
    return Capability.parse(text)


PACKAGES = (
    package("bricks", "1.0", cuda_major=12, cuda_from="system", cudnn_major=8, extras="cuda"),
    package("bricks", "2.0", cuda_major=13, cuda_from="system"),
    package("engine", "0.5", requires={"frame": "==1.0.0"}, min_capability=cap("7.0"), cuda_major=12),
    package("engine", "0.7", requires={"frame": "==1.0.0", "gear": ">=2"}, min_capability=cap("7.0"), cuda_major=12),
    package("engine", "0.9", requires={"frame": "==2.0.0"}, min_capability=cap("9.0"), cuda_major=13, min_driver=Version("610")),
    package("flash", "2.7", requires={"frame": ""}, min_capability=cap("9.0"), sdist_only=True, recipe="flash"),
    package("gear", "1.0", pythons=("3.11",), glibc=Version("2.36")),
    package("gear", "2.0", pythons=("3.12",), glibc=Version("2.40")),
    package("lens", "1.0", platform="linux/arm64"),
    package("minors", "1.0", cuda_minors=(Version("12.1"), Version("12.6"))),
    package("newest", "1.0"),
    package("newest", "2.0", min_capability=cap("9.0")),
    package("scanned", "1.0", sass=small.sm("sm_90")),
    package("tritone", "3.0", ptxas=Version("12.6")),
)
RECIPES = (
    Recipe(
        id="flash",
        packages=("flash",),
        when="install",
        devel=True,
        arch_variable="FLASH_ARCHS",
        arch_format="plain",
        **small.SAID,
    ),
)
LIBRARIES = (
    Library(
        library="cudnn", first=Version("9.0"), before=Version("9.11"), cuda_major=12, min_capability=cap("5.0"), **small.SAID
    ),
    Library(library="cudnn", first=Version("9.11"), cuda_major=12, min_capability=cap("7.5"), **small.SAID),
    Library(library="nccl", first=Version("2.28"), cuda_major=12, min_capability=cap("7.5"), **small.SAID),
)
RELEASES = (
    Release(
        framework="frame",
        version=Version("1.0.0"),
        companions={"frame-vision": "0.1.0", "tritone": "3.0"},
        numpy2=False,
        **small.SAID,
    ),
    Release(
        framework="frame",
        version=Version("2.0.0"),
        companions={"frame-vision": ">=0.2,<0.3"},
        numpy2=True,
        numpy="<2.1",
        **small.SAID,
    ),
)
MATRIX = small.matrix(packages=PACKAGES, recipes=RECIPES, libraries=LIBRARIES, releases=RELEASES)


def ask(*packages: str, gpu: str = "beta b9", matrix: Matrix = MATRIX, **fields: Any) -> Decision:  # noqa: ANN401 - of a request
    return decide(Request(**{"packages": packages, "gpus": (gpu,), **fields}), matrix)


def packages(decision: Decision) -> tuple[str, ...]:
    assert decision.stack is not None, decision.refusals
    return decision.stack.packages


@pytest.mark.parametrize(
    ("asked", "fields", "want"),
    [
        (("engine",), {}, ("frame==2.0.0", "engine==0.9")),  # the package names the framework, the newest of both
        (("engine",), {"driver": "600.20"}, ("frame==1.0.0", "engine==0.7")),  # below the package's own floor
        (("frame==1.0.0", "engine"), {}, ("frame==1.0.0", "engine==0.7")),
        (("frame", "engine<0.9"), {}, ("frame==1.0.0", "engine==0.7")),  # the package's pin brings an older framework
        (("engine==0.7", "gear"), {}, ("frame==1.0.0", "engine==0.7", "gear==2.0")),  # one package's bound on another
        (("engine==0.7", "gear==1.0"), {}, None),
        (("frame", "gear"), {"python": "3.11"}, ("frame==2.0.0", "gear==1.0")),
        (("frame", "gear"), {"image_os": "debian12"}, ("frame==2.0.0", "gear==1.0")),  # glibc 2.36 is not 2.40
        (("frame", "bricks[cuda]==1.0"), {}, ("frame==2.0.0", "bricks[cuda]==1.0")),  # the extras bring CUDA
        (("frame==2.0.0", "bricks"), {}, ("frame==2.0.0", "bricks==2.0")),
        (("frame==1.0.0", "bricks"), {}, ("frame==1.0.0", "bricks==1.0")),  # the release for the CUDA of the build
        (("frame", "minors"), {}, ("frame==2.0.0", "minors==1.0")),
        (("frame", "newest"), {}, ("frame==2.0.0", "newest==2.0")),
        (("frame==1.0.0", "numpy"), {}, ("frame==1.0.0", "numpy<2")),
        (("frame==1.0.0", "numpy>=1.20"), {}, ("frame==1.0.0", "numpy>=1.20,<2")),
        (("frame==1.0.0", "numpy<1.27"), {}, ("frame==1.0.0", "numpy<1.27")),
        (("frame==2.0.0", "numpy==2.0.1"), {}, ("frame==2.0.0", "numpy==2.0.1")),
    ],
)
def test_packages_decide_with_the_framework(asked: tuple[str, ...], fields: dict[str, Any], want: tuple[str, ...] | None) -> None:
    decision = ask(*asked, **fields)
    assert (packages(decision) if decision.stack else None) == want


@pytest.mark.parametrize(
    ("asked", "fields", "want"),
    [
        (("frame==2.0.0", "engine==0.7"), {}, "companion-mismatch"),
        (("frame", "flash==2.5"), {"gpu": "alpha a7"}, "package-min-arch"),  # not in the data, as its neighbour
        (("frame", "scanned"), {"gpu": "gamma c12"}, "package-arch-not-in-build"),
        (("frame", "newest"), {"gpu": "alpha a7"}, "package-min-arch"),  # an older release of which it is not known is no way out
        (("frame", "lens"), {}, "package-not-for-platform"),
        (("frame==1.0.0", "bricks==2.0"), {}, "cuda-major-mismatch-in-package"),
        (("frame==2.0.0", "minors"), {"variant": "cu130"}, "cuda-major-mismatch-in-package"),
        (("bricks==1.0",), {"image": "nvidia/cuda:13.0.1-devel-ubuntu1"}, "cuda-major-mismatch-in-package"),
        (("engine==0.9",), {"driver": "600.20"}, "package-needs-newer-driver"),
        (("bricks==2.0",), {"driver": "550.20"}, "package-needs-newer-driver"),  # the floor of its CUDA major
        (("frame", "gear==2.0"), {"python": "3.11"}, "no-wheel-for-python"),
        (("frame", "gear==2.0"), {"glibc": Version("2.36")}, "glibc-too-old"),
        (("gear==2.0",), {"libc": "musl"}, "musl-no-wheel"),
        (("frame==1.0.0", "numpy==2.0.0"), {}, "abi-numpy2"),
        (("frame==1.0.0", "numpy>=2"), {}, "abi-numpy2"),
        (("frame==2.0.0", "numpy==2.2"), {}, "companion-mismatch"),
        (("frame==1.0.0",), {"gpu": "gamma c12"}, "arch-not-in-build"),
    ],
)
def test_what_is_refused(asked: tuple[str, ...], fields: dict[str, Any], want: str) -> None:
    decision = ask(*asked, **fields)
    assert decision.verdict == "conflict"
    assert decision.refusals[0].finding == want
    assert decision.refusals[0].because or want == "companion-mismatch"


def test_cudnn_of_another_major_is_refused_where_the_build_has_one() -> None:
    builds = tuple(replace(row, cudnn=Version("9.1")) if row.tag == "cu121" else row for row in MATRIX.variants)
    matrix = small.matrix(packages=PACKAGES, recipes=RECIPES, libraries=LIBRARIES, releases=RELEASES, variants=builds)
    decision = ask("frame==1.0.0", "bricks==1.0", matrix=matrix, variant="cu121")
    assert decision.refusals[0].finding == "cudnn-major-mismatch-in-package"
    assert decision.remedies[0].changes["variant"] == "cu126"  # whose cuDNN is not known


def test_pinned_libraries_and_what_helps() -> None:
    decision = ask(gpu="alpha a7", cuda=Version("12.6"), cudnn=Version("9.12"))
    assert (decision.verdict, decision.refusals[0].finding) == ("conflict", "library-min-arch")
    assert ask(gpu="alpha a7", cuda=Version("12.6"), cudnn=Version("9.10")).verdict == "ok"
    assert ask(gpu="beta b9", cuda=Version("12.6"), cudnn=Version("9.12")).verdict == "ok"
    assert ask(gpu="alpha a7", nccl=Version("2.28.3")).refusals[0].finding == "library-min-arch"


def test_a_library_that_a_build_brings_is_said() -> None:
    builds = tuple(replace(row, cudnn=Version("9.12")) if row.tag == "cu126" else row for row in MATRIX.variants)
    matrix = small.matrix(libraries=LIBRARIES, variants=builds)
    decision = ask("frame==2.0.0", gpu="alpha a7", matrix=matrix)
    assert decision.verdict == "ok"
    assert "library-not-for-gpu" in [note.finding for note in decision.notes]


def known_from(text: str) -> tuple[ComputeCapability, ...]:
    rows: tuple[ComputeCapability, ...] = MATRIX.capabilities
    return tuple(replace(row, first_cuda=Version(text)) if str(row.capability) == "9.0" else row for row in rows)


@pytest.mark.parametrize(
    ("first", "option", "verdict"), [("12.8", "true", "conflict"), ("12.8", "false", "ok"), ("12.6", "true", "ok")]
)
def test_the_assembler_knows_the_gpu_when_something_is_compiled(first: str, option: str, verdict: str) -> None:
    matrix = small.matrix(packages=PACKAGES, releases=RELEASES, capabilities=known_from(first))
    decision = ask("frame==1.0.0", matrix=matrix, options={"torch_compile": option})
    assert decision.verdict == verdict
    if verdict == "conflict":
        assert decision.refusals[0].finding == "bundled-ptxas-too-old"
        assert {"options.torch_compile": ""} in [remedy.changes for remedy in decision.remedies]


def test_a_package_without_wheels_gets_a_devel_stage_and_says_its_variable() -> None:
    decision = ask("frame==2.0.0", "flash")
    assert decision.stack is not None
    assert decision.stack.build_image is not None
    (note,) = [note for note in decision.notes if note.finding == "package-compiled"]
    assert "FLASH_ARCHS=90" in note.fact


def test_what_the_data_do_not_say_is_a_note() -> None:
    decision = ask("frame", "gear==3.0", "stranger")
    assert decision.verdict == "ok"
    found = {note.finding: note.fact for note in decision.notes}
    assert "gear 1.0 to 2.0" in found["package-version-not-in-data"]
    assert "stranger" in found["package-not-in-data"]
    assert "gear" not in found["package-not-in-data"]
    assert "numpy-stays-at-1" in [note.finding for note in ask("frame==1.0.0").notes]


@pytest.mark.parametrize(
    ("text", "versions", "floor", "major"),
    [
        ("engine", ["0.9", "0.7", "0.5"], "9.0", 13),
        ("engine==0.6", ["0.6"], "7.0", 12),  # as the release before and the one after
        ("engine==0.8", ["0.8"], "7.0", None),  # they differ: the lower floor, and no CUDA
        ("flash==2.5", ["2.5"], "9.0", None),
        ("flash==1.0", [], None, None),  # another major
        ("engine<0.4", [], None, None),
        ("stranger", [], None, None),
    ],
)
def test_the_releases_that_a_requirement_can_mean(text: str, versions: list[str], floor: str | None, major: int | None) -> None:
    found = picks(MATRIX, parse_requirement(text), "linux/amd64")
    assert [str(pick.row.version) for pick in found] == versions
    if found:
        assert str(found[0].row.min_capability) == floor
        assert found[0].row.cuda_major == major


def test_the_first_remedy_is_the_nearest_release_of_the_package() -> None:
    decision = ask("frame==2.0.0", "engine==0.7")
    assert decision.remedies[0].changes == {"packages": "frame==2.0.0 engine==0.9"}
    alone = ask("bricks==1.0", image="nvidia/cuda:13.0.1-devel-ubuntu1")
    assert alone.remedies[0].changes == {"packages": "bricks==2.0"}


def test_doing_without_a_package_comes_last() -> None:
    decision = ask("frame", "flash", gpu="alpha a7", options={"attn_implementation": "flash"})
    assert decision.remedies[0].changes == {"packages": "frame", "options.attn_implementation": ""}


def test_two_frameworks_are_unknown_and_each_is_offered_alone() -> None:
    two = (small.matrix().frameworks[0], replace(small.matrix().frameworks[0], id="other", companions=()))
    builds = tuple(replace(row, framework="other") for row in MATRIX.variants)
    releases = (*RELEASES, *(replace(row, framework="other", companions={}) for row in RELEASES))
    matrix = small.matrix(frameworks=two, variants=(*MATRIX.variants, *builds), releases=releases)
    decision = ask("frame==2.0.0", "other", matrix=matrix)
    assert (decision.verdict, decision.refusals[0].finding) == ("unknown", "two-frameworks")
    assert [remedy.changes for remedy in decision.remedies[:2]] == [{"packages": "frame==2.0.0"}, {"packages": "other"}]


def test_a_refusal_can_be_overridden_and_is_said() -> None:
    decision = ask("frame", "newest==2.0", gpu="alpha a7", allow=("package-min-arch",))
    assert decision.stack is not None
    assert decision.stack.allowed == ("package-min-arch",)
    assert "newest==2.0" in decision.stack.packages
    assert "nothing-to-allow" not in [note.finding for note in decision.notes]
