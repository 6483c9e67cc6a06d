"""The whole line on real parts: the example request becomes an image with the real PyTorch CPU build, and proves itself in it.

Real: engine, BuildKit, SSH, package set, PyTorch. A stand-in: the base image, made by debootstrap.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from provisioner.cli import run
from provisioner.resources import resource

if TYPE_CHECKING:
    from pathlib import Path

    from tests.testbed.engine import Engine
    from tests.testbed.sshd import Sshd
    from tests.testbed.wheels import Index

REQUEST = str(resource("examples", "cpu-pytorch.yaml"))
STAGES = {"probe": "passed", "resolve": "passed", "lock": "passed", "render": "passed", "plan": "skipped"}


@pytest.fixture
def site(tmp_path: Path, wheels: Index) -> Path:
    """A site whose only index is the one on loopback."""
    path = tmp_path / "site.yaml"
    path.write_text(f'format: 1\nindexes: {{pypi: "{wheels.simple}", "pytorch/*": "{wheels.simple}"}}\n')
    return path


def _report(folder: Path) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return answer


def _proved(folder: Path, host: str) -> None:
    """The report says that the image was built, runs as non-root, and multiplied matrices on the CPU."""
    answer = _report(folder)
    assert answer["exit"] == 0
    stages = {stage["name"]: stage["status"] for stage in answer["stages"]}
    assert stages == {**STAGES, "build": "passed", "test": "passed"}
    assert answer["stack"]["compatibility"] == "none"
    (told,) = answer["hosts"]
    assert told["host"] == host
    assert not told["recording"]
    statuses = {check["status"] for check in told["checks"]}
    assert statuses <= {"pass", "skip"}
    texts = " ".join(check["message"] for check in told["checks"] if check["status"] == "pass")
    assert "CPU" in texts
    validation = json.loads((folder / "validation.json").read_text())
    assert {(result["by"], result["host"]) for result in validation["results"]} == {("build", host), ("test", host)}
    assert (folder / "requirements.txt").read_text().count("--hash=sha256:") > 5
    assert "no GPU" in (folder / "report.md").read_text()


def test_up_builds_and_proves_the_cpu_build_here(
    tmp_path: Path, site: Path, local_engine: Engine, base_image: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    code = run(["up", REQUEST, "--site", str(site), "--on", "local", "--to", str(out)])
    assert code == 0, capsys.readouterr().err
    _proved(out, "local")
    image = _report(out)["hosts"][0]["image"].split()[0]
    assert base_image in local_engine.run("image", "inspect", image, "--format", "{{json .Config.Labels}}").stdout
    assert local_engine.run("image", "inspect", image, "--format", "{{.Config.User}}").stdout.strip() == "10001:0"
    # once more as a user that nobody knows, which is what OpenShift does; the root is read-only in every test
    assert run(["test", str(out), "--user", "12345:0", "--json"]) == 0
    assert local_engine.run("ps", "--all", "--quiet").stdout.strip() == ""


def test_up_builds_and_proves_the_cpu_build_over_ssh(
    tmp_path: Path, site: Path, docker_host: Sshd, base_image: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert base_image
    out = tmp_path / "out"
    reach = ["--known-hosts", str(docker_host.known_hosts), "--ssh-config", str(docker_host.client_config)]
    code = run(["up", REQUEST, "--site", str(site), "--on", docker_host.host(), "--to", str(out), *reach])
    assert code == 0, capsys.readouterr().err
    _proved(out, docker_host.host())
    assert docker_host.left_running() == []
    assert run(["test", str(out), "--on", docker_host.host(), "--user", "12345:0", *reach]) == 0


@pytest.mark.parametrize("where", ["local", "ssh"])
def test_a_build_that_fails_in_the_middle_says_where_and_leaves_nothing(
    where: str,
    tmp_path: Path,
    site: Path,
    docker_host: Sshd,
    local_engine: Engine,
    base_image: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out"
    assert run(["lock", "--request", REQUEST, "--site", str(site), "--offline", "-o", str(tmp_path / "stack.lock.yaml")]) == 0
    assert run(["render", str(tmp_path / "stack.lock.yaml"), "--site", str(site), "--to", str(out)]) == 0
    dockerfile = (out / "Dockerfile").read_text()
    (out / "Dockerfile").write_text(dockerfile.replace("\nUSER 10001:0", "\nRUN echo half way; exit 42\nUSER 10001:0"))
    assert base_image in dockerfile
    capsys.readouterr()
    host = docker_host.host() if where == "ssh" else "local"
    reach = ["--known-hosts", str(docker_host.known_hosts), "--ssh-config", str(docker_host.client_config)]
    code = run(["build", str(out), "--on", host, "--site", str(site), *reach])
    err = capsys.readouterr().err
    assert code == 6
    assert "exit 42" in err
    assert "Traceback" not in err
    assert local_engine.run("ps", "--all", "--quiet").stdout.strip() == ""
    assert docker_host.left_running() == []


def test_no_engine_is_6_and_says_what_to_do(
    tmp_path: Path, sshd: Sshd, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    sshd.set_env({"DOCKER_HOST": f"unix://{tmp_path}/nobody.sock"})
    reach = ["--known-hosts", str(sshd.known_hosts), "--ssh-config", str(sshd.client_config)]
    for host in ("local", sshd.host()):
        assert run(["build", str(tmp_path), "--tag", "x:y", "--on", host, *reach]) == 6
        err = capsys.readouterr().err
        assert "what to do" in err or "*" in err
        assert "Traceback" not in err


@pytest.mark.parametrize("trouble", ["unknown key", "changed key", "wrong key", "nobody there"])
def test_a_host_that_cannot_be_used_is_5_with_one_clear_error(
    trouble: str, tmp_path: Path, sshd: Sshd, capsys: pytest.CaptureFixture[str]
) -> None:
    known, config = sshd.known_hosts, sshd.client_config
    if trouble == "unknown key":
        known = tmp_path / "empty"
        known.write_text("")
    elif trouble == "changed key":
        sshd.rotate_host_key()
    elif trouble == "wrong key":
        config = tmp_path / "config"
        config.write_text(sshd.client_config.read_text().replace("/client_key", "/wrong_key"))
    else:
        sshd.stop()
    said = {"unknown key": "SHA256:", "changed key": "CHANGED", "wrong key": "key", "nobody there": "refused"}[trouble]
    out = tmp_path / "out"
    code = run(["up", REQUEST, "--on", sshd.host(), "--to", str(out), "--known-hosts", str(known), "--ssh-config", str(config)])
    captured = capsys.readouterr()
    assert code == 5
    assert said in captured.err
    assert "Traceback" not in captured.err
    stages = {stage["name"]: stage["status"] for stage in _report(out)["stages"]}
    assert stages["probe"] == "failed"
    assert stages["build"] == "not-run"
    assert not (out / "Dockerfile").exists()
