"""The smoke test's judge: on what a container can print, and on what engines print when there is none."""

from __future__ import annotations

import json

import pytest

from provisioner.commands import Completed
from provisioner.engines import RunOptions
from provisioner.errors import CommandTimedOut, EngineError
from provisioner.facts import EngineFact, GpuFact, HostFacts
from provisioner.findings import Seen
from provisioner.proof.smoke import LABEL, MARK, Foreign, gpu_access, judge, launch_for, smoke, smoke_script
from provisioner.values import replace
from tests.unit.proof.fakes import FakeEngine, lock

PASSED = {"name": "matmul", "level": 5, "status": "pass", "message": "512x512 matrices multiplied", "seconds": 0.1}
WHOLE = tuple(
    {**PASSED, "name": name, "level": level} for name, level in (("import", 1), ("driver", 3), ("kernel", 4), ("matmul", 5))
)
UNSEEN = Seen[object].unseen("not asked")


def line(*checks: object) -> str:
    return f"{MARK}{json.dumps({'format': 1, 'checks': checks, 'facts': {}})}\n"


def test_each_check_becomes_a_result_with_its_layer() -> None:
    kernel = {"name": "kernel", "level": 4, "status": "skip", "message": "a CPU stack uses no GPU"}
    imported = {"name": "import", "level": 1, "status": "pass", "message": "torch 2.9.1"}
    results = judge(Completed(exit=0, stdout="noise\n" + line(imported, kernel, PASSED)))
    assert [(result.name, result.layer, result.status) for result in results] == [
        ("import", "library", "pass"),
        ("kernel", "driver", "skip"),
        ("matmul", "code", "pass"),
    ]
    assert not any(result.finding for result in results)


@pytest.mark.parametrize(
    ("message", "id_"),
    [
        ("no code for NVIDIA GeForce RTX 5090 (12.0) in this build, which has sm_50 sm_90: choose another", "arch-not-in-build"),
        ("RuntimeError: CUDA error: no kernel image is available for execution on the device", "arch-not-in-build"),
        ("cuInit: CUDA error 803: the user-mode driver and the kernel module differ", "kernel-module-older-than-userspace"),
        ("cuInit: CUDA error 802: the system is not ready", "fabric-manager-not-running"),
        ("cuInit: CUDA error 100: the driver shows no GPU", "gpus-flag-missing"),
        ("no NVIDIA driver library here (libcuda.so.1: cannot open shared object file)", "gpus-flag-missing"),
        ("a CPU build is installed, and a build with CUDA 13.0 was locked", "cpu-only-torch"),
        ("CUDA driver version is insufficient for CUDA runtime version", "driver-too-old-for-build"),
        ("512x512 matrices multiplied on the CPU in 1 ms, largest error 3.0e+00, which is too much", "smoke-failed"),
    ],
)
def test_a_failed_check_has_a_finding(message: str, id_: str) -> None:
    [result] = judge(Completed(exit=1, stdout=line({**PASSED, "status": "fail", "message": message})))
    assert result.status == "fail"
    assert result.finding is not None
    assert (result.finding.id, result.finding.severity) == (id_, "error")
    assert message in result.finding.message


@pytest.mark.parametrize(
    ("stderr", "id_"),
    [
        (
            'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]]',
            "container-toolkit-missing",
        ),
        ("docker: Error response from daemon: unknown or invalid runtime name: nvidia.", "container-toolkit-missing"),
        ('docker: Error response from daemon: could not select device driver "cdi" with capabilities: []', "cdi-device-missing"),
        (
            "docker: Error response from daemon: CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=all",
            "cdi-device-missing",
        ),
        (
            (
                "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your driver to a "
                "newer version, or use an earlier cuda container: unknown"
            ),
            "image-requires-newer-driver",
        ),
        ("nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown", "driver-not-usable"),
        (
            "nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open shared object file",
            "driver-not-usable",
        ),
    ],
)
def test_a_container_that_gets_no_gpu_fails_by_name(stderr: str, id_: str) -> None:
    [result] = judge(Completed(exit=125, stderr=f"{stderr}\n\nRun 'docker run --help' for more information\n"))
    assert (result.status, result.layer) == ("fail", "container")
    assert result.finding is not None
    assert result.finding.id == id_
    assert result.finding.remedies
    assert stderr.rstrip() in result.evidence


@pytest.mark.parametrize(
    ("done", "status", "id_"),
    [
        (Completed(exit=0), "unknown", "smoke-no-answer"),
        (Completed(exit=0, stdout="everything is fine\n"), "unknown", "smoke-no-answer"),
        (Completed(exit=0, stdout=f"{MARK}{{not json\n"), "unknown", "smoke-no-answer"),
        (Completed(exit=0, stdout=line(PASSED)[:-20]), "unknown", "smoke-no-answer"),
        (Completed(exit=0, stdout=f"{MARK}[]\n"), "unknown", "smoke-no-answer"),
        (Completed(exit=0, stdout=f"{MARK}{'[' * 100_000}\n"), "unknown", "smoke-no-answer"),
        (Completed(exit=0, stdout=line()), "unknown", "smoke-no-answer"),
        (Completed(exit=0, stdout=line("pass")), "unknown", "smoke-no-answer"),
        (Completed(exit=0, stdout=line({"name": "a", "status": "fine"})), "unknown", "smoke-no-answer"),
        (Completed(exit=1, stderr="Traceback …\nModuleNotFoundError: No module named 'json'\n"), "unknown", "smoke-no-answer"),
        (Completed(exit=2, stderr="python3: can't open file '/opt/provisioner/smoke.py'\n"), "unknown", "smoke-no-answer"),
        (
            Completed(exit=127, stderr='docker: … exec: "python3": executable file not found in $PATH'),
            "unknown",
            "smoke-no-answer",
        ),
        (Completed(exit=125, stderr="docker: Error response from daemon: conflict"), "unknown", "container-not-started"),
        (Completed(exit=137), "fail", "smoke-killed"),
        (Completed(exit=139, stderr="Segmentation fault"), "fail", "smoke-crashed"),
    ],
)
def test_no_answer_is_never_a_pass(done: Completed, status: str, id_: str) -> None:
    [result] = judge(done)
    assert result.status == status
    assert result.finding is not None
    assert result.finding.id == id_


def test_the_last_marked_line_counts_and_a_broken_last_one_is_not_covered_by_an_older_one() -> None:
    assert judge(Completed(exit=0, stdout=line({**PASSED, "status": "fail"}) + line(PASSED)))[0].status == "pass"
    assert judge(Completed(exit=0, stdout=line(PASSED) + f"{MARK}{{"))[0].status == "unknown"


def test_a_crash_after_every_check_passed_is_a_fault() -> None:
    results = judge(Completed(exit=139, stdout=line(PASSED)))
    assert [result.status for result in results] == ["pass", "fail"]


def test_an_answer_that_contradicts_its_exit_code_is_unknown() -> None:
    results = judge(Completed(exit=1, stdout=line(PASSED)))
    assert [result.status for result in results] == ["pass", "unknown"]


def test_a_forged_answer_that_leaves_checks_out_is_no_proof() -> None:
    engine = FakeEngine(Completed(exit=0, stdout=line(PASSED)))
    results = smoke("t:1", engine, RunOptions(), lock(cuda=None))
    assert [result.status for result in results] == ["pass", "unknown"]
    assert "nothing of import, driver, kernel" in results[-1].message


def test_what_a_container_prints_cannot_steer_the_terminal_or_fill_it() -> None:
    hostile = {**PASSED, "message": "\x1b[2J\x07" + "x" * 10_000, "name": "a\x1b]0;title\x07" + "n" * 500}
    [result] = judge(Completed(exit=0, stdout=line(hostile)))
    assert result.message.isprintable()
    assert len(result.message) < 2100
    assert result.name.isprintable()
    assert len(result.name) < 100
    assert len(judge(Completed(exit=0, stdout=line(*[PASSED] * 5000)))) <= 200


def test_our_image_runs_the_script_that_it_carries() -> None:
    engine = FakeEngine(Completed(exit=0, stdout=line(*WHOLE)))
    results = smoke("t:1", engine, RunOptions(), lock(cuda=None))
    assert [result.status for result in results] == ["pass"] * 4
    assert engine.asked == [("run", "t:1", ("python3", "/opt/provisioner/smoke.py"), None)]


def test_another_image_is_fed_the_script_and_what_it_must_find() -> None:
    engine = FakeEngine(Completed(exit=0, stdout=line(PASSED)))
    smoke("t:1", engine, RunOptions(user="12345:0"), level=5, foreign=Foreign(script=b"print()", expected='{"gpus": false}'))
    assert engine.asked == [("run", "t:1", ("python3", "-", "--expect", '{"gpus": false}', "--level", "5"), None)]
    assert (engine.options.stdin, engine.options.user) == (b"print()", "12345:0")


def test_an_image_of_ours_is_known_by_its_label_and_keeps_its_own_script() -> None:
    engine = FakeEngine(Completed(exit=0, stdout=line(PASSED)), images=("t:1",), labels={LABEL: "0" * 64})
    smoke("t:1", engine, RunOptions(), foreign=Foreign(script=b"print()"))
    assert engine.asked == [("run", "t:1", ("python3", "/opt/provisioner/smoke.py"), None)]


def test_a_gpu_stack_without_a_gpu_is_tested_as_far_as_that_goes_and_stays_unknown() -> None:
    imported = {"name": "import", "level": 1, "status": "pass", "message": "torch 2.9.1"}
    engine = FakeEngine(Completed(exit=0, stdout=line(imported)))
    results = smoke("t:1", engine, RunOptions(gpus="none"), lock())
    assert engine.asked[0][2] == ("python3", "/opt/provisioner/smoke.py", "--level", "2")
    assert [result.status for result in results] == ["pass", "unknown"]
    assert results[-1].finding is not None
    assert results[-1].finding.id == "smoke-without-gpu"


def test_a_time_out_is_unknown_and_a_missing_image_an_error() -> None:
    [result] = smoke("t:1", FakeEngine(CommandTimedOut("gpu01", "not ended in 600 s")), RunOptions(), lock(cuda=None))
    assert result.status == "unknown"
    assert result.finding is not None
    assert result.finding.id == "smoke-timed-out"
    with pytest.raises(EngineError):
        smoke("t:1", FakeEngine(EngineError("gpu01: no image t:1")), RunOptions(), lock(cuda=None))


def facts(**changes: object) -> HostFacts:
    fields = dict.fromkeys(HostFacts.__dataclass_fields__, UNSEEN)
    return HostFacts(**{**fields, "host": "gpu01", "steps": {}, **changes})  # type: ignore[arg-type]


GPUS = Seen((GpuFact(index=0, name="NVIDIA H200"),))
MODERN = EngineFact(version="26.1.5", cdi_folders=("/etc/cdi",))
CDI = Seen(("nvidia.com/gpu=0", "nvidia.com/gpu=all"))


@pytest.mark.parametrize(
    ("known", "access"),
    [
        (None, "gpus"),
        (facts(), "gpus"),
        (facts(gpus=Seen(()), pci=Seen(())), "none"),
        (facts(gpus=Seen(()), pci=Seen(("10de:2335",))), "gpus"),
        (facts(gpus=GPUS), "gpus"),
        (facts(gpus=GPUS, engine=Seen(MODERN), cdi=CDI), "cdi"),
        (facts(gpus=GPUS, engine=Seen(MODERN), cdi=Seen(("nvidia.com/gpu=0",))), "gpus"),
        (facts(gpus=GPUS, engine=Seen(replace(MODERN, version="24.0.9")), cdi=CDI), "gpus"),
        (facts(gpus=GPUS, engine=Seen(replace(MODERN, cdi_folders=())), cdi=CDI), "gpus"),
        (facts(gpus=GPUS, engine=Seen(None), cdi=CDI), "gpus"),
    ],
)
def test_how_a_container_gets_the_gpus(known: HostFacts | None, access: str) -> None:
    assert gpu_access(known) == access
    assert launch_for(lock(), known).gpus == access
    assert launch_for(lock(cuda=None), known).gpus == "none"


def test_the_shipped_script_is_python() -> None:
    compile(smoke_script("torch.py"), "torch.py", "exec")
