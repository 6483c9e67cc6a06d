"""One contract for every engine: the docker SDK here, the docker command here, and the docker command over SSH. All are real."""

from __future__ import annotations

import io
import json
import os
import tarfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provisioner.commands import Address, Command
from provisioner.edges.engine import CommandEngine
from provisioner.edges.engine_sdk import SdkEngine
from provisioner.edges.local import LocalRunner
from provisioner.edges.ssh import SshOptions, SshRunner
from provisioner.engines import BuildOptions, Engine, Mount, RunOptions
from provisioner.errors import BuildFailed, CommandTimedOut, EngineError, EngineMissing, HostError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.testbed import engine as engines
    from tests.testbed.registry import Registry
    from tests.testbed.sshd import Sshd

SMALL = "testbed:contract"


def context(dockerfile: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        info = tarfile.TarInfo("Dockerfile")
        info.size = len(dockerfile.encode())
        tar.addfile(info, io.BytesIO(dockerfile.encode()))
    return buffer.getvalue()


def over_ssh(host: Sshd) -> SshRunner:
    parsed = Address.parse(host.host())
    address = Address(host=parsed.host, user=parsed.user, port=parsed.port, key=str(host.client_key))
    return SshRunner(host.host(), address, SshOptions(known_hosts=host.known_hosts))


@pytest.fixture(params=["sdk", "command", "ssh"])
def subject(request: pytest.FixtureRequest, local_engine: engines.Engine, base_image: str) -> Iterator[Engine]:
    """Each engine, which has a small image with an entry point that must not run."""
    assert local_engine.host
    found: Engine
    if request.param == "sdk":
        found = SdkEngine(LocalRunner())
    elif request.param == "command":
        found = CommandEngine(LocalRunner())
    else:
        found = CommandEngine(over_ssh(request.getfixturevalue("docker_host")))
    text = f'FROM {base_image}\nENV A=b=c\nLABEL one=two\nUSER 10001:0\nENTRYPOINT ["false"]\nCMD ["x"]\n'
    found.build(context(text), SMALL)
    yield found
    found.close()


@pytest.fixture
def docker(local_engine: engines.Engine) -> engines.Engine:
    return local_engine


def containers(docker: engines.Engine) -> list[str]:
    return docker.run("ps", "--all", "--quiet").stdout.split()


def processes(word: str) -> list[int]:
    """The processes of this machine, those in containers too, that have this word among their arguments."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if word.encode() in words and int(folder.name) != os.getpid():
            found.append(int(folder.name))
    return found


def gone(word: str, seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while processes(word) and time.monotonic() < deadline:
        time.sleep(0.1)
    return not processes(word)


def test_an_image_says_what_it_is(subject: Engine) -> None:
    facts = subject.inspect(SMALL)
    assert facts is not None
    assert facts.tags == (SMALL,)
    assert facts.id.startswith("sha256:")
    assert (facts.platform.partition("/")[0], facts.user, facts.labels) == ("linux", "10001:0", {"one": "two"})
    assert (facts.env["A"], facts.entrypoint, facts.command) == ("b=c", ("false",), ("x",))
    assert facts.size > 10_000_000
    assert subject.inspect(facts.id) == facts
    assert subject.inspect("testbed:nothing") is None


def test_the_same_context_gives_the_same_image(subject: Engine) -> None:
    before = subject.inspect(SMALL)
    again = subject.build(context(f"FROM {SMALL}\nENV B=1\n"), "testbed:again")
    assert subject.build(context(f"FROM {SMALL}\nENV B=1\n"), "testbed:again").id == again.id
    assert before is not None
    assert before.id != again.id
    subject.remove("testbed:again")
    assert subject.inspect("testbed:again") is None
    subject.remove("testbed:again")


def test_a_program_gets_its_input_and_its_code_comes_back(subject: Engine, docker: engines.Engine) -> None:
    data = b"0123456789" * 30_000
    told: list[str] = []
    script = "wc -c; echo said >&2; echo $VARIABLE; exit 4"
    done = subject.run(SMALL, ("sh", "-c", script), RunOptions(stdin=data, env={"VARIABLE": "a b'\"$c"}), tell=told.append)
    assert (done.exit, done.stdout, done.stderr) == (4, "300000\na b'\"$c\n", "said\n")
    assert sorted(told) == sorted(["300000", "a b'\"$c", "said"])
    assert containers(docker) == []


def test_a_container_can_do_nothing_that_it_was_not_given(subject: Engine) -> None:
    script = """
    id -u; id -g
    grep -E '^(CapEff|NoNewPrivs)' /proc/self/status | tr -d '\\t '
    ls /sys/class/net
    echo x > /etc/x || echo refused
    printf '#!/bin/sh\\necho runs' > /tmp/x && chmod +x /tmp/x && /tmp/x
    """
    done = subject.run(SMALL, ("sh", "-c", script))
    assert done.stdout.split() == ["10001", "0", "CapEff:0000000000000000", "NoNewPrivs:1", "lo", "refused", "runs"]
    other = subject.run(SMALL, ("sh", "-c", "id -u; id -g; touch /tmp/x && echo written"), RunOptions(user="54321:0"))
    assert other.stdout.split() == ["54321", "0", "written"]


def test_a_mount_is_there_and_read_only(subject: Engine, tmp_path: Path) -> None:
    (tmp_path / "a,b").write_text("content\n", encoding="utf-8")
    options = RunOptions(mounts=(Mount(source=str(tmp_path / "a,b"), target="/given"),))
    done = subject.run(SMALL, ("sh", "-c", "cat /given; echo x > /given || echo refused"), options)
    assert done.stdout == "content\nrefused\n"


def test_a_time_out_removes_the_container(subject: Engine, docker: engines.Engine) -> None:
    started = time.monotonic()
    with pytest.raises(CommandTimedOut):
        subject.run(SMALL, ("sleep", "86331"), RunOptions(timeout=3))
    assert time.monotonic() - started < 40
    assert gone("86331")
    assert containers(docker) == []


def test_what_does_not_start_says_why_with_docker_s_own_code(subject: Engine, docker: engines.Engine) -> None:
    absent = subject.run(SMALL, ("nothere",))
    assert (absent.exit, "nothere" in absent.stderr) == (127, True)
    refused = subject.run(SMALL, ("/etc/passwd",))
    assert (refused.exit, "permission denied" in refused.stderr) == (126, True)
    hook = subject.run(SMALL, ("true",), RunOptions(gpus="gpus"))
    assert (hook.exit, 'could not select device driver "" with capabilities: [[gpu]]' in hook.stderr) == (125, True)
    unknown = subject.run(SMALL, ("true",), RunOptions(gpus="cdi"))
    assert (unknown.exit, "nvidia.com/gpu=all" in unknown.stderr) == (125, True)
    assert containers(docker) == []


def test_a_cdi_device_reaches_the_container(subject: Engine, docker: engines.Engine) -> None:
    spec = docker.cdi / "nvidia.json"
    device = {"name": "all", "containerEdits": {"env": ["STUB_GPU=there"]}}
    spec.write_text(json.dumps({"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [device]}), encoding="utf-8")
    try:
        deadline = time.monotonic() + 10  # the engine watches the folder
        while True:
            done = subject.run(SMALL, ("sh", "-c", "echo $STUB_GPU"), RunOptions(gpus="cdi"))
            if done.exit != 125 or time.monotonic() > deadline:
                break
            time.sleep(0.2)
        assert (done.exit, done.stdout) == (0, "there\n"), done.stderr
    finally:
        spec.unlink()


def test_an_image_that_is_not_there_is_never_pulled_by_accident(subject: Engine) -> None:
    with pytest.raises(EngineError, match="no image testbed:nothing"):
        subject.run("testbed:nothing", ("true",))
    with pytest.raises(UsageError):
        subject.run("--privileged", ("true",))


def test_a_build_that_fails_in_the_middle_names_the_step_and_leaves_nothing(subject: Engine, docker: engines.Engine) -> None:
    told: list[str] = []
    text = f"FROM {SMALL}\nUSER 0\nRUN --network=none echo what it says; exit 3\n"
    with pytest.raises(
        BuildFailed, match=r"failed: what it says \(exit code: 3, at .*RUN .*echo what it says; exit 3\)"
    ) as caught:
        subject.build(context(text), "testbed:broken", tell=told.append)
    assert "what it says" in caught.value.tail
    assert "exit code: 3" in caught.value.message
    assert any("what it says" in line for line in told)
    assert subject.inspect("testbed:broken") is None
    assert containers(docker) == []


def test_a_build_that_is_given_up_leaves_no_process_on_the_host(subject: Engine, docker: engines.Engine) -> None:
    text = f"FROM {SMALL}\nUSER 0\nRUN --network=none echo started; sleep 86332\n"
    told: list[str] = []
    with pytest.raises(CommandTimedOut):
        subject.build(context(text), "testbed:slow", BuildOptions(timeout=5), tell=told.append)
    assert any(line.endswith("started") for line in told)
    assert gone("86332"), "the build goes on without its client"
    assert gone("testbed:slow"), "its client goes on"
    assert containers(docker) == []


def test_a_secret_is_there_while_it_is_needed_and_nowhere_else(subject: Engine, docker: engines.Engine) -> None:
    secret = "hunter2'\"$(false)\nsecond line é"
    count = len(secret.encode())
    mount = "--mount=type=secret,id=token,required=true"
    text = f"FROM {SMALL}\nUSER 0\nRUN --network=none {mount} test $(wc -c </run/secrets/token) = {count}\n"
    subject.build(context(text), "testbed:secret", BuildOptions(secrets={"token": secret}))
    assert "hunter2" not in docker.run("history", "--no-trunc", "testbed:secret").stdout
    assert subject.run("testbed:secret", ("ls", "/run/secrets")).exit != 0
    subject.remove("testbed:secret")


def test_an_image_goes_to_a_registry_and_comes_back(subject: Engine, registry: Registry, tmp_path: Path) -> None:
    reference = f"{registry.name}/testbed/contract:1"
    pushed = subject.build(context(f"FROM {SMALL}\n"), reference, BuildOptions(push=True))
    assert pushed.digest is not None
    subject.remove(reference)
    facts = subject.pull(f"{registry.name}/testbed/contract@{pushed.digest}")
    assert facts.digests == (f"{registry.name}/testbed/contract@{pushed.digest}",)
    subject.tag(f"{registry.name}/testbed/contract@{pushed.digest}", "testbed:back")
    subject.save("testbed:back", str(tmp_path / "image.tar"))
    with tarfile.open(tmp_path / "image.tar") as tar:
        assert "manifest.json" in tar.getnames()
    with pytest.raises(EngineError, match="cannot pull"):
        subject.pull(f"{registry.name}/testbed/nothing:1")
    with pytest.raises(EngineError, match="cannot save"):
        subject.save("testbed:back", str(tmp_path / "none" / "image.tar"))
    for name in ("testbed:back", f"{registry.name}/testbed/contract@{pushed.digest}"):
        subject.remove(name)


def test_no_daemon_is_a_missing_engine(local_engine: engines.Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert local_engine.host
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    for found in (SdkEngine(LocalRunner()), CommandEngine(LocalRunner())):
        with pytest.raises(EngineMissing, match="does not answer"):
            found.inspect(SMALL)
        with pytest.raises(EngineMissing, match="does not answer"):
            found.run(SMALL, ("true",))
        with pytest.raises(EngineMissing, match="does not answer"):
            found.build(b"", SMALL)
        found.close()


def test_a_host_without_docker_or_without_buildx_says_which(sshd: Sshd, engine: engines.Engine, tmp_path: Path) -> None:
    sshd.set_env({"PATH": "/usr/sbin:/sbin:/usr/bin:/bin", "DOCKER_CONFIG": str(tmp_path), "DOCKER_HOST": engine.host})
    runner = over_ssh(sshd)
    if runner.run(Command(argv=("sh", "-c", "command -v docker"))).ok:
        with pytest.raises(EngineMissing, match="no buildx"):
            CommandEngine(runner).build(context("FROM scratch\n"), "testbed:none")
    with pytest.raises(EngineMissing, match="no nosuchdocker command"):
        CommandEngine(runner, "nosuchdocker").inspect(SMALL)
    runner.close()


def test_a_host_that_cannot_be_reached_is_a_host_error(docker_host: Sshd) -> None:
    found = CommandEngine(over_ssh(docker_host))
    docker_host.stop()
    with pytest.raises(HostError):
        found.inspect(SMALL)
    found.close()
