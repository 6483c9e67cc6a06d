"""The smoke script of PyTorch, run as a program: with a torch that is a few lines, and a libcuda that computes on the host.

The real PyTorch runs it in tests/integration/test_rendered_image.py, a real GPU in tests/gpu.
"""

from __future__ import annotations

import ast
import importlib.util
import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from provisioner.resources import resource
from provisioner.stack.gpus import Capability, cubin_runs, ptx_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SCRIPT = resource("templates", "smoke", "torch.py")
STUB = Path(__file__).with_name("libcuda_stub.c")
TORCH = """\
print("torch says hello on standard output")
__version__ = "{version}"
class version: cuda = {cuda!r}; hip = {hip!r}
class _C:
    @staticmethod
    def _cuda_getArchFlags(): return {flags!r}
class backends:
    class cudnn:
        @staticmethod
        def version(): return 91002
class cuda:
    @staticmethod
    def is_available(): return False
def manual_seed(seed): raise RuntimeError("this torch\\ncannot compute")
"""
EXPECTED = {
    "version": "2.9.1",
    "python": f"{sys.version_info[0]}.{sys.version_info[1]}",
    "cuda": "12.8",
    "sass": ["sm_80", "sm_90"],
    "gpus": True,
}


@pytest.fixture
def torch(tmp_path: Path) -> Callable[..., Path]:
    """Make a torch; the folder that holds it."""

    def make(version: str = "2.9.1+cu128", cuda: str | None = "12.8", hip: str | None = None, flags: str = "sm_80 sm_90") -> Path:
        (tmp_path / "torch").mkdir()
        text = TORCH.format(version=version, cuda=cuda, hip=hip, flags=flags)
        (tmp_path / "torch" / "__init__.py").write_text(text, encoding="utf-8")
        return tmp_path

    return make


@pytest.fixture
def libcuda(tmp_path: Path) -> Callable[..., Path]:
    """Compile a libcuda; the folder that holds it."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler to make a libcuda with")

    def make(**defines: object) -> Path:
        options = [f"-D{name}={text}" for name, text in defines.items()]
        target = tmp_path / "libcuda.so.1"
        subprocess.run([compiler, "-shared", "-fPIC", "-Wall", "-Werror", *options, "-o", target, STUB], check=True)
        return tmp_path

    return make


def _run(
    *arguments: str, expected: Mapping[str, object] | None = None, torch: Path | None = None, libcuda: Path | None = None
) -> tuple[int, dict[str, tuple[str, str]], dict[str, Any]]:
    """Exit code; check → (status, message); facts."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(torch or ""), "LD_LIBRARY_PATH": str(libcuda or "")}
    said = ("--expect", json.dumps(expected)) if expected is not None else ()
    done = subprocess.run(
        [sys.executable, SCRIPT, *said, *arguments], capture_output=True, text=True, check=False, env=environment
    )
    [line] = done.stdout.splitlines()
    mark, _, text = line.partition(" ")
    assert mark == "PROVISIONER-SMOKE"
    answer = json.loads(text)
    assert answer["format"] == 1
    assert all(set(check) == {"name", "level", "status", "message", "seconds"} for check in answer["checks"])
    assert all("\n" not in check["message"] for check in answer["checks"])
    return done.returncode, {check["name"]: (check["status"], check["message"]) for check in answer["checks"]}, answer["facts"]


def test_without_the_framework_what_needs_it_is_unknown_and_the_driver_is_still_looked_at() -> None:
    code, checks, _ = _run(expected=EXPECTED)
    assert code == 1
    assert checks["import"] == ("fail", "ModuleNotFoundError: No module named 'torch'")
    assert {name for name, (status, _) in checks.items() if status == "pass"} == {"interpreter"}
    assert checks["cuda"] == ("unknown", "not to be tried without the framework")
    assert checks["driver"][0] == "fail"


def test_a_build_check_passes_without_a_gpu(torch: Callable[..., Path]) -> None:
    code, checks, facts = _run("--build-check", expected=EXPECTED, torch=torch())
    assert code == 0
    assert {name: status for name, (status, _) in checks.items()} == dict.fromkeys(
        ("interpreter", "import", "cuda", "targets"), "pass"
    )
    assert facts["targets"] == ["sm_80", "sm_90"]
    assert facts["cudnn"] == "91002"


@pytest.mark.parametrize(
    ("made", "changed", "check", "message"),
    [
        ({}, {"python": "2.7"}, "interpreter", "and 2.7 was locked"),
        ({"version": "2.9.0"}, {}, "import", "torch 2.9.0 is installed, and 2.9.1 was locked"),
        ({"cuda": None}, {}, "cuda", "a CPU build is installed, and a build with CUDA 12.8 was locked"),
        ({"cuda": None, "hip": "6.4"}, {}, "cuda", "a ROCm build is installed, and a build with CUDA 12.8 was locked"),
        ({"cuda": "13.0"}, {}, "cuda", "built with CUDA 13.0, and CUDA 12.8 was locked"),
        ({}, {"cuda": None}, "cuda", "built with CUDA 12.8, and a CPU build was locked"),
        ({"flags": "sm_80 compute_90"}, {}, "targets", "the build holds no code for sm_90, only sm_80 compute_90"),
    ],
)
def test_another_build_than_the_locked_one_fails(
    torch: Callable[..., Path], made: dict[str, Any], changed: dict[str, Any], check: str, message: str
) -> None:
    code, checks, _ = _run("--build-check", expected={**EXPECTED, **changed}, torch=torch(**made))
    assert code == 1
    assert checks[check][0] == "fail"
    assert message in checks[check][1]


def test_what_is_not_expected_cannot_be_missed(torch: Callable[..., Path]) -> None:
    code, checks, _ = _run("--build-check", expected={}, torch=torch())
    assert code == 0
    assert {status for status, _ in checks.values()} == {"pass"}


def test_a_build_that_does_not_say_for_which_gpus_it_is_is_unknown(torch: Callable[..., Path]) -> None:
    code, checks, _ = _run("--build-check", expected=EXPECTED, torch=torch(flags=""))
    assert (code, checks["targets"][0]) == (0, "unknown")


@pytest.mark.parametrize(("gpus", "status"), [(True, "fail"), (None, "unknown"), (False, "skip")])
def test_no_driver_is_a_fault_only_where_a_gpu_is_expected(gpus: bool | None, status: str, torch: Callable[..., Path]) -> None:
    expected = {**EXPECTED, "gpus": gpus}
    _, checks, _ = _run("--level", "3", expected=expected, torch=torch())
    assert checks["driver"][0] == status
    assert checks["architecture"][0] == ("skip" if gpus is False else "unknown")


def test_a_kernel_runs_without_the_framework_on_every_gpu(torch: Callable[..., Path], libcuda: Callable[..., Path]) -> None:
    code, checks, facts = _run("--level", "4", expected=EXPECTED, torch=torch(), libcuda=libcuda())
    assert code == 0
    assert checks["kernel"] == ("pass", "a PTX kernel ran on each of 2 GPUs")
    assert facts["driver_cuda"] == "12.8"
    assert [found["capability"] for found in facts["devices"]] == ["9.0", "9.0"]


def test_a_kernel_that_computes_wrongly_fails(libcuda: Callable[..., Path]) -> None:
    code, checks, _ = _run("--level", "4", expected=EXPECTED, libcuda=libcuda(OFFSET="1.5f", COUNT=1))
    assert code == 1
    assert checks["kernel"] == ("fail", "NVIDIA Stub: 1000 of 1000 numbers are wrong")


@pytest.mark.parametrize(
    ("code", "cause"), [(100, "shows no GPU"), (802, "Fabric Manager"), (803, "different versions"), (999, "nvidia_uvm"), (1, "")]
)
def test_a_driver_that_refuses_is_quoted_with_its_cause(libcuda: Callable[..., Path], code: int, cause: str) -> None:
    _, checks, _ = _run("--level", "4", expected=EXPECTED, libcuda=libcuda(INIT=code))
    assert checks["driver"][0] == "fail"
    assert f"cuInit: CUDA error {code}" in checks["driver"][1]
    assert cause in checks["driver"][1]
    assert checks["kernel"][0] == "unknown"


def test_a_gpu_that_the_build_has_no_code_for_fails(torch: Callable[..., Path], libcuda: Callable[..., Path]) -> None:
    _, checks, _ = _run("--level", "3", expected=EXPECTED, torch=torch(), libcuda=libcuda(MAJOR=7, COUNT=1))
    assert checks["driver"][0] == "pass"
    assert checks["architecture"][0] == "fail"
    assert "no code for NVIDIA Stub (7.0) in this build, which has sm_80 sm_90" in checks["architecture"][1]


def test_no_gpu_behind_a_driver_that_answers(libcuda: Callable[..., Path]) -> None:
    _, checks, _ = _run("--level", "3", expected=EXPECTED, libcuda=libcuda(COUNT=0))
    assert checks["driver"][0] == "fail"
    assert "the driver shows no GPU" in checks["driver"][1]


def test_an_error_of_the_framework_is_a_failure_on_one_line(torch: Callable[..., Path]) -> None:
    code, checks, _ = _run(expected={**EXPECTED, "gpus": False}, torch=torch())
    assert code == 1
    assert checks["matmul"] == ("fail", "RuntimeError: this torch cannot compute")


def test_what_is_expected_lies_beside_the_script_or_in_a_file(tmp_path: Path, torch: Callable[..., Path]) -> None:
    script = tmp_path / "smoke.py"
    shutil.copy(SCRIPT, script)
    (tmp_path / "expect.json").write_text(json.dumps({**EXPECTED, "version": "2.8.0"}), encoding="utf-8")
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(torch())}
    for argv in ([str(script)], ["-", "--expect", str(tmp_path / "expect.json")]):
        done = subprocess.run(
            [sys.executable, *argv, "--level", "1"],
            input=SCRIPT.read_text(encoding="utf-8"),
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )
        assert done.returncode == 1
        assert "and 2.8.0 was locked" in done.stdout


@pytest.mark.parametrize("expected", ["nowhere.json", "{", "[1]"])
def test_an_expectation_that_cannot_be_read_is_a_wrong_command_line(expected: str, tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text("[1]", encoding="utf-8")
    argument = str(tmp_path / "list.json") if expected == "[1]" else expected
    done = subprocess.run([sys.executable, SCRIPT, "--expect", argument], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--expect cannot be read" in done.stderr


def test_which_code_runs_where_is_said_as_the_resolver_says_it() -> None:
    spec = importlib.util.spec_from_file_location("smoke_torch", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    gpus = ("5.0", "7.0", "7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "10.3", "12.0", "12.1")
    targets = (
        "sm_50",
        "sm_70",
        "sm_80",
        "sm_86",
        "sm_90",
        "sm_90a",
        "sm_100",
        "sm_100a",
        "sm_100f",
        "sm_120",
        "compute_80",
        "compute_90a",
    )
    for target, gpu in itertools.product(targets, gpus):
        rule = ptx_runs if target.startswith("compute_") else cubin_runs
        assert script.runs(target, gpu) == rule(Capability.parse(target), Capability.parse(gpu)), (target, gpu)


def test_the_script_is_python_3_8_and_uses_the_standard_library_and_torch_alone() -> None:
    tree = ast.parse(SCRIPT.read_text(encoding="utf-8"), feature_version=(3, 8))
    modules = {alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert modules - set(sys.stdlib_module_names) == {"torch"}


def test_ptxas_accepts_the_kernel(tmp_path: Path) -> None:
    ptxas = shutil.which("ptxas")
    if ptxas is None:
        pytest.skip("no ptxas here")
    text = SCRIPT.read_text(encoding="utf-8").partition('PTX = b"""')[2].partition('\\0"""')[0]
    (tmp_path / "kernel.ptx").write_text(text, encoding="utf-8")
    for target in ("sm_75", "sm_90", "sm_120"):
        subprocess.run([ptxas, f"-arch={target}", tmp_path / "kernel.ptx", "-o", tmp_path / "kernel.cubin"], check=True)
