"""Each rule alone, on a matrix that can be seen at one glance (small.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from provisioner.stack.request import Job, Request
from provisioner.stack.resolve import decide
from provisioner.stack.rows import ForwardCompat
from provisioner.versions import Version
from tests.unit.stack import small

if TYPE_CHECKING:
    from provisioner.stack.answer import Decision
    from provisioner.stack.matrix import Matrix

MATRIX = small.matrix()


def ask(matrix: Matrix = MATRIX, **fields: Any) -> Decision:  # noqa: ANN401 - fields of a request
    return decide(Request(**{"packages": ("frame",), **fields}), matrix, remedies=False)


def first(decision: Decision) -> tuple[str, str]:
    return decision.verdict, decision.refusals[0].finding


def chosen(decision: Decision) -> tuple[str, str]:
    assert decision.stack is not None, decision.refusals
    return str(decision.stack.version), decision.stack.variant


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ({"gpus": ("beta b9",), "driver": "650.20"}, ("2.0.0", "cu130")),  # newest release, default index
        ({"gpus": ("beta b9",), "driver": "550.20"}, ("2.0.0", "cu126")),  # the newest that the driver runs
        ({"gpus": ("beta b9",), "driver": "550.20", "packages": ("frame==1.0.0",)}, ("1.0.0", "cu121")),  # native: default index
        ({"gpus": ("beta b9",), "driver": "500.20", "packages": ("frame==1.0.0",)}, ("1.0.0", "cu121")),  # native before minor
        ({"gpus": ("beta b9",), "driver": "500.20"}, ("2.0.0", "cu126")),  # newest release before native
        ({"gpus": ("beta b9",), "driver": "500.20", "prefer": "native"}, ("1.0.0", "cu121")),
        ({"gpus": ("alpha a7",)}, ("2.0.0", "cu126")),
        ({"gpus": ("alpha a7", "beta b9")}, ("2.0.0", "cu126")),  # one machine, both must run
        ({"gpus": ("sm_90",)}, ("2.0.0", "cu130")),
        ({"gpus": ("none",)}, ("2.0.0", "cpu")),
        ({"gpus": ("any",)}, ("2.0.0", "cu130")),
        ({}, ("2.0.0", "cu130")),
        ({"packages": ("frame<2",)}, ("1.0.0", "cu121")),
        ({"packages": ("frame==1.*",)}, ("1.0.0", "cu121")),
        ({"packages": ("frame==1.0.0+cu126",)}, ("1.0.0", "cu126")),
        ({"packages": ("frame-vision==0.1.0",)}, ("1.0.0", "cu121")),  # a companion alone names the framework
        ({"variant": "cpu"}, ("2.0.0", "cpu")),
        ({"index": "frames/cu126"}, ("2.0.0", "cu126")),
        ({"index": ("nowhere", "frames/cu130")}, ("2.0.0", "cu130")),
        ({"cuda": Version("12")}, ("2.0.0", "cu126")),
    ],
)
def test_the_preferred_build(fields: dict[str, Any], want: tuple[str, str]) -> None:
    assert chosen(ask(**fields)) == want


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ({"gpus": ("alpha a7",), "variant": "cu130"}, ("conflict", "arch-dropped-by-cuda-major")),
        ({"gpus": ("gamma",), "variant": "cu126"}, ("conflict", "gpu-ambiguous")),
        ({"gpus": ("Gamma C12",), "variant": "cu126"}, ("conflict", "arch-not-in-build")),
        ({"gpus": ("Gamma C12",), "driver": "550.20"}, ("conflict", "gpu-newer-than-driver")),
        ({"gpus": ("alpha a7",), "driver": "650.20"}, ("conflict", "gpu-dropped-by-driver")),
        ({"gpus": ("alpha a7",), "kernel_modules": "open"}, ("conflict", "wrong-kernel-module-flavour")),
        ({"gpus": ("Gamma C12",), "kernel_modules": "proprietary"}, ("conflict", "wrong-kernel-module-flavour")),
        ({"gpus": ("beta b9",), "driver": "650", "kernel_modules": "proprietary"}, ("conflict", "wrong-kernel-module-flavour")),
        ({"gpus": ("alpha a7", "Gamma C12"), "driver": "600"}, ("conflict", "no-kernel-module-flavour")),
        ({"gpus": ("beta b9",), "driver": "550.20", "variant": "cu130"}, ("conflict", "driver-too-old-for-cuda-major")),
        (
            {"gpus": ("beta b9",), "driver": "600.20", "variant": "cu126", "cuda_compat": True},
            ("conflict", "cuda-compat-older-than-driver"),
        ),
        ({"gpus": ("beta b9",), "driver": "650.20", "cuda_compat": True}, ("unknown", "cuda-compat-not-in-data")),
        ({"gpus": ("beta b9",), "variant": "cpu"}, ("conflict", "cpu-only-wheel")),
        ({"gpus": ("none",), "variant": "cu130"}, ("conflict", "gpu-build-without-gpu")),
        ({"python": "3.9"}, ("conflict", "no-wheel-for-python")),
        ({"platform": "linux/arm64"}, ("conflict", "no-build-for-platform")),
        ({"libc": "musl"}, ("conflict", "musl-no-wheel")),
        ({"glibc": Version("2.17")}, ("conflict", "glibc-too-old")),
        ({"image_os": "debian11"}, ("conflict", "glibc-too-old")),
        ({"image_os": "musly"}, ("conflict", "musl-no-wheel")),
        ({"image_os": "debian99"}, ("unknown", "system-not-in-data")),
        ({"image": "python:3.11-slim-debian11"}, ("conflict", "glibc-too-old")),
        ({"image": "python:3.12-slim-debian12", "python": "3.11"}, ("conflict", "python-not-in-image")),
        ({"image": "python:3.12-slim-debian99"}, ("conflict", "no-such-image")),
        ({"image": "docker.io/library/python:3.12-musly"}, ("conflict", "musl-no-wheel")),
        ({"image": "registry.example/own:1"}, ("unknown", "image-not-in-data")),
        (
            {"image": "13.0.1-base-ubuntu1", "gpus": ("Gamma C12 Max",), "driver": "500"},
            ("conflict", "image-requires-newer-driver"),
        ),
        ({"os": "plan9", "jobs": (Job(launcher="venv"),)}, ("unknown", "system-not-in-data")),
        ({"os": "debian11", "jobs": (Job(launcher="venv"),)}, ("conflict", "glibc-too-old")),
        ({"packages": ("frame==1.0.0", "frame-vision==0.2.1")}, ("conflict", "companion-mismatch")),
        ({"packages": ("frame==1.5.0",)}, ("conflict", "no-such-release")),
        ({"packages": ("frame==9.0",)}, ("unknown", "release-newer-than-data")),
        ({"packages": ("frame>2.0.0",)}, ("unknown", "release-newer-than-data")),
        ({"packages": ("frame<1",)}, ("unknown", "release-not-in-data")),
        ({"variant": "cu999"}, ("conflict", "no-such-build")),
        ({"gpus": ("delta d1",)}, ("unknown", "gpu-not-in-data")),
        ({"gpus": ("sm_55",)}, ("unknown", "gpu-not-in-data")),
        ({"driver": "700.1"}, ("unknown", "driver-not-in-data")),
        ({"driver": "575.1"}, ("unknown", "driver-not-in-data")),
        ({"gpus": ("Gamma C12",), "options": {"mig": "1g"}}, ("conflict", "no-mig")),
        ({"driver": "600.20", "fabric_manager": Version("600.30")}, ("conflict", "fabric-manager-version-mismatch")),
    ],
)
def test_what_each_rule_refuses(fields: dict[str, Any], want: tuple[str, str]) -> None:
    decision = ask(**fields)
    assert first(decision) == want
    assert decision.stack is None


def test_a_refusal_names_the_row_and_its_document() -> None:
    refusal = ask(gpus=("alpha a7",), variant="cu130").refusals[0]
    assert "CUDA 13 has no sm_70" in refusal.fact
    assert [because.source for because in refusal.because] == [
        "cuda 13.0: The Document",
        "capabilities 7.0: The Document",
        "variants frame 2.0.0 cu130 linux/amd64: The Document",
    ]


def test_what_is_only_remembered_is_no_reason_to_refuse() -> None:
    recalled = small.matrix(gpus=(small.gpu("Gamma C12", "new", "12.0", mig=False, verified="recall"),))
    decision = ask(recalled, gpus=("Gamma C12",), options={"mig": "1g"})
    assert decision.verdict == "ok"
    assert "no-mig" in {note.finding for note in decision.notes}


def test_compatibility_and_what_it_excludes() -> None:
    minor = ask(gpus=("beta b9",), driver="500.20").stack
    assert minor is not None
    assert minor.compatibility == "minor-version"
    assert minor.min_driver == Version("500.10")
    assert minor.driver_branch == "500"
    assert any("PTX" in text for text in minor.excludes)
    assert minor.excludes[-1] == "not excluded: the frame's own compiler"
    native = ask(gpus=("beta b9",), driver="600").stack
    assert native is not None
    assert (native.compatibility, native.excludes) == ("native", ())


def test_forward_compatibility_only_when_asked_and_only_on_data_centre_gpus() -> None:
    fields: dict[str, Any] = {"driver": "550.20", "variant": "cu130", "python": "3.12"}
    assert first(ask(gpus=("beta b9",), **fields)) == ("conflict", "driver-too-old-for-cuda-major")
    stack = ask(gpus=("beta b9",), cuda_compat=True, **fields).stack
    assert stack is not None
    assert stack.compatibility == "forward"
    assert stack.image.reference == "nvidia/cuda:13.0.1-base-ubuntu1"  # it brings cuda-compat
    workstation = small.matrix(gpus=(small.gpu("Beta B9", "mid", "9.0", segment="workstation"),))
    assert first(ask(workstation, gpus=("beta b9",), cuda_compat=True, **fields)) == ("conflict", "cuda-compat-not-on-this-gpu")


def test_no_minor_version_compatibility_without_a_floor() -> None:
    old = small.matrix(cuda=(small.cuda("12.1", "500.10", None, "sm_90"), small.cuda("12.6", "550.10", None, "sm_90")))
    assert first(ask(old, gpus=("beta b9",), driver="500.20", variant="cu126")) == ("conflict", "driver-too-old")


def test_ptx_needs_a_native_driver() -> None:
    ptx = small.matrix(variants=(small.variant("2.0.0", "cu126", sass=(), ptx=small.sm("compute_90")),))
    assert ask(ptx, gpus=("beta b9",), driver="550.20").verdict == "ok"
    assert first(ask(ptx, gpus=("beta b9",), driver="500.20")) == ("conflict", "ptx-needs-native-driver")


def test_an_unknown_architecture_list_is_said_and_ranks_after_known_ones() -> None:
    both = small.matrix(
        variants=(small.variant("2.0.0", "cu126", sass=None, index="home", default=True), small.variant("2.0.0", "cu121"))
    )
    assert chosen(ask(both, gpus=("beta b9",))) == ("2.0.0", "cu121")
    alone = ask(both, gpus=("beta b9",), variant="cu126")
    assert alone.verdict == "ok"
    assert "arch-list-not-known" in {note.finding for note in alone.notes}
    assert first(ask(both, gpus=("Gamma C12",), variant="cu126")) == (
        "conflict",
        "arch-not-in-build",
    )  # CUDA 12.6 cannot target it


def test_a_missing_cuda_row_is_unknown() -> None:
    assert first(ask(small.matrix(cuda=()), gpus=("beta b9",), driver="600")) == ("unknown", "cuda-not-in-data")


def test_a_missing_forward_row_is_no_yes() -> None:
    none = small.matrix(forward_compat=())
    fields: dict[str, Any] = {"gpus": ("beta b9",), "driver": "550.20", "variant": "cu130", "cuda_compat": True}
    assert first(ask(none, **fields)) == ("conflict", "driver-too-old-for-cuda-major")
    native = small.matrix(forward_compat=(ForwardCompat(cuda=Version("13.0"), branch="600", state="N/A", **small.SAID),))
    assert ask(native, gpus=("beta b9",), driver="600", variant="cu130", cuda_compat=True).verdict == "ok"


def test_named_builds_come_after_all_that_were_seen() -> None:
    named = small.matrix(variants=(small.variant("1.0.0", "cu126"), small.variant("2.0.0", "cu126", published="named")))
    request = Request(packages=("frame",), gpus=("beta b9",))
    assert chosen(decide(request, named)) == ("1.0.0", "cu126")
    assert chosen(decide(request, named, confirmed=lambda _: True)) == ("2.0.0", "cu126")
    assert chosen(decide(request, named, confirmed=lambda _: False)) == ("1.0.0", "cu126")
    assert chosen(decide(request, named, confirmed=lambda _: None)) == ("1.0.0", "cu126")
    pinned = decide(Request(packages=("frame==2.0.0",), gpus=("beta b9",)), named)
    assert pinned.stack is not None
    assert pinned.stack.published == "named"
    assert "build-named-only" in {note.finding for note in pinned.notes}
    denied = decide(Request(packages=("frame==2.0.0",), gpus=("beta b9",)), named, confirmed=lambda _: False)
    assert first(denied) == ("conflict", "build-not-published")


def test_a_build_that_never_was_is_refused() -> None:
    never = small.matrix(variants=(small.variant("2.0.0", "cu126", published="no"),))
    assert first(ask(never)) == ("conflict", "build-not-published")


def test_python_is_the_newest_settled_one_with_a_maintained_image() -> None:
    stack = ask(gpus=("any",)).stack
    assert stack is not None
    assert stack.python == "3.12"  # 2.0 is the first line with 3.13
    assert stack.image.reference == "python:3.12-slim-debian13"
    assert stack.packages == ("frame==2.0.0",)
    asked = ask(python="3.13").stack
    assert asked is not None
    assert asked.python == "3.13"


def test_allow_overrides_one_rule_visibly() -> None:
    decision = ask(gpus=("beta b9",), driver="550.20", variant="cu130", allow=("driver-runs-cuda",))
    assert decision.stack is not None
    assert decision.stack.allowed == ("driver-runs-cuda",)
    assert decision.stack.compatibility == "none"
    assert any("overridden by --allow driver-runs-cuda" in because.fact for because in decision.stack.because)
    idle = ask(gpus=("beta b9",), allow=("driver-run-cuda",))
    assert "nothing-to-allow" in {note.finding for note in idle.notes}


def test_upgrade_names_branch_and_flavour() -> None:
    stack = ask(gpus=("Gamma C12",), driver="upgrade").stack
    assert stack is not None
    assert (stack.driver_branch, stack.kernel_modules, stack.compatibility) == ("600", ("open",), "native")  # LTS before newest
    old = ask(gpus=("alpha a7",), driver="upgrade").stack
    assert old is not None
    assert (old.driver_branch, old.kernel_modules) == ("600", ("proprietary",))


def test_a_free_driver_must_exist() -> None:
    late = small.matrix(
        cuda=(small.cuda("12.6", "650.10", "650.10", "sm_70", "sm_90"),), variants=(small.variant("2.0.0", "cu126"),)
    )
    assert first(ask(late, gpus=("alpha a7",))) == ("conflict", "no-driver-for-gpu-and-cuda")


def test_an_image_that_the_catalogue_does_not_have_is_unknown_and_one_that_is_excluded_a_conflict() -> None:
    assert first(ask(image_os="debian12", python="3.13")) == ("conflict", "no-image")
    old = small.matrix(variants=(small.variant("2.0.0", "cu126", pythons=("3.7",)),))
    assert first(ask(old, python="3.7")) == ("unknown", "no-image")


def test_a_purpose_to_build_brings_the_compiler() -> None:
    stack = ask(gpus=("Gamma C12",), purpose="build").stack
    assert stack is not None
    assert stack.image.flavour == "slim"
    assert stack.build_image is not None
    assert stack.build_image.reference == "nvidia/cuda:13.0.1-devel-ubuntu1"


def test_parts_without_a_framework() -> None:
    parts: dict[str, Any] = {"packages": ()}
    assert ask(gpus=("beta b9",), driver="600", cuda=Version("13.0"), **parts).verdict == "ok"
    assert first(ask(gpus=("alpha a7",), cuda=Version("13.0"), **parts)) == ("conflict", "arch-dropped-by-cuda-major")
    assert ask(gpus=("Gamma C12",), driver="600", cuda=Version("12.6"), **parts).verdict == "ok"  # PTX of an older target
    sass = ask(gpus=("Gamma C12",), driver="600", cuda=Version("12.6"), code="sass", **parts)
    assert first(sass) == ("conflict", "arch-not-in-build")
    assert first(ask(cuda=Version("12.7"), **parts)) == ("conflict", "no-such-cuda")
    assert first(ask(cuda=Version("14.0"), **parts)) == ("unknown", "cuda-not-in-data")


def test_packages_that_are_not_known_pass_and_are_said() -> None:
    decision = ask(packages=("frame", "other>=1", "frame-vision"))
    assert decision.stack is not None
    assert decision.stack.packages == ("frame==2.0.0", "frame-vision>=0.2,<0.3", "other>=1")
    assert [note.fact.split()[0] for note in decision.notes if note.finding == "package-not-in-data"] == ["other"]
