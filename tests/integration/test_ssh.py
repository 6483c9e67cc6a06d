"""SshRunner against a real sshd: what is trusted, what is refused, and that nothing is left running on the host."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from provisioner.commands import Address, Command
from provisioner.edges.ssh import SshOptions, SshRunner
from provisioner.errors import AuthError, CommandTimedOut, ConnectError, HostKeyError, InventoryError, UsageError
from provisioner.flows.fleet import Reach, runner_of, targets
from tests.testbed.processes import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.testbed.sshd import Sshd

_SECONDS = 10


@pytest.fixture(autouse=True)
def _no_keys_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    (tmp_path / "home").mkdir()


def _runner(sshd: Sshd, index: int = 0, *, key: Path | None = None, address: str = "", **options: object) -> SshRunner:
    name = address or sshd.host(index)
    parsed = Address.parse(name)
    chosen = Address(host=parsed.host, user=parsed.user, port=parsed.port, key=str(key or sshd.client_key))
    settings = {"known_hosts": sshd.known_hosts, **options}
    return SshRunner(name, chosen, SshOptions(**settings))  # type: ignore[arg-type]  # fields by name


@pytest.fixture
def runner(sshd: Sshd) -> Iterator[SshRunner]:
    started = _runner(sshd)
    yield started
    started.close()


def _nothing_left(sshd: Sshd) -> None:
    deadline = time.monotonic() + _SECONDS
    while sshd.left_running() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert sshd.left_running() == []


def _until(holds: object, what: str) -> None:
    assert callable(holds)
    deadline = time.monotonic() + _SECONDS
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_a_command_has_its_input_output_and_code(runner: SshRunner) -> None:
    done = runner.run(Command(argv=("sh", "-c", 'cat; echo "$1" >&2; exit 7', "sh", "it's $HOME; `x`\n*"), stdin=b"in\n"))
    assert (done.exit, done.stdout, done.stderr) == (7, "in\n", "it's $HOME; `x`\n*\n")


def test_no_such_program_is_127(runner: SshRunner) -> None:
    done = runner.run(Command(argv=("there-is-no-such-program",)))
    assert done.exit == 127
    assert "not found" in done.stderr


def test_one_connection_serves_all_commands_and_opens_again(runner: SshRunner) -> None:
    ask = Command(argv=("sh", "-c", 'set -- $SSH_CONNECTION; echo "$2"'))
    first, second = runner.run(ask).stdout, runner.run(ask).stdout
    runner.close()
    assert first == second != runner.run(ask).stdout


def test_five_megabytes_of_input(runner: SshRunner) -> None:
    data = os.urandom(1 << 16) * 80
    done = runner.run(Command(argv=("sh", "-c", "sha256sum; cat"), stdin=data))
    expected = subprocess.run(("sha256sum",), input=data, capture_output=True, check=True).stdout.decode()
    assert done.stdout == expected


def test_input_that_nobody_reads(runner: SshRunner, sshd: Sshd) -> None:
    done = runner.run(Command(argv=("echo", "ready"), stdin=b"x" * 5_000_000))
    assert (done.exit, done.stdout) == (0, "ready\n")
    runner.close()
    _nothing_left(sshd)


def test_bytes_that_are_no_text(runner: SshRunner) -> None:
    done = runner.run(Command(argv=("head", "-c", "300000", "/dev/urandom")))
    assert done.exit == 0
    assert "\N{REPLACEMENT CHARACTER}" in done.stdout


def test_lines_are_told_as_they_come_and_secrets_are_not(runner: SshRunner) -> None:
    told: list[tuple[float, str]] = []
    started = time.monotonic()
    script = "echo one; echo pass=s3cret >&2; sleep 1; printf two"
    done = runner.run(
        Command(argv=("sh", "-c", script), secrets=("s3cret",)), tell=lambda line: told.append((time.monotonic() - started, line))
    )
    assert [line for _, line in told] == ["one", "pass=***", "two"]
    assert told[0][0] < told[2][0] - 0.8
    assert done.stderr == "pass=***\n"


def test_the_process_list_does_not_show_the_arguments_twice(runner: SshRunner) -> None:
    done = runner.run(Command(argv=("sh", "-c", "tr '\\0' ' ' </proc/$PPID/cmdline; ps -e -o args", "sh", "marker-5714")))
    assert done.stdout.count("marker-5714") == 1


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_a_hanging_command_is_ended_with_its_children(runner: SshRunner, sshd: Sshd, shell: str) -> None:
    hang = Command(argv=(shell, "-c", "echo begun; sleep 600 & (trap '' TERM; sleep 601) & sleep 602"), timeout=1)
    with pytest.raises(CommandTimedOut, match="did not end within 1 s") as caught:
        runner.run(hang)
    assert "begun" in (caught.value.hint or "")
    assert not [line for line in sshd.left_running() if "sleep 60" in line]
    assert runner.run(Command(argv=("true",))).ok
    runner.close()
    _nothing_left(sshd)


def test_a_hanging_command_that_does_not_read_is_ended(runner: SshRunner, sshd: Sshd) -> None:
    with pytest.raises(CommandTimedOut):
        runner.run(Command(argv=("sleep", "600"), stdin=b"x" * 9_000_000, timeout=1))
    runner.close()
    _nothing_left(sshd)


def test_what_tell_raises_ends_the_command(runner: SshRunner, sshd: Sshd) -> None:
    def interrupt(_line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner.run(Command(argv=("sh", "-c", "echo begun; sleep 600")), tell=interrupt)
    runner.close()
    _nothing_left(sshd)


def test_a_cut_connection_is_an_error_and_leaves_nothing(runner: SshRunner, sshd: Sshd) -> None:
    def cut() -> None:
        _until(lambda: any("sleep 600" in line for line in sshd.left_running()), "the command did not begin")
        connection = runner._connection
        assert connection is not None
        connection.transport.sock.shutdown(socket.SHUT_RDWR)  # what a dead line does

    thread = threading.Thread(target=cut)
    thread.start()
    with pytest.raises(ConnectError, match="cut while a command ran"):
        runner.run(Command(argv=("sh", "-c", "sleep 600 & sleep 601")))
    thread.join()
    _nothing_left(sshd)
    assert runner.run(Command(argv=("true",))).ok


def test_a_killed_controller_leaves_nothing(sshd: Sshd) -> None:
    script = (
        "import sys; from pathlib import Path; from provisioner.commands import Address, Command;"
        "from provisioner.edges.ssh import SshOptions, SshRunner;"
        "SshRunner('h', Address(host=sys.argv[1], port=int(sys.argv[2]), user=sys.argv[3], key=sys.argv[4]),"
        " SshOptions(known_hosts=Path(sys.argv[5]))).run(Command(argv=('sleep', '600'), timeout=900))"
    )
    where = (sshd.addresses[0], str(sshd.port), sshd.user, str(sshd.client_key), str(sshd.known_hosts))
    with subprocess.Popen((sys.executable, "-c", script, *where)) as controller:
        _until(lambda: any("sleep 600" in line for line in sshd.left_running()), "the command did not begin")
        controller.send_signal(signal.SIGKILL)
    _nothing_left(sshd)


def test_an_unknown_host_key_is_refused_with_its_fingerprint(sshd: Sshd, tmp_path: Path) -> None:
    book = tmp_path / "known_hosts"
    with pytest.raises(HostKeyError, match="unknown") as caught:
        _runner(sshd, known_hosts=book).run(Command(argv=("true",)))
    assert sshd.fingerprint() in caught.value.message
    assert "--accept-new-host-keys" in (caught.value.hint or "")
    assert not book.exists()


def test_a_new_host_key_is_accepted_once_and_written(sshd: Sshd, tmp_path: Path) -> None:
    book = tmp_path / "new" / "known_hosts"
    said: list[str] = []
    runner = _runner(sshd, known_hosts=book, accept_new_host_keys=True, said=said.append)
    assert runner.run(Command(argv=("true",))).ok
    assert [sshd.fingerprint() in line for line in runner.accepted] == [True]
    assert said == list(runner.accepted)
    assert f"[{sshd.addresses[0]}]:{sshd.port} recorded in {book}: ssh-ed25519 SHA256:" in said[0]
    runner.close()
    again = _runner(sshd, known_hosts=book)
    assert again.run(Command(argv=("true",))).ok
    assert again.accepted == ()
    again.close()
    assert len(book.read_text().splitlines()) == 1


def test_a_changed_host_key_is_never_accepted(sshd: Sshd) -> None:
    before = sshd.known_hosts.read_text()
    sshd.rotate_host_key()
    with pytest.raises(HostKeyError, match="CHANGED") as caught:
        _runner(sshd, accept_new_host_keys=True).run(Command(argv=("true",)))
    assert f"{sshd.known_hosts}:1" in caught.value.message
    assert sshd.known_hosts.read_text() == before


def test_a_revoked_host_key_is_refused(sshd: Sshd) -> None:
    lines = sshd.known_hosts.read_text().splitlines()
    sshd.known_hosts.write_text("".join(f"{line}\n@revoked {line}\n" for line in lines))
    with pytest.raises(HostKeyError, match="revoked"):
        _runner(sshd, accept_new_host_keys=True).run(Command(argv=("true",)))


def test_fingerprints_decide(sshd: Sshd, tmp_path: Path) -> None:
    prints, book = tmp_path / "prints", tmp_path / "book"
    prints.write_text(f"256 {sshd.fingerprint()} [{sshd.addresses[0]}]:{sshd.port} (ED25519)\n")
    runner = _runner(sshd, known_hosts=book, fingerprints=prints)
    assert runner.run(Command(argv=("true",))).ok
    runner.close()
    assert not book.exists()
    prints.write_text(f"{sshd.addresses[0]} SHA256:{'A' * 43}\n")
    with pytest.raises(HostKeyError, match="list of fingerprints"):
        _runner(sshd, known_hosts=book, fingerprints=prints, accept_new_host_keys=True).run(Command(argv=("true",)))
    for name in (sshd.host(), f"{sshd.addresses[0]}:{sshd.port}"):  # as the user typed it
        prints.write_text(f"{name} {sshd.fingerprint()}\n")
        runner = _runner(sshd, known_hosts=book, fingerprints=prints)
        assert runner.run(Command(argv=("true",))).ok
        runner.close()
    prints.write_text(f"other {sshd.fingerprint()}\n")
    for accept in (False, True):
        with pytest.raises(HostKeyError, match=f"{prints} has no line for .*{sshd.addresses[0]}") as caught:
            _runner(sshd, known_hosts=book, fingerprints=prints, accept_new_host_keys=accept).run(Command(argv=("true",)))
        assert f"add the line `[{sshd.addresses[0]}]:{sshd.port} {sshd.fingerprint()}`" in (caught.value.hint or "")
    assert not book.exists()
    prints.write_text("nonsense\n")
    with pytest.raises(InventoryError, match="prints:1:1"):
        _runner(sshd, fingerprints=prints).run(Command(argv=("true",)))


def test_hashed_and_wildcard_lines_are_understood(sshd: Sshd) -> None:
    kind, key = sshd.known_hosts.read_text().split()[1:3]
    sshd.known_hosts.write_text(f"[127.0.*]:{sshd.port},![{sshd.addresses[1]}]:* {kind} {key}\n")
    runner = _runner(sshd)
    assert runner.run(Command(argv=("true",))).ok
    runner.close()
    with pytest.raises(HostKeyError, match="unknown"):
        _runner(sshd, 1).run(Command(argv=("true",)))
    sshd.trust()
    subprocess.run(("ssh-keygen", "-H", "-f", sshd.known_hosts), check=True, capture_output=True)
    assert sshd.addresses[1] not in sshd.known_hosts.read_text()
    hashed = _runner(sshd, 1)
    assert hashed.run(Command(argv=("true",))).ok
    hashed.close()


def test_a_wrong_key_is_an_auth_error(sshd: Sshd) -> None:
    with pytest.raises(AuthError, match="Authentication failed") as caught:
        _runner(sshd, key=sshd.wrong_key).run(Command(argv=("true",)))
    assert "authorized_keys" in (caught.value.hint or "")


def test_a_missing_key_file_is_an_auth_error(sshd: Sshd, tmp_path: Path) -> None:
    with pytest.raises(AuthError, match="no key file"):
        _runner(sshd, key=tmp_path / "none").run(Command(argv=("true",)))


def test_a_locked_key_says_ssh_add(sshd: Sshd, tmp_path: Path) -> None:
    key = tmp_path / "locked"
    subprocess.run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "secret words", "-f", key), check=True)
    with pytest.raises(AuthError) as caught:
        _runner(sshd, key=key).run(Command(argv=("true",)))
    assert f"ssh-add {key}" in (caught.value.hint or "")


def test_nobody_listens(sshd: Sshd) -> None:
    with pytest.raises(ConnectError, match="refused"):
        _runner(sshd, address=f"root@127.0.0.2:{free_port('127.0.0.2')}").run(Command(argv=("true",)))


def test_an_unknown_name(sshd: Sshd) -> None:
    with pytest.raises(ConnectError, match="name is unknown"):
        _runner(sshd, address="root@no-such-host.invalid").run(Command(argv=("true",)))


def test_something_else_listens(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("provisioner.edges.ssh.TIMEOUTS", {"connect": 1})
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(ConnectError, match=r"no SSH handshake \(no answer in \d+ s\)") as caught,
    ):
        _runner(sshd, address=f"root@127.0.0.1:{silent.getsockname()[1]}").run(Command(argv=("true",)))
    assert "SSH server" in (caught.value.hint or "")


def test_no_key_at_all_says_how_to_make_one(sshd: Sshd) -> None:
    known = SshOptions(known_hosts=sshd.known_hosts)
    address = Address.parse(sshd.host())
    with pytest.raises(
        AuthError, match=r"no private key found here \(looked in the agent, ~/.ssh/id_\*, IdentityFile\)"
    ) as caught:
        SshRunner("gpu01", address, known).run(Command(argv=("true",)))
    assert f"ssh-copy-id -p {sshd.port} {address.user}@{address.host}" in (caught.value.hint or "")


def test_a_name_of_the_ssh_configuration_is_a_host(sshd: Sshd, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        f"Host gpu*  !gpu99\n  HostName {sshd.addresses[1]}\n  Port {sshd.port}\n  User {sshd.user}\n"
        f"  IdentityFile {sshd.client_key}\n  UserKnownHostsFile {sshd.known_hosts}\nHost *\n  User nobody\n"
    )
    reach = Reach(ssh_config=config)
    (target,) = targets(["gpu01"], reach)
    runner = runner_of(target, reach)
    assert runner.run(Command(argv=("sh", "-c", "echo $SSH_CONNECTION"))).stdout.split()[2] == sshd.addresses[1]
    runner.close()
    for name in ("gpu99", "other"):
        with pytest.raises(UsageError, match=f"no host or group {name}"):
            targets([name], reach)


def test_the_ssh_configuration_is_honoured(sshd: Sshd, tmp_path: Path) -> None:
    extra = tmp_path / "home/.ssh/config.d"
    extra.mkdir(parents=True)
    (extra / "bed").write_text(
        f"Host bed\n  HostName {sshd.addresses[1]}\n  Port {sshd.port}\n  User {sshd.user}\n"
        f"  IdentityFile {tmp_path}/not-there\n  IdentityFile {sshd.client_key}\n  UserKnownHostsFile {sshd.known_hosts}\n"
    )
    (extra.parent / "config").write_text(
        f"Include config.d/*\n\nHost jumped\n  HostName 127.0.0.2\n  ProxyJump bed\n  Port {sshd.port}\n  User {sshd.user}\n"
        f"  IdentityFile {sshd.client_key}\n  UserKnownHostsFile {sshd.known_hosts}\n"
    )
    for name, seen in (("bed", sshd.addresses[1]), ("jumped", "127.0.0.2")):
        runner = SshRunner(name, Address(host=name))
        assert seen in runner.run(Command(argv=("sh", "-c", "echo $SSH_CONNECTION"))).stdout
        runner.close()


def test_the_jump_host_is_judged_too(sshd: Sshd) -> None:
    first, second = (Address.parse(sshd.host(index)) for index in range(2))
    lines = sshd.known_hosts.read_text().splitlines(keepends=True)
    sshd.known_hosts.write_text("".join(line for line in lines if f"[{first.host}]" in line))
    through = Address(host=first.host, port=first.port, user=first.user, key=str(sshd.client_key), jump=str(second))
    with pytest.raises(HostKeyError, match="unknown"):
        SshRunner("gpu01", through, SshOptions(known_hosts=sshd.known_hosts)).run(Command(argv=("true",)))


def test_root_is_asked_for_only_where_it_is_not_root(runner: SshRunner) -> None:
    assert runner.run(Command(argv=("id", "-u"), as_root=True)).stdout == "0\n"
