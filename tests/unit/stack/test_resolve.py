"""resolve, explain and remedies on the matrix that ships."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Any

import pytest

from provisioner.errors import NoStackError, UsageError
from provisioner.stack.changes import apply_changes
from provisioner.stack.command import install_command
from provisioner.stack.compiled import shipped_matrix
from provisioner.stack.explain import explain
from provisioner.stack.request import Request
from provisioner.stack.resolve import decide, resolve
from provisioner.stack.rows import Index
from provisioner.versions import Version

if TYPE_CHECKING:
    from provisioner.stack.answer import Decision

MATRIX = shipped_matrix()


def ask(*packages: str, **fields: Any) -> Decision:  # noqa: ANN401 - fields of a request
    return decide(Request(packages=packages, **fields), MATRIX)


def helped(decision: Decision) -> list[str]:
    """The texts of the remedies, each after it was proved once more here."""
    assert decision.verdict == "conflict"
    return [remedy.text for remedy in decision.remedies]


def test_a_volta_is_not_sent_to_cuda_13() -> None:
    decision = ask("torch==2.9.1", gpus=("Tesla V100-SXM2-32GB",), driver="580.95.05", variant="cu130")
    assert decision.verdict == "conflict"
    refusal = decision.refusals[0]
    assert refusal.finding == "arch-dropped-by-cuda-major"
    assert refusal.fact.startswith("CUDA 13 has no sm_70 (CUDA 12.9 is the last that can target Tesla V100-SXM2-32GB")
    assert "holds sm_75, sm_80" in refusal.fact  # and the build's own list
    assert any(because.source.startswith("cuda 13.0: ") and "ptxas" in because.source for because in refusal.because)
    assert [remedy.changes for remedy in decision.remedies] == [{"variant": "cu128"}, {"variant": "cu126"}]
    assert "branch 580 at most with the proprietary kernel modules" in decision.remedies[0].text


def test_a_blackwell_needs_a_newer_release_and_driver() -> None:
    decision = ask("torch==2.5.1", gpus=("rtx5090",), variant="cu124")
    assert decision.refusals[0].finding == "arch-not-in-build"
    text = decision.remedies[0].text
    assert text.startswith("torch>=2.7.0: the cu128 build of torch 2.7.0")
    assert "branch 570" in text
    assert "with the open kernel modules" in text
    assert decision.remedies[0].changes == {"variant": "cu128", "packages": "torch==2.7.0"}


def test_minor_version_compatibility_says_what_it_excludes_and_what_not() -> None:
    stack = resolve(Request(packages=("torch==2.9.1",), gpus=("h100",), driver="535.183.01"), MATRIX)
    assert stack.cuda is not None
    assert stack.cuda.major == 12
    assert stack.compatibility == "minor-version"
    assert any(text.startswith("excluded") and "PTX" in text for text in stack.excludes)
    assert any(text.startswith("not excluded: torch.compile") for text in stack.excludes)


def test_an_ambiguous_name_lists_the_candidates() -> None:
    decision = ask("torch==2.9.1", gpus=("rtx6000",))
    assert decision.verdict == "conflict"
    assert decision.refusals[0].finding == "gpu-ambiguous"
    for name in ("Quadro RTX 6000 (sm_75)", "NVIDIA RTX 6000 Ada Generation (sm_89)", "Blackwell Server Edition (sm_120)"):
        assert name in decision.refusals[0].fact
    assert decision.remedies[0].changes["gpus"].startswith("NVIDIA RTX")


def test_what_is_newer_than_the_data_is_unknown() -> None:
    for decision in (
        ask("torch==9.9", gpus=("h100",)),
        ask("torch>=3", gpus=("h100",)),
        ask("torch", gpus=("NVIDIA Z999",)),
        ask("torch", gpus=("h100",), driver="999.10"),
    ):
        assert decision.verdict == "unknown"
        assert MATRIX.collected in decision.refusals[0].fact
        newer = decision.refusals[0].finding == "release-newer-than-data"
        command = "provisioner matrix refresh torch --write" if newer else "pip install --upgrade gpu-provisioner"
        assert decision.remedies[0].commands == (command,)
        assert ("matrix refresh torch" in decision.refusals[0].fact) == newer
    assert ask("torch==2.9.7", gpus=("h100",)).verdict == "conflict"


def test_a_newer_patch_of_a_known_branch_is_fine() -> None:
    assert ask("torch==2.9.1", gpus=("h100",), driver="580.999.01").verdict == "ok"


def test_a_bare_branch_is_its_first_release() -> None:
    stack = ask("torch==2.9.1", gpus=("h100",), driver="580").stack
    assert stack is not None
    assert (stack.driver, stack.driver_branch) == ("580", "580")
    assert ask("torch==2.9.1", gpus=("h100",), driver="R580").verdict == "ok"


def test_the_cpu_build_is_a_request_of_its_own() -> None:
    stack = ask("torch==2.9.1", "torchvision", gpus=("none",)).stack
    assert stack is not None
    assert (stack.variant, stack.cuda, stack.compatibility, stack.min_driver) == ("cpu", None, "none", None)
    assert stack.kernel_modules == ()
    assert stack.command == "pip install torch==2.9.1 torchvision==0.24.1 --index-url https://download.pytorch.org/whl/cpu"


def test_on_arm_the_default_index_may_serve_the_cpu_build_only() -> None:
    decision = ask(
        "torch==2.8.0", gpus=("GH200 480GB",), driver="570.133.20", platform="linux/arm64", index="pypi", python="3.12"
    )
    assert decision.refusals[0].finding == "cpu-only-wheel"
    assert decision.remedies[0].changes == {"variant": "cu129", "index": "pytorch/cu129"}
    assert decision.remedies[0].commands == ("pip install torch==2.8.0 --index-url https://download.pytorch.org/whl/cu129",)


def test_a_python_without_a_wheel() -> None:
    decision = ask("torch==1.13.1", gpus=("rtx 3090",), driver="535.183.01", python="3.12")
    assert decision.refusals[0].finding == "no-wheel-for-python"
    assert decision.remedies[0].changes == {"python": "3.11"}  # keeps the release
    assert decision.remedies[1].text.startswith("torch>=2.2.0")


def test_minor_version_compatibility_does_not_cross_a_major() -> None:
    decision = ask("torch==2.9.0", gpus=("NVIDIA A10G",), driver="570.133.07", variant="cu130", python="3.10")
    assert decision.refusals[0].finding == "driver-too-old-for-cuda-major"
    assert [dict(remedy.changes) for remedy in decision.remedies] == [
        {"variant": "cu128"},
        {"variant": "cu126"},
        {"driver": "620"},
        {"cuda_compat": "true"},
    ]


def test_a_kepler_gets_a_release_that_still_has_it() -> None:
    decision = ask("torch==2.7.1", gpus=("Tesla K80",), driver="470.256.02", variant="cu118", python="3.12")
    assert decision.refusals[0].finding == "arch-not-in-build"
    assert all("branch 470 at most" in text for text in helped(decision))  # never a newer driver


@pytest.mark.parametrize(
    ("fields", "finding"),
    [
        ({"gpus": ("NVIDIA GeForce GTX 1080",), "driver": "580.142", "kernel_modules": "open"}, "wrong-kernel-module-flavour"),
        ({"driver": "620.70.06", "kernel_modules": "proprietary"}, "wrong-kernel-module-flavour"),
        ({"gpus": ("NVIDIA GeForce RTX 5090",), "driver": "560.35.03"}, "gpu-newer-than-driver"),
        ({"gpus": ("NVIDIA GeForce RTX 5090",), "cuda": Version("12.6"), "code": "sass"}, "arch-not-in-build"),
        ({"gpus": ("Tesla V100-SXM2-32GB",), "driver": "580.95.05", "cuda": Version("13.0")}, "arch-dropped-by-cuda-major"),
        (
            {"gpus": ("NVIDIA H100 PCIe",), "driver": "580.95.05", "cuda": Version("12.9"), "cuda_compat": True},
            "cuda-compat-older-than-driver",
        ),
        (
            {"gpus": ("NVIDIA GeForce RTX 3090",), "driver": "550.163.01", "image": "12.9.1-base-ubuntu22.04"},
            "image-requires-newer-driver",
        ),
        ({"gpus": ("NVIDIA GB10",), "platform": "linux/amd64"}, "gpu-on-other-platform"),
        ({"gpus": ("NVIDIA L40S",), "options": {"mig": "1g.5gb"}}, "no-mig"),
        ({"image": "11.8.0-base"}, "no-such-image"),
        ({"image": "12.2.0-cudnn8-devel-ubuntu22.04"}, "no-such-image"),
        (
            {"gpus": ("NVIDIA H100 80GB HBM3",), "driver": "580.95.05", "fabric_manager": Version("580.82.07")},
            "fabric-manager-version-mismatch",
        ),
        ({"image": "python:3.12-alpine", "libc": "musl"}, "musl-no-wheel"),
    ],
)
def test_parts_that_do_not_fit(fields: dict[str, Any], finding: str) -> None:
    decision = ask(**fields)
    assert decision.verdict == "conflict"
    assert decision.refusals[0].finding == finding


@pytest.mark.parametrize(
    "fields",
    [
        {"gpus": ("Tesla K80",), "driver": "470.256.02", "cuda": Version("11.8")},
        {"gpus": ("Tesla T4",), "driver": "535.274.02", "cuda": Version("12.9")},
        {"gpus": ("Tesla T4",), "driver": "535.274.02", "cuda": Version("13.0"), "cuda_compat": True},
        {"cuda": Version("13.0"), "compiler": "gcc-15"},
    ],
)
def test_parts_that_fit(fields: dict[str, Any]) -> None:
    decision = ask(**fields)
    assert (decision.verdict, decision.stack) == ("ok", None)
    assert decision.notes  # and it is said why


def test_every_remedy_works() -> None:
    decision = ask("torch==2.5.1", gpus=("rtx5090",), driver="560.35.03", variant="cu124", python="3.8")
    assert decision.remedies
    for remedy in decision.remedies:
        request = Request(packages=("torch==2.5.1",), gpus=("rtx5090",), driver="560.35.03", variant="cu124", python="3.8")
        assert decide(apply_changes(request, remedy.changes), MATRIX).verdict == "ok", remedy


def test_explain_lists_every_candidate_with_what_decided() -> None:
    candidates = explain(Request(packages=("torch==2.9.1",), gpus=("Tesla V100-SXM2-32GB",), driver="580.95.05"), MATRIX)
    by_tag = {candidate.variant: candidate for candidate in candidates}
    assert set(by_tag) == {"cpu", "cu126", "cu128", "cu129", "cu130"}
    assert by_tag["cu128"].kept
    assert by_tag["cu128"].compatibility == "native"
    assert by_tag["cu128"].because
    assert [refusal.finding for refusal in by_tag["cu130"].refused_by] == ["arch-dropped-by-cuda-major"]
    assert [refusal.finding for refusal in by_tag["cpu"].refused_by] == ["cpu-only-wheel"]


def test_resolve_raises_with_the_refusals() -> None:
    with pytest.raises(NoStackError) as caught:
        resolve(Request(packages=("torch==2.5.1",), gpus=("rtx5090",)), MATRIX)
    assert caught.value.refusals
    assert caught.value.hint is not None
    with pytest.raises(UsageError, match="names no framework"):
        resolve(Request(gpus=("rtx5090",)), MATRIX)


def test_size_is_measured_or_says_what_it_is_the_nearest_of() -> None:
    measured = ask("torch==2.10.0", gpus=("h100",), variant="cu128").stack
    assert measured is not None
    assert measured.size is not None
    assert measured.size.basis.startswith("measured: torch==2.10.0")
    near = ask("torch==2.9.1", gpus=("h100",), variant="cu128").stack
    assert near is not None
    assert near.size is not None
    assert near.size.basis.startswith("not measured; the nearest is torch==2.10.0")
    cpu = ask("torch==2.9.1", gpus=("none",)).stack
    assert cpu is not None
    assert cpu.size is None


def test_the_command_is_quoted_and_names_the_build_again_before_other_packages() -> None:
    stack = ask("torch==2.9.1", "torchvision", "evil>=1;sys_platform=='linux'", gpus=("h100",), variant="cu126").stack
    assert stack is not None
    assert shlex.split(stack.command) == [
        *("pip", "install", "torch==2.9.1", "torchvision==0.24.1", "--index-url", "https://download.pytorch.org/whl/cu126"),
        *("&&", "pip", "install", "torch==2.9.1", "evil>=1;sys_platform=='linux'"),
    ]
    own = (Index(id="pytorch/cu126", url="https://mirror.example/$(id)", source=(), verified="source"),)
    assert "'https://mirror.example/$(id)'" in install_command(stack, own)


@pytest.mark.parametrize(
    "package", ["--index-url=https://evil", "torch; rm -rf /", "torch\nRUN x", "", "torch=2", "torch @ https://x", "a b"]
)
def test_what_is_no_requirement_is_a_usage_error(package: str) -> None:
    with pytest.raises(UsageError):
        ask(package, gpus=("h100",))


@pytest.mark.parametrize("fields", [{"driver": "abc"}, {"python": "three"}, {"gpus": ("none", "h100")}])
def test_a_word_without_meaning_is_a_usage_error(fields: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        ask("torch", **fields)


def test_a_pool_gets_one_stack_that_runs_everywhere() -> None:
    from provisioner.stack.request import PoolMember

    pool = (PoolMember(name="a", gpu="a100", driver="535.261.03"), PoolMember(name="b", gpu="rtx5090", driver="580.95.05"))
    stack = ask("torch", pool=pool).stack
    assert stack is not None
    assert stack.cuda is not None
    assert stack.cuda.major == 12
    assert stack.compatibility == "minor-version"


def test_nothing_heavy_is_loaded() -> None:
    import subprocess

    code = (
        "from provisioner.stack.compiled import shipped_matrix; import sys; matrix = shipped_matrix();"
        "[sys.modules.pop(name, None) for name in ('yaml', 'provisioner.decode')];"  # the text may have been compiled just now
        "from provisioner.stack.resolve import decide; from provisioner.stack.request import Request;"
        "decide(Request(packages=('torch==2.5.1',), gpus=('rtx5090',), variant='cu124'), matrix);"
        "print(sorted({'yaml', 'rich', 'click', 'jinja2', 'docker', 'fabric'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
