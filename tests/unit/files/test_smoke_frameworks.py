"""The smoke scripts of TensorFlow and JAX, run as programs with a framework that is a few lines.

What they share with the script of PyTorch is the same code, which tests/unit/files/test_smoke_script.py runs against a libcuda.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from provisioner.resources import resource
from provisioner.stack.compiled import shipped_matrix

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

FOLDER = resource("templates", "smoke")
TENSORFLOW = """\
print("hello on standard output")
__version__ = "2.15.0"
class sysconfig:
    @staticmethod
    def get_build_info(): return {info!r}
class config:
    @staticmethod
    def list_physical_devices(kind): return []
"""
JAX = """\
__version__ = "0.10.2"
def devices(kind): raise RuntimeError("Unknown backend: 'gpu' requested")
"""
CUDA = {
    "is_cuda_build": True,
    "cuda_version": "12.2",
    "cudnn_version": "8",
    "cuda_compute_capabilities": ["sm_50", "sm_60", "sm_70", "sm_75", "compute_80"],
}
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
EXPECTED: Mapping[str, Mapping[str, Any]] = {
    "tensorflow": {"version": "2.15.0.post1", "python": PYTHON, "cuda": "12.2", "sass": ["sm_75", "sm_80"], "gpus": True},
    "jax": {"version": "0.10.2", "python": PYTHON, "cuda": "12.9", "sass": ["sm_90", "sm_120"], "gpus": True},
}


@pytest.fixture
def installed(tmp_path: Path) -> Callable[..., Path]:
    """Make a framework, and distributions of other names; the folder that holds them."""

    def make(framework: str, text: str, **distributions: str) -> Path:
        (tmp_path / framework).mkdir()
        (tmp_path / framework / "__init__.py").write_text(text, encoding="utf-8")
        for name, version in distributions.items():
            folder = tmp_path / f"{name}-{version}.dist-info"
            folder.mkdir()
            (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
        return tmp_path

    return make


def _run(framework: str, *arguments: str, folder: Path, **changed: object) -> tuple[int, dict[str, tuple[str, str]], Any]:
    expected = json.dumps({**EXPECTED[framework], **changed})
    done = subprocess.run(
        [sys.executable, FOLDER / f"{framework}.py", "--expect", expected, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(folder)},
        timeout=60,
    )
    [line] = done.stdout.splitlines()
    answer = json.loads(line.removeprefix("PROVISIONER-SMOKE "))
    return done.returncode, {entry["name"]: (entry["status"], entry["message"]) for entry in answer["checks"]}, answer["facts"]


def test_a_build_check_of_tensorflow_knows_the_release_by_its_distribution(installed: Callable[..., Path]) -> None:
    folder = installed("tensorflow", TENSORFLOW.format(info=CUDA), tensorflow="2.15.0.post1")
    code, checks, facts = _run("tensorflow", "--build-check", folder=folder)
    assert code == 0
    assert {status for status, _ in checks.values()} == {"pass"}
    assert checks["import"] == ("pass", "tensorflow 2.15.0.post1")
    assert facts["targets"] == ["sm_50", "sm_60", "sm_70", "sm_75", "compute_80", "sm_80"]  # compute_80 is machine code as well


@pytest.mark.parametrize(
    ("info", "changed", "check", "message"),
    [
        ({}, {"version": "2.15.1"}, "import", "tensorflow 2.15.0 is installed, and 2.15.1 was locked"),
        ({"is_cuda_build": False}, {}, "cuda", "a CPU build is installed, and a build with CUDA 12.2 was locked"),
        ({"is_cuda_build": False, "is_rocm_build": True}, {}, "cuda", "a ROCm build is installed"),
        ({}, {"cuda": "12.5"}, "cuda", "built with CUDA 12.2, and CUDA 12.5 was locked"),
        ({}, {"sass": ["sm_90"]}, "targets", "the build holds no code for sm_90, only sm_50"),
    ],
)
def test_another_tensorflow_than_the_locked_one_fails(
    installed: Callable[..., Path], info: dict[str, Any], changed: dict[str, Any], check: str, message: str
) -> None:
    folder = installed("tensorflow", TENSORFLOW.format(info={**CUDA, **info}))
    code, checks, _ = _run("tensorflow", "--build-check", folder=folder, **changed)
    assert code == 1
    assert checks[check][0] == "fail"
    assert message in checks[check][1]


def test_one_wheel_of_tensorflow_is_the_cpu_build_too(installed: Callable[..., Path]) -> None:
    folder = installed("tensorflow", TENSORFLOW.format(info=CUDA), tensorflow="2.15.0.post1")
    _, checks, _ = _run("tensorflow", "--build-check", folder=folder, cuda=None, gpus=False, sass=[])
    assert [checks[name][0] for name in ("cuda", "targets")] == ["pass", "skip"]


def test_a_tensorflow_that_would_compute_on_the_cpu_fails(installed: Callable[..., Path]) -> None:
    folder = installed("tensorflow", TENSORFLOW.format(info=CUDA), tensorflow="2.15.0.post1")
    code, checks, _ = _run("tensorflow", folder=folder)
    assert code == 1
    assert checks["matmul"][0] == "fail"
    assert "finds no usable GPU and would compute on the CPU" in checks["matmul"][1]


def test_a_build_check_of_jax_looks_at_the_plugin(installed: Callable[..., Path]) -> None:
    folder = installed("jax", JAX, jax_cuda12_plugin="0.10.2", nvidia_cudnn_cu12="9.10.2.21")
    code, checks, facts = _run("jax", "--build-check", folder=folder)
    assert code == 0
    assert checks["cuda"] == ("pass", "plugin for CUDA 12, cuDNN 9.10.2.21")
    assert checks["targets"][0] == "skip"
    assert facts["targets"] == ["sm_90", "sm_120", "compute_120"]


@pytest.mark.parametrize(
    ("distributions", "changed", "check", "message"),
    [
        ({"jax_cuda12_plugin": "0.10.2"}, {"version": "0.10.1"}, "import", "jax 0.10.2 is installed, and 0.10.1 was locked"),
        ({}, {}, "cuda", "no CUDA plugin is installed, and one for CUDA 12 was locked"),
        ({"jax_cuda13_plugin": "0.10.2"}, {}, "cuda", "plugins for CUDA 13 are installed, and one for CUDA 12 was locked"),
        ({"jax_cuda12_plugin": "0.10.2", "jax_cuda13_plugin": "0.10.2"}, {}, "cuda", "plugins for CUDA 12 and 13 are installed"),
        (
            {"jax_cuda12_plugin": "0.10.2"},
            {"cuda": None},
            "cuda",
            "the plugin for CUDA 12 is installed, and a CPU build was locked",
        ),
    ],
)
def test_another_jax_than_the_locked_one_fails(
    installed: Callable[..., Path], distributions: dict[str, str], changed: dict[str, Any], check: str, message: str
) -> None:
    code, checks, _ = _run("jax", "--build-check", folder=installed("jax", JAX, **distributions), **changed)
    assert code == 1
    assert checks[check] == ("fail", message) or message in checks[check][1]


def test_the_highest_target_of_every_jax_is_ptx_as_well() -> None:
    """The script counts on it: the plugin does not name its targets, and expect.json has the machine code only."""
    rows = [row for row in shipped_matrix().variants_of("jax") if row.sass]
    assert len(rows) > 100
    assert all(row.ptx == (max(row.sass or ()),) for row in rows)


@pytest.mark.parametrize("framework", ["tensorflow", "jax"])
def test_what_the_scripts_share_is_the_same_code(framework: str) -> None:
    own = {"imports", "cuda_of_build", "targets_of_build", "matrices", "product", "compared", "installed", "cudnn_of", "wait"}
    here, there = (_definitions(name) for name in (framework, "torch"))
    assert here.keys() - own == there.keys() - own
    same = {name for name in here.keys() & there.keys() if here[name] == there[name]}
    assert here.keys() - own - same == {"main"}  # which names the framework


def _definitions(framework: str) -> dict[str, str]:
    tree = ast.parse((FOLDER / f"{framework}.py").read_text(encoding="utf-8"), feature_version=(3, 8))
    found = {node.name: ast.dump(node) for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    named = [node for node in tree.body if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)]
    return found | {node.targets[0].id: ast.dump(node.value) for node in named if isinstance(node.targets[0], ast.Name)}


@pytest.mark.parametrize(("framework", "others"), [("tensorflow", set()), ("jax", {"numpy"})])
def test_a_script_uses_the_standard_library_and_its_framework_alone(framework: str, others: set[str]) -> None:
    tree = ast.parse((FOLDER / f"{framework}.py").read_text(encoding="utf-8"), feature_version=(3, 8))
    modules = {alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert modules - set(sys.stdlib_module_names) == {framework, *others}


def test_every_framework_has_its_script() -> None:
    for row in shipped_matrix().frameworks:
        compile((FOLDER / row.smoke).read_text(encoding="utf-8"), row.smoke, "exec")
