"""Each real part does what the tests that use it rely on."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.testbed import folders, packages, processes, require

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from tests.testbed.engine import Engine
    from tests.testbed.registry import Registry
    from tests.testbed.slurm import Slurm
    from tests.testbed.sshd import Sshd
    from tests.testbed.wheels import Index

_DOCKERFILE = """\
FROM {base}
RUN --mount=type=cache,target=/cache python3 -m venv /opt/venv && touch /cache/seen
RUN --mount=type=cache,target=/cache test -e /cache/seen
USER 10001:0
ENTRYPOINT ["/opt/venv/bin/python3", "-c", "import os; print(os.getuid(), 6 * 7)"]
"""


def _ssh(sshd: Sshd, command: str, index: int = 0, key: Path | None = None) -> subprocess.CompletedProcess[str]:
    argv = sshd.ssh(index)
    if key:
        argv[1:1] = ["-i", str(key)]
    return processes.attempt([*argv, command], timeout=30)


@pytest.fixture
def context(tmp_path: Path, base_image: str) -> Path:
    (tmp_path / "Dockerfile").write_text(_DOCKERFILE.format(base=base_image), encoding="utf-8")
    return tmp_path


def test_an_image_is_built_on_the_stand_in_by_buildx_and_runs(engine: Engine, context: Path) -> None:
    engine.run("buildx", "build", "--network", "host", "--tag", "testbed:build", str(context))

    ran = engine.run("run", "--rm", "--network", "none", "--read-only", "testbed:build")

    assert ran.stdout == "10001 42\n"


def test_a_second_build_comes_from_the_cache(engine: Engine, context: Path) -> None:
    build = ["buildx", "build", "--network", "host", "--progress", "plain", "--tag", "testbed:cache", str(context)]
    engine.run(*build)

    again = engine.run(*build).stderr

    assert again.count("CACHED") >= _DOCKERFILE.count("RUN")


def test_a_build_with_the_host_network_reaches_loopback(
    engine: Engine, registry: Registry, base_image: str, tmp_path: Path
) -> None:
    ask = f"import urllib.request; urllib.request.urlopen('{registry.url}/v2/')"
    (tmp_path / "Dockerfile").write_text(f'FROM {base_image}\nRUN python3 -c "{ask}"\n', encoding="utf-8")

    engine.run("buildx", "build", "--network", "host", "--tag", "testbed:network", str(tmp_path))


def test_the_registry_gives_back_what_was_pushed(engine: Engine, registry: Registry, base_image: str) -> None:
    digest = registry.push(engine, base_image)

    engine.run("pull", f"{registry.name}/library/python@{digest}")

    assert digest.startswith("sha256:")


def test_ssh_answers_on_each_address_with_a_known_key(sshd: Sshd) -> None:
    answers = [_ssh(sshd, "id -un", index).stdout.strip() for index in range(len(sshd.addresses))]

    assert answers == [sshd.user] * len(sshd.addresses)


def test_ssh_refuses_a_changed_host_key_until_it_is_trusted(sshd: Sshd) -> None:
    before = sshd.fingerprint()
    sshd.rotate_host_key()

    refused = _ssh(sshd, "true")
    sshd.trust()
    accepted = _ssh(sshd, "true")

    assert sshd.fingerprint() != before
    assert (refused.returncode, accepted.returncode) == (255, 0)
    assert "REMOTE HOST IDENTIFICATION HAS CHANGED" in refused.stderr


def test_ssh_refuses_a_wrong_key(sshd: Sshd) -> None:
    sshd.client_key.unlink()

    refused = _ssh(sshd, "true", key=sshd.wrong_key)

    assert refused.returncode == 255
    assert "Permission denied" in refused.stderr


def test_what_a_session_leaves_running_is_seen_and_ended(sshd: Sshd) -> None:
    _ssh(sshd, "setsid sleep 300 </dev/null >/dev/null 2>&1 &")

    left = sshd.left_running()
    sshd.stop()

    assert any("sleep 300" in line for line in left)
    assert sshd.left_running() == []


def test_an_ssh_session_reaches_the_engine(docker_host: Sshd) -> None:
    answer = _ssh(docker_host, "docker buildx version && docker version --format '{{.Server.Version}}'")

    assert answer.returncode == 0, answer.stderr
    assert "buildx" in answer.stdout


def test_slurm_accepts_two_gpus_and_refuses_the_mistake(slurm: Slurm, tmp_path: Path) -> None:
    script = tmp_path / "job.sbatch"
    script.write_text("#!/bin/bash\n#SBATCH --gres=gpu:a100:2\nprintenv CUDA_VISIBLE_DEVICES\n", encoding="utf-8")

    right = slurm.command("sbatch", "--test-only", str(script))
    wrong = slurm.command("sbatch", "--test-only", "--gres=gpu2", str(script))

    assert right.returncode == 0, right.stderr
    assert wrong.returncode != 0
    assert "Invalid generic resource (gres) specification" in wrong.stderr


def test_a_slurm_job_sees_its_gpus(slurm: Slurm, tmp_path: Path) -> None:
    script, output = tmp_path / "job.sbatch", tmp_path / "output"
    script.write_text("#!/bin/bash\nprintenv CUDA_VISIBLE_DEVICES\n", encoding="utf-8")

    slurm.command("sbatch", "--wait", "--gres=gpu:2", f"--output={output}", str(script))

    assert output.read_text(encoding="utf-8") == "0,1\n"


def test_the_index_is_enough_to_install_pytorch(wheels: Index, tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "pip", "--isolated", "download", "--quiet", "--no-cache-dir", "--dest", str(tmp_path)]
    target = [
        "--only-binary=:all:",
        "--python-version=3.11",
        "--platform=manylinux_2_28_x86_64",
        "--platform=manylinux2014_x86_64",
    ]

    processes.run([*argv, *target, "--index-url", wheels.simple, "torch"])

    assert any(path.name.startswith("torch-") for path in tmp_path.iterdir())
    assert "/simple/torch/" in wheels.asked


def test_debian_packages_are_unpacked_and_not_installed() -> None:
    with require.need("packages"):
        folder = packages.unpacked("packages", "bookworm", ["hello"])

    assert processes.run([str(folder / "usr/bin/hello")]).stdout == "Hello, world!\n"


def test_a_stopped_program_leaves_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    daemon = processes.Daemon(["sh", "-c", "sleep 300 & echo ready; wait"], log=log)
    daemon.until(lambda: "ready" in log.read_text(encoding="utf-8"))
    family = [daemon.pid, *processes.descendants(daemon.pid)]

    daemon.stop()

    assert len(family) == 2
    assert [pid for pid in family if processes.alive(pid)] == []


def test_a_program_that_ends_too_early_shows_its_log(tmp_path: Path) -> None:
    daemon = processes.Daemon(["sh", "-c", "echo no such port >&2; exit 3"], log=tmp_path / "log")

    with pytest.raises(RuntimeError, match=r"(?s)ended with 3.*no such port"):
        daemon.until(lambda: False)


def test_a_scratch_folder_is_removed() -> None:
    with folders.scratch("test") as folder:
        (folder / "file").touch()

    assert not folder.exists()


def test_a_missing_part_is_a_skip_that_says_why() -> None:
    with pytest.raises(pytest.skip.Exception, match="no nonsense here: apt-get install sense"), require.need("nonsense"):
        processes.program("nonsense", "sense")
