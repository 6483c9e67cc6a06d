"""`python3 -m tests.gpu` itself, on a machine without a GPU: what it says there, and what it makes of a stubbed driver."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
STUB = ROOT / "tests" / "unit" / "edges" / "libnvidia_ml_stub.c"
SMI = """\
#!/bin/sh
case "$*" in
  -L) echo "GPU 0: NVIDIA H200 (UUID: GPU-0)" ;;
  --query-gpu=*) echo "index, name, uuid, memory.total [MiB], driver_version, compute_cap, mig.mode.current"
    echo "0, NVIDIA H200, GPU-0, 143771 MiB, 580.65.06, 9.0, Enabled" ;;
  *) printf 'Driver Version                            : 580.65.06\\nCUDA Version                              : 13.0\\n' ;;
esac
"""


def run(**environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.gpu"],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


@pytest.mark.skipif(any(Path("/dev").glob("nvidia[0-9]*")), reason="this machine has an NVIDIA GPU: run make gpu-test")
def test_without_a_gpu_it_says_so_and_ends_with_0() -> None:
    done = run()
    assert (done.returncode, done.stdout) == (0, "skipped: no NVIDIA GPU\n"), done.stderr


@pytest.mark.skipif(any(Path("/dev").glob("nvidia[0-9]*")), reason="this machine has an NVIDIA GPU: run make gpu-test")
def test_each_part_answers_and_what_cannot_be_seen_is_no_failure(tmp_path: Path) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler to make the stub of libnvidia-ml.so.1 with: apt-get install gcc")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(tmp_path / "libnvidia-ml.so.1"), str(STUB)], check=True, timeout=60)
    (tmp_path / "nvidia-smi").write_text(SMI, encoding="utf-8")
    (tmp_path / "nvidia-smi").chmod(0o755)
    stubs = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "LD_LIBRARY_PATH": str(tmp_path)}
    done = run(**stubs, STUB_COUNT="1")
    lines = {line[8:30].strip(): line[:8].strip() for line in done.stdout.splitlines()}
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("probe: GPUs", "probe: driver", "probe: facts.json", "nvml: driver", "nvml: GPUs", "matrix: GPU", "resolve"):
        assert lines[name] == "pass", done.stdout
    assert " 0 failed, " in done.stdout.splitlines()[-1]
    wrong = run(**stubs, STUB_COUNT="2")
    assert wrong.returncode == 1
    assert any(line.startswith("fail    nvml: GPUs") for line in wrong.stdout.splitlines())
