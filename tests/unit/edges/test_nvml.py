"""NVML through pynvml, on a stub of the driver's library that the test compiles."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from provisioner.edges.nvml import read_nvml

SOURCE = Path(__file__).with_name("libnvidia_ml_stub.c")
READ = "from provisioner.edges.nvml import read_nvml; print(repr(read_nvml()))"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler to make the stub of libnvidia-ml.so.1 with: apt-get install gcc")
    folder = tmp_path_factory.mktemp("nvml")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(folder / "libnvidia-ml.so.1"), str(SOURCE)], check=True, timeout=60)
    return folder


def read(library: Path, **environment: str) -> str:
    """What a fresh process reads: the library is loaded once, and found by LD_LIBRARY_PATH at its start only."""
    env = {**os.environ, "LD_LIBRARY_PATH": str(library), **environment}
    done = subprocess.run([sys.executable, "-c", READ], env=env, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def test_gpus_as_the_driver_s_library_says(library: Path) -> None:
    assert read(library) == (
        "Seen(Nvml(driver='580.65.06', cuda='13.0', gpus=("
        "GpuFact(index=0, name='NVIDIA H200', uuid='GPU-0', memory_mib=143771, driver='580.65.06', capability='9.0', "
        "mig='Enabled'), "
        "GpuFact(index=1, name='NVIDIA GB10', uuid='GPU-1', memory_mib=None, driver='580.65.06', capability='12.1', mig=None))))"
    )


@pytest.mark.parametrize(("code", "says"), [("9", "Driver Not Loaded"), ("18", "mismatch")])
def test_a_library_without_its_driver_is_unseen_and_not_absent(library: Path, code: str, says: str) -> None:
    answer = read(library, STUB_INIT=code)
    assert answer.startswith("Seen.unseen('NVML does not answer: ")
    assert says.lower() in answer.lower() or "as the stub was told" in answer


def test_no_library_is_no_driver(tmp_path: Path) -> None:
    found = shutil.which("ldconfig", path=f"{os.environ['PATH']}:/sbin:/usr/sbin")
    known = subprocess.run([found, "-p"], capture_output=True, text=True, check=True).stdout if found else ""
    if "libnvidia-ml.so.1" in known:
        pytest.skip("this machine has the driver's library")
    assert read(tmp_path) == "Seen(None)"


def test_no_pynvml_is_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    found = read_nvml()
    assert not found.known
    assert "nvidia-ml-py" in str(found.why_not)
