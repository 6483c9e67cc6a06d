"""An OpenSSH server of its own on loopback addresses: own host key, client key, known_hosts and port.

One server answers on up to 16 addresses (its own limit); for more hosts start several. Sessions carry a mark in their
environment, so a test can ask what a command left running on the "host", and nothing is left at the end.
"""

from __future__ import annotations

import contextlib
import getpass
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.testbed.folders import scratch
from tests.testbed.processes import Daemon, answers, free_port, kill, program, run
from tests.testbed.require import MissingPartError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_MARK: Final = "GPU_PROVISIONER_TESTBED_SSHD"
_PRIVILEGE_SEPARATION: Final = Path("/run/sshd")  # compiled in; a service's start would make it
_CONFIG: Final = """\
Port {port}
{listen}
HostKey {folder}/host_key
PidFile {folder}/sshd.pid
AuthorizedKeysFile {folder}/authorized_keys
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PrintMotd no
MaxStartups 100
MaxSessions 100
LogLevel VERBOSE
Subsystem sftp internal-sftp
SetEnv {setenv}
"""
_CLIENT_CONFIG: Final = """\
Host {hosts}
  Port {port}
  User {user}
  IdentityFile {folder}/client_key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  BatchMode yes
"""


class Sshd:
    """One server. `known_hosts` names its first host key; a rotated key is therefore a changed one."""

    def __init__(self, folder: Path, addresses: Sequence[str], env: Mapping[str, str]) -> None:
        """Make its keys and files; `env` is what every session finds in its environment."""
        self.folder = folder
        self.addresses = tuple(addresses)
        self.user = getpass.getuser()
        self.port = free_port(*addresses)
        self.client_key = folder / "client_key"
        self.wrong_key = folder / "wrong_key"
        self.known_hosts = folder / "known_hosts"
        self.client_config = folder / "ssh_config"
        self.log = folder / "sshd.log"
        self._env = dict(env)
        self._mark = folder.name
        self._daemon: Daemon | None = None
        _keygen(self.client_key)
        _keygen(self.wrong_key)
        (folder / "authorized_keys").write_text(self.client_key.with_suffix(".pub").read_text(encoding="utf-8"), encoding="utf-8")
        self.rotate_host_key()
        self.trust()
        self.client_config.write_text(
            _CLIENT_CONFIG.format(hosts=" ".join(addresses), port=self.port, user=self.user, folder=folder), encoding="utf-8"
        )

    def host(self, index: int = 0) -> str:
        """A host as the command line names it: `root@127.0.0.2:PORT`."""
        return f"{self.user}@{self.addresses[index]}:{self.port}"

    def fingerprint(self) -> str:
        """The `SHA256:…` fingerprint of the present host key."""
        return run([program("ssh-keygen", "openssh-client"), "-lf", str(self.folder / "host_key.pub")]).stdout.split()[1]

    def trust(self) -> None:
        """Write the present host key into known_hosts."""
        key = (self.folder / "host_key.pub").read_text(encoding="utf-8").split()[:2]
        lines = [f"[{address}]:{self.port} {' '.join(key)}\n" for address in self.addresses]
        self.known_hosts.write_text("".join(lines), encoding="utf-8")

    def rotate_host_key(self) -> None:
        """Make another host key; known_hosts keeps the old one until `trust`. A running server is restarted."""
        for path in (self.folder / "host_key", self.folder / "host_key.pub"):
            path.unlink(missing_ok=True)
        _keygen(self.folder / "host_key")
        if self._daemon:
            self.stop()
            self.start()

    def set_env(self, env: Mapping[str, str]) -> None:
        """Give the sessions another environment."""
        self._env = dict(env)
        if self._daemon:
            self.stop()
            self.start()

    def start(self) -> None:
        """Start the server."""
        _PRIVILEGE_SEPARATION.mkdir(mode=0o755, exist_ok=True)
        listen = "\n".join(f"ListenAddress {address}" for address in self.addresses)
        setenv = " ".join(f'"{name}={text}"' for name, text in {**self._env, _MARK: self._mark}.items())
        config = self.folder / "sshd_config"
        config.write_text(_CONFIG.format(port=self.port, listen=listen, folder=self.folder, setenv=setenv), encoding="utf-8")
        # sshd wants its own absolute path, to start itself again for each connection.
        self._daemon = Daemon([program("sshd", "openssh-server"), "-D", "-e", "-f", str(config)], log=self.log)
        self._daemon.until(lambda: all(answers(address, self.port) for address in self.addresses))

    def stop(self) -> None:
        """Stop the server and its sessions."""
        if self._daemon:
            self._daemon.stop()
            self._daemon = None
        kill(self._marked())

    def left_running(self) -> list[str]:
        """The command lines of all that sessions started and that still runs, detached or not."""
        lines = []
        for pid in self._marked():
            with contextlib.suppress(OSError):
                lines.append(Path("/proc", str(pid), "cmdline").read_text(encoding="utf-8").replace("\0", " ").strip())
        return [line for line in lines if line]

    def ssh(self, index: int = 0) -> list[str]:
        """The argv of an OpenSSH client that trusts only known_hosts; append the remote command."""
        return [program("ssh", "openssh-client"), "-F", str(self.client_config), self.addresses[index]]

    def _marked(self) -> list[int]:
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if f"{_MARK}={self._mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
        return found


def _keygen(path: Path) -> None:
    run([program("ssh-keygen", "openssh-client"), "-q", "-t", "ed25519", "-N", "", "-C", "testbed", "-f", str(path)])


@contextlib.contextmanager
def sshd(addresses: Sequence[str] = ("127.0.0.2",), env: Mapping[str, str] | None = None) -> Iterator[Sshd]:
    """A running server, and none of its sessions left at the end."""
    if os.geteuid() != 0:
        raise MissingPartError("starting an SSH server that knows users needs root")
    program("sshd", "openssh-server")
    with scratch("sshd") as folder:
        server = Sshd(folder, addresses, env or {})
        try:
            server.start()
            yield server
        finally:
            server.stop()
