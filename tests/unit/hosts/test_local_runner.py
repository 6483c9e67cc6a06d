"""LocalRunner, and with it the program around every command, under each shell that is here."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from provisioner.commands import Address, Command
from provisioner.edges import supervised
from provisioner.edges.local import LocalRunner
from provisioner.edges.supervised import shorten
from provisioner.edges.supervisor import boot
from provisioner.errors import CommandFailed, CommandTimedOut


def _alive(marker: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if marker in line:
            found.append(line)
    return found


def test_input_output_and_code() -> None:
    done = LocalRunner().run(Command(argv=("sh", "-c", "cat; echo no >&2; exit 3"), stdin="ä\n".encode()))
    assert (done.exit, done.stdout, done.stderr) == (3, "ä\n", "no\n")


def test_much_in_much_out() -> None:
    data = b"0123456789abcdef" * 400_000
    assert LocalRunner().run(Command(argv=("cat",), stdin=data)).stdout == data.decode()


def test_arguments_arrive_as_they_are() -> None:
    hostile = ("a b", "$(touch /nope)", "'", '"', "\n", "*", "", "`id`", "\\", "-n", "%s")
    done = LocalRunner().run(Command(argv=("sh", "-c", 'for word; do printf "%s\\0" "$word"; done', "sh", *hostile)))
    assert tuple(done.stdout.split("\0")[:-1]) == hostile


def test_secrets_are_replaced_everywhere() -> None:
    told: list[str] = []
    command = Command(argv=("sh", "-c", "echo token=abc; echo abc >&2; sleep 600"), secrets=("abc",), timeout=0.5)
    with pytest.raises(CommandTimedOut) as caught:
        LocalRunner().run(command, tell=told.append)
    assert sorted(told) == ["***", "token=***"]
    assert "abc" not in f"{caught.value.message} {caught.value.hint}"


def test_a_background_child_does_not_hold_the_answer() -> None:
    started = time.monotonic()
    done = LocalRunner().run(Command(argv=("sh", "-c", "sleep 5 & echo started")))
    assert done.stdout == "started\n"
    assert time.monotonic() - started < 4


def test_what_was_not_ended_in_time_is_gone() -> None:
    marker = "604800.25"
    with pytest.raises(CommandTimedOut, match=r"did not end within 0\.5 s"):
        LocalRunner().run(
            Command(argv=("sh", "-c", f"sleep {marker} & (trap '' TERM; sleep {marker}) & sleep {marker}"), timeout=0.5)
        )
    assert _alive(f"sleep {marker}") == []


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox"])
def test_every_shell_supervises(shell: str, tmp_path: Path) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"no {shell} here")
    names = ("cat", "dd", "head", "id", "setsid", "sh", "sleep") if shell == "busybox" else ("sh",)
    for name in names:
        (tmp_path / name).symlink_to(program)
    path = str(tmp_path) if shell == "busybox" else f"{tmp_path}:{os.environ['PATH']}"

    def start(argv: tuple[str, ...], data: bytes) -> subprocess.Popen[bytes]:
        text, first = boot(argv, len(data), 30)
        started = subprocess.Popen(
            (str(tmp_path / "sh"), "-c", text),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": path},
        )
        assert started.stdin
        started.stdin.write(first + data)
        started.stdin.flush()
        return started

    for _ in range(20):  # a command that ends at once races with its watcher
        with start(("sh", "-c", "head -c 3; exit 5"), b"abcdef") as quick:
            assert quick.stdout
            assert quick.wait(10) == 5
            assert quick.stdout.read() == b"abc"
    marker = "604801.25" + str(len(shell))
    with start(("sh", "-c", f"sleep {marker} & sleep {marker}"), b"") as hanging:
        deadline = time.monotonic() + 10
        while len(_alive(f"sleep {marker}")) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert hanging.stdin
        hanging.stdin.close()
        hanging.wait(10)
        assert _alive(f"sleep {marker}") == []


def test_shorten_keeps_a_message_readable() -> None:
    assert shorten(Command(argv=("docker", "version"))) == "docker version"
    assert len(shorten(Command(argv=("sh", "-c", "x" * 5000)))) < 200
    assert "\n" not in shorten(Command(argv=("sh", "-c", "one\ntwo")))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu01", Address(host="gpu01")),
        ("root@gpu01.example:2222", Address(host="gpu01.example", user="root", port=2222)),
        ("root@[fd00::7]:22", Address(host="fd00::7", user="root", port=22)),
        ("fd00::7", Address(host="fd00::7")),
        ("u@[fe80::1%eth0]", Address(host="fe80::1%eth0", user="u")),
    ],
)
def test_addresses(text: str, expected: Address) -> None:
    assert Address.parse(text) == expected
    assert Address.parse(str(expected)) == expected


@pytest.mark.parametrize(
    "text", ["", "a b", "root@", "-oProxyCommand=x", "a@-x", "a@b@c", "gpu01:0", "gpu01:99999", "gpu01:x", "$(id)"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="not an address"):
        Address.parse(text)


def test_a_program_that_does_not_stop_printing_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervised, "MOST_OUTPUT", 1_000_000)
    marker = f"marker-{os.getpid()}-flood"
    with pytest.raises(CommandFailed, match="printed more than 1 MB and was ended"):
        LocalRunner().run(Command(argv=("sh", "-c", 'while :; do echo "$0"; done', marker), timeout=60))
    assert not _alive(marker)
