"""The engine behind the docker command, with a runner that answers from a list."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from provisioner.commands import Command, Completed
from provisioner.edges.engine import CommandEngine, build_argv, mount_text, run_argv
from provisioner.edges.variables import with_variables
from provisioner.engines import BuildOptions, Mount, RunOptions
from provisioner.errors import BuildFailed, CommandTimedOut, EngineError, EngineMissing, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

INSPECTED = json.dumps([{"Id": "sha256:1234", "RepoTags": ["t:1"]}])


class Recorded:
    """A Runner that answers each command by the first entry whose words occur in it, in order; others end with 0."""

    host = "gpu01"

    def __init__(self, *answers: tuple[str, Completed | Exception]) -> None:
        self.answers = answers
        self.commands: list[Command] = []

    def run(self, command: Command, *, tell: Callable[[str], None] | None = None) -> Completed:
        self.commands.append(command)
        line = " ".join(command.argv)
        for words, answer in self.answers:
            if words in line:
                if isinstance(answer, Exception):
                    raise answer
                if tell:
                    for said in answer.stderr.splitlines():
                        tell(said)
                return answer
        return Completed(exit=0)

    def close(self) -> None:
        self.commands.append(Command(argv=("closed",)))

    @property
    def lines(self) -> list[str]:
        return [" ".join(command.argv) for command in self.commands]


def test_a_build_sends_its_context_on_standard_input_and_writes_nothing_on_the_host() -> None:
    runner = Recorded(
        ("buildx build", Completed(exit=0, stderr="#1 DONE\n")), ("image inspect", Completed(exit=0, stdout=INSPECTED))
    )
    told: list[str] = []
    image = CommandEngine(runner).build(b"a tar", "t:1", BuildOptions(network="host", args={"A": "b c"}), tell=told.append)
    assert (image.reference, image.id, image.digest) == ("t:1", "sha256:1234", None)
    assert told == ["#1 DONE"]
    build = runner.commands[0]
    assert build.stdin == b"a tar"
    assert build.argv[-1] == "-"
    assert "--network host --build-arg A=b c" in runner.lines[0]
    assert len(runner.commands) == 2


def test_secrets_are_neither_arguments_nor_files() -> None:
    runner = Recorded(("image inspect", Completed(exit=0, stdout=INSPECTED)))
    CommandEngine(runner).build(b"a tar", "t:1", BuildOptions(secrets={"token": "hunter2", "netrc": "machine a\nlogin b"}))
    build = runner.commands[0]
    assert not any("hunter2" in word or "machine" in word for word in build.argv)
    assert build.stdin == b"hunter2machine a\nlogin ba tar"
    assert build.secrets == ("hunter2", "machine a\nlogin b")
    assert "--secret id=token,env=PROVISIONER_SECRET_0 --secret id=netrc,env=PROVISIONER_SECRET_1" in runner.lines[0]


def test_variables_reach_a_real_program_and_its_input_stays_whole() -> None:
    texts = {"ONE": "a'b\"c $(false) \\ é\nsecond", "TWO": ""}
    argv, stdin = with_variables(("sh", "-c", 'printf "%s|%s|" "$ONE" "$TWO"; cat'), b"the rest \x00\xff", texts)
    done = subprocess.run(argv, input=stdin, capture_output=True, check=True, timeout=10)
    assert done.stdout == "a'b\"c $(false) \\ é\nsecond||the rest ".encode() + b"\x00\xff"
    assert not done.stderr
    assert with_variables(("true",), b"x", {}) == (("true",), b"x")


def test_a_failed_build_carries_the_end_of_its_output() -> None:
    output = "#5 0.1 compiling\nERROR: failed to solve: process did not complete successfully: exit code: 1\n"
    with pytest.raises(BuildFailed, match=r"^gpu01: the build of t:1 failed") as caught:
        CommandEngine(Recorded(("buildx build", Completed(exit=1, stderr=output)))).build(b"", "t:1")
    assert "#5 0.1 compiling" in caught.value.tail
    assert caught.value.exit == 6


def test_no_buildx_is_a_missing_engine() -> None:
    text = "unknown flag: --load\nSee 'docker --help'.\n\nUsage:  docker [OPTIONS] COMMAND\n"
    with pytest.raises(EngineMissing, match="no buildx"):
        CommandEngine(Recorded(("buildx build", Completed(exit=125, stderr=text)))).build(b"", "t:1")


def test_a_push_gives_the_digest_and_a_refused_one_the_reason() -> None:
    digest = "sha256:" + "0" * 64
    seen = ("image inspect", Completed(exit=0, stdout=INSPECTED))
    pushed = Recorded(seen, ("docker push", Completed(exit=0, stdout=f"1: digest: {digest} size: 528\n")))
    assert CommandEngine(pushed).build(b"", "r.example/t:1", BuildOptions(push=True)).digest == digest
    refused = Recorded(seen, ("docker push", Completed(exit=1, stderr="denied: requested access to the resource is denied\n")))
    with pytest.raises(EngineError, match="cannot push") as caught:
        CommandEngine(refused).build(b"", "r.example/t:1", BuildOptions(push=True))
    assert "docker login" in str(caught.value.hint)


def test_a_container_may_do_nothing_by_default() -> None:
    line = " ".join(run_argv("t:1", ("python3", "-c", "pass"), RunOptions(), "n"))
    for words in (
        "--rm",
        "--pull never",
        "--network none",
        "--cap-drop ALL",
        "--security-opt no-new-privileges",
        "--read-only",
        "--tmpfs /tmp:rw,exec,nosuid,nodev,mode=1777",
        "--pids-limit 4096",
    ):
        assert words in line
    assert line.endswith("--entrypoint python3 t:1 -c pass")
    for words in ("--gpus", "--device", "--user", "--privileged", "--interactive", "--mount"):
        assert words not in line


@pytest.mark.parametrize(("gpus", "words"), [("gpus", "--gpus all"), ("cdi", "--device nvidia.com/gpu=all")])
def test_gpus_are_given_by_hook_or_by_cdi(gpus: str, words: str) -> None:
    options = RunOptions(gpus=gpus, user="12345:0", mounts=(Mount(source="/a,b", target="/c"),), stdin=b"x")  # type: ignore[arg-type]
    line = " ".join(run_argv("t:1", ("true",), options, "n"))
    assert words in line
    assert "--user 12345:0" in line
    assert "--interactive" in line
    assert '--mount type=bind,"source=/a,b",target=/c,readonly' in line


def test_a_mount_is_one_record_whatever_its_path() -> None:
    assert mount_text(Mount(source='/a"b', target="/c", read_only=False)) == 'type=bind,"source=/a""b",target=/c'


def test_every_run_has_a_name_of_its_own_and_a_killed_one_is_removed_by_it() -> None:
    runner = Recorded(("docker run", CommandTimedOut("gpu01", "not ended in 600 s")))
    with pytest.raises(CommandTimedOut):
        CommandEngine(runner).run("t:1", ("sleep", "1000"))
    words = runner.commands[0].argv
    name = words[words.index("--name") + 1]
    assert runner.lines[1] == f"docker rm --force {name}"
    again = Recorded()
    CommandEngine(again).run("t:1", ("true",))
    assert name not in again.lines[0]
    assert len(again.commands) == 1


def test_an_interrupt_removes_the_container_too_and_goes_on_up() -> None:
    class Interrupted(Recorded):
        def run(self, command: Command, *, tell: Callable[[str], None] | None = None) -> Completed:
            super().run(command, tell=tell)
            if command.argv[1] == "run":
                raise KeyboardInterrupt
            raise CommandTimedOut(self.host, "the line is cut, too")

    runner = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        CommandEngine(runner).run("t:1", ("true",))
    assert "docker rm --force" in runner.lines[1]


@pytest.mark.parametrize(
    "done",
    [
        Completed(
            exit=125, stderr='docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]]\n'
        ),
        Completed(exit=127, stderr='docker: Error response from daemon: … exec: "nothere": executable file not found in $PATH\n'),
        Completed(exit=125),
        Completed(exit=3, stdout="out", stderr="No such image: said by the program itself"),
    ],
)
def test_an_exit_code_is_a_value(done: Completed) -> None:
    assert CommandEngine(Recorded(("docker run", done))).run("t:1", ("x",)) == done


def test_no_image_and_no_engine_are_errors() -> None:
    absent = Completed(exit=125, stderr="docker: Error response from daemon: No such image: nope:1\n")
    with pytest.raises(EngineError, match=r"gpu01: no image nope:1"):
        CommandEngine(Recorded(("docker run", absent))).run("nope:1", ("true",))
    down = Completed(exit=125, stderr="docker: Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?\n")
    with pytest.raises(EngineMissing, match="does not answer"):
        CommandEngine(Recorded(("docker run", down))).run("t:1", ("true",))
    without = Completed(exit=127, stderr="sh: 1: exec: docker: not found\n")
    with pytest.raises(EngineMissing, match="no docker command"):
        CommandEngine(Recorded(("docker", without))).inspect("t:1")


def test_inspect_tells_absent_from_unreadable() -> None:
    absent = Completed(exit=1, stdout="[]\n", stderr="Error response from daemon: no such image: nope:1: No such image: nope:1\n")
    assert CommandEngine(Recorded(("image inspect", absent))).inspect("nope:1") is None
    odd = Completed(exit=1, stderr="Error response from daemon: invalid reference format\n")
    with pytest.raises(EngineError, match="invalid reference format"):
        CommandEngine(Recorded(("image inspect", odd))).inspect("t:1")


def test_a_hostile_reference_starts_nothing() -> None:
    runner = Recorded()
    engine = CommandEngine(runner)
    for act in (engine.inspect, engine.remove, engine.pull, lambda reference: engine.run(reference, ("true",))):
        with pytest.raises(UsageError):
            act("--privileged")
    assert runner.commands == []


def test_removing_what_is_not_there_is_no_error() -> None:
    gone = Completed(exit=1, stderr="Error response from daemon: No such image: t:1\n")
    CommandEngine(Recorded(("image rm", gone))).remove("t:1")
    used = Completed(exit=1, stderr="Error response from daemon: conflict: unable to remove repository reference\n")
    with pytest.raises(EngineError, match="conflict"):
        CommandEngine(Recorded(("image rm", used))).remove("t:1")


def test_closing_closes_the_runner() -> None:
    runner = Recorded()
    CommandEngine(runner, "podman").close()
    assert runner.lines == ["closed"]


def test_platform_and_labels_are_said_to_buildx() -> None:
    line = " ".join(build_argv("t:1", BuildOptions(platform="linux/arm64", labels={"a": "b"}, network="bridge")))
    assert "--platform linux/arm64" in line
    assert "--label a=b" in line
    assert "--network default" in line


def test_what_a_container_prints_is_not_kept_on_the_host() -> None:
    argv = run_argv("t:1", ("python3",), RunOptions(), "name")
    assert argv[argv.index("--log-driver") + 1] == "none"
